-- The tables of schema 0016, as pg_dump writes them.
CREATE SCHEMA dcron;
CREATE FUNCTION dcron.crontab_labels() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
    DECLARE
        found jsonb;
    BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            EXECUTE format('DELETE FROM %I.task_labels', TG_TABLE_SCHEMA);
            RETURN NULL;
        END IF;
        IF TG_OP <> 'INSERT' THEN
            EXECUTE format('DELETE FROM %I.task_labels WHERE task_id = $1', TG_TABLE_SCHEMA) USING OLD.id;
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN NULL;
        END IF;
        BEGIN
            found := NEW.labels::jsonb;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            RETURN NULL;
        END;
        IF jsonb_typeof(found) <> 'object' THEN
            RETURN NULL;
        END IF;
        IF EXISTS (SELECT 1 FROM jsonb_each(found) AS label WHERE jsonb_typeof(label.value) <> 'string') THEN
            RETURN NULL;
        END IF;
        EXECUTE format(
            'INSERT INTO %I.task_labels (task_id, key, value) SELECT $1, key, value FROM jsonb_each_text($2)'
            ' WHERE length(key) BETWEEN 1 AND 40 AND length(value) <= 60'
            ' ON CONFLICT (task_id, key) DO UPDATE SET value = EXCLUDED.value', TG_TABLE_SCHEMA
        ) USING NEW.id, found;
        RETURN NULL;
    END $_$;
CREATE TABLE dcron.alerts (
    id bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    task_id bigint,
    task text COLLATE pg_catalog."C",
    opened_at timestamp with time zone NOT NULL,
    run_id bigint,
    times bigint DEFAULT '1'::bigint NOT NULL,
    last_at timestamp with time zone NOT NULL,
    last_run_id bigint,
    notified_at timestamp with time zone,
    remind_at timestamp with time zone,
    acknowledged_by text,
    acknowledged_at timestamp with time zone,
    acknowledged_note text,
    silent_until timestamp with time zone,
    closed_at timestamp with time zone,
    facts text DEFAULT '{}'::text NOT NULL,
    CONSTRAINT alerts_acknowledged_at_range CHECK (((acknowledged_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (acknowledged_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_closed_at_range CHECK (((closed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (closed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_kind_length CHECK (((length(kind) >= 1) AND (length(kind) <= 40))),
    CONSTRAINT alerts_last_at_range CHECK (((last_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (last_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_notified_at_range CHECK (((notified_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (notified_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_opened_at_range CHECK (((opened_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (opened_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_remind_at_range CHECK (((remind_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (remind_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_silent_until_range CHECK (((silent_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (silent_until <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT alerts_subject_length CHECK (((length(subject) >= 1) AND (length(subject) <= 300)))
);
CREATE SEQUENCE dcron.alerts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.alerts_id_seq OWNED BY dcron.alerts.id;
CREATE TABLE dcron.archives (
    id bigint NOT NULL,
    day text NOT NULL COLLATE pg_catalog."C",
    first_run bigint NOT NULL,
    last_run bigint NOT NULL,
    runs bigint NOT NULL,
    url text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT archives_created_at_range CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT archives_day CHECK ((day ~ '^\d{4}-\d{2}-\d{2}$'::text))
);
CREATE SEQUENCE dcron.archives_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.archives_id_seq OWNED BY dcron.archives.id;
CREATE TABLE dcron.calendars (
    name text NOT NULL COLLATE pg_catalog."C",
    content text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    CONSTRAINT calendars_changed_at_range CHECK (((changed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (changed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT calendars_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100)))
);
CREATE TABLE dcron.changes (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    task_id bigint,
    task text COLLATE pg_catalog."C",
    version integer,
    before text,
    after text,
    login text,
    kind text DEFAULT 'task'::text NOT NULL,
    via text,
    note text,
    batch text,
    undoes bigint,
    CONSTRAINT changes_at_range CHECK (((at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
);
CREATE SEQUENCE dcron.changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.changes_id_seq OWNED BY dcron.changes.id;
CREATE TABLE dcron.crontab (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    schedule text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    command text NOT NULL,
    argv text,
    shell text DEFAULT '/bin/sh'::text NOT NULL,
    stdin text,
    env text DEFAULT '{}'::text NOT NULL,
    cwd text,
    "user" text,
    timeout double precision,
    max_running integer DEFAULT 1,
    describe text,
    enabled boolean DEFAULT true NOT NULL,
    paused_reason text,
    paused_by text,
    paused_at timestamp with time zone,
    paused_until timestamp with time zone,
    once boolean DEFAULT false NOT NULL,
    error text,
    version integer DEFAULT 1 NOT NULL,
    planned_version integer DEFAULT 0 NOT NULL,
    changed_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    changed_by text,
    gap text DEFAULT 'after'::text NOT NULL,
    fold text DEFAULT 'first'::text NOT NULL,
    not_before timestamp with time zone,
    not_after timestamp with time zone,
    except_calendar text COLLATE pg_catalog."C",
    only_calendar text COLLATE pg_catalog."C",
    overlap text DEFAULT 'skip'::text NOT NULL,
    on_lost text DEFAULT 'dead'::text NOT NULL,
    catch_up text DEFAULT 'last'::text NOT NULL,
    priority text DEFAULT 'normal'::text NOT NULL,
    tries integer DEFAULT 1 NOT NULL,
    backoff double precision DEFAULT 1 NOT NULL,
    backoff_factor double precision DEFAULT 2 NOT NULL,
    backoff_max double precision DEFAULT 3600 NOT NULL,
    deadline double precision,
    catch_up_window double precision,
    jitter double precision,
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    every_node boolean DEFAULT false NOT NULL,
    require text DEFAULT '[]'::text NOT NULL,
    need text DEFAULT '{}'::text NOT NULL,
    "limit" text DEFAULT '{}'::text NOT NULL,
    source text,
    keep text DEFAULT '{}'::text NOT NULL,
    notify text DEFAULT '[]'::text NOT NULL,
    notify_on text DEFAULT '[]'::text NOT NULL,
    expect text DEFAULT '{}'::text NOT NULL,
    notify_after integer,
    ping text,
    labels text DEFAULT '{}'::text NOT NULL,
    applied text,
    CONSTRAINT crontab_backoff CHECK (((backoff >= (0)::double precision) AND (backoff <= ('3155760000'::bigint)::double precision))),
    CONSTRAINT crontab_backoff_factor CHECK (((backoff_factor >= (1)::double precision) AND (backoff_factor <= (1000)::double precision))),
    CONSTRAINT crontab_backoff_max CHECK (((backoff_max >= (0)::double precision) AND (backoff_max <= ('3155760000'::bigint)::double precision))),
    CONSTRAINT crontab_catch_up CHECK ((catch_up = ANY (ARRAY['skip'::text, 'last'::text, 'all'::text]))),
    CONSTRAINT crontab_catch_up_window CHECK (((catch_up_window >= (0)::double precision) AND (catch_up_window <= ('3155760000'::bigint)::double precision))),
    CONSTRAINT crontab_changed_at_range CHECK (((changed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (changed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT crontab_command_given CHECK ((length(command) > 0)),
    CONSTRAINT crontab_deadline CHECK (((deadline >= (0)::double precision) AND (deadline <= ('3155760000'::bigint)::double precision))),
    CONSTRAINT crontab_fold CHECK ((fold = ANY (ARRAY['first'::text, 'both'::text]))),
    CONSTRAINT crontab_gap CHECK ((gap = ANY (ARRAY['after'::text, 'skip'::text]))),
    CONSTRAINT crontab_jitter CHECK (((jitter >= (0)::double precision) AND (jitter <= (86400)::double precision))),
    CONSTRAINT crontab_max_running_positive CHECK ((max_running >= 1)),
    CONSTRAINT crontab_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT crontab_name_letters CHECK ((name ~ '^[A-Za-z0-9._-]+$'::text)),
    CONSTRAINT crontab_not_after_range CHECK (((not_after >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (not_after <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT crontab_not_before_range CHECK (((not_before >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (not_before <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT crontab_notify_after CHECK (((notify_after >= 1) AND (notify_after <= 1000))),
    CONSTRAINT crontab_on_lost CHECK ((on_lost = ANY (ARRAY['dead'::text, 'retry'::text]))),
    CONSTRAINT crontab_one_line CHECK (((schedule !~ '[\x01-\x08\x0a-\x1f\x7f]'::text) AND (timezone !~ '[\x01-\x08\x0a-\x1f\x7f]'::text) AND ("user" !~ '[\x01-\x08\x0a-\x1f\x7f]'::text) AND (except_calendar !~ '[\x01-\x08\x0a-\x1f\x7f]'::text) AND (only_calendar !~ '[\x01-\x08\x0a-\x1f\x7f]'::text) AND (source !~ '[\x01-\x08\x0a-\x1f\x7f]'::text))),
    CONSTRAINT crontab_overlap CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text, 'replace'::text]))),
    CONSTRAINT crontab_paused CHECK (((NOT enabled) OR ((paused_at IS NULL) AND (paused_until IS NULL)))),
    CONSTRAINT crontab_paused_at_range CHECK (((paused_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (paused_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT crontab_paused_until_range CHECK (((paused_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (paused_until <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT crontab_priority CHECK ((priority = ANY (ARRAY['high'::text, 'normal'::text, 'low'::text]))),
    CONSTRAINT crontab_queue CHECK ((queue ~ '^[A-Za-z0-9._-]{1,100}$'::text)),
    CONSTRAINT crontab_schedule_length CHECK (((length(schedule) >= 1) AND (length(schedule) <= 256))),
    CONSTRAINT crontab_timeout_range CHECK (((timeout > (0)::double precision) AND (timeout <= ('3155760000'::bigint)::double precision))),
    CONSTRAINT crontab_tries CHECK (((tries >= 1) AND (tries <= 1000)))
);
CREATE SEQUENCE dcron.crontab_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.crontab_id_seq OWNED BY dcron.crontab.id;
CREATE TABLE dcron.daily_statistics (
    task_id bigint NOT NULL,
    day text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    succeeded bigint DEFAULT '0'::bigint NOT NULL,
    failed bigint DEFAULT '0'::bigint NOT NULL,
    lost bigint DEFAULT '0'::bigint NOT NULL,
    cancelled bigint DEFAULT '0'::bigint NOT NULL,
    skipped bigint DEFAULT '0'::bigint NOT NULL,
    seconds double precision DEFAULT 0 NOT NULL,
    longest double precision,
    late_seconds double precision DEFAULT 0 NOT NULL,
    latest double precision,
    buckets text DEFAULT '{}'::text NOT NULL,
    CONSTRAINT daily_statistics_day CHECK ((day ~ '^\d{4}-\d{2}-\d{2}$'::text))
);
CREATE TABLE dcron.dcron_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE dcron.events (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    payload text,
    key text,
    created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    created_by text,
    handled_at timestamp with time zone,
    CONSTRAINT events_created_at_range CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT events_handled_at_range CHECK (((handled_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (handled_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT events_key_length CHECK (((length(key) >= 1) AND (length(key) <= 200))),
    CONSTRAINT events_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100)))
);
CREATE SEQUENCE dcron.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.events_id_seq OWNED BY dcron.events.id;
CREATE TABLE dcron.freezes (
    id bigint NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone,
    reason text,
    selector text,
    created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    created_by text,
    thawed_at timestamp with time zone,
    thawed_by text,
    CONSTRAINT freezes_created_at_range CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT freezes_from_at_range CHECK (((from_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (from_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT freezes_thawed_at_range CHECK (((thawed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (thawed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT freezes_until_at_range CHECK (((until_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (until_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
);
CREATE SEQUENCE dcron.freezes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.freezes_id_seq OWNED BY dcron.freezes.id;
CREATE TABLE dcron.holds (
    id bigint NOT NULL,
    task_id bigint,
    run_id bigint,
    task text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    created_by text,
    CONSTRAINT holds_created_at_range CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT holds_task_or_run CHECK (((task_id IS NULL) <> (run_id IS NULL)))
);
CREATE SEQUENCE dcron.holds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.holds_id_seq OWNED BY dcron.holds.id;
CREATE TABLE dcron.maintenance_jobs (
    name text NOT NULL COLLATE pg_catalog."C",
    due_at timestamp with time zone NOT NULL,
    holder text,
    held_until timestamp with time zone,
    "position" text DEFAULT '{}'::text NOT NULL,
    ran_at timestamp with time zone,
    seconds double precision,
    done text DEFAULT '{}'::text NOT NULL,
    error text,
    CONSTRAINT maintenance_jobs_due_at_range CHECK (((due_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT maintenance_jobs_held_until_range CHECK (((held_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (held_until <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT maintenance_jobs_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT maintenance_jobs_ran_at_range CHECK (((ran_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (ran_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE dcron.nodes (
    id text NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    slots integer NOT NULL,
    version text NOT NULL,
    tzdata text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    alive_until timestamp with time zone NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    died_at timestamp with time zone,
    died_how text,
    clock_offset double precision,
    tzdata_fingerprint text,
    tags text DEFAULT '[]'::text NOT NULL,
    queues text DEFAULT '[]'::text NOT NULL,
    capacity text DEFAULT '{}'::text NOT NULL,
    lease double precision,
    renewals bigint DEFAULT '0'::bigint NOT NULL,
    account text,
    uid integer,
    any_account boolean,
    channels text DEFAULT '[]'::text NOT NULL,
    CONSTRAINT nodes_alive_until_range CHECK (((alive_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (alive_until <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT nodes_died_at_range CHECK (((died_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (died_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT nodes_died_how CHECK (((died_at IS NULL) = (died_how IS NULL))),
    CONSTRAINT nodes_died_how_known CHECK ((died_how = ANY (ARRAY['stopped'::text, 'dead'::text]))),
    CONSTRAINT nodes_slots_positive CHECK ((slots >= 1)),
    CONSTRAINT nodes_started_at_range CHECK (((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
)
WITH (fillfactor='50');
CREATE TABLE dcron.notifications (
    id bigint NOT NULL,
    alert_id bigint,
    run_id bigint,
    task_id bigint,
    channel text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    holder text,
    held_until timestamp with time zone,
    sent_at timestamp with time zone,
    sent_by text,
    gave_up_at timestamp with time zone,
    error text,
    facts text DEFAULT '{}'::text NOT NULL,
    CONSTRAINT notifications_channel_length CHECK (((length(channel) >= 1) AND (length(channel) <= 300))),
    CONSTRAINT notifications_created_at_range CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT notifications_due_at_range CHECK (((due_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT notifications_gave_up_at_range CHECK (((gave_up_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (gave_up_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT notifications_held_until_range CHECK (((held_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (held_until <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT notifications_sent_at_range CHECK (((sent_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (sent_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
);
CREATE SEQUENCE dcron.notifications_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.notifications_id_seq OWNED BY dcron.notifications.id;
CREATE TABLE dcron.output (
    run_id bigint NOT NULL,
    byte_offset bigint NOT NULL,
    stream text NOT NULL,
    at timestamp with time zone NOT NULL,
    lines integer NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT output_at_range CHECK (((at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT output_stream_known CHECK ((stream = ANY (ARRAY['out'::text, 'err'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='10000', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE dcron.queues (
    name text NOT NULL COLLATE pg_catalog."C",
    max_running integer,
    changed_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    changed_by text,
    CONSTRAINT queues_changed_at_range CHECK (((changed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (changed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT queues_max_running CHECK (((max_running >= 0) AND (max_running <= 1000000))),
    CONSTRAINT queues_name CHECK ((name ~ '^[A-Za-z0-9._-]{1,100}$'::text))
);
CREATE TABLE dcron.runs (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    task text NOT NULL COLLATE pg_catalog."C",
    trigger text NOT NULL,
    state text NOT NULL,
    reason text,
    attempt integer DEFAULT 1 NOT NULL,
    retry_of bigint,
    scheduled_for timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    for_node text,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    owner text,
    exit_code integer,
    signal integer,
    dead_at timestamp with time zone,
    cancel_requested_by text,
    payload text,
    spec text NOT NULL,
    tzdata text,
    lane text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    blocked text,
    expires_at timestamp with time zone,
    backlog_until timestamp with time zone,
    flow bigint,
    event_id bigint,
    refused_by text,
    skip_code text,
    caused_by bigint,
    covers_from timestamp with time zone,
    covers_until timestamp with time zone,
    covers_count integer,
    timed_out boolean,
    CONSTRAINT runs_alive_owned CHECK (((NOT (state = ANY (ARRAY['claimed'::text, 'running'::text]))) OR ((owner IS NOT NULL) AND (claimed_at IS NOT NULL)))),
    CONSTRAINT runs_attempt_positive CHECK ((attempt >= 1)),
    CONSTRAINT runs_blocked CHECK (((blocked IS NULL) OR ((state = 'waiting'::text) AND (blocked = ANY (ARRAY['paused'::text, 'limit'::text, 'delay'::text]))))),
    CONSTRAINT runs_dead_failed CHECK (((dead_at IS NULL) OR (state = ANY (ARRAY['failed'::text, 'lost'::text])))),
    CONSTRAINT runs_final_finished CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'lost'::text, 'skipped'::text, 'cancelled'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT runs_running_started CHECK (((state <> 'running'::text) OR (started_at IS NOT NULL))),
    CONSTRAINT runs_skipped_reason CHECK (((state <> 'skipped'::text) OR (reason IS NOT NULL))),
    CONSTRAINT runs_state_known CHECK ((state = ANY (ARRAY['waiting'::text, 'claimed'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'lost'::text, 'skipped'::text, 'cancelled'::text]))),
    CONSTRAINT runs_trigger_known CHECK ((trigger = ANY (ARRAY['schedule'::text, 'manual'::text, 'reboot'::text, 'retry'::text, 'event'::text, 'after'::text, 'backfill'::text, 'node'::text]))),
    CONSTRAINT runs_waiting_free CHECK (((state <> 'waiting'::text) OR (owner IS NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='10000', autovacuum_analyze_scale_factor='0.02');
CREATE SEQUENCE dcron.runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dcron.runs_id_seq OWNED BY dcron.runs.id;
CREATE TABLE dcron.settings (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL,
    changed_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    changed_by text,
    CONSTRAINT settings_changed_at_range CHECK (((changed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (changed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT settings_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100)))
);
CREATE TABLE dcron.subscriptions (
    task_id bigint NOT NULL,
    kind text NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT subscriptions_kind CHECK ((kind = ANY (ARRAY['event'::text, 'task'::text])))
);
CREATE TABLE dcron.summed_days (
    day text NOT NULL COLLATE pg_catalog."C",
    summed_at timestamp with time zone NOT NULL,
    archived_at timestamp with time zone,
    pruned_at timestamp with time zone,
    CONSTRAINT summed_days_archived_at_range CHECK (((archived_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (archived_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT summed_days_day CHECK ((day ~ '^\d{4}-\d{2}-\d{2}$'::text)),
    CONSTRAINT summed_days_pruned_at_range CHECK (((pruned_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (pruned_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT summed_days_summed_at_range CHECK (((summed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (summed_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE dcron.task_labels (
    task_id bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE ONLY dcron.alerts ALTER COLUMN id SET DEFAULT nextval('dcron.alerts_id_seq'::regclass);
ALTER TABLE ONLY dcron.archives ALTER COLUMN id SET DEFAULT nextval('dcron.archives_id_seq'::regclass);
ALTER TABLE ONLY dcron.changes ALTER COLUMN id SET DEFAULT nextval('dcron.changes_id_seq'::regclass);
ALTER TABLE ONLY dcron.crontab ALTER COLUMN id SET DEFAULT nextval('dcron.crontab_id_seq'::regclass);
ALTER TABLE ONLY dcron.events ALTER COLUMN id SET DEFAULT nextval('dcron.events_id_seq'::regclass);
ALTER TABLE ONLY dcron.freezes ALTER COLUMN id SET DEFAULT nextval('dcron.freezes_id_seq'::regclass);
ALTER TABLE ONLY dcron.holds ALTER COLUMN id SET DEFAULT nextval('dcron.holds_id_seq'::regclass);
ALTER TABLE ONLY dcron.notifications ALTER COLUMN id SET DEFAULT nextval('dcron.notifications_id_seq'::regclass);
ALTER TABLE ONLY dcron.runs ALTER COLUMN id SET DEFAULT nextval('dcron.runs_id_seq'::regclass);
ALTER TABLE ONLY dcron.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.archives
    ADD CONSTRAINT archives_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.archives
    ADD CONSTRAINT archives_url_key UNIQUE (url);
ALTER TABLE ONLY dcron.calendars
    ADD CONSTRAINT calendars_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dcron.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.crontab
    ADD CONSTRAINT crontab_name_key UNIQUE (name);
ALTER TABLE ONLY dcron.crontab
    ADD CONSTRAINT crontab_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.daily_statistics
    ADD CONSTRAINT daily_statistics_pkey PRIMARY KEY (task_id, day);
ALTER TABLE ONLY dcron.dcron_version
    ADD CONSTRAINT dcron_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY dcron.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.freezes
    ADD CONSTRAINT freezes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.maintenance_jobs
    ADD CONSTRAINT maintenance_jobs_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dcron.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dcron.output
    ADD CONSTRAINT output_pkey PRIMARY KEY (run_id, byte_offset);
ALTER TABLE ONLY dcron.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dcron.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE dcron.runs
    ADD CONSTRAINT runs_times_range CHECK (((LEAST(scheduled_for, due_at, claimed_at, started_at, finished_at, dead_at, expires_at, backlog_until, covers_from, covers_until) >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (GREATEST(scheduled_for, due_at, claimed_at, started_at, finished_at, dead_at, expires_at, backlog_until, covers_from, covers_until) <= '9999-12-30 00:00:00+00'::timestamp with time zone))) NOT VALID;
ALTER TABLE ONLY dcron.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dcron.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (task_id, kind, source);
ALTER TABLE ONLY dcron.summed_days
    ADD CONSTRAINT summed_days_pkey PRIMARY KEY (day);
ALTER TABLE ONLY dcron.task_labels
    ADD CONSTRAINT task_labels_pkey PRIMARY KEY (task_id, key);
CREATE INDEX alerts_closed ON dcron.alerts USING btree (closed_at) WHERE (closed_at IS NOT NULL);
CREATE UNIQUE INDEX alerts_open ON dcron.alerts USING btree (kind, subject) WHERE (closed_at IS NULL);
CREATE INDEX alerts_open_of_task ON dcron.alerts USING btree (task_id) WHERE (closed_at IS NULL);
CREATE INDEX alerts_remind ON dcron.alerts USING btree (remind_at) WHERE ((closed_at IS NULL) AND (remind_at IS NOT NULL));
CREATE INDEX archives_of_day ON dcron.archives USING btree (day);
CREATE INDEX archives_of_run ON dcron.archives USING btree (first_run, last_run);
CREATE INDEX changes_incidents ON dcron.changes USING btree (id) WHERE (action = ANY (ARRAY['epoch'::text, 'clock'::text]));
CREATE INDEX changes_of_actor ON dcron.changes USING btree (actor, id);
CREATE INDEX changes_of_batch ON dcron.changes USING btree (batch) WHERE (batch IS NOT NULL);
CREATE INDEX changes_of_line ON dcron.changes USING btree (task_id, id);
CREATE INDEX changes_of_task ON dcron.changes USING btree (task, id);
CREATE INDEX changes_undone ON dcron.changes USING btree (undoes) WHERE (undoes IS NOT NULL);
CREATE INDEX crontab_except_calendar ON dcron.crontab USING btree (except_calendar) WHERE (except_calendar IS NOT NULL);
CREATE INDEX crontab_expecting ON dcron.crontab USING btree (id) WHERE (expect <> '{}'::text);
CREATE INDEX crontab_once ON dcron.crontab USING btree (id) WHERE once;
CREATE INDEX crontab_only_calendar ON dcron.crontab USING btree (only_calendar) WHERE (only_calendar IS NOT NULL);
CREATE INDEX crontab_paused_until ON dcron.crontab USING btree (paused_until) WHERE (paused_until IS NOT NULL);
CREATE INDEX crontab_reboot ON dcron.crontab USING btree (id) WHERE (schedule ~~ '%@reboot%'::text);
CREATE INDEX crontab_source ON dcron.crontab USING btree (source) WHERE (source IS NOT NULL);
CREATE INDEX crontab_unplanned ON dcron.crontab USING btree (id) WHERE (
CASE
    WHEN (planned_version <> version) THEN 1
    ELSE 0
END = 1);
CREATE INDEX daily_statistics_of_day ON dcron.daily_statistics USING btree (day);
CREATE UNIQUE INDEX events_once ON dcron.events USING btree (name, key) WHERE (key IS NOT NULL);
CREATE INDEX events_unhandled ON dcron.events USING btree (id) WHERE (handled_at IS NULL);
CREATE INDEX freezes_not_thawed ON dcron.freezes USING btree (id) WHERE (thawed_at IS NULL);
CREATE UNIQUE INDEX holds_run ON dcron.holds USING btree (run_id) WHERE (run_id IS NOT NULL);
CREATE UNIQUE INDEX holds_task ON dcron.holds USING btree (task_id) WHERE (task_id IS NOT NULL);
CREATE INDEX nodes_alive ON dcron.nodes USING btree (id) WHERE (died_at IS NULL);
CREATE INDEX nodes_died ON dcron.nodes USING btree (died_at) WHERE (died_at IS NOT NULL);
CREATE INDEX notifications_of_alert ON dcron.notifications USING btree (alert_id) WHERE (alert_id IS NOT NULL);
CREATE INDEX notifications_sent ON dcron.notifications USING btree (channel, sent_at) WHERE (sent_at IS NOT NULL);
CREATE INDEX notifications_waiting ON dcron.notifications USING btree (channel, due_at) WHERE ((sent_at IS NULL) AND (gave_up_at IS NULL));
CREATE INDEX runs_alive ON dcron.runs USING btree (task_id) WHERE (state = ANY (ARRAY['claimed'::text, 'running'::text]));
CREATE INDEX runs_alive_of_queue ON dcron.runs USING btree (queue) WHERE (state = ANY (ARRAY['claimed'::text, 'running'::text]));
CREATE INDEX runs_blocked_of ON dcron.runs USING btree (task_id, due_at, id) WHERE ((state = 'waiting'::text) AND (blocked IS NOT NULL));
CREATE INDEX runs_dead ON dcron.runs USING btree (id) WHERE (dead_at IS NOT NULL);
CREATE INDEX runs_dead_of ON dcron.runs USING btree (task_id, id) WHERE (dead_at IS NOT NULL);
CREATE INDEX runs_due ON dcron.runs USING btree (lane, due_at, id) WHERE ((state = 'waiting'::text) AND (blocked IS NULL));
CREATE INDEX runs_expiring ON dcron.runs USING btree (expires_at) WHERE ((state = 'waiting'::text) AND (expires_at IS NOT NULL));
CREATE INDEX runs_finished ON dcron.runs USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX runs_for_node ON dcron.runs USING btree (for_node) WHERE ((state = 'waiting'::text) AND (for_node IS NOT NULL));
CREATE UNIQUE INDEX runs_next ON dcron.runs USING btree (task_id) WHERE ((trigger = 'schedule'::text) AND (state = ANY (ARRAY['waiting'::text, 'claimed'::text])));
CREATE INDEX runs_of_flow ON dcron.runs USING btree (flow, task_id) WHERE (flow IS NOT NULL);
CREATE INDEX runs_of_task ON dcron.runs USING btree (task_id, id);
CREATE INDEX runs_of_time ON dcron.runs USING btree (task_id, scheduled_for) WHERE (finished_at IS NOT NULL);
CREATE UNIQUE INDEX runs_once_a_flow ON dcron.runs USING btree (flow, task_id) WHERE ((trigger = 'after'::text) AND (state <> 'skipped'::text));
CREATE UNIQUE INDEX runs_once_an_event ON dcron.runs USING btree (event_id, task_id) WHERE (trigger = 'event'::text);
CREATE INDEX runs_owned ON dcron.runs USING btree (owner) WHERE (state = ANY (ARRAY['claimed'::text, 'running'::text]));
CREATE UNIQUE INDEX runs_retry ON dcron.runs USING btree (retry_of) WHERE (retry_of IS NOT NULL);
CREATE INDEX runs_unhappy ON dcron.runs USING btree (state, id) WHERE (state = ANY (ARRAY['failed'::text, 'lost'::text, 'skipped'::text, 'cancelled'::text]));
CREATE INDEX runs_waiting ON dcron.runs USING btree (task_id, due_at, id) WHERE (state = 'waiting'::text);
CREATE INDEX subscriptions_source ON dcron.subscriptions USING btree (kind, source);
CREATE INDEX task_labels_tasks ON dcron.task_labels USING btree (key, value, task_id);
CREATE TRIGGER crontab_labels_delete AFTER DELETE ON dcron.crontab FOR EACH ROW WHEN ((old.labels <> '{}'::text)) EXECUTE FUNCTION dcron.crontab_labels();
CREATE TRIGGER crontab_labels_insert AFTER INSERT ON dcron.crontab FOR EACH ROW WHEN ((new.labels <> '{}'::text)) EXECUTE FUNCTION dcron.crontab_labels();
CREATE TRIGGER crontab_labels_truncate AFTER TRUNCATE ON dcron.crontab FOR EACH STATEMENT EXECUTE FUNCTION dcron.crontab_labels();
CREATE TRIGGER crontab_labels_update AFTER UPDATE OF id, labels ON dcron.crontab FOR EACH ROW WHEN (((old.labels <> new.labels) OR (old.id <> new.id))) EXECUTE FUNCTION dcron.crontab_labels();
INSERT INTO dcron.dcron_version VALUES ('0016');
