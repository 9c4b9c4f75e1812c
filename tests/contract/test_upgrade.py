"""A crontab that an earlier dcron made: refused with the way out, then upgraded with all that is in it."""

import pytest
from sqlalchemy import text

from dcron import migrations
from dcron.database import Database
from dcron.errors import SchemaVersionError
from dcron.model import RunState
from dcron.policy import read_lane
from dcron.schema import SCHEMA_VERSION
from dcron.services.crontab import Crontab
from dcron.store.runs import RunFilter


@pytest.fixture
def old_database(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The tables of the first version, with a line, its next run and one that has ended."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "SCHEMA_VERSION", "0001")
        migrations.upgrade(database)
    with database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO crontab (name, schedule, timezone, command, planned_version)"
                " VALUES ('nightly', '30 2 * * *', 'Europe/Berlin', 'backup', 1)"
            )
        )
        run = "INSERT INTO runs (task_id, task, trigger, state, scheduled_for, due_at, finished_at, spec)"
        due = "'2099-01-01 01:30:00'"
        spec = '{"schedule": "30 2 * * *", "timezone": "Europe/Berlin"}'
        for state, finished in (("waiting", "NULL"), ("succeeded", "'2026-11-19 01:30:00'")):
            values = f"1, 'nightly', 'schedule', '{state}', {due}, {due}, {finished}, :spec"
            connection.execute(text(f"{run} VALUES ({values})"), {"spec": spec})
    return database


def test_an_older_crontab_is_refused_until_it_is_upgraded(old_database: Database) -> None:
    with pytest.raises(
        SchemaVersionError, match=rf"version 0001 .* needs {SCHEMA_VERSION}: run `dcron db upgrade`"
    ):
        Crontab(old_database, "tester@here")
    assert migrations.upgrade(old_database) == "0001"
    assert migrations.current_version(old_database) == SCHEMA_VERSION
    assert migrations.upgrade(old_database) == SCHEMA_VERSION


def test_an_upgrade_keeps_lines_and_runs(old_database: Database) -> None:
    migrations.upgrade(old_database)
    crontab = Crontab(old_database, "tester@here")
    task = crontab.get("nightly")
    assert (task.command, task.gap, task.fold, task.not_before, task.except_calendar) == (
        *("backup", "after", "first", None, None),
    )
    assert {run.state for run in crontab.runs(RunFilter(), 10)} == {RunState.WAITING, RunState.SUCCEEDED}
    edited = crontab.edit(task, {"gap": "skip"})
    assert edited.gap == "skip"


def test_an_upgrade_brings_times_that_no_program_can_read_within_reach(old_database: Database) -> None:
    if old_database.is_sqlite:
        beyond = "UPDATE runs SET started_at = 'not a time' WHERE state = 'succeeded'"
    else:
        beyond = (
            "UPDATE runs SET started_at = '-infinity', finished_at = 'infinity' WHERE state = 'succeeded'"
        )
    with old_database.write() as connection:
        connection.execute(text(beyond))
    migrations.upgrade(old_database)
    [ended] = Crontab(old_database, "tester@here").runs(RunFilter(states=[RunState.SUCCEEDED]), 10)
    assert ended.started_at is not None
    assert ended.started_at.year in (1, 1970)
    assert ended.claimed_at is None


def test_an_upgrade_sends_what_waits_under_an_account_to_agents_that_have_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "SCHEMA_VERSION", "0003")
        migrations.upgrade(database)
    node = " node=web-1-3f9c2a7e"
    rows = [
        ("default", '{"user": "deploy"}', None),
        ("mail priority=low", '{"user":"a b"}', None),
        (f"default{node}", '{"user": "deploy"}', "web-1-3f9c2a7e"),
        ("default", '{"command": "echo \\"user\\""}', None),
        ("default", "user: not JSON", None),
    ]
    insert = (
        "INSERT INTO runs (task_id, task, trigger, state, scheduled_for, due_at, lane, spec, for_node) VALUES"
        " (1, 'a', 'manual', 'waiting', '2027-01-01 00:00:00', '2027-01-01 00:00:00', :lane, :spec, :node)"
    )
    with database.write() as connection:
        for lane, spec, for_node in rows:
            connection.execute(text(insert), {"lane": lane, "spec": spec, "node": for_node})
    migrations.upgrade(database)
    with database.read() as connection:
        lanes = list(connection.scalars(text("SELECT lane FROM runs ORDER BY id")))
    assert lanes == [
        *("default user=deploy", "mail priority=low user=a%20b", f"default user=deploy{node}"),
        *("default", "default"),
    ]
    assert all(str(read_lane(lane)) == lane for lane in lanes)
