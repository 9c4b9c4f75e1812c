"""The tables, and the rules of the state machine as constraints (docs/architecture.md); migrations make them.

Times are `timestamptz` on Postgres and UTC text (`2027-03-28 01:00:00.000000`) on SQLite.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    func,
    text,
)

from dcron.model import Block, RunState, Trigger
from dcron.validation import (
    LONGEST_JITTER,
    LONGEST_TIMEOUT,
    MOST_BACKOFF_FACTOR,
    MOST_TRIES,
    Unreadable,
)

SCHEMA_VERSION = "0003"
"""The newest migration this program knows; a test holds it against the migrations themselves."""


class Instant(TypeDecorator[datetime]):
    """A moment: aware and in UTC in Python, whatever the database makes of it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times: they have no meaning here."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """SQLite gives a time back without its zone; it is always UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """A JSON object, or list, as text: readable, and writable by hand, on both databases."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[dict[str, Any]] | type[list[Any]] = dict) -> None:
        """Take what the outermost value has to be."""
        super().__init__()
        self.kind = kind
        self._empty = "{}" if kind is dict else "[]"

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode; None stays NULL, and what is no UTF-8 is replaced, for it could not be written."""
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Decode; NULL stays None, and a slip of somebody's hand must not fail the rows around it."""
        if value is None:
            return None
        if value == self._empty:  # most are, and a claim reads several of each line
            return self.kind()
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return Unreadable(value)
        return found if isinstance(found, self.kind) else Unreadable(value)


# SQLite makes a growing, never re-used id only from INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

# Names compare by their bytes everywhere, so that prefixes and pages mean the same on both databases.
Name = Text(collation="C").with_variant(Text(), "sqlite")

metadata = MetaData()

# SQLite takes a partial index only for a condition in the index's own words: queries have to use these.
ALIVE = "state IN ('claimed', 'running')"
NEXT = "trigger = 'schedule' AND state IN ('waiting', 'claimed')"
UNHAPPY = "state IN ('failed', 'lost', 'skipped', 'cancelled')"
REBOOT = "schedule LIKE '%@reboot%'"
ONCE = "once"
# Said so because Postgres expects few rows of an equality, and nearly all of `planned_version <> version`.
UNPLANNED = "CASE WHEN planned_version <> version THEN 1 ELSE 0 END = 1"
FINAL = "state IN ('succeeded', 'failed', 'lost', 'skipped', 'cancelled')"
DUE = "state = 'waiting' AND blocked IS NULL"
BLOCKED = "state = 'waiting' AND blocked IS NOT NULL"
EXPIRING = "state = 'waiting' AND expires_at IS NOT NULL"
DEAD = "dead_at IS NOT NULL"
UNHANDLED = "handled_at IS NULL"
LIMITED = "max_running IS NOT NULL"


def _one_of(column: str, values: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"


def _check(name: str, sqltext: str, database: str) -> CheckConstraint:
    """A rule that one of the databases states in its own words, or alone needs."""
    rule = CheckConstraint(sqltext, name=name)
    return rule.ddl_if(dialect=database)


def _of_types(**columns: str) -> str:
    """SQLite keeps any value in any column: what each of these may hold."""
    return " AND ".join(f"typeof({column}) IN ({kinds})" for column, kinds in columns.items())


def _moment(column: str) -> str:
    """A time in UTC such as this program writes, NULL included; times are compared as texts."""
    return (
        f"datetime(substr({column}, 1, 19)) IS substr({column}, 1, 19)"
        f" AND substr({column}, 20, 1) IN ('', '.') AND ltrim(substr({column}, 21), '0123456789') = ''"
    )


def _count(column: str, least: int, most: float) -> CheckConstraint:
    """A number within bounds; on SQLite a text or a blob is above all numbers, so it is kept out too."""
    return CheckConstraint(f"{column} BETWEEN {least} AND {most}", name=f"crontab_{column}")


def _one_word(table: str, column: str) -> Iterator[CheckConstraint]:
    """A name such as tasks have."""
    yield _check(f"{table}_{column}", f"{column} ~ '^[A-Za-z0-9._-]{{1,100}}$'", "postgresql")
    letters = f"{column} NOT GLOB '*[^A-Za-z0-9._-]*' AND instr({column}, char(0)) = 0"
    length = f"length({column}) BETWEEN 1 AND 100"
    yield _check(f"{table}_{column}", f"typeof({column}) = 'text' AND {letters} AND {length}", "sqlite")


def _index(name: str, *columns: Column[Any], where: str, unique: bool = False) -> Index:
    """A partial index, said once for both databases."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


crontab = Table(
    "crontab",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    Column("schedule", Text, nullable=False),
    Column("timezone", Text, nullable=False, server_default="UTC"),
    Column("command", Text, nullable=False),
    Column("argv", Json(list)),
    Column("shell", Text, nullable=False, server_default="/bin/sh"),
    Column("stdin", Text),
    Column("env", Json(), nullable=False, server_default="{}"),
    Column("cwd", Text),
    Column("user", Text),
    Column("timeout", Float),
    Column("max_running", Integer, server_default="1"),
    Column("gap", Text, nullable=False, server_default="after"),
    Column("fold", Text, nullable=False, server_default="first"),
    Column("not_before", Instant),
    Column("not_after", Instant),
    Column("except_calendar", Name),
    Column("only_calendar", Name),
    Column("overlap", Text, nullable=False, server_default="skip"),
    Column("tries", Integer, nullable=False, server_default=text("1")),
    Column("backoff", Float, nullable=False, server_default=text("1")),
    Column("backoff_factor", Float, nullable=False, server_default=text("2")),
    Column("backoff_max", Float, nullable=False, server_default=text("3600")),
    Column("on_lost", Text, nullable=False, server_default="dead"),
    Column("deadline", Float),
    Column("catch_up", Text, nullable=False, server_default="last"),
    Column("catch_up_window", Float),
    Column("jitter", Float),
    Column("priority", Text, nullable=False, server_default="normal"),
    Column("queue", Name, nullable=False, server_default="default"),
    Column("require", Json(list), nullable=False, server_default="[]"),
    Column("every_node", Boolean, nullable=False, server_default=text("false")),
    Column("need", Json(), nullable=False, server_default="{}"),
    Column("limit", Json(), nullable=False, server_default="{}"),
    Column("describe", Text),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("paused_reason", Text),
    Column("paused_by", Text),
    Column("paused_at", Instant),
    Column("paused_until", Instant),
    # A one-off made by `at` or `in`: the line goes when its run has ended.
    Column("once", Boolean, nullable=False, server_default=text("false")),
    # Why no next run could be planned; NULL when all is well.
    Column("error", Text),
    # The optimistic lock: every edit adds one. A line whose two versions differ has yet to be planned.
    Column("version", Integer, nullable=False, server_default="1"),
    Column("planned_version", Integer, nullable=False, server_default="0"),
    Column("changed_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("changed_by", Text),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="crontab_name_length"),
    CheckConstraint("length(schedule) BETWEEN 1 AND 256", name="crontab_schedule_length"),
    CheckConstraint("length(command) > 0", name="crontab_command_given"),
    CheckConstraint(f"timeout > 0 AND timeout <= {LONGEST_TIMEOUT}", name="crontab_timeout_range"),
    CheckConstraint("max_running >= 1", name="crontab_max_running_positive"),
    CheckConstraint("gap IN ('after', 'skip')", name="crontab_gap"),
    CheckConstraint("fold IN ('first', 'both')", name="crontab_fold"),
    CheckConstraint("overlap IN ('skip', 'queue', 'replace')", name="crontab_overlap"),
    CheckConstraint("on_lost IN ('dead', 'retry')", name="crontab_on_lost"),
    CheckConstraint("catch_up IN ('skip', 'last', 'all')", name="crontab_catch_up"),
    CheckConstraint("priority IN ('high', 'normal', 'low')", name="crontab_priority"),
    _count("tries", 1, MOST_TRIES),
    _count("backoff", 0, LONGEST_TIMEOUT),
    _count("backoff_factor", 1, MOST_BACKOFF_FACTOR),
    _count("backoff_max", 0, LONGEST_TIMEOUT),
    _count("deadline", 0, LONGEST_TIMEOUT),
    _count("catch_up_window", 0, LONGEST_TIMEOUT),
    _count("jitter", 0, LONGEST_JITTER),
    *_one_word("crontab", "queue"),
    _check("crontab_require", "typeof(require) = 'text'", "sqlite"),
    _check("crontab_every_node", "every_node IN (0, 1)", "sqlite"),
    _check("crontab_need", "typeof(need) = 'text'", "sqlite"),
    _check("crontab_limit", "typeof(\"limit\") = 'text'", "sqlite"),
    CheckConstraint("NOT enabled OR (paused_at IS NULL AND paused_until IS NULL)", name="crontab_paused"),
    _check("crontab_name_letters", "name ~ '^[A-Za-z0-9._-]+$'", "postgresql"),
    _check(
        "crontab_name_letters", "name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0", "sqlite"
    ),
    _check(
        "crontab_types",
        _of_types(
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
    _check(
        "crontab_times",
        " AND ".join(_moment(column) for column in ("paused_at", "paused_until", "changed_at")),
        "sqlite",
    ),
    _check("crontab_not_before", _moment("not_before"), "sqlite"),
    _check("crontab_not_after", _moment("not_after"), "sqlite"),
    sqlite_autoincrement=True,
)
_index("crontab_unplanned", crontab.c.id, where=UNPLANNED)
_index("crontab_paused_until", crontab.c.paused_until, where="paused_until IS NOT NULL")
_index("crontab_reboot", crontab.c.id, where=REBOOT)
_index("crontab_except_calendar", crontab.c.except_calendar, where="except_calendar IS NOT NULL")
_index("crontab_only_calendar", crontab.c.only_calendar, where="only_calendar IS NOT NULL")
_index("crontab_once", crontab.c.id, where=ONCE)

runs = Table(
    "runs",
    metadata,
    # Grows with every attempt: it is the fencing token.
    Column("id", Id, primary_key=True),
    # No foreign key: a line may go, its history stays.
    Column("task_id", BigInteger, nullable=False),
    Column("task", Name, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("retry_of", BigInteger),
    Column("scheduled_for", Instant, nullable=False),
    # When it may be claimed.
    Column("due_at", Instant, nullable=False),
    # The only node that may take it; NULL is any.
    Column("for_node", Text),
    Column("claimed_at", Instant),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("owner", Text),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("dead_at", Instant),
    Column("cancel_requested_by", Text),
    Column("payload", Text),
    # What is executed: a copy, so that an edit cannot change a run that is under way.
    Column("spec", Json(), nullable=False),
    # The version of the time zones by which it was planned.
    Column("tzdata", Text),
    # What a node must be and have to take it, and how urgent it is: one text, so that one index serves all.
    Column("lane", Name, nullable=False, server_default="default"),
    Column("queue", Name, nullable=False, server_default="default"),
    # Why it is out of the due ones for now; whatever ends the cause clears it.
    Column("blocked", Text),
    Column("expires_at", Instant),
    Column("backlog_until", Instant),
    Column("flow", BigInteger),
    Column("event_id", BigInteger),
    CheckConstraint(_one_of("state", RunState), name="runs_state_known"),
    CheckConstraint(_one_of("trigger", Trigger), name="runs_trigger_known"),
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
        f"blocked IS NULL OR state = 'waiting' AND {_one_of('blocked', Block)}", name="runs_blocked"
    ),
    _check("runs_expires_at", _moment("expires_at"), "sqlite"),
    _check("runs_backlog_until", _moment("backlog_until"), "sqlite"),
    _check("runs_times", " AND ".join(_moment(column) for column in ("scheduled_for", "due_at")), "sqlite"),
    sqlite_autoincrement=True,
)
_index(
    "runs_next",
    runs.c.task_id,
    where=NEXT,
    unique=True,
)
_index("runs_retry", runs.c.retry_of, where="retry_of IS NOT NULL", unique=True)
_index("runs_due", runs.c.lane, runs.c.due_at, runs.c.id, where=DUE)
_index("runs_blocked_of", runs.c.task_id, runs.c.due_at, runs.c.id, where=BLOCKED)
_index("runs_expiring", runs.c.expires_at, where=EXPIRING)
_index("runs_waiting", runs.c.task_id, runs.c.due_at, runs.c.id, where="state = 'waiting'")
_index("runs_for_node", runs.c.for_node, where="state = 'waiting' AND for_node IS NOT NULL")
_index("runs_owned", runs.c.owner, where=ALIVE)
_index("runs_alive", runs.c.task_id, where=ALIVE)
_index("runs_alive_of_queue", runs.c.queue, where=ALIVE)
Index("runs_of_task", runs.c.task_id, runs.c.id)
_index("runs_of_time", runs.c.task_id, runs.c.scheduled_for, where="finished_at IS NOT NULL")
_index("runs_of_flow", runs.c.flow, runs.c.task_id, where="flow IS NOT NULL")
_index(
    "runs_once_a_flow",
    runs.c.flow,
    runs.c.task_id,
    where="trigger = 'after' AND state <> 'skipped'",
    unique=True,
)
_index("runs_once_an_event", runs.c.event_id, runs.c.task_id, where="trigger = 'event'", unique=True)
_index("runs_unhappy", runs.c.state, runs.c.id, where=UNHAPPY)
_index("runs_finished", runs.c.finished_at, where="finished_at IS NOT NULL")
_index("runs_dead", runs.c.id, where=DEAD)
_index("runs_dead_of", runs.c.task_id, runs.c.id, where=DEAD)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("tzdata", Text, nullable=False),
    Column("tzdata_fingerprint", Text),
    Column("started_at", Instant, nullable=False),
    Column("alive_until", Instant, nullable=False),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    # Set once, by the node when it stops or by whoever finds its lease over; then it may write no more.
    Column("died_at", Instant),
    Column("died_how", Text),
    # Seconds the node's clock is ahead of the database's.
    Column("clock_offset", Float),
    Column("tags", Json(list), nullable=False, server_default="[]"),
    # None means all.
    Column("queues", Json(list), nullable=False, server_default="[]"),
    Column("capacity", Json(), nullable=False, server_default="{}"),
    CheckConstraint("slots >= 1", name="nodes_slots_positive"),
    CheckConstraint("(died_at IS NULL) = (died_how IS NULL)", name="nodes_died_how"),
    CheckConstraint("died_how IN ('stopped', 'dead')", name="nodes_died_how_known"),
)
_index("nodes_alive", nodes.c.alive_until, where="died_at IS NULL")
_index("nodes_died", nodes.c.died_at, where="died_at IS NOT NULL")

output = Table(
    "output",
    metadata,
    Column("run_id", BigInteger, primary_key=True, autoincrement=False),
    # Where the chunk begins in all the run wrote; a gap between chunks is what was dropped.
    Column("byte_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("stream", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    CheckConstraint("stream IN ('out', 'err')", name="output_stream_known"),
)

changes = Table(
    "changes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("task_id", BigInteger),
    Column("task", Name),
    Column("version", Integer),
    Column("before", Json()),
    Column("after", Json()),
    sqlite_autoincrement=True,
)
Index("changes_of_task", changes.c.task, changes.c.id)
Index("changes_of_line", changes.c.task_id, changes.c.id)

calendars = Table(
    "calendars",
    metadata,
    Column("name", Name, primary_key=True),
    Column("content", Json(), nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Text, nullable=False),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="calendars_name_length"),
)

# A queue without a row here has no limit.
queues = Table(
    "queues",
    metadata,
    Column("name", Name, primary_key=True),
    Column("max_running", Integer),
    Column("changed_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("changed_by", Text),
    CheckConstraint("max_running BETWEEN 0 AND 1000000", name="queues_max_running"),
    _check("queues_types", _of_types(max_running="'integer', 'null'"), "sqlite"),
    *_one_word("queues", "name"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Name, nullable=False),
    Column("payload", Text),
    Column("key", Text),
    Column("created_at", Instant, nullable=False, server_default=func.current_timestamp()),
    Column("created_by", Text),
    Column("handled_at", Instant),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="events_name_length"),
    CheckConstraint("length(key) BETWEEN 1 AND 200", name="events_key_length"),
    _check("events_times", " AND ".join(map(_moment, ("created_at", "handled_at"))), "sqlite"),
    sqlite_autoincrement=True,
)
_index("events_unhandled", events.c.id, where=UNHANDLED)
_index("events_once", events.c.name, events.c.key, where="key IS NOT NULL", unique=True)

# Which tasks wait for an event, or come after another task: what their schedules say, to be looked up.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("task_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("source", Name, primary_key=True),
    CheckConstraint("kind IN ('event', 'task')", name="subscriptions_kind"),
)
Index("subscriptions_source", subscriptions.c.kind, subscriptions.c.source)
