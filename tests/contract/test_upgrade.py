"""A crontab that an earlier dcron made: refused with the way out, then upgraded with all that is in it."""

from datetime import UTC, datetime
from importlib import import_module

import pytest
from sqlalchemy import text

from dcron import migrations
from dcron.database import Database
from dcron.errors import SchemaVersionError
from dcron.model import RunState
from dcron.policy import read_lane
from dcron.schema import SCHEMA_VERSION
from dcron.services.crontab import Crontab
from dcron.services.why import Why
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


@pytest.mark.slow
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


@pytest.mark.slow
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


SPAN = "occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:40:00Z)"
COVERED = (datetime(2027, 6, 1, 12, 10, tzinfo=UTC), datetime(2027, 6, 1, 12, 40, tzinfo=UTC))
SKIPPED_ROWS: list[tuple[str, str, str, int | None, int | None]] = [
    # trigger, reason, the code that `why` gives it, the run that caused it, how many occurrences it covers
    ("schedule", "overlap: the previous run is still alive", "overlap", None, None),
    ("schedule", f"overlap: the run before was still alive (2 {SPAN}", "overlap", None, 2),
    ("schedule", f"missed: no agent was there, or free, to run it (4 {SPAN}", "missed", None, 4),
    ("schedule", "missed: no agent was there, or free, to run it (1 occurrence)", "missed", None, None),
    (
        "schedule",
        f"missed: no agent was there, or free, to run it, and catch-up is skip (more than 1,200 {SPAN}",
        *("missed", None, 1200),
    ),
    ("schedule", f"expired: not started within 2m (3 {SPAN}", "expired", None, 3),
    ("schedule", "expired", "expired", None, None),
    ("schedule", f"paused by ann@desk: maintenance (3 {SPAN}", "paused", None, 3),
    ("event", "paused", "paused", None, None),
    (
        "schedule",
        "it ran ahead of its time, as run 7, while the clock was ahead",
        *("ran-early", 7, None),
    ),
    ("schedule", "on calendar holidays", "calendar", None, None),
    ("schedule", "not on calendar workdays or fridays", "calendar", None, None),
    ("schedule", "there is no calendar 'holidays'", "calendar", None, None),
    ("schedule", "suspended: there is no time zone 'Mars'", "suspended", None, None),
    (
        "manual",
        "what it should execute cannot be read: its spec is not a JSON object",
        *("suspended", None, None),
    ),
    ("schedule", f"no longer wanted: removed by ann@desk (3 {SPAN}", "removed", None, 3),
    ("manual", "no longer wanted: removed", "removed", None, None),
    ("schedule", "no longer wanted", "edited", None, None),
    ("schedule", f"replaced by an edit (3 {SPAN}", "edited", None, 3),
    ("reboot", "its node is gone", "node-gone", None, None),
    ("retry", "run 12 had succeeded after all", "called-off", 12, None),
    ("retry", "run 12 had been cancelled after all", "called-off", 12, None),
    ("after", "early failed (run 3)", "upstream", 3, None),
    ("after", "early was lost (run 3)", "upstream", 3, None),
    ("after", "early was cancelled (run 3)", "upstream", 3, None),
    ("after", "early was skipped (run 3)", "upstream", 3, None),
    ("after", "a, b did not run before early ran again (run 3)", "flow-closed", None, None),
    ("after", "late is suspended: no such zone", "flow-closed", None, None),
    ("after", "overlap: 2 runs are still alive", "overlap", None, None),
    ("schedule", "cannot be prepared: KeyError", "skipped", None, None),
    ("event", "no command can be given what event 5 carries: it is empty", "skipped", None, None),
    # What a person wrote.
    ("schedule", "paused: (2 occurrences, or so)", "paused", None, None),
    ("schedule", "(3 occurrences, 2027-13-01T12:10:00Z to 2027-06-01T12:40:00Z)", "skipped", None, None),
    ("schedule", "(3 occurrences, 9999-12-31T12:10:00Z to 9999-12-31T12:40:00Z)", "skipped", None, None),
    ("schedule", f"(, {SPAN}", "skipped", None, None),
    ("schedule", "", "skipped", None, None),
    ("after", "early failed (run 99999999999999999999)", "upstream", 2**63 - 1, None),
]


@pytest.fixture
def with_reasons(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Tables of the version before skip codes, with a skipped run for each reason that dcron ever wrote."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "SCHEMA_VERSION", "0001")
        migrations.upgrade(database)
    row = (
        "INSERT INTO runs (task_id, task, trigger, state, reason, scheduled_for, due_at, finished_at, spec)"
        " VALUES (:task_id, :task, :trigger, :state, :reason, :at, :at, :at, '{}')"
    )
    at = "2027-06-01 12:40:00.000000" + ("" if database.is_sqlite else "+00")
    with database.write() as connection:
        for number, (trigger, reason, *_) in enumerate(SKIPPED_ROWS, 1):
            # The first version knows no flows, events and retries.
            known = trigger if trigger in ("schedule", "manual", "reboot") else "manual"
            values = {"task_id": number, "task": f"task-{number}", "trigger": known, "state": "skipped"}
            connection.execute(text(row), {**values, "reason": reason, "at": at})
        values = {"task_id": 1000, "task": "task-1000", "trigger": "schedule", "at": at}
        for state, reason in (
            ("cancelled", f"cancelled by ann@desk (3 {SPAN}"),
            ("failed", "timeout: it took longer than it may"),
            ("failed", "exit 3"),
        ):
            connection.execute(text(row), {**values, "state": state, "reason": reason})
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "SCHEMA_VERSION", "0009")
        migrations.upgrade(database)
    with database.write() as connection:
        for number, (trigger, *_) in enumerate(SKIPPED_ROWS, 1):
            values = {"trigger": trigger, "flow": 1 if trigger == "after" else None, "id": number}
            connection.execute(
                text("UPDATE runs SET trigger = :trigger, flow = :flow WHERE id = :id"), values
            )
    return database


@pytest.mark.slow
def test_an_upgrade_fills_the_columns_for_what_reasons_said(
    with_reasons: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("dcron.migrations.versions.0010_facts"), "BATCH", 7)
    migrations.upgrade(with_reasons)
    crontab = Crontab(with_reasons, "tester@here")
    for number, (_, reason, code, caused_by, count) in enumerate(SKIPPED_ROWS, 1):
        run = crontab.find_run(number)
        found = (run.reason, run.skip_code, run.caused_by, run.covers_count)
        assert found == (reason, code, caused_by, count)
        assert run.covers == (COVERED if count else None)
    cancelled, timed_out, failed = (crontab.find_run(len(SKIPPED_ROWS) + number) for number in (1, 2, 3))
    assert (cancelled.skip_code, cancelled.covers, cancelled.covers_count) == (None, COVERED, 3)
    assert (timed_out.timed_out, failed.timed_out, failed.skip_code) == (True, None, None)


def add_tasks(database: Database) -> None:
    """Add the tasks of the skipped runs, as they are named there."""
    how = "" if database.is_sqlite else "OVERRIDING SYSTEM VALUE"
    task = f"INSERT INTO crontab (id, name, schedule, command) {how} VALUES (:id, :name, '@daily', 'true')"
    with database.write() as connection:
        for number in range(1, len(SKIPPED_ROWS) + 1):
            connection.execute(text(task), {"id": number, "name": f"task-{number}"})


@pytest.mark.slow
def test_why_gives_the_same_causes_after_the_upgrade(with_reasons: Database) -> None:
    migrations.upgrade(with_reasons)
    crontab = Crontab(with_reasons, "tester@here")
    add_tasks(with_reasons)
    for number, (trigger, reason, code, caused_by, _) in enumerate(SKIPPED_ROWS, 1):
        cause, *_ = Why(crontab).explain(f"task-{number}", COVERED[1])
        assert (cause.code, cause.facts["reason"]) == (code, reason)
        assert f" did not run: {reason}" in cause.sentence
        if code == "upstream" and caused_by == 3:
            assert (trigger, cause.facts["upstream"], cause.facts["upstream_run"]) == ("after", "task-3", 3)


@pytest.mark.slow
def test_a_run_that_an_older_agent_skips_meanwhile_is_explained_by_its_reason(with_reasons: Database) -> None:
    migrations.upgrade(with_reasons)
    add_tasks(with_reasons)
    with with_reasons.write() as connection:
        connection.execute(text("UPDATE runs SET skip_code = NULL, covers_from = NULL WHERE id = 3"))
    cause, *_ = Why(Crontab(with_reasons, "tester@here")).explain("task-3", COVERED[1])
    assert (cause.code, cause.facts["reason"]) == ("skipped", SKIPPED_ROWS[2][1])
