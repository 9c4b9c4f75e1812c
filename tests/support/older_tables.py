"""A database as the oldest release that can be upgraded made it, with rows in all its tables."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, inspect
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import Database
from tests.support.databases import execute

OLDEST = migrations.known_versions()[0]
_DATA = Path(__file__).parents[1] / "data"
THEN = "'2026-11-19 01:30:00.000000'"
LATER = "'2099-01-01 01:30:00.000000'"
SPEC = """'{"schedule":"30 2 * * *","timezone":"Europe/Berlin","command":"backup"}'"""
ROWS: dict[str, Sequence[dict[str, str]]] = {
    "crontab": [
        {
            "name": f"'task-{number}'",
            "schedule": "'30 2 * * *'",
            "timezone": "'Europe/Berlin'",
            "command": "'backup --full'",
            "env": """'{"A":"1"}'""",
            "planned_version": "1",
        }
        for number in range(3)
    ],
    "runs": [
        {
            "task_id": "1",
            "task": "'task-0'",
            "trigger": f"'{trigger}'",
            "state": f"'{state}'",
            "scheduled_for": LATER if state == "waiting" else THEN,
            "due_at": LATER if state == "waiting" else THEN,
            "spec": SPEC,
            **more,
        }
        for trigger, state, more in (
            ("schedule", "waiting", {}),
            ("schedule", "succeeded", {"started_at": THEN, "finished_at": THEN, "exit_code": "0"}),
            ("manual", "failed", {"started_at": THEN, "finished_at": THEN, "dead_at": THEN}),
            ("schedule", "skipped", {"finished_at": THEN, "reason": "'overlap: the run before'"}),
            (
                "manual",
                "running",
                {"owner": "'web-1-00000000'", "claimed_at": THEN, "started_at": THEN},
            ),
            ("reboot", "waiting", {"for_node": "'web-1-00000000'"}),
        )
    ],
    "nodes": [
        {
            "id": "'web-1-00000000'",
            "name": "'web-1'",
            "host": "'web-1'",
            "pid": "1",
            "slots": "4",
            "version": "'0.1'",
            "tzdata": "'2026a'",
            "started_at": THEN,
            "alive_until": LATER,
        }
    ],
    "output": [
        {"run_id": "2", "byte_offset": "0", "stream": "'out'", "at": THEN, "lines": "1", "data": "'hello'"}
    ],
    "changes": [{"at": THEN, "actor": "'ann@desk'", "action": "'add'", "task_id": "1", "task": "'task-0'"}],
    "calendars": [
        {"name": "'holidays'", "content": """'{"days":[]}'""", "changed_at": THEN, "changed_by": "'ann@desk'"}
    ],
    "queues": [{"name": "'mail'", "max_running": "2"}],
    "events": [{"name": "'done'", "payload": "'x'"}],
    "settings": [{"name": "'timezone'", "value": "'Europe/Berlin'"}],
    "subscriptions": [{"task_id": "1", "kind": "'event'", "source": "'done'"}],
    "task_labels": [{"task_id": "1", "key": "'team'", "value": "'shop'"}],
    "freezes": [{"from_at": THEN, "until_at": LATER, "reason": "'move'", "created_by": "'ann@desk'"}],
    "maintenance_jobs": [{"name": "'prune'", "due_at": LATER, "position": """'{"after":5}'"""}],
    "holds": [{"run_id": "2", "task": "'task-0'", "reason": "'audit'", "created_by": "'ann@desk'"}],
    "daily_statistics": [{"task_id": "1", "day": "'2026-11-19'", "task": "'task-0'", "succeeded": "5"}],
    "summed_days": [{"day": "'2026-11-19'", "summed_at": THEN}],
    "archives": [
        {
            "day": "'2026-11-19'",
            "first_run": "1",
            "last_run": "2",
            "runs": "2",
            "url": "'file:///srv/2026-11-19/000.jsonl.gz'",
            "bytes": "300",
            "sha256": "'5f'",
            "created_at": THEN,
        }
    ],
    "alerts": [
        {"kind": "'failing'", "subject": "'task:1'", "task_id": "1", "opened_at": THEN, "last_at": THEN}
    ],
    "notifications": [
        {
            "alert_id": "1",
            "channel": "'ops'",
            "kind": "'opened'",
            "created_at": THEN,
            "due_at": THEN,
            "sent_at": THEN,
        }
    ],
}


def make_oldest_tables(url: str) -> None:
    """Make the tables of the oldest version in an empty database, as that version made them."""
    if url.startswith("postgres"):
        execute(url, (_DATA / f"tables_{OLDEST}_postgres.sql").read_text())
        return
    connection = sqlite3.connect(make_url(url).database or "")
    connection.executescript((_DATA / f"tables_{OLDEST}_sqlite.sql").read_text())
    connection.close()


def fill(database: Database) -> None:
    """Write the rows of `ROWS` to all tables."""
    with database.write() as connection:
        tables = own_tables(connection)
        assert tables <= set(ROWS), "a table without rows here"
        for table in sorted(tables):
            for row in ROWS[table]:
                data = dict(row)
                if table == "output" and not database.is_sqlite:
                    data["data"] = "'hello'::bytea"
                insert(connection, table, data)


def own_tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {migrations.VERSION_TABLE, "sqlite_sequence"}


def insert(connection: Connection, table: str, row: dict[str, str], how: str = "") -> None:
    statement = f"INSERT INTO {table} ({', '.join(row)}) {how} VALUES ({', '.join(row.values())})"
    connection.exec_driver_sql(statement)
