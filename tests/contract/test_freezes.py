"""Freezes: who may start what, between which commits, and what the audit log and `why` say."""

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from time import monotonic, sleep

import pytest
from sqlalchemy import text

from dcron.database import Database, open_database
from dcron.errors import NotFound, Refused, UsageError
from dcron.model import RunState
from dcron.policy.starting.freezes import state_of
from dcron.services.crontab import Crontab
from dcron.services.freezes import Freezes
from dcron.services.history import History
from dcron.services.undo import Undo
from dcron.services.why import Why
from dcron.store import freezes as store_freezes
from dcron.store.alerts.watching import Look
from dcron.store.claims import claims
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.runs import candidates
from dcron.store.runs.candidates import Capacity
from tests.support.patience import PATIENCE
from tests.support.stage import LEASE, NOON, Stage


def freezes(stage: Stage) -> Freezes:
    return Freezes(stage.crontab.acting("cli freeze"))


# A freeze and a claim at once -------------------------------------------------------------------------


@pytest.fixture
def other(database_url: str) -> Iterator[Crontab]:
    """The same crontab by connections of its own, with the database's real clock."""
    with closing(open_database(database_url)) as database:
        yield Crontab(database, "bob@desk")


def wait_for_a_lock(database: Database) -> None:
    """Return when a transaction waits for the lock of starts; at once on SQLite."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    give_up = monotonic() + PATIENCE
    while not database.is_sqlite and monotonic() < give_up:
        with database.read() as connection:
            if connection.scalar(waiting):
                return
        sleep(0.01)


def test_a_freeze_waits_for_the_starts_that_are_being_recorded(other: Crontab, database_url: str) -> None:
    frozen = []
    freezer = threading.Thread(target=lambda: frozen.append(Freezes(other).freeze()))
    with closing(open_database(database_url)) as database:
        with database.write(starts=True) as connection:
            database.read_clock(connection)
            freezer.start()
            wait_for_a_lock(other.database)
            before_commit = database.read_clock(connection)
        freezer.join()
    (freeze,) = frozen
    assert freeze.from_at >= before_commit


def test_a_claim_waits_for_a_freeze_that_is_being_written(stage: Stage, database_url: str) -> None:
    """Its statements see the freeze, also if its transaction began before the freeze's commit."""
    task = stage.task("backup")
    manual = stage.crontab.run(task)
    stage.task("other", "@every 1m")
    node = stage.node()
    stage.forward(minutes=10)
    started: list[str] = []

    def claim() -> None:
        with stage.database.write(starts=True) as connection:
            nodes.renew(connection, node, stage.now, LEASE)
            lanes = [head.lane for head in planning.heads(connection)]
            offer = Capacity(node_id=node, slots=8)
            found = claims.claim(connection, stage.database, offer, stage.now, lanes, slots=8)
            started.extend(run.task.name for run in found.started)

    claimer = threading.Thread(target=claim)
    with closing(open_database(database_url)) as database:
        with database.write() as connection:
            database.lock_out_starts(connection)
            # Its clock is ahead of the one of the claim; yet it holds from its commit on.
            ahead = stage.now + timedelta(minutes=1)
            store_freezes.add(connection, ahead, "bob", from_at=ahead, until_at=None, reason=None)
            claimer.start()
            wait_for_a_lock(database)
        claimer.join()
    assert started == ["backup"]
    assert [run.id for run in stage.runs(None, RunState.RUNNING)] == [manual.id]


def test_no_start_is_recorded_at_a_time_within_a_planned_freeze(stage: Stage) -> None:
    """The locks of a claim take a round trip, in which a planned freeze may begin."""
    task = stage.task("backup")
    manual = stage.crontab.run(task)
    stage.task("other", "@every 1m")
    node = stage.node()
    stage.forward(minutes=10)
    freezes(stage).freeze(from_at=stage.now + timedelta(milliseconds=50))
    freezes(stage).freeze(from_at=stage.now + timedelta(hours=1))
    for later, names in ((49, ["backup", "other"]), (50, ["backup"])):
        with stage.database.write(starts=True) as connection, connection.begin_nested() as attempt:
            lanes = [head.lane for head in planning.heads(connection)]
            offer = Capacity(node_id=node, slots=8)
            due = candidates.lock(connection, stage.database, offer, stage.now, lanes)
            at = stage.now + timedelta(milliseconds=later)
            found = claims.claim_locked(connection, stage.database, node, at, due, slots=8)
            assert sorted({run.task.name for run in found.started}) == names
            attempt.rollback()
    stage.forward(seconds=1)
    assert [run.id for run in stage.take(node)] == [manual.id]


# Freeze and thaw --------------------------------------------------------------------------------------


def test_a_freeze_ends_by_itself_or_is_thawed(stage: Stage) -> None:
    first = freezes(stage).freeze(until_at=NOON + timedelta(hours=1), reason="upgrade")
    assert (first.from_at, first.created_by, first.reason) == (NOON, "ann@desk", "upgrade")
    assert freezes(stage).active() == first
    stage.forward(hours=1)
    assert freezes(stage).active() is None
    second = freezes(stage).freeze()
    (thawed,) = freezes(stage).thaw()
    assert (thawed.id, thawed.thawed_by, state_of(thawed, stage.now)) == (second.id, "ann@desk", "over")
    assert [each.id for each in freezes(stage).listing(10)] == [second.id, first.id]


def test_the_crontab_is_frozen_while_one_of_several_freezes_holds(stage: Stage) -> None:
    short = freezes(stage).freeze(until_at=NOON + timedelta(hours=1))
    long = freezes(stage).freeze(until_at=NOON + timedelta(hours=2))
    assert freezes(stage).active() == long
    with pytest.raises(UsageError, match=f"{short.id}, {long.id}"):
        freezes(stage).thaw()
    freezes(stage).thaw([short.id])
    assert freezes(stage).active() == long
    with pytest.raises(Refused, match="over already"):
        freezes(stage).thaw([short.id])
    freezes(stage).thaw()
    with pytest.raises(NotFound, match="nothing is frozen"):
        freezes(stage).thaw()


def test_a_planned_freeze_is_withdrawn(stage: Stage) -> None:
    planned = freezes(stage).freeze(from_at=NOON + timedelta(hours=1))
    assert state_of(planned, stage.now) == "planned"
    with pytest.raises(NotFound, match=f"planned freeze to withdraw it: {planned.id}"):
        freezes(stage).thaw()
    freezes(stage).thaw([planned.id])
    stage.forward(hours=2)
    assert freezes(stage).active() is None
    with pytest.raises(NotFound):
        freezes(stage).thaw([99])


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [(-1, None, "--from is in the past"), (None, -1, "--until is in the past"), (2, 1, "not after --from")],
)
def test_wrong_times_of_a_freeze_are_refused(
    stage: Stage, begin: int | None, end: int | None, message: str
) -> None:
    times = [None if each is None else NOON + timedelta(hours=each) for each in (begin, end)]
    with pytest.raises(UsageError, match=message):
        freezes(stage).freeze(from_at=times[0], until_at=times[1])


def test_cancel_asks_all_active_runs_to_stop(stage: Stage) -> None:
    stage.crontab.run(stage.task("backup"))
    (run,) = stage.take(stage.node())
    freezes(stage).freeze()
    assert freezes(stage).cancel_active() == [run.id]
    assert stage.crontab.find_run(run.id).cancel_requested_by == "ann@desk"


def test_a_freeze_is_undone_and_redone(stage: Stage) -> None:
    freeze = freezes(stage).freeze(reason="upgrade")
    (change,) = History(stage.crontab).changes(1)
    assert (change.kind, change.action, change.subject) == ("freeze", "freeze", f"freeze-{freeze.id}")
    undo = Undo(stage.crontab.acting("undo"))
    undo.undo(undo.change(change.id))
    assert freezes(stage).active() is None
    undo.undo(undo.change(change.id + 1))
    active = freezes(stage).active()
    assert active
    assert active.id == freeze.id
    assert [each.action for each in History(stage.crontab).changes(3)] == ["freeze", "thaw", "freeze"]


# What others say --------------------------------------------------------------------------------------


def test_why_names_the_freeze(stage: Stage) -> None:
    stage.task("backup", "0 13 * * *")
    stage.node()
    freeze = freezes(stage).freeze(until_at=NOON + timedelta(hours=2), reason="upgrade")
    causes = Why(stage.crontab).explain("backup")
    frozen = [cause for cause in causes if cause.code == "frozen"]
    assert f"`dcron thaw {freeze.id}`" in frozen[0].sentence
    assert "frozen by ann@desk" in frozen[0].sentence
    assert frozen[0].facts["until"] == NOON + timedelta(hours=2)
    stage.forward(minutes=90)
    (cause,) = Why(stage.crontab).explain("backup", NOON + timedelta(hours=1))
    assert (cause.code, cause.facts["freeze"]) == ("frozen", freeze.id)


def test_a_late_run_opens_no_alert_for_the_time_of_a_freeze(stage: Stage) -> None:
    stage.node(lease=36_000)
    stage.task("backup", expect={"start": 600.0, "success": 3000.0})
    freezes(stage).freeze()
    stage.forward(hours=2)
    assert late_kinds(stage) == []
    freezes(stage).thaw()
    stage.forward(minutes=9)
    assert late_kinds(stage) == []
    stage.forward(hours=1)
    assert late_kinds(stage) == ["late", "stale"]


def late_kinds(stage: Stage) -> list[str]:
    with stage.database.read() as connection:
        return sorted(cause.kind for cause in Look(connection, stage.database, stage.now, {}, {}).causes())
