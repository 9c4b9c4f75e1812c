-- The tables of schema 0016, as SQLite keeps them.
CREATE TABLE dcron_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT dcron_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE crontab (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	schedule TEXT NOT NULL, 
	timezone TEXT DEFAULT 'UTC' NOT NULL, 
	command TEXT NOT NULL, 
	argv TEXT, 
	shell TEXT DEFAULT '/bin/sh' NOT NULL, 
	stdin TEXT, 
	env TEXT DEFAULT '{}' NOT NULL, 
	cwd TEXT, 
	user TEXT, 
	timeout FLOAT, 
	max_running INTEGER DEFAULT '1', 
	describe TEXT, 
	enabled BOOLEAN DEFAULT true NOT NULL, 
	paused_reason TEXT, 
	paused_by TEXT, 
	paused_at DATETIME, 
	paused_until DATETIME, 
	once BOOLEAN DEFAULT false NOT NULL, 
	error TEXT, 
	version INTEGER DEFAULT '1' NOT NULL, 
	planned_version INTEGER DEFAULT '0' NOT NULL, 
	changed_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	changed_by TEXT, gap TEXT DEFAULT 'after' NOT NULL CONSTRAINT crontab_gap CHECK (gap IN ('after', 'skip')), fold TEXT DEFAULT 'first' NOT NULL CONSTRAINT crontab_fold CHECK (fold IN ('first', 'both')), not_before DATETIME CONSTRAINT crontab_not_before CHECK (datetime(substr(not_before, 1, 19)) IS substr(not_before, 1, 19) AND substr(not_before, 20, 1) IN ('', '.') AND ltrim(substr(not_before, 21), '0123456789') = ''), not_after DATETIME CONSTRAINT crontab_not_after CHECK (datetime(substr(not_after, 1, 19)) IS substr(not_after, 1, 19) AND substr(not_after, 20, 1) IN ('', '.') AND ltrim(substr(not_after, 21), '0123456789') = ''), except_calendar TEXT, only_calendar TEXT, overlap TEXT DEFAULT 'skip' NOT NULL CONSTRAINT crontab_overlap CHECK (overlap IN ('skip', 'queue', 'replace')), on_lost TEXT DEFAULT 'dead' NOT NULL CONSTRAINT crontab_on_lost CHECK (on_lost IN ('dead', 'retry')), catch_up TEXT DEFAULT 'last' NOT NULL CONSTRAINT crontab_catch_up CHECK (catch_up IN ('skip', 'last', 'all')), priority TEXT DEFAULT 'normal' NOT NULL CONSTRAINT crontab_priority CHECK (priority IN ('high', 'normal', 'low')), tries INTEGER DEFAULT 1 NOT NULL CONSTRAINT crontab_tries CHECK (tries BETWEEN 1 AND 1000), backoff FLOAT DEFAULT 1 NOT NULL CONSTRAINT crontab_backoff CHECK (backoff BETWEEN 0 AND 3155760000), backoff_factor FLOAT DEFAULT 2 NOT NULL CONSTRAINT crontab_backoff_factor CHECK (backoff_factor BETWEEN 1 AND 1000), backoff_max FLOAT DEFAULT 3600 NOT NULL CONSTRAINT crontab_backoff_max CHECK (backoff_max BETWEEN 0 AND 3155760000), deadline FLOAT CONSTRAINT crontab_deadline CHECK (deadline BETWEEN 0 AND 3155760000), catch_up_window FLOAT CONSTRAINT crontab_catch_up_window CHECK (catch_up_window BETWEEN 0 AND 3155760000), jitter FLOAT CONSTRAINT crontab_jitter CHECK (jitter BETWEEN 0 AND 86400), queue TEXT DEFAULT 'default' NOT NULL CONSTRAINT crontab_queue CHECK (typeof(queue) = 'text' AND queue NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(queue, char(0)) = 0 AND length(queue) BETWEEN 1 AND 100), every_node BOOLEAN DEFAULT false NOT NULL CONSTRAINT crontab_every_node CHECK (every_node IN (0, 1)), require TEXT DEFAULT '[]' NOT NULL CONSTRAINT crontab_require CHECK (typeof(require) = 'text'), need TEXT DEFAULT '{}' NOT NULL CONSTRAINT crontab_need CHECK (typeof(need) = 'text'), "limit" TEXT DEFAULT '{}' NOT NULL CONSTRAINT crontab_limit CHECK (typeof("limit") = 'text'), source TEXT CONSTRAINT crontab_one_line CHECK ((schedule NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr(schedule, char(0)) = 0) AND (timezone NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr(timezone, char(0)) = 0) AND ("user" NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr("user", char(0)) = 0) AND (except_calendar NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr(except_calendar, char(0)) = 0) AND (only_calendar NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr(only_calendar, char(0)) = 0) AND (source NOT GLOB '*[' || char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127) || ']*' AND instr(source, char(0)) = 0)), keep TEXT DEFAULT '{}' NOT NULL CONSTRAINT crontab_keep CHECK (typeof(keep) = 'text'), notify TEXT DEFAULT '[]' NOT NULL CONSTRAINT crontab_notify CHECK (typeof(notify) = 'text'), notify_on TEXT DEFAULT '[]' NOT NULL CONSTRAINT crontab_notify_on CHECK (typeof(notify_on) = 'text'), expect TEXT DEFAULT '{}' NOT NULL CONSTRAINT crontab_expect CHECK (typeof(expect) = 'text'), notify_after INTEGER CONSTRAINT crontab_notify_after CHECK (notify_after BETWEEN 1 AND 1000), ping TEXT, labels TEXT DEFAULT '{}' NOT NULL CONSTRAINT crontab_labels CHECK (typeof(labels) = 'text'), applied TEXT, 
	CONSTRAINT crontab_name_length CHECK (length(name) BETWEEN 1 AND 100), 
	CONSTRAINT crontab_schedule_length CHECK (length(schedule) BETWEEN 1 AND 256), 
	CONSTRAINT crontab_command_given CHECK (length(command) > 0), 
	CONSTRAINT crontab_timeout_range CHECK (timeout > 0 AND timeout <= 3155760000), 
	CONSTRAINT crontab_max_running_positive CHECK (max_running >= 1), 
	CONSTRAINT crontab_paused CHECK (NOT enabled OR (paused_at IS NULL AND paused_until IS NULL)), 
	CONSTRAINT crontab_name_letters CHECK (name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0), 
	CONSTRAINT crontab_types CHECK (typeof(name) IN ('text') AND typeof(schedule) IN ('text') AND typeof(timezone) IN ('text') AND typeof(command) IN ('text') AND typeof(shell) IN ('text') AND typeof(env) IN ('text') AND typeof(argv) IN ('text', 'null') AND typeof(stdin) IN ('text', 'null') AND typeof(cwd) IN ('text', 'null') AND typeof("user") IN ('text', 'null') AND typeof(describe) IN ('text', 'null') AND typeof(paused_reason) IN ('text', 'null') AND typeof(paused_by) IN ('text', 'null') AND typeof(error) IN ('text', 'null') AND typeof(changed_by) IN ('text', 'null') AND typeof(version) IN ('integer') AND typeof(planned_version) IN ('integer') AND typeof(max_running) IN ('integer', 'null') AND typeof(timeout) IN ('real', 'null') AND enabled IN (0, 1) AND once IN (0, 1)), 
	CONSTRAINT crontab_times CHECK (datetime(substr(paused_at, 1, 19)) IS substr(paused_at, 1, 19) AND substr(paused_at, 20, 1) IN ('', '.') AND ltrim(substr(paused_at, 21), '0123456789') = '' AND datetime(substr(paused_until, 1, 19)) IS substr(paused_until, 1, 19) AND substr(paused_until, 20, 1) IN ('', '.') AND ltrim(substr(paused_until, 21), '0123456789') = '' AND datetime(substr(changed_at, 1, 19)) IS substr(changed_at, 1, 19) AND substr(changed_at, 20, 1) IN ('', '.') AND ltrim(substr(changed_at, 21), '0123456789') = ''), 
	UNIQUE (name)
);
CREATE INDEX crontab_unplanned ON crontab (id) WHERE CASE WHEN planned_version <> version THEN 1 ELSE 0 END = 1;
CREATE INDEX crontab_paused_until ON crontab (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX crontab_reboot ON crontab (id) WHERE schedule LIKE '%@reboot%';
CREATE INDEX crontab_once ON crontab (id) WHERE once;
CREATE TABLE nodes (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	slots INTEGER NOT NULL, 
	version TEXT NOT NULL, 
	tzdata TEXT NOT NULL, 
	started_at DATETIME NOT NULL, 
	alive_until DATETIME NOT NULL, 
	draining BOOLEAN DEFAULT false NOT NULL, 
	died_at DATETIME, 
	died_how TEXT, 
	clock_offset FLOAT, tzdata_fingerprint TEXT, tags TEXT DEFAULT '[]' NOT NULL, queues TEXT DEFAULT '[]' NOT NULL, capacity TEXT DEFAULT '{}' NOT NULL, lease FLOAT, renewals BIGINT DEFAULT '0' NOT NULL, account TEXT, uid INTEGER, any_account BOOLEAN, channels TEXT DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT nodes_slots_positive CHECK (slots >= 1), 
	CONSTRAINT nodes_died_how CHECK ((died_at IS NULL) = (died_how IS NULL)), 
	CONSTRAINT nodes_died_how_known CHECK (died_how IN ('stopped', 'dead'))
);
CREATE INDEX nodes_died ON nodes (died_at) WHERE died_at IS NOT NULL;
CREATE TABLE output (
	run_id BIGINT NOT NULL, 
	byte_offset BIGINT NOT NULL, 
	stream TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	lines INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (run_id, byte_offset), 
	CONSTRAINT output_stream_known CHECK (stream IN ('out', 'err'))
);
CREATE TABLE changes (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DATETIME NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	task_id BIGINT, 
	task TEXT, 
	version INTEGER, 
	"before" TEXT, 
	"after" TEXT
, login TEXT, kind TEXT DEFAULT 'task' NOT NULL, via TEXT, note TEXT, batch TEXT, undoes BIGINT);
CREATE INDEX changes_of_task ON changes (task, id);
CREATE INDEX changes_of_line ON changes (task_id, id);
CREATE INDEX crontab_except_calendar ON crontab (except_calendar) WHERE except_calendar IS NOT NULL;
CREATE INDEX crontab_only_calendar ON crontab (only_calendar) WHERE only_calendar IS NOT NULL;
CREATE TABLE calendars (
	name TEXT NOT NULL, 
	content TEXT NOT NULL, 
	changed_at DATETIME NOT NULL, 
	changed_by TEXT NOT NULL, 
	PRIMARY KEY (name), 
	CONSTRAINT calendars_name_length CHECK (length(name) BETWEEN 1 AND 100)
);
CREATE TABLE runs (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	task_id BIGINT NOT NULL, 
	task TEXT NOT NULL, 
	"trigger" TEXT NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT, 
	attempt INTEGER DEFAULT '1' NOT NULL, 
	retry_of BIGINT, 
	scheduled_for DATETIME NOT NULL, 
	due_at DATETIME NOT NULL, 
	for_node TEXT, 
	claimed_at DATETIME, 
	started_at DATETIME, 
	finished_at DATETIME, 
	owner TEXT, 
	exit_code INTEGER, 
	signal INTEGER, 
	dead_at DATETIME, 
	cancel_requested_by TEXT, 
	payload TEXT, 
	spec TEXT NOT NULL, tzdata TEXT, lane TEXT DEFAULT 'default' NOT NULL, queue TEXT DEFAULT 'default' NOT NULL, blocked TEXT CONSTRAINT runs_blocked CHECK (blocked IS NULL OR state = 'waiting' AND blocked IN ('paused', 'limit', 'delay')), expires_at DATETIME CONSTRAINT runs_expires_at CHECK (datetime(substr(expires_at, 1, 19)) IS substr(expires_at, 1, 19) AND substr(expires_at, 20, 1) IN ('', '.') AND ltrim(substr(expires_at, 21), '0123456789') = ''), backlog_until DATETIME CONSTRAINT runs_backlog_until CHECK (datetime(substr(backlog_until, 1, 19)) IS substr(backlog_until, 1, 19) AND substr(backlog_until, 20, 1) IN ('', '.') AND ltrim(substr(backlog_until, 21), '0123456789') = ''), flow BIGINT, event_id BIGINT, refused_by TEXT, skip_code TEXT, caused_by BIGINT, covers_from DATETIME, covers_until DATETIME, covers_count INTEGER, timed_out BOOLEAN, 
	CONSTRAINT runs_state_known CHECK (state IN ('waiting', 'claimed', 'running', 'succeeded', 'failed', 'lost', 'skipped', 'cancelled')), 
	CONSTRAINT runs_trigger_known CHECK (trigger IN ('schedule', 'manual', 'reboot', 'retry', 'event', 'after', 'backfill', 'node')), 
	CONSTRAINT runs_attempt_positive CHECK (attempt >= 1), 
	CONSTRAINT runs_alive_owned CHECK (NOT (state IN ('claimed', 'running')) OR (owner IS NOT NULL AND claimed_at IS NOT NULL)), 
	CONSTRAINT runs_running_started CHECK (state <> 'running' OR started_at IS NOT NULL), 
	CONSTRAINT runs_waiting_free CHECK (state <> 'waiting' OR owner IS NULL), 
	CONSTRAINT runs_final_finished CHECK ((state IN ('succeeded', 'failed', 'lost', 'skipped', 'cancelled')) = (finished_at IS NOT NULL)), 
	CONSTRAINT runs_skipped_reason CHECK (state <> 'skipped' OR reason IS NOT NULL), 
	CONSTRAINT runs_dead_failed CHECK (dead_at IS NULL OR state IN ('failed', 'lost')), 
	CONSTRAINT runs_times CHECK (datetime(substr(scheduled_for, 1, 19)) IS substr(scheduled_for, 1, 19) AND substr(scheduled_for, 20, 1) IN ('', '.') AND ltrim(substr(scheduled_for, 21), '0123456789') = '' AND datetime(substr(due_at, 1, 19)) IS substr(due_at, 1, 19) AND substr(due_at, 20, 1) IN ('', '.') AND ltrim(substr(due_at, 21), '0123456789') = '')
);
CREATE UNIQUE INDEX runs_next ON runs (task_id) WHERE trigger = 'schedule' AND state IN ('waiting', 'claimed');
CREATE UNIQUE INDEX runs_retry ON runs (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX runs_for_node ON runs (for_node) WHERE state = 'waiting' AND for_node IS NOT NULL;
CREATE INDEX runs_owned ON runs (owner) WHERE state IN ('claimed', 'running');
CREATE INDEX runs_alive ON runs (task_id) WHERE state IN ('claimed', 'running');
CREATE INDEX runs_of_task ON runs (task_id, id);
CREATE INDEX runs_unhappy ON runs (state, id) WHERE state IN ('failed', 'lost', 'skipped', 'cancelled');
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_dead ON runs (id) WHERE dead_at IS NOT NULL;
CREATE INDEX runs_due ON runs (lane, due_at, id) WHERE state = 'waiting' AND blocked IS NULL;
CREATE INDEX runs_waiting ON runs (task_id, due_at, id) WHERE state = 'waiting';
CREATE INDEX runs_dead_of ON runs (task_id, id) WHERE dead_at IS NOT NULL;
CREATE INDEX runs_blocked_of ON runs (task_id, due_at, id) WHERE state = 'waiting' AND blocked IS NOT NULL;
CREATE INDEX runs_expiring ON runs (expires_at) WHERE state = 'waiting' AND expires_at IS NOT NULL;
CREATE INDEX runs_alive_of_queue ON runs (queue) WHERE state IN ('claimed', 'running');
CREATE INDEX runs_of_time ON runs (task_id, scheduled_for) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_of_flow ON runs (flow, task_id) WHERE flow IS NOT NULL;
CREATE UNIQUE INDEX runs_once_a_flow ON runs (flow, task_id) WHERE trigger = 'after' AND state <> 'skipped';
CREATE UNIQUE INDEX runs_once_an_event ON runs (event_id, task_id) WHERE trigger = 'event';
CREATE TABLE queues (
	name TEXT NOT NULL, 
	max_running INTEGER, 
	changed_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	changed_by TEXT, 
	PRIMARY KEY (name), 
	CONSTRAINT queues_max_running CHECK (max_running BETWEEN 0 AND 1000000), 
	CONSTRAINT queues_name CHECK (typeof(name) = 'text' AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0 AND length(name) BETWEEN 1 AND 100), 
	CONSTRAINT queues_types CHECK (typeof(max_running) IN ('integer', 'null'))
);
CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	payload TEXT, 
	"key" TEXT, 
	created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	created_by TEXT, 
	handled_at DATETIME, 
	CONSTRAINT events_name_length CHECK (length(name) BETWEEN 1 AND 100), 
	CONSTRAINT events_key_length CHECK (length(key) BETWEEN 1 AND 200), 
	CONSTRAINT events_times CHECK (datetime(substr(created_at, 1, 19)) IS substr(created_at, 1, 19) AND substr(created_at, 20, 1) IN ('', '.') AND ltrim(substr(created_at, 21), '0123456789') = '' AND datetime(substr(handled_at, 1, 19)) IS substr(handled_at, 1, 19) AND substr(handled_at, 20, 1) IN ('', '.') AND ltrim(substr(handled_at, 21), '0123456789') = '')
);
CREATE INDEX events_unhandled ON events (id) WHERE handled_at IS NULL;
CREATE UNIQUE INDEX events_once ON events (name, "key") WHERE key IS NOT NULL;
CREATE TABLE subscriptions (
	task_id BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	source TEXT NOT NULL, 
	PRIMARY KEY (task_id, kind, source), 
	CONSTRAINT subscriptions_kind CHECK (kind IN ('event', 'task'))
);
CREATE INDEX subscriptions_source ON subscriptions (kind, source);
CREATE INDEX crontab_source ON crontab (source) WHERE source IS NOT NULL;
CREATE INDEX changes_incidents ON changes (id) WHERE action IN ('epoch', 'clock');
CREATE TABLE settings (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	changed_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	changed_by TEXT, 
	PRIMARY KEY (name), 
	CONSTRAINT settings_name_length CHECK (length(name) BETWEEN 1 AND 100)
);
CREATE TRIGGER crontab_id_insert BEFORE INSERT ON crontab WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'crontab.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER crontab_id_update BEFORE UPDATE OF id ON crontab WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'crontab.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER runs_id_insert BEFORE INSERT ON runs WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'runs.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER runs_id_update BEFORE UPDATE OF id ON runs WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'runs.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER changes_id_insert BEFORE INSERT ON changes WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'changes.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER changes_id_update BEFORE UPDATE OF id ON changes WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'changes.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER events_id_insert BEFORE INSERT ON events WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'events.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER events_id_update BEFORE UPDATE OF id ON events WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'events.id: 4611686018427387904 is the most there can be'); END;
CREATE TABLE maintenance_jobs (
	name TEXT NOT NULL, 
	due_at DATETIME NOT NULL, 
	holder TEXT, 
	held_until DATETIME, 
	position TEXT DEFAULT '{}' NOT NULL, 
	ran_at DATETIME, 
	seconds FLOAT, 
	done TEXT DEFAULT '{}' NOT NULL, 
	error TEXT, 
	PRIMARY KEY (name), 
	CONSTRAINT maintenance_jobs_name_length CHECK (length(name) BETWEEN 1 AND 100)
);
CREATE TABLE holds (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	task_id BIGINT, 
	run_id BIGINT, 
	task TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	created_by TEXT, 
	CONSTRAINT holds_created_at CHECK (datetime(substr(created_at, 1, 19)) IS substr(created_at, 1, 19) AND substr(created_at, 20, 1) IN ('', '.') AND ltrim(substr(created_at, 21), '0123456789') = ''), 
	CONSTRAINT holds_task_or_run CHECK ((task_id IS NULL) <> (run_id IS NULL))
);
CREATE UNIQUE INDEX holds_task ON holds (task_id) WHERE task_id IS NOT NULL;
CREATE UNIQUE INDEX holds_run ON holds (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE daily_statistics (
	task_id BIGINT NOT NULL, 
	day TEXT NOT NULL, 
	task TEXT NOT NULL, 
	succeeded BIGINT DEFAULT '0' NOT NULL, 
	failed BIGINT DEFAULT '0' NOT NULL, 
	lost BIGINT DEFAULT '0' NOT NULL, 
	cancelled BIGINT DEFAULT '0' NOT NULL, 
	skipped BIGINT DEFAULT '0' NOT NULL, 
	seconds FLOAT DEFAULT 0 NOT NULL, 
	longest FLOAT, 
	late_seconds FLOAT DEFAULT 0 NOT NULL, 
	latest FLOAT, 
	buckets TEXT DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (task_id, day), 
	CONSTRAINT daily_statistics_day CHECK (typeof(day) = 'text' AND date(day) IS day)
);
CREATE INDEX daily_statistics_of_day ON daily_statistics (day);
CREATE TABLE summed_days (
	day TEXT NOT NULL, 
	summed_at DATETIME NOT NULL, 
	archived_at DATETIME, 
	pruned_at DATETIME, 
	PRIMARY KEY (day), 
	CONSTRAINT summed_days_day CHECK (typeof(day) = 'text' AND date(day) IS day)
);
CREATE TABLE archives (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	day TEXT NOT NULL, 
	first_run BIGINT NOT NULL, 
	last_run BIGINT NOT NULL, 
	runs BIGINT NOT NULL, 
	url TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	sha256 TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT archives_day CHECK (typeof(day) = 'text' AND date(day) IS day), 
	UNIQUE (url)
);
CREATE INDEX archives_of_day ON archives (day);
CREATE INDEX archives_of_run ON archives (first_run, last_run);
CREATE TRIGGER holds_id_insert BEFORE INSERT ON holds WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'holds.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER holds_id_update BEFORE UPDATE OF id ON holds WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'holds.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER archives_id_insert BEFORE INSERT ON archives WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'archives.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER archives_id_update BEFORE UPDATE OF id ON archives WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'archives.id: 4611686018427387904 is the most there can be'); END;
CREATE INDEX nodes_alive ON nodes (id) WHERE died_at IS NULL;
CREATE INDEX crontab_expecting ON crontab (id) WHERE expect <> '{}';
CREATE TABLE alerts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	task_id BIGINT, 
	task TEXT, 
	opened_at DATETIME NOT NULL, 
	run_id BIGINT, 
	times BIGINT DEFAULT '1' NOT NULL, 
	last_at DATETIME NOT NULL, 
	last_run_id BIGINT, 
	notified_at DATETIME, 
	remind_at DATETIME, 
	acknowledged_by TEXT, 
	acknowledged_at DATETIME, 
	acknowledged_note TEXT, 
	silent_until DATETIME, 
	closed_at DATETIME, 
	facts TEXT DEFAULT '{}' NOT NULL, 
	CONSTRAINT alerts_kind_length CHECK (length(kind) BETWEEN 1 AND 40), 
	CONSTRAINT alerts_subject_length CHECK (length(subject) BETWEEN 1 AND 300), 
	CONSTRAINT alerts_times CHECK (datetime(substr(opened_at, 1, 19)) IS substr(opened_at, 1, 19) AND substr(opened_at, 20, 1) IN ('', '.') AND ltrim(substr(opened_at, 21), '0123456789') = '' AND datetime(substr(last_at, 1, 19)) IS substr(last_at, 1, 19) AND substr(last_at, 20, 1) IN ('', '.') AND ltrim(substr(last_at, 21), '0123456789') = '' AND datetime(substr(notified_at, 1, 19)) IS substr(notified_at, 1, 19) AND substr(notified_at, 20, 1) IN ('', '.') AND ltrim(substr(notified_at, 21), '0123456789') = '' AND datetime(substr(remind_at, 1, 19)) IS substr(remind_at, 1, 19) AND substr(remind_at, 20, 1) IN ('', '.') AND ltrim(substr(remind_at, 21), '0123456789') = '' AND datetime(substr(silent_until, 1, 19)) IS substr(silent_until, 1, 19) AND substr(silent_until, 20, 1) IN ('', '.') AND ltrim(substr(silent_until, 21), '0123456789') = '' AND datetime(substr(closed_at, 1, 19)) IS substr(closed_at, 1, 19) AND substr(closed_at, 20, 1) IN ('', '.') AND ltrim(substr(closed_at, 21), '0123456789') = '')
);
CREATE UNIQUE INDEX alerts_open ON alerts (kind, subject) WHERE closed_at IS NULL;
CREATE INDEX alerts_open_of_task ON alerts (task_id) WHERE closed_at IS NULL;
CREATE INDEX alerts_remind ON alerts (remind_at) WHERE closed_at IS NULL AND remind_at IS NOT NULL;
CREATE INDEX alerts_closed ON alerts (closed_at) WHERE closed_at IS NOT NULL;
CREATE TABLE notifications (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	alert_id BIGINT, 
	run_id BIGINT, 
	task_id BIGINT, 
	channel TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	due_at DATETIME NOT NULL, 
	tries INTEGER DEFAULT '0' NOT NULL, 
	holder TEXT, 
	held_until DATETIME, 
	sent_at DATETIME, 
	sent_by TEXT, 
	gave_up_at DATETIME, 
	error TEXT, 
	facts TEXT DEFAULT '{}' NOT NULL, 
	CONSTRAINT notifications_channel_length CHECK (length(channel) BETWEEN 1 AND 300), 
	CONSTRAINT notifications_times CHECK (datetime(substr(created_at, 1, 19)) IS substr(created_at, 1, 19) AND substr(created_at, 20, 1) IN ('', '.') AND ltrim(substr(created_at, 21), '0123456789') = '' AND datetime(substr(due_at, 1, 19)) IS substr(due_at, 1, 19) AND substr(due_at, 20, 1) IN ('', '.') AND ltrim(substr(due_at, 21), '0123456789') = '' AND datetime(substr(held_until, 1, 19)) IS substr(held_until, 1, 19) AND substr(held_until, 20, 1) IN ('', '.') AND ltrim(substr(held_until, 21), '0123456789') = '' AND datetime(substr(sent_at, 1, 19)) IS substr(sent_at, 1, 19) AND substr(sent_at, 20, 1) IN ('', '.') AND ltrim(substr(sent_at, 21), '0123456789') = '' AND datetime(substr(gave_up_at, 1, 19)) IS substr(gave_up_at, 1, 19) AND substr(gave_up_at, 20, 1) IN ('', '.') AND ltrim(substr(gave_up_at, 21), '0123456789') = '')
);
CREATE INDEX notifications_waiting ON notifications (channel, due_at) WHERE sent_at IS NULL AND gave_up_at IS NULL;
CREATE INDEX notifications_sent ON notifications (channel, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX notifications_of_alert ON notifications (alert_id) WHERE alert_id IS NOT NULL;
CREATE TRIGGER alerts_id_insert BEFORE INSERT ON alerts WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'alerts.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER alerts_id_update BEFORE UPDATE OF id ON alerts WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'alerts.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER notifications_id_insert BEFORE INSERT ON notifications WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'notifications.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER notifications_id_update BEFORE UPDATE OF id ON notifications WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'notifications.id: 4611686018427387904 is the most there can be'); END;
CREATE INDEX changes_of_actor ON changes (actor, id);
CREATE INDEX changes_of_batch ON changes (batch) WHERE batch IS NOT NULL;
CREATE INDEX changes_undone ON changes (undoes) WHERE undoes IS NOT NULL;
CREATE TABLE task_labels (
	task_id BIGINT NOT NULL, 
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (task_id, "key")
);
CREATE INDEX task_labels_tasks ON task_labels ("key", value, task_id);
CREATE TRIGGER crontab_labels_insert AFTER INSERT ON crontab BEGIN DELETE FROM task_labels WHERE task_id = NEW.id;
    INSERT INTO task_labels (task_id, key, value)
    SELECT NEW.id, label.key, label.value FROM json_each(CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END) AS label
    WHERE length(label.key) BETWEEN 1 AND 40 AND length(label.value) <= 60
    AND NOT EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END) AS other WHERE other.type <> 'text')
    ON CONFLICT (task_id, key) DO UPDATE SET value = excluded.value;
 END;
CREATE TRIGGER crontab_labels_update AFTER UPDATE OF id, labels ON crontab BEGIN DELETE FROM task_labels WHERE task_id = OLD.id;
    INSERT INTO task_labels (task_id, key, value)
    SELECT NEW.id, label.key, label.value FROM json_each(CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END) AS label
    WHERE length(label.key) BETWEEN 1 AND 40 AND length(label.value) <= 60
    AND NOT EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END) AS other WHERE other.type <> 'text')
    ON CONFLICT (task_id, key) DO UPDATE SET value = excluded.value;
 END;
CREATE TRIGGER crontab_labels_delete AFTER DELETE ON crontab BEGIN DELETE FROM task_labels WHERE task_id = OLD.id; END;
CREATE TABLE freezes (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	from_at DATETIME NOT NULL, 
	until_at DATETIME, 
	reason TEXT, 
	selector TEXT, 
	created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	created_by TEXT, 
	thawed_at DATETIME, 
	thawed_by TEXT, 
	CONSTRAINT freezes_times CHECK (datetime(substr(from_at, 1, 19)) IS substr(from_at, 1, 19) AND substr(from_at, 20, 1) IN ('', '.') AND ltrim(substr(from_at, 21), '0123456789') = '' AND datetime(substr(until_at, 1, 19)) IS substr(until_at, 1, 19) AND substr(until_at, 20, 1) IN ('', '.') AND ltrim(substr(until_at, 21), '0123456789') = '' AND datetime(substr(created_at, 1, 19)) IS substr(created_at, 1, 19) AND substr(created_at, 20, 1) IN ('', '.') AND ltrim(substr(created_at, 21), '0123456789') = '' AND datetime(substr(thawed_at, 1, 19)) IS substr(thawed_at, 1, 19) AND substr(thawed_at, 20, 1) IN ('', '.') AND ltrim(substr(thawed_at, 21), '0123456789') = '')
);
CREATE INDEX freezes_not_thawed ON freezes (id) WHERE thawed_at IS NULL;
CREATE TRIGGER freezes_id_insert BEFORE INSERT ON freezes WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'freezes.id: 4611686018427387904 is the most there can be'); END;
CREATE TRIGGER freezes_id_update BEFORE UPDATE OF id ON freezes WHEN NEW.id > 4611686018427387904 BEGIN SELECT RAISE(ABORT, 'freezes.id: 4611686018427387904 is the most there can be'); END;
INSERT INTO dcron_version VALUES ('0016');
