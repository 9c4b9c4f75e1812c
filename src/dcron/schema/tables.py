"""The tables, and the rules of the state machine as constraints (docs/architecture.md)."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    MetaData,
    Table,
    func,
    text,
)

from dcron.model import (
    LONGEST_DURATION,
    LONGEST_JITTER,
    MOST_BACKOFF_FACTOR,
    MOST_NOTIFY_AFTER,
    MOST_TRIES,
    Block,
    RunState,
    SkipCode,
    Trigger,
)
from dcron.schema.conditions import (
    ALIVE,
    BLOCKED,
    DEAD,
    DUE,
    EXPECTING,
    EXPIRING,
    FINAL,
    FINISHED,
    INCIDENT,
    NEXT,
    NOT_THAWED,
    ONCE,
    OPEN,
    REBOOT,
    UNHANDLED,
    UNHEARD,
    UNPLANNED,
    UNSENT,
    UNSUCCESSFUL,
    WAITING,
)
from dcron.schema.constraints import (
    check_on,
    limit_times,
    limit_times_at_once,
    of_types,
    one_day,
    one_line,
    one_of,
    one_word,
    partial_index,
    readable_time,
    within,
)
from dcron.schema.triggers import keep_inert, limit_ids, store, write_labels_by_row
from dcron.schema.types import BigWhole, Code, Day, Id, Instant, Json, Login, Name, Number, Whole, Words

SCHEMA_VERSION = "0020"
"""The version of these tables, and the newest migration. A test compares what the two make."""
metadata = MetaData()

ALERT_TIMES = ("opened_at", "last_at", "notified_at", "remind_at", "silent_until", "closed_at")
FREEZE_TIMES = ("from_at", "until_at", "created_at", "thawed_at")
NOTIFICATION_TIMES = ("created_at", "due_at", "held_until", "sent_at", "gave_up_at")

crontab = Table(
    "crontab",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    Column("schedule", Words, nullable=False),
    Column("timezone", Words, nullable=False, server_default="UTC"),
    Column("command", Words, nullable=False),
    Column("argv", Json(list, of=str)),
    Column("shell", Words, nullable=False, server_default="/bin/sh"),
    Column("stdin", Words),
    Column("env", Json(of=str), nullable=False, server_default="{}"),
    Column("cwd", Words),
    Column("user", Words),
    Column("timeout", Number),
    Column("max_running", Whole, server_default="1"),
    Column("gap", Words, nullable=False, server_default="after"),
    Column("fold", Words, nullable=False, server_default="first"),
    Column("not_before", Instant),
    Column("not_after", Instant),
    Column("except_calendar", Name),
    Column("only_calendar", Name),
    Column("overlap", Words, nullable=False, server_default="skip"),
    Column("tries", Whole, nullable=False, server_default=text("1")),
    Column("backoff", Number, nullable=False, server_default=text("1")),
    Column("backoff_factor", Number, nullable=False, server_default=text("2")),
    Column("backoff_max", Number, nullable=False, server_default=text("3600")),
    Column("on_lost", Words, nullable=False, server_default="dead"),
    Column("deadline", Number),
    Column("catch_up", Words, nullable=False, server_default="last"),
    Column("catch_up_window", Number),
    Column("jitter", Number),
    Column("priority", Words, nullable=False, server_default="normal"),
    Column("queue", Name, nullable=False, server_default="default"),
    Column("require", Json(list), nullable=False, server_default="[]"),
    Column("every_node", Boolean, nullable=False, server_default=text("false")),
    Column("need", Json(), nullable=False, server_default="{}"),
    Column("limit", Json(), nullable=False, server_default="{}"),
    Column("describe", Words),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("paused_reason", Words),
    Column("paused_by", Words),
    Column("paused_at", Instant),
    Column("paused_until", Instant),
    # A one-off made by `at`: the task is removed when its run has succeeded.
    Column("once", Boolean, nullable=False, server_default=text("false")),
    # Why no next run could be planned; NULL if it could.
    Column("error", Words),
    # The optimistic lock: every edit adds one. A task whose two versions differ has yet to be planned.
    Column("version", Whole, nullable=False, server_default="1"),
    Column("planned_version", Whole, nullable=False, server_default="0"),
    Column("changed_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("changed_by", Words),
    # The file it was imported from, `import:HOST:ACCOUNT:PATH`; NULL for a task that was typed.
    Column("source", Words),
    # How long its history is kept, where that differs from the settings `keep.*`.
    Column("keep", Json(), nullable=False, server_default="{}"),
    # Who gets messages about it, and for which alerts; empty: as the settings `notify.*` say.
    Column("notify", Json(list, of=str), nullable=False, server_default="[]"),
    Column("notify_on", Json(list, of=str), nullable=False, server_default="[]"),
    Column("notify_after", Whole),
    # What is expected of its runs, where that differs from the settings `expect.*`.
    Column("expect", Json(), nullable=False, server_default="{}"),
    # The URL that hears of its starts and ends.
    Column("ping", Words),
    # Triggers keep the table `task_labels` like this column.
    Column("labels", Json(of=str), nullable=False, server_default="{}"),
    # The digest of the definition that `apply` wrote; NULL if it did not.
    Column("applied", Words),
    # What becomes of its command when its node is cut off; NULL: as the setting says.
    Column("on_disconnect", Words),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="crontab_name_length"),
    CheckConstraint("length(schedule) BETWEEN 1 AND 256", name="crontab_schedule_length"),
    CheckConstraint("length(command) > 0", name="crontab_command_given"),
    CheckConstraint(f"timeout > 0 AND timeout <= {LONGEST_DURATION}", name="crontab_timeout_range"),
    CheckConstraint("max_running >= 1", name="crontab_max_running_positive"),
    CheckConstraint("gap IN ('after', 'skip')", name="crontab_gap"),
    CheckConstraint("fold IN ('first', 'both')", name="crontab_fold"),
    CheckConstraint("overlap IN ('skip', 'queue', 'replace')", name="crontab_overlap"),
    CheckConstraint("on_lost IN ('dead', 'retry')", name="crontab_on_lost"),
    CheckConstraint("on_disconnect IN ('stop', 'keep')", name="crontab_on_disconnect"),
    CheckConstraint("catch_up IN ('skip', 'last', 'all')", name="crontab_catch_up"),
    CheckConstraint("priority IN ('high', 'normal', 'low')", name="crontab_priority"),
    within("tries", 1, MOST_TRIES),
    within("backoff", 0, LONGEST_DURATION),
    within("backoff_factor", 1, MOST_BACKOFF_FACTOR),
    within("backoff_max", 0, LONGEST_DURATION),
    within("deadline", 0, LONGEST_DURATION),
    within("catch_up_window", 0, LONGEST_DURATION),
    within("jitter", 0, LONGEST_JITTER),
    within("notify_after", 1, MOST_NOTIFY_AFTER),
    *one_word("crontab", "queue"),
    *one_line(
        "crontab_one_line", "schedule", "timezone", '"user"', "except_calendar", "only_calendar", "source"
    ),
    check_on("crontab_require", "typeof(require) = 'text'", "sqlite"),
    check_on("crontab_every_node", "every_node IN (0, 1)", "sqlite"),
    check_on("crontab_need", "typeof(need) = 'text'", "sqlite"),
    check_on("crontab_limit", "typeof(\"limit\") = 'text'", "sqlite"),
    check_on("crontab_keep", "typeof(keep) = 'text'", "sqlite"),
    check_on("crontab_notify", "typeof(notify) = 'text'", "sqlite"),
    check_on("crontab_notify_on", "typeof(notify_on) = 'text'", "sqlite"),
    check_on("crontab_expect", "typeof(expect) = 'text'", "sqlite"),
    check_on("crontab_labels", "typeof(labels) = 'text'", "sqlite"),
    CheckConstraint("NOT enabled OR (paused_at IS NULL AND paused_until IS NULL)", name="crontab_paused"),
    check_on("crontab_name_letters", "name ~ '^[A-Za-z0-9._-]+$'", "postgresql"),
    check_on(
        "crontab_name_letters", "name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0", "sqlite"
    ),
    check_on(
        "crontab_types",
        of_types(
            **dict.fromkeys(("name", "schedule", "timezone", "command", "shell", "env"), "'text'"),
            **dict.fromkeys(("argv", "stdin", "cwd", '"user"', "describe"), "'text', 'null'"),
            **dict.fromkeys(("paused_reason", "paused_by", "error", "changed_by"), "'text', 'null'"),
            **dict.fromkeys(("version", "planned_version"), "'integer'"),
            max_running="'integer', 'null'",
            timeout="'real', 'null'",
        )
        + " AND enabled IN (0, 1) AND once IN (0, 1)",
        "sqlite",
    ),
    check_on(
        "crontab_times",
        " AND ".join(readable_time(column) for column in ("paused_at", "paused_until", "changed_at")),
        "sqlite",
    ),
    check_on("crontab_not_before", readable_time("not_before"), "sqlite"),
    check_on("crontab_not_after", readable_time("not_after"), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("crontab_unplanned", crontab.c.id, where=UNPLANNED)
partial_index("crontab_paused_until", crontab.c.paused_until, where="paused_until IS NOT NULL")
partial_index("crontab_reboot", crontab.c.id, where=REBOOT)
partial_index("crontab_except_calendar", crontab.c.except_calendar, where="except_calendar IS NOT NULL")
partial_index("crontab_only_calendar", crontab.c.only_calendar, where="only_calendar IS NOT NULL")
partial_index("crontab_once", crontab.c.id, where=ONCE)
partial_index("crontab_expecting", crontab.c.id, where=EXPECTING)
partial_index("crontab_source", crontab.c.source, where="source IS NOT NULL")

runs = Table(
    "runs",
    metadata,
    # Grows with every attempt: it is the fencing token.
    Column("id", Id, primary_key=True),
    # No foreign key: the task may be removed, its history stays.
    Column("task_id", BigWhole, nullable=False),
    Column("task", Name, nullable=False),
    Column("trigger", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("reason", Words),
    Column("attempt", Whole, nullable=False, server_default="1"),
    Column("retry_of", BigWhole),
    Column("scheduled_for", Instant, nullable=False),
    # When it may be claimed.
    Column("due_at", Instant, nullable=False),
    # The only node that may claim it; NULL is any.
    Column("for_node", Words),
    Column("claimed_at", Instant),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("owner", Words),
    Column("exit_code", Whole),
    Column("signal", Whole),
    Column("dead_at", Instant),
    Column("cancel_requested_by", Words),
    Column("payload", Words),
    # What is executed: a copy, so that an edit cannot change a run that is under way.
    Column("spec", Json(), nullable=False),
    # The version of the time zones by which it was planned.
    Column("tzdata", Words),
    # What a node must have to claim it, and its priority: one text, so that one index serves all.
    Column("lane", Name, nullable=False, server_default="default"),
    Column("queue", Name, nullable=False, server_default="default"),
    # Why it cannot be claimed yet. What ends the cause clears it.
    Column("blocked", Words),
    Column("expires_at", Instant),
    Column("backlog_until", Instant),
    Column("flow", BigWhole),
    Column("event_id", BigWhole),
    # Why nodes that claimed it could not start its command, by their IDs.
    Column("refused_by", Json(of=str)),
    # Why it was skipped, and the other run that caused it. NULL if an earlier version wrote the row.
    Column("skip_code", Code(SkipCode)),
    Column("caused_by", BigWhole),
    # The occurrences that the row covers, if there are several.
    Column("covers_from", Instant),
    Column("covers_until", Instant),
    Column("covers_count", Whole),
    # Whether it failed because it exceeded its timeout.
    Column("timed_out", Boolean),
    # `keep`: its command goes on while its node is cut off, and reaping leaves the run. NULL: it is ended.
    Column("on_disconnect", Words),
    # When its node, which was declared dead, last renewed its lease; and when it counts as lost.
    Column("unheard_since", Instant),
    Column("lost_after", Instant),
    CheckConstraint(one_of("state", RunState), name="runs_state_known"),
    CheckConstraint(one_of("trigger", Trigger), name="runs_trigger_known"),
    CheckConstraint("attempt >= 1", name="runs_attempt_positive"),
    CheckConstraint(
        f"NOT ({ALIVE}) OR (owner IS NOT NULL AND claimed_at IS NOT NULL)", name="runs_alive_owned"
    ),
    CheckConstraint("state <> 'running' OR started_at IS NOT NULL", name="runs_running_started"),
    CheckConstraint("state <> 'waiting' OR owner IS NULL", name="runs_waiting_free"),
    CheckConstraint(f"({FINAL}) = (finished_at IS NOT NULL)", name="runs_final_finished"),
    CheckConstraint("state <> 'skipped' OR reason IS NOT NULL", name="runs_skipped_reason"),
    CheckConstraint("dead_at IS NULL OR state IN ('failed', 'lost')", name="runs_dead_failed"),
    CheckConstraint(
        f"blocked IS NULL OR state = 'waiting' AND {one_of('blocked', Block)}", name="runs_blocked"
    ),
    check_on("runs_expires_at", readable_time("expires_at"), "sqlite"),
    check_on("runs_backlog_until", readable_time("backlog_until"), "sqlite"),
    check_on(
        "runs_times", " AND ".join(readable_time(column) for column in ("scheduled_for", "due_at")), "sqlite"
    ),
    sqlite_autoincrement=True,
)
partial_index(
    "runs_next",
    runs.c.task_id,
    where=NEXT,
    unique=True,
)
partial_index("runs_retry", runs.c.retry_of, where="retry_of IS NOT NULL", unique=True)
partial_index("runs_due", runs.c.lane, runs.c.due_at, runs.c.id, where=DUE)
partial_index("runs_blocked_of", runs.c.task_id, runs.c.due_at, runs.c.id, where=BLOCKED)
partial_index("runs_expiring", runs.c.expires_at, where=EXPIRING)
partial_index("runs_waiting", runs.c.task_id, runs.c.due_at, runs.c.id, where=WAITING)
partial_index("runs_for_node", runs.c.for_node, where=f"{WAITING} AND for_node IS NOT NULL")
partial_index("runs_owned", runs.c.owner, where=ALIVE)
partial_index("runs_unheard", runs.c.lost_after, where=UNHEARD)
partial_index("runs_alive", runs.c.task_id, where=ALIVE)
partial_index("runs_alive_of_queue", runs.c.queue, where=ALIVE)
Index("runs_of_task", runs.c.task_id, runs.c.id)
partial_index("runs_of_time", runs.c.task_id, runs.c.scheduled_for, where=FINISHED)
partial_index("runs_of_flow", runs.c.flow, runs.c.task_id, where="flow IS NOT NULL")
partial_index(
    "runs_once_a_flow",
    runs.c.flow,
    runs.c.task_id,
    where="trigger = 'after' AND state <> 'skipped'",
    unique=True,
)
partial_index("runs_once_an_event", runs.c.event_id, runs.c.task_id, where="trigger = 'event'", unique=True)
partial_index("runs_unhappy", runs.c.state, runs.c.id, where=UNSUCCESSFUL)
partial_index("runs_finished", runs.c.finished_at, where=FINISHED)
partial_index("runs_dead", runs.c.id, where=DEAD)
partial_index("runs_dead_of", runs.c.task_id, runs.c.id, where=DEAD)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Words, primary_key=True),
    Column("name", Words, nullable=False),
    Column("host", Words, nullable=False),
    Column("pid", Whole, nullable=False),
    Column("slots", Whole, nullable=False),
    Column("version", Words, nullable=False),
    Column("tzdata", Words, nullable=False),
    Column("tzdata_fingerprint", Words),
    Column("started_at", Instant, nullable=False),
    Column("alive_until", Instant, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    # Set once: by the node when it stops, or by one that finds its lease expired. Then it may write no more.
    Column("died_at", Instant),
    Column("died_how", Words),
    # Seconds the node's clock is ahead of the database's.
    Column("clock_offset", Number),
    Column("tags", Json(list, of=str), nullable=False, server_default="[]"),
    # None means all.
    Column("queues", Json(list), nullable=False, server_default="[]"),
    Column("capacity", Json(), nullable=False, server_default="{}"),
    # Seconds that a renewal lasts; NULL if an older agent wrote the row.
    Column("lease", Number),
    # Renewals so far. It only grows, so a smaller one shows that the database went back in time.
    Column("renewals", BigWhole, nullable=False, server_default="0"),
    # The account it runs as, and whether it may run commands as others. NULL: an older agent.
    Column("account", Words),
    Column("uid", Whole),
    Column("any_account", Boolean),
    # The names of the channels by which it can send messages.
    Column("channels", Json(list, of=str), nullable=False, server_default="[]"),
    # The accounts whose tasks its policy accepts, by name and by number; NULL: an older agent, which accepts
    # what it may do. The rules of the policy, for people alone: the node judges by its file. Their digest, if
    # there is more than accounts. Why a changed file is not in force; NULL if it is.
    Column("accepted_accounts", Json(list, of=str)),
    Column("policy", Json()),
    Column("policy_digest", Words),
    Column("policy_error", Words),
    CheckConstraint("slots >= 1", name="nodes_slots_positive"),
    CheckConstraint("(died_at IS NULL) = (died_how IS NULL)", name="nodes_died_how"),
    CheckConstraint("died_how IN ('stopped', 'dead')", name="nodes_died_how_known"),
)
# Not by `alive_until`: Postgres updates a row in its place only if no index has a changed column.
partial_index("nodes_alive", nodes.c.id, where="died_at IS NULL")
partial_index("nodes_died", nodes.c.died_at, where="died_at IS NOT NULL")

output = Table(
    "output",
    metadata,
    Column("run_id", BigWhole, primary_key=True, autoincrement=False),
    # Position of the chunk in all that the run wrote; a gap between chunks is dropped output.
    Column("byte_offset", BigWhole, primary_key=True, autoincrement=False),
    Column("stream", Words, nullable=False),
    Column("at", Instant, nullable=False),
    Column("lines", Whole, nullable=False),
    Column("data", LargeBinary, nullable=False),
    CheckConstraint("stream IN ('out', 'err')", name="output_stream_known"),
)

changes = Table(
    "changes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("task_id", BigWhole),
    Column("task", Name),
    Column("version", Whole),
    Column("before", Json()),
    Column("after", Json()),
    # The user that the server has authenticated; the actor is what the client claims.
    Column("login", Words, default=Login()),
    # What was changed: task, run, calendar, queue, setting, node, alert or database.
    Column("kind", Words, nullable=False, server_default="task"),
    Column("via", Words),
    Column("note", Words),
    # All changes of one act have the same batch.
    Column("batch", Words),
    # The change that this one undoes.
    Column("undoes", BigWhole),
    sqlite_autoincrement=True,
)
Index("changes_of_task", changes.c.task, changes.c.id)
Index("changes_of_line", changes.c.task_id, changes.c.id)
Index("changes_of_actor", changes.c.actor, changes.c.id)
partial_index("changes_of_batch", changes.c.batch, where="batch IS NOT NULL")
partial_index("changes_undone", changes.c.undoes, where="undoes IS NOT NULL")
partial_index("changes_incidents", changes.c.id, where=INCIDENT)

calendars = Table(
    "calendars",
    metadata,
    Column("name", Name, primary_key=True),
    Column("content", Json(), nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Words, nullable=False),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="calendars_name_length"),
)
keep_inert(calendars.c.name, "A-Za-z0-9._-", "{1,100}")

# A queue without a row here has no limit.
queues = Table(
    "queues",
    metadata,
    Column("name", Name, primary_key=True),
    Column("max_running", Whole),
    Column("changed_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("changed_by", Words),
    CheckConstraint("max_running BETWEEN 0 AND 1000000", name="queues_max_running"),
    check_on("queues_types", of_types(max_running="'integer', 'null'"), "sqlite"),
    *one_word("queues", "name"),
)

# Shared by all users of the crontab. `dcron.settings.registry` declares them.
settings = Table(
    "settings",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", Words, nullable=False),
    Column("changed_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("changed_by", Words),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="settings_name_length"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Name, nullable=False),
    Column("payload", Words),
    Column("key", Words),
    Column("created_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("created_by", Words),
    Column("handled_at", Instant),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="events_name_length"),
    CheckConstraint("length(key) BETWEEN 1 AND 200", name="events_key_length"),
    check_on("events_times", " AND ".join(map(readable_time, ("created_at", "handled_at"))), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("events_unhandled", events.c.id, where=UNHANDLED)
partial_index("events_once", events.c.name, events.c.key, where="key IS NOT NULL", unique=True)

# The events and upstream tasks that schedules name, for lookups.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("task_id", BigWhole, primary_key=True, autoincrement=False),
    Column("kind", Words, primary_key=True),
    Column("source", Name, primary_key=True),
    CheckConstraint("kind IN ('event', 'task')", name="subscriptions_kind"),
)
Index("subscriptions_source", subscriptions.c.kind, subscriptions.c.source)

# The labels of tasks, for look-ups. Only triggers write it, from `crontab.labels`.
task_labels = Table(
    "task_labels",
    metadata,
    Column("task_id", BigWhole, primary_key=True, autoincrement=False),
    Column("key", Name, primary_key=True),
    Column("value", Name, nullable=False),
)
keep_inert(task_labels.c.key, "A-Za-z0-9_./-", "{1,40}")
keep_inert(task_labels.c.value, "A-Za-z0-9_./-", "{0,60}")
Index("task_labels_tasks", task_labels.c.key, task_labels.c.value, task_labels.c.task_id)

# Times in which nothing starts by itself.
freezes = Table(
    "freezes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("from_at", Instant, nullable=False),
    # NULL: until it is thawed.
    Column("until_at", Instant),
    Column("reason", Words),
    # The labels of the tasks that it is about; NULL: all tasks.
    Column("selector", Words),
    Column("created_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("created_by", Words),
    Column("thawed_at", Instant),
    Column("thawed_by", Words),
    check_on("freezes_times", " AND ".join(map(readable_time, FREEZE_TIMES)), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("freezes_not_thawed", freezes.c.id, where=NOT_THAWED)

# Work of dcron on its own tables. One node at a time does a job: the holder, until `held_until`.
maintenance_jobs = Table(
    "maintenance_jobs",
    metadata,
    Column("name", Name, primary_key=True),
    Column("due_at", Instant, nullable=False),
    Column("holder", Words),
    Column("held_until", Instant),
    # How far the round under way has come; the next holder continues there.
    Column("position", Json(), nullable=False, server_default="{}"),
    # The last round that was finished: when, how many seconds it took, and the rows it handled by kind.
    Column("ran_at", Instant),
    Column("seconds", Number),
    Column("done", Json(), nullable=False, server_default="{}"),
    # Why the last step failed; NULL if it did not.
    Column("error", Words),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="maintenance_jobs_name_length"),
)

# What retention keeps in any case: all runs of a task, or one run.
holds = Table(
    "holds",
    metadata,
    Column("id", Id, primary_key=True),
    Column("task_id", BigWhole),
    Column("run_id", BigWhole),
    # The task's name when it was put on hold.
    Column("task", Name, nullable=False),
    Column("reason", Words, nullable=False),
    Column("created_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("created_by", Words),
    CheckConstraint("(task_id IS NULL) <> (run_id IS NULL)", name="holds_task_or_run"),
    check_on("holds_created_at", readable_time("created_at"), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("holds_task", holds.c.task_id, where="task_id IS NOT NULL", unique=True)
partial_index("holds_run", holds.c.run_id, where="run_id IS NOT NULL", unique=True)

# What one task's runs of one UTC day come to. It outlives the runs.
daily_statistics = Table(
    "daily_statistics",
    metadata,
    Column("task_id", BigWhole, primary_key=True, autoincrement=False),
    Column("day", Day, primary_key=True),
    Column("task", Name, nullable=False),
    *(
        Column(state, BigWhole, nullable=False, server_default="0")
        for state in ("succeeded", "failed", "lost", "cancelled", "skipped")
    ),
    # Seconds that the runs took, and the longest of them.
    Column("seconds", Number, nullable=False, server_default=text("0")),
    Column("longest", Number),
    # Seconds between due time and start, in sum and at most.
    Column("late_seconds", Number, nullable=False, server_default=text("0")),
    Column("latest", Number),
    # How many runs had durations of each range.
    Column("buckets", Json(), nullable=False, server_default="{}"),
    *one_day("daily_statistics"),
)
Index("daily_statistics_of_day", daily_statistics.c.day)

# The UTC days whose runs are summed up. Retention keeps the runs of all other days.
summed_days = Table(
    "summed_days",
    metadata,
    Column("day", Day, primary_key=True),
    Column("summed_at", Instant, nullable=False),
    Column("archived_at", Instant),
    # When the first of its runs was pruned: from then on they cannot be counted again.
    Column("pruned_at", Instant),
    *one_day("summed_days"),
)

# Files with runs that were written before they were pruned.
archives = Table(
    "archives",
    metadata,
    Column("id", Id, primary_key=True),
    Column("day", Day, nullable=False),
    Column("first_run", BigWhole, nullable=False),
    Column("last_run", BigWhole, nullable=False),
    Column("runs", BigWhole, nullable=False),
    Column("url", Words, nullable=False, unique=True),
    Column("bytes", BigWhole, nullable=False),
    Column("sha256", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    *one_day("archives"),
    sqlite_autoincrement=True,
)
Index("archives_of_day", archives.c.day)
Index("archives_of_run", archives.c.first_run, archives.c.last_run)

# What is wrong, or was: one open alert per kind and subject.
alerts = Table(
    "alerts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Name, nullable=False),
    # `task:ID`, `node:NAME`, `job:NAME`, `channel:NAME` or `cluster`.
    Column("subject", Name, nullable=False),
    Column("task_id", BigWhole),
    Column("task", Name),
    Column("opened_at", Instant, nullable=False),
    Column("run_id", BigWhole),
    # How often its cause was seen, and when last.
    Column("times", BigWhole, nullable=False, server_default="1"),
    Column("last_at", Instant, nullable=False),
    Column("last_run_id", BigWhole),
    # When its last notification was written, and when the next reminder is due.
    Column("notified_at", Instant),
    Column("remind_at", Instant),
    Column("acknowledged_by", Words),
    Column("acknowledged_at", Instant),
    Column("acknowledged_note", Words),
    Column("silent_until", Instant),
    Column("closed_at", Instant),
    Column("facts", Json(), nullable=False, server_default="{}"),
    # recovered, removed or paused. Agents of releases before it close alerts without it.
    Column("closed_as", Words),
    CheckConstraint("length(kind) BETWEEN 1 AND 40", name="alerts_kind_length"),
    CheckConstraint("length(subject) BETWEEN 1 AND 300", name="alerts_subject_length"),
    check_on("alerts_times", " AND ".join(map(readable_time, ALERT_TIMES)), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("alerts_open", alerts.c.kind, alerts.c.subject, where=OPEN, unique=True)
partial_index("alerts_open_of_task", alerts.c.task_id, where=OPEN)
partial_index("alerts_of_task", alerts.c.task_id, alerts.c.opened_at, where="task_id IS NOT NULL")
partial_index("alerts_remind", alerts.c.remind_at, where=f"{OPEN} AND remind_at IS NOT NULL")
partial_index("alerts_closed", alerts.c.closed_at, where="closed_at IS NOT NULL")

# What is to be sent, was sent, or could not be sent, by each channel.
notifications = Table(
    "notifications",
    metadata,
    Column("id", Id, primary_key=True),
    # NULL for the output of a run.
    Column("alert_id", BigWhole),
    Column("run_id", BigWhole),
    Column("task_id", BigWhole),
    Column("channel", Name, nullable=False),
    Column("kind", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("tries", Whole, nullable=False, server_default="0"),
    # The node that is sending it, until `held_until`.
    Column("holder", Words),
    Column("held_until", Instant),
    Column("sent_at", Instant),
    Column("sent_by", Words),
    Column("gave_up_at", Instant),
    Column("error", Words),
    Column("facts", Json(), nullable=False, server_default="{}"),
    CheckConstraint("length(channel) BETWEEN 1 AND 300", name="notifications_channel_length"),
    check_on("notifications_times", " AND ".join(map(readable_time, NOTIFICATION_TIMES)), "sqlite"),
    sqlite_autoincrement=True,
)
partial_index("notifications_waiting", notifications.c.channel, notifications.c.due_at, where=UNSENT)
partial_index(
    "notifications_sent", notifications.c.channel, notifications.c.sent_at, where="sent_at IS NOT NULL"
)
partial_index("notifications_of_alert", notifications.c.alert_id, where="alert_id IS NOT NULL")

for _table in metadata.tables.values():
    if _table is runs:
        limit_times_at_once(runs)
    else:
        limit_times(_table)
    limit_ids(_table)
write_labels_by_row(metadata)

for _table in (runs, output):
    # By default Postgres vacuums when a fifth of a table has changed: of a long history that is days of runs.
    store(
        _table,
        autovacuum_vacuum_scale_factor=0.01,
        autovacuum_vacuum_threshold=10000,
        autovacuum_analyze_scale_factor=0.02,
    )
# Room for the new version of a row beside it: every claim and every heartbeat writes a node's row.
store(nodes, fillfactor=50)
