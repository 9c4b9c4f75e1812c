"""Write hostile values into every column of every table, as a person with SQL access might."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import count

from sqlalchemy import Column, Connection, Table, text
from sqlalchemy.exc import DBAPIError

from dcron.database import Database
from dcron.schema.tables import metadata

VICTIM = "victim"
"""The task whose runs are made hostile."""

_DEEP = "[" * 3000 + "]" * 3000
_NUMBERS = ("0", "-1", "1", "2147483648", "9223372036854775807", "-9223372036854775808", "1e308", "0.5")
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_TIMES = (
    *("infinity", "-infinity", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
    *("294276-01-01 00:00:00+00", "4000-01-01 00:00:00 BC", "10000-01-01 00:00:00.000000"),
    *("1970-01-01 00:00:00.000000", "2027-02-30 00:00:00.000000", "not a time", "12:00"),
)
_TEXTS = (
    *("", " ", "x", "-", "'", '"', "\\", "%", "a\nb", "a\r\nb", "\x1b]52;c;eA==\x07", "\x9b31m"),
    *("\u2028", "\u202e", "[/nope]", "../../etc/passwd", "=1", "A" * 100_000, "default priority=urgent"),
)
_JSON = (
    *("{}", "[]", "null", "true", "5", '"x"', "[null]", "[1,[2]]", "[[]]", '[{"a":1}]', '{"a":1}'),
    *('{"a":null}', '{"a":NaN}', '{"a":1e999}', '{"a":"x"}', '{"a":[]}', '{"":""}', '{"a":-1}', "{", _DEEP),
    *('{"dates":5}', '{"dates":["x"]}', '{"dates":[],"annual":[],"weekdays":[]}'),
    *('{"recurring":[{}]}', '{"recurring":[{"rule":"x","start":"x","days":"x","exceptions":5}]}'),
    '{"recurring":[{"rule":"FREQ=DAILY","start":"2027-01-01","days":1e300,"exceptions":[]}]}',
    '{"recurring":[{"rule":"FREQ=DAILY","start":"9999-12-31","days":9999999999,"exceptions":[]}]}',
)
_GOOD_SPEC = {"schedule": "@every 1h", "timezone": "UTC", "command": "true"}
_SPECS = tuple(
    json.dumps(_GOOD_SPEC | {name: value})
    for name, value in (
        *(("user", 5), ("user", ""), ("user", "no such account"), ("user", ["x"])),
        *(("command", 5), ("command", None), ("command", ""), ("command", "\0"), ("command", "\ud800")),
        *(("argv", 5), ("argv", "ls"), ("argv", [5]), ("argv", [None]), ("argv", [""]), ("argv", ["a\0b"])),
        *(("env", []), ("env", ["A"]), ("env", {"A": 1}), ("env", {"A": None}), ("env", {"A=B": "x"})),
        *(("env", {"\0": "x"}), ("env", {"A": "\ud800"}), ("env", "A=1"), ("env", {"": ""})),
        *(("stdin", 5), ("stdin", ["x"]), ("stdin", "\ud800"), ("cwd", 5), ("cwd", "x"), ("cwd", "/\0")),
        *(("shell", 5), ("shell", "sh"), ("shell", "/nope"), ("timeout", "x"), ("timeout", float("nan"))),
        *(("timeout", float("inf")), ("timeout", -1), ("timeout", 0), ("timeout", 1e300), ("timeout", [])),
        *(("limit", None), ("limit", 5), ("limit", {"mem": "x"}), ("limit", {"mem": None})),
        *(("limit", {"nope": 1}), ("limit", {"files": 1e300}), ("limit", {"mem": float("nan")})),
        *(("timezone", 5), ("timezone", "Mars/Base"), ("schedule", 5), ("schedule", "x"), ("gap", 5)),
        *(("jitter", "x"), ("jitter", float("nan")), ("not_before", "x"), ("not_after", 5), ("nope", 1)),
    )
)
_BLOBS = (b"", b"\xff\xfe", b"\x00", b"x" * 1000)
VARIANTS: tuple[object, ...] = (None, *_NUMBERS, *_NOT_NUMBERS, *_TIMES, *_TEXTS, *_JSON, *_BLOBS)
"""What is written into any column; a spec gets more of its own."""


@dataclass
class Attack:
    """Hostile rows of one table: how many the database took in, and how many it refused."""

    database: Database
    every: int = 1
    """Write each so-many-th variant alone: of neighbouring columns not the same ones."""
    taken: int = 0
    refused: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def on(self, table: Table) -> None:
        """Write the variants into every column of the table, each into a row of its own."""
        with self.database.write() as connection:
            self._allow_more(connection)
            for number, column in enumerate(table.columns):
                values = (*VARIANTS, *(_SPECS if column.name == "spec" else ()))
                for value in values[number % self.every :: self.every]:
                    self._write(connection, table, column, value)

    def _allow_more(self, connection: Connection) -> None:
        if not self.database.is_sqlite:
            connection.execute(text("SET LOCAL statement_timeout = '60s'"))

    def _write(self, connection: Connection, table: Table, column: "Column[object]", value: object) -> None:
        number = next(self._numbers)
        for typed in self._typed(column, value):
            try:
                with connection.begin_nested():
                    where, key = _make_row(connection, table.name, number)
                    quoted = f'"{column.name}"'
                    query = f"UPDATE {table.name} SET {quoted} = {typed} WHERE {where}"
                    parameters = {"value": value, **key} if ":value" in typed else key
                    changed = connection.execute(text(query), parameters).rowcount
                    assert changed == 1
                    self.taken += 1
            except (DBAPIError, UnicodeEncodeError, ValueError, OverflowError):
                self.refused += 1

    def _typed(self, column: "Column[object]", value: object) -> tuple[str, ...]:
        """The value as the database may take it: on SQLite as several types, on Postgres as the column's."""
        if value is None:
            return ("NULL",)
        if self.database.is_sqlite:
            if isinstance(value, bytes):
                return (":value", "CAST(:value AS TEXT)")
            if value in _NUMBERS:
                return (":value", str(value))
            return ("9e999",) if value == "Infinity" else (":value",)
        if isinstance(value, bytes):
            return (":value",)
        from sqlalchemy.dialects import postgresql

        return (f"CAST(:value AS {column.type.compile(postgresql.dialect())})",)  # type: ignore[no-untyped-call]


_TASK = "INSERT INTO crontab (name, schedule, command, queue) VALUES (:name, '@every 1h', 'true', 'hostile')"
_RUN = (
    "INSERT INTO runs (id, task_id, task, trigger, state, scheduled_for, due_at, spec, lane, queue)"
    " SELECT :id, id, name, 'manual', 'waiting', changed_at, changed_at, :spec, 'hostile', 'hostile'"
    " FROM crontab WHERE name = :name"
)
_NODE = (
    "INSERT INTO nodes (id, name, host, pid, slots, version, tzdata, started_at, alive_until) SELECT"
    " :id, 'hostile', 'h', 1, 1, '0', '2026a', changed_at, changed_at FROM crontab WHERE name = 'victim'"
)
_RUN_IDS = 1_000_000


def _make_row(connection: Connection, table: str, number: int) -> tuple[str, dict[str, object]]:
    """A good row of the table; the condition and parameters by which it is found."""
    spec = json.dumps(_GOOD_SPEC)
    name, key = f"hostile-{table}-{number}", number + _RUN_IDS
    row: dict[str, object] = {"name": name, "spec": spec}
    victim: dict[str, object] = {"name": VICTIM}
    match table:
        case "crontab":
            connection.execute(text(_TASK), {"name": name})
            task_id = connection.scalar(text("SELECT id FROM crontab WHERE name = :name"), {"name": name})
            connection.execute(text(_RUN), {**row, "id": key})
            return "id = :key", {"key": task_id}
        case "runs":
            connection.execute(text(_RUN), {**row, **victim, "id": key})
            return "id = :key", {"key": key}
        case "nodes":
            connection.execute(text(_NODE), {"id": name})
            return "id = :key", {"key": name}
        case "output":
            connection.execute(
                text(
                    "INSERT INTO output (run_id, byte_offset, stream, at, lines, data)"
                    " SELECT :key, 0, 'out', changed_at, 1, :data FROM crontab WHERE name = 'victim'"
                ),
                {"key": key, "data": b"x\n"},
            )
            return "run_id = :key", {"key": key}
        case "changes":
            connection.execute(
                text(
                    "INSERT INTO changes (id, at, actor, action, task_id, task, via, batch) SELECT :key,"
                    " changed_at, 'x', 'set', id, name, 'sql', 'b' FROM crontab WHERE name = 'victim'"
                ),
                {"key": key},
            )
            return "id = :key", {"key": key}
        case "calendars":
            connection.execute(
                text(
                    "INSERT INTO calendars (name, content, changed_at, changed_by)"
                    " SELECT :name, '{}', changed_at, 'x' FROM crontab WHERE name = 'victim'"
                ),
                {"name": name},
            )
            connection.execute(
                text(
                    "INSERT INTO crontab (name, schedule, command, queue, except_calendar, planned_version)"
                    " VALUES (:name, '@every 1h', 'true', 'hostile', :name, 1)"
                ),
                {"name": name},
            )
            as_scheduled = text(_RUN.replace("'manual'", "'schedule'"))
            connection.execute(as_scheduled, {**row, "id": key})
            return "name = :key", {"key": name}
        case "queues":
            connection.execute(text("INSERT INTO queues (name) VALUES (:name)"), {"name": name})
            return "name = :key", {"key": name}
        case "settings":
            connection.execute(
                text("INSERT INTO settings (name, value) VALUES (:name, 'UTC')"), {"name": name}
            )
            return "name = :key", {"key": name}
        case "events":
            connection.execute(
                text("INSERT INTO events (id, name, key) VALUES (:key, 'hostile', :name)"),
                {"key": key, "name": name},
            )
            return "id = :key", {"key": key}
        case "subscriptions":
            connection.execute(
                text("INSERT INTO subscriptions (task_id, kind, source) VALUES (:key, 'event', 'hostile')"),
                {"key": key},
            )
            return "task_id = :key", {"key": key}
        case "task_labels":
            connection.execute(
                text("INSERT INTO task_labels (task_id, key, value) VALUES (:key, 'team', 'hostile')"),
                {"key": key},
            )
            return "task_id = :key", {"key": key}
        case "freezes":
            # It has ended and was thawed: with one of the two changed, it still keeps no task from running.
            connection.execute(
                text(
                    "INSERT INTO freezes (id, from_at, until_at, thawed_at)"
                    " SELECT :key, changed_at, changed_at, changed_at FROM crontab WHERE name = 'victim'"
                ),
                {"key": key},
            )
            return "id = :key", {"key": key}
        case "maintenance_jobs":
            connection.execute(
                text("INSERT INTO maintenance_jobs (name, due_at) VALUES (:name, CURRENT_TIMESTAMP)"),
                {"name": name},
            )
            return "name = :key", {"key": name}
        case "holds":
            connection.execute(
                text("INSERT INTO holds (id, task_id, task, reason) VALUES (:key, :key, 'x', 'x')"),
                {"key": key},
            )
            return "id = :key", {"key": key}
        case "daily_statistics":
            connection.execute(
                text("INSERT INTO daily_statistics (task_id, day, task) VALUES (:key, '2026-11-19', 'x')"),
                {"key": key},
            )
            return "task_id = :key", {"key": key}
        case "summed_days":
            day = {"key": str(date.fromordinal(number + 700_000))}
            connection.execute(
                text("INSERT INTO summed_days (day, summed_at) VALUES (:key, CURRENT_TIMESTAMP)"), day
            )
            return "day = :key", dict(day)
        case "archives":
            connection.execute(
                text(
                    "INSERT INTO archives"
                    " (id, day, first_run, last_run, runs, url, bytes, sha256, created_at)"
                    " VALUES (:key, '2026-11-19', 1, 2, 2, :name, 1, 'x', CURRENT_TIMESTAMP)"
                ),
                {"key": key, "name": name},
            )
            return "id = :key", {"key": key}
        case "alerts":
            connection.execute(
                text(
                    "INSERT INTO alerts (id, kind, subject, task_id, task, opened_at, last_at) SELECT :key,"
                    " 'failing', :name, id, name, changed_at, changed_at FROM crontab WHERE name = 'victim'"
                ),
                {"key": key, "name": name},
            )
            return "id = :key", {"key": key}
        case "notifications":
            connection.execute(
                text(
                    "INSERT INTO notifications (id, alert_id, channel, kind, created_at, due_at)"
                    " VALUES (:key, :key, 'hostile', 'opened', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)"
                ),
                {"key": key},
            )
            return "id = :key", {"key": key}
    raise AssertionError(f"no hostile rows are made for the table {table}: add them here")


TABLES = tuple(metadata.tables.values())
