"""An upgrade of older tables: nothing is lost, agents go on, and what cannot be upgraded is refused."""

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from dcron import migrations
from dcron.cli.commands.db import announce
from dcron.database import Database, open_database
from dcron.errors import DatabaseError, Refused, SchemaVersionError
from dcron.migrations.estimate import estimate_upgrade
from dcron.model import RunState
from dcron.schema.tables import SCHEMA_VERSION, nodes
from dcron.services.crontab import Crontab
from dcron.services.why import Why
from dcron.values.lists import RunFilter
from tests.contract.test_migrations import set_version, shape
from tests.support.older_tables import (
    OLDEST,
    ROWS,
    THEN,
    fill,
    insert,
    make_oldest_tables,
    own_tables,
)
from tests.support.patience import PATIENCE


def rows_of(connection: Connection, table: str) -> list[dict[str, Any]]:
    order = "1, 2" if table in ("output", "subscriptions", "task_labels", "daily_statistics") else "1"
    return [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY {order}"))]


@pytest.fixture
def older(empty_database_url: str) -> Iterator[Database]:
    """The tables of the oldest version, with rows in each."""
    make_oldest_tables(empty_database_url)
    database = open_database(empty_database_url, patience=PATIENCE)
    fill(database)
    yield database
    database.close()


def test_older_tables_are_refused_until_they_are_upgraded(older: Database) -> None:
    message = rf"version {OLDEST} .* needs {SCHEMA_VERSION}: run `dcron db upgrade`"
    with pytest.raises(SchemaVersionError, match=message):
        Crontab(older, "tester@here")
    assert migrations.upgrade(older) == OLDEST
    assert migrations.current_version(older) == SCHEMA_VERSION
    assert migrations.upgrade(older) == SCHEMA_VERSION


@pytest.mark.parametrize("version", ["0001", "0015", "0018"])
def test_tables_that_no_release_had_are_refused_with_the_way_out(older: Database, version: str) -> None:
    set_version(older, version)
    message = rf"version {version}, which no release had: .*`dcron dump FILE`.*`dcron restore FILE`"
    for act in (migrations.prepare, migrations.upgrade):
        with pytest.raises(SchemaVersionError, match=message):
            act(older)
    assert migrations.current_version(older) == version
    assert estimate_upgrade(older).runs == 0


def test_every_row_is_there_afterwards(older: Database) -> None:
    with older.read() as connection:
        before = {table: rows_of(connection, table) for table in own_tables(connection)}
    migrations.upgrade(older)
    with older.write() as connection:
        for table, rows in before.items():
            found = rows_of(connection, table)
            assert len(found) == len(rows) > 0
            for row, was in zip(found, rows, strict=True):
                changed = {name for name in was if row[name] != was[name]}
                assert changed <= {"draining", "alive_until"}, table


def test_a_step_that_fails_changes_nothing(older: Database) -> None:
    with older.write() as connection:
        connection.execute(text("CREATE INDEX runs_unheard ON runs (id)"))
    with older.read() as connection:
        before = shape(connection), {table: rows_of(connection, table) for table in own_tables(connection)}
    with pytest.raises(DatabaseError, match="runs_unheard"):
        migrations.upgrade(older)
    with older.read() as connection:
        after = shape(connection), {table: rows_of(connection, table) for table in own_tables(connection)}
    assert after == before
    assert migrations.current_version(older) == OLDEST


def test_the_crontab_goes_on_afterwards(older: Database) -> None:
    migrations.upgrade(older)
    crontab = Crontab(older, "tester@here")
    assert [task.name for task in crontab.tasks()] == ["task-0", "task-1", "task-2"]
    task = crontab.get("task-0")
    assert (task.command, dict(task.env or {})) == ("backup --full", {"A": "1"})
    states = {run.state for run in crontab.runs(RunFilter(), 10)}
    assert states == {*RunState} - {RunState.CLAIMED, RunState.LOST, RunState.CANCELLED}
    newest = max(run.id for run in crontab.runs(RunFilter(), 10))
    assert crontab.run(task).id > newest
    assert crontab.edit(task, {"command": "other"}).command == "other"


def test_agents_that_run_are_asked_to_take_nothing_new_and_keep_their_leases(older: Database) -> None:
    with older.write() as connection:
        until = older.now(connection) + timedelta(seconds=40)
        connection.execute(nodes.update().values(alive_until=until))
    assert estimate_upgrade(older).agents == ("web-1-00000000",)
    migrations.upgrade(older)
    with older.read() as connection:
        node = connection.execute(select(nodes.c.alive_until, nodes.c.draining)).one()
    assert node.draining
    assert node.alive_until >= until


@pytest.mark.slow
def test_an_upgrade_among_busy_agents_is_no_deadlock(older: Database, empty_database_url: str) -> None:
    over, failures, rounds = threading.Event(), list[Exception](), [0, 0]

    def be_busy(number: int, statements: Sequence[str]) -> None:
        """Write both tables, again and again, one agent in one order and one in the other."""
        busy = open_database(empty_database_url, patience=PATIENCE)
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
    migrations.upgrade(older)
    over.set()
    for agent in agents:
        agent.join(PATIENCE)
    assert failures == []
    assert min(rounds) > 0
    assert migrations.current_version(older) == SCHEMA_VERSION


def test_a_long_upgrade_says_so_and_refuses_where_agents_would_lose_what_they_run(older: Database) -> None:
    now = datetime.now(UTC)
    with older.write() as connection:
        how = "" if older.is_sqlite else "OVERRIDING SYSTEM VALUE"
        insert(connection, "runs", ROWS["runs"][1] | {"id": "50000000"}, how)
        connection.execute(nodes.update().values(alive_until=now + timedelta(seconds=60)))
    ahead = estimate_upgrade(older)
    assert ahead.runs == 50_000_000
    assert ahead.seconds == 250
    assert ahead.may_stop_runs
    with pytest.raises(Refused, match=r"50,000,000 runs takes about .*web-1-00000000.*--force"):
        announce(ahead, force=False)
    announce(ahead, force=True)
    assert not outlook_of_a_stopped_fleet(older).may_stop_runs


def outlook_of_a_stopped_fleet(database: Database) -> Any:
    with database.write() as connection:
        connection.execute(nodes.delete())
    return estimate_upgrade(database)


def test_tables_of_this_version_have_nothing_ahead(database: Database) -> None:
    migrations.prepare(database)
    assert migrations.current_version(database) == SCHEMA_VERSION
    assert estimate_upgrade(database).seconds == 0


def test_a_run_that_an_older_agent_skips_meanwhile_is_explained_by_its_reason(older: Database) -> None:
    migrations.upgrade(older)
    skipped = {"task_id": "2", "task": "'task-1'", "trigger": "'schedule'", "state": "'skipped'"}
    skipped |= dict.fromkeys(("scheduled_for", "due_at", "finished_at"), THEN)
    with older.write() as connection:
        insert(connection, "runs", skipped | {"reason": "'overlap: the run before'", "spec": "'{}'"})
    at = datetime.fromisoformat(THEN.strip("'")).replace(tzinfo=UTC)
    cause, *_ = Why(Crontab(older, "tester@here")).explain("task-1", at)
    assert (cause.code, cause.facts["reason"]) == ("skipped", "overlap: the run before")
