"""An upgrade from every earlier version, with rows in all its tables: nothing is lost, and agents go on."""

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, select, text

from dcron import migrations
from dcron.cli.commands.db import announce
from dcron.database import Database
from dcron.errors import Refused
from dcron.migrations.estimate import estimate_upgrade
from dcron.model import RunState
from dcron.schema import SCHEMA_VERSION, metadata, nodes
from dcron.services.crontab import Crontab
from dcron.store.runs import RunFilter
from tests.contract.test_migrations import shape
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow  # each fills a database of every earlier version and upgrades it

EARLIER = migrations.known_versions()[:-1]
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


def rows_of(connection: Connection, table: str) -> list[dict[str, Any]]:
    order = "1, 2" if table in ("output", "subscriptions", "task_labels", "daily_statistics") else "1"
    return [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY {order}"))]


def insert(connection: Connection, table: str, row: dict[str, str], how: str = "") -> None:
    statement = f"INSERT INTO {table} ({', '.join(row)}) {how} VALUES ({', '.join(row.values())})"
    connection.exec_driver_sql(statement)


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The tables of an earlier version, with rows in each."""
    with monkeypatch.context() as then:
        then.setattr(migrations, "SCHEMA_VERSION", request.param)
        migrations.upgrade(database)
    with database.write() as connection:
        tables = set(inspect(connection).get_table_names()) - {migrations.VERSION_TABLE, "sqlite_sequence"}
        assert tables <= set(ROWS), "a table without rows here"
        for table in sorted(tables):
            for row in ROWS[table]:
                data = dict(row)
                if table == "output" and not database.is_sqlite:
                    data["data"] = "'hello'::bytea"
                insert(connection, table, data)
    return database


def test_every_row_is_there_afterwards(earlier: Database) -> None:
    with earlier.read() as connection:
        tables = set(inspect(connection).get_table_names()) - {migrations.VERSION_TABLE, "sqlite_sequence"}
        before = {table: rows_of(connection, table) for table in tables}
    version = migrations.upgrade(earlier)
    assert version in EARLIER
    with earlier.write() as connection:
        for table, rows in before.items():
            found = rows_of(connection, table)
            assert len(found) == len(rows) > 0
            for row, was in zip(found, rows, strict=True):
                changed = {name for name in was if row[name] != was[name]}
                assert changed <= {"planned_version", "lane", "draining", "alive_until"}, table
        migrated = shape(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        assert shape(connection) == migrated


def test_the_crontab_goes_on_afterwards(earlier: Database) -> None:
    migrations.upgrade(earlier)
    crontab = Crontab(earlier, "tester@here")
    assert [task.name for task in crontab.tasks()] == ["task-0", "task-1", "task-2"]
    task = crontab.get("task-0")
    assert (task.command, dict(task.env or {})) == ("backup --full", {"A": "1"})
    states = {run.state for run in crontab.runs(RunFilter(), 10)}
    assert states == {*RunState} - {RunState.CLAIMED, RunState.LOST, RunState.CANCELLED}
    newest = max(run.id for run in crontab.runs(RunFilter(), 10))
    assert crontab.run(task).id > newest
    assert crontab.edit(task, {"command": "other"}).command == "other"


def test_agents_that_run_are_asked_to_take_nothing_new_and_keep_their_leases(earlier: Database) -> None:
    with earlier.write() as connection:
        until = earlier.now(connection) + timedelta(seconds=40)
        connection.execute(nodes.update().values(alive_until=until))
    assert estimate_upgrade(earlier).agents == ("web-1-00000000",)
    migrations.upgrade(earlier)
    with earlier.read() as connection:
        node = connection.execute(select(nodes.c.alive_until, nodes.c.draining)).one()
    assert node.draining
    assert node.alive_until >= until


def test_an_upgrade_among_busy_agents_is_no_deadlock(
    database: Database, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(migrations, "SCHEMA_VERSION", "0001")
        migrations.upgrade(database)
    with database.write() as connection:
        for table in ("nodes", "runs"):
            insert(connection, table, ROWS[table][0])
    over, failures, rounds = threading.Event(), list[Exception](), [0, 0]

    def be_busy(number: int, statements: Sequence[str]) -> None:
        """Write both tables, again and again, one agent in one order and one in the other."""
        busy = Database(empty_database_url, patience=PATIENCE)
        while not over.is_set():
            try:
                with busy.write() as connection:
                    for statement in statements:
                        connection.execute(text(statement))
                        time.sleep(0.02)
                rounds[number] += 1
            except Exception as error:
                failures.append(error)
                break
            time.sleep(0.02)  # between its transactions an agent holds nothing
        busy.close()

    writes = ["UPDATE nodes SET host = host WHERE false", "UPDATE runs SET attempt = attempt WHERE false"]
    agents = [
        threading.Thread(target=be_busy, args=(number, order))
        for number, order in enumerate((writes, writes[::-1]))
    ]
    for agent in agents:
        agent.start()
    deadline = time.monotonic() + PATIENCE
    while min(rounds) == 0 and not failures and time.monotonic() < deadline:
        time.sleep(0.02)
    migrations.upgrade(database)
    over.set()
    for agent in agents:
        agent.join(PATIENCE)
    assert failures == []
    assert min(rounds) > 0
    assert migrations.current_version(database) == SCHEMA_VERSION


def test_a_long_upgrade_says_so_and_refuses_where_agents_would_lose_what_they_run(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(migrations, "SCHEMA_VERSION", "0002")
        migrations.upgrade(database)
    now = datetime.now(UTC)
    with database.write() as connection:
        for table in ("nodes", "runs"):
            for row in ROWS[table][:1]:
                data = row | ({"id": "50000000"} if table == "runs" else {})
                insert(connection, table, data, "" if database.is_sqlite else "OVERRIDING SYSTEM VALUE")
        connection.execute(nodes.update().values(alive_until=now + timedelta(seconds=60)))
    ahead = estimate_upgrade(database)
    assert ahead.runs == 50_000_000
    assert ahead.seconds > 600
    assert ahead.may_stop_runs
    with pytest.raises(Refused, match=r"50,000,000 runs takes about .*web-1-00000000.*--force"):
        announce(ahead, force=False)
    announce(ahead, force=True)
    assert not outlook_of_a_stopped_fleet(database).may_stop_runs


def outlook_of_a_stopped_fleet(database: Database) -> Any:
    with database.write() as connection:
        connection.execute(nodes.delete())
    return estimate_upgrade(database)


def test_tables_of_this_version_have_nothing_ahead(database: Database) -> None:
    migrations.prepare(database)
    assert migrations.current_version(database) == SCHEMA_VERSION
    assert estimate_upgrade(database).seconds == 0
