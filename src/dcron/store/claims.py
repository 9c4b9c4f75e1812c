"""The claim protocol: write my ID, re-read what is mine, commit the start.

docs/architecture.md tells the protocol; each function here is one of its steps and runs in one transaction.
How runs end is in `ends`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    FromClause,
    Select,
    Text,
    bindparam,
    select,
    text,
    update,
)

from dcron import policy
from dcron.database import Columns, Database, beside_id, locked
from dcron.errors import ROW_ERRORS, UsageError, unexpected
from dcron.model import Block, RunState, SkipCode, Task, Trigger
from dcron.policy import CatchUp, Lane, Skip, Wait
from dcron.schema import ALIVE, Instant, runs
from dcron.store import (
    blocked,
    candidates,
    clock_steps,
    dependencies,
    fan_out,
    finishing,
    skipping,
    successors,
    tasks,
)
from dcron.store.candidates import Capacity, ClaimedRun
from dcron.store.runs import is_in_state
from dcron.unreadable import Unreadable
from dcron.validation import require_runnable


@dataclass
class ClaimResult:
    """What became of the due runs that one claim has locked."""

    claimed: list[ClaimedRun] = field(default_factory=list)
    skipped: list[tuple[ClaimedRun, Skip]] = field(default_factory=list)
    blocked: list[tuple[ClaimedRun, Block]] = field(default_factory=list)
    spread: list[ClaimedRun] = field(default_factory=list)
    """Turns that belong to every node; this node's share is among the others here."""
    replacing: list[ClaimedRun] = field(default_factory=list)
    missed: list[tuple[Task, Skip]] = field(default_factory=list)
    """Occurrences that are recorded together, beside the runs of their tasks."""
    unplannable: dict[int, tuple[Task, str]] = field(default_factory=dict)

    @property
    def moved_on(self) -> bool:
        """Whether the next look will find other runs at the head."""
        return bool(self.claimed or self.skipped or self.blocked)


def claim(
    connection: Connection,
    database: Database,
    offer: Capacity,
    now: datetime,
    lanes: Iterable[Lane],
    ran_until: datetime | None = None,
) -> ClaimResult:
    """Write this node's ID on waiting runs of these lanes, as many as it can take.

    Up to `ran_until` occurrences may have been started ahead of their times; those are skipped.
    The caller has renewed its node's row before, and calls `blocked.unblock` for the blocked runs.
    """
    due = candidates.lock(connection, database, offer, now, lanes)
    return claim_locked(connection, database, offer.node_id, now, due, ran_until)


def claim_locked(
    connection: Connection,
    database: Database,
    node_id: str,
    now: datetime,
    due: Sequence[ClaimedRun],
    ran_until: datetime | None = None,
) -> ClaimResult:
    """Claim like `claim`, of due runs that `candidates.lock` returned in this transaction."""
    batch = ClaimResult()
    if not due:
        return batch
    early = _ran_early(connection, ran_until)
    _decide(due, candidates.count_alive(connection, database, node_id, due), now, batch, early)
    _write_spread(connection, database, node_id, now, batch)
    _write_owner(connection, database, node_id, now, batch)
    _write_skipped(connection, database, now, batch)
    _write_blocked(connection, database, node_id, now, batch)
    skipping.record(connection, batch.missed, now)
    for task, error in batch.unplannable.values():
        tasks.mark_planned(connection, task, error)
    return batch


def start(
    connection: Connection, database: Database, node_id: str, now: datetime, claimed: Sequence[ClaimedRun]
) -> list[ClaimedRun]:
    """Re-read ownership, record the start, bring in the line's next turn. Only what returns may start."""
    given = database.values(_STARTED, ([run.id] for run in claimed)) | {"node_id": node_id, "now": now}
    started_ids = set(connection.scalars(_start(database.rows(_STARTED)), given))
    started = [run for run in claimed if run.id in started_ids]
    successors.add(connection, database, started, now, running=True)
    return started


_STARTED = Columns(id=BigInteger())


@cache
def _start(batch: FromClause) -> Executable:
    return (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == bindparam("node_id"), is_in_state(RunState.CLAIMED))
        .values(state=RunState.RUNNING, started_at=bindparam("now"))
        .returning(runs.c.id)
    )


def release(connection: Connection, node_ids: Iterable[str], run_ids: Collection[int] | None = None) -> int:
    """Give back what these nodes claimed and never started, or some of it: it costs no attempt. How many."""
    query = (
        update(runs)
        .where(runs.c.owner.in_(list(node_ids)), text(ALIVE), runs.c.state == RunState.CLAIMED)
        .values(state=RunState.WAITING, owner=None, claimed_at=None)
    )
    if run_ids is not None:
        query = query.where(runs.c.id.in_(run_ids))
    return connection.execute(query).rowcount


def owned(connection: Connection, node_id: str) -> dict[int, RunState]:
    """Return the claimed and running runs that bear the node's ID, with their states."""
    rows = connection.execute(owned_runs(), {"node_id": node_id})
    return {row.id: RunState(row.state) for row in rows}


@cache
def owned_runs() -> Select[Any]:
    """Return the query for the claimed and running runs of `node_id`."""
    return select(runs.c.id, runs.c.state).where(runs.c.owner == bindparam("node_id"), text(ALIVE))


def _decide(
    found: Sequence[ClaimedRun],
    alive: candidates.Alive,
    now: datetime,
    batch: ClaimResult,
    early: Callable[[ClaimedRun], Skip | None],
) -> None:
    for run in found:
        try:
            _decide_on(run, alive, now, batch, early)
        except ROW_ERRORS as error:
            _set_aside(run, Skip(SkipCode.OTHER, f"cannot be prepared: {unexpected(error)}"), batch)


def _decide_on(
    run: ClaimedRun,
    alive: candidates.Alive,
    now: datetime,
    batch: ClaimResult,
    early: Callable[[ClaimedRun], Skip | None],
) -> None:
    turn, too_late = _with_successor(run, now, batch)
    if skip := too_late or _refusal(turn, now) or early(turn):
        batch.skipped.append((turn, skip))
        return
    in_backlog = turn.backlog_until is not None and turn.scheduled_for <= turn.backlog_until
    trigger = _beginning(turn)
    living, backfilled = alive.all[turn.task.id], alive.backfilled[turn.task.id]
    decision = policy.admit(turn.task, trigger, living, in_backlog=in_backlog, backfilled=backfilled)
    if turn.task.every_node and turn.for_node is None:
        batch.spread.append(turn)
    match decision:
        case Skip():
            batch.skipped.append((turn, decision))
        case Wait(block, replaces):
            batch.blocked.append((turn, block))
            if replaces:
                batch.replacing.append(turn)
        case _:
            alive.all[turn.task.id] += 1
            alive.backfilled[turn.task.id] += trigger is Trigger.BACKFILL
            batch.claimed.append(turn)


def _set_aside(run: ClaimedRun, skip: Skip, batch: ClaimResult) -> None:
    """Skip the run. Where it was its task's next run, suspend the task until it is edited."""
    run.successor = run.delay = None
    batch.skipped.append((run, skip))
    if run.trigger is Trigger.SCHEDULE:
        batch.unplannable[run.task.id] = (run.task, skip.reason)


def _ran_early(connection: Connection, ran_until: datetime | None) -> Callable[[ClaimedRun], Skip | None]:
    """Return a function that skips what already ran while the clock was ahead.

    It asks the database only about occurrences up to `ran_until`.
    """

    def skip(turn: ClaimedRun) -> Skip | None:
        if ran_until is None or turn.trigger is not Trigger.SCHEDULE or turn.scheduled_for > ran_until:
            return None
        run_id = clock_steps.early_run(connection, turn.task.id, turn.scheduled_for, turn.id)
        if run_id is None:
            return None
        reason = f"it ran ahead of its time, as run {run_id}, while the clock was ahead"
        return Skip(SkipCode.RAN_EARLY, reason, caused_by=run_id)

    return skip


def _beginning(turn: ClaimedRun) -> Trigger:
    """What made the run: of a node's share, what made the turn that was shared."""
    if turn.trigger is Trigger.NODE and turn.event_id is not None:
        return Trigger.EVENT
    if turn.trigger is Trigger.NODE and turn.flow is not None:
        return Trigger.AFTER
    return turn.trigger


def _refusal(turn: ClaimedRun, now: datetime) -> Skip | None:
    """Return why the run is skipped although its time has come, whatever else is running."""
    if isinstance(turn.spec, Unreadable):
        reason = "what it should execute cannot be read: its spec is not a JSON object"
        return Skip(SkipCode.SUSPENDED, reason)
    expired = policy.expired(turn.task, turn.expires_at, now)
    if turn.trigger is not Trigger.SCHEDULE:
        return expired
    try:
        excluded = policy.excluded_by(turn.task, turn.scheduled_for)
    except UsageError as error:  # of a zone or a calendar that cannot be read
        return Skip(SkipCode.OTHER, str(error))
    return Skip(SkipCode.CALENDAR, excluded) if excluded else expired


def _with_successor(run: ClaimedRun, now: datetime, batch: ClaimResult) -> tuple[ClaimedRun, Skip | None]:
    """The run as it will start: for the occurrence that is made up for after downtime, knowing the next one;
    and why there is none to make up for."""
    if run.trigger is not Trigger.SCHEDULE:
        return run, None
    try:
        require_runnable(run.task)
        run.delay = policy.delay_of(run.task)
        if run.delay:
            return run, None
        turn = policy.catch_up(run.task, run.scheduled_for, now, run.backlog_until)
    except UsageError as error:
        # This turn was planned while the line could be read, so it runs; the line has no next one.
        batch.unplannable[run.task.id] = (run.task, str(error))
        turn = CatchUp(run.scheduled_for, None, None)
    run.successor, run.backlog_until = turn.successor, turn.backlog_until
    if turn.runs_at is None:
        assert turn.missed
        run.scheduled_for = turn.missed.last
        return run, policy.missed_skip(run.task, turn.missed, too_old=True)
    if turn.missed:
        batch.missed.append((run.task, policy.missed_skip(run.task, turn.missed, too_old=False)))
    run.scheduled_for = turn.runs_at
    run.expires_at = policy.expiry_of(run.task, policy.due_at(run.task, turn.runs_at))
    return run, None


def _write_spread(
    connection: Connection, database: Database, node_id: str, now: datetime, batch: ClaimResult
) -> None:
    """Give each node its share of these turns; the line's turn is done with that, and the next comes in."""
    if not batch.spread:
        return
    fan_out.share(connection, node_id, batch.spread, now)
    successors.add(connection, database, batch.spread, now, running=True)
    for turn in batch.spread:
        turn.successor = turn.delay = None
        turn.trigger = Trigger.NODE if turn.trigger is Trigger.SCHEDULE else turn.trigger


def _write_owner(
    connection: Connection, database: Database, node_id: str, now: datetime, batch: ClaimResult
) -> None:
    if not batch.claimed:
        return
    rows = ((run.id, run.scheduled_for, run.expires_at) for run in batch.claimed)
    given = database.values(_OWNED, rows) | {"node_id": node_id, "now": now}
    # All of them are locked, so all are written. `start` reads the ownership again.
    database.send(connection, _own(database.rows(_OWNED)), given)


# Should it be given back, it waits as what it is made up for.
_OWNED = Columns(id=BigInteger(), scheduled_for=Instant(), expires_at=Instant())


@cache
def _own(batch: FromClause) -> Executable:
    mine = {"state": RunState.CLAIMED, "owner": bindparam("node_id"), "claimed_at": bindparam("now")}
    query = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.WAITING))
    return query.values(beside_id(batch) | mine)


def _write_skipped(connection: Connection, database: Database, now: datetime, batch: ClaimResult) -> None:
    if not batch.skipped:
        return
    skips = [(run.id, run.scheduled_for, skip) for run, skip in batch.skipped]
    skipping.end_each(connection, database, skips, now)
    successors.add(connection, database, [run for run, _ in batch.skipped], now, running=False)
    for run, _ in batch.skipped:
        step = dependencies.Step(run.id, run.task.name, run.flow, run.scheduled_for)
        finishing.skipped(connection, database, step, run.trigger, now)


def _write_blocked(
    connection: Connection, database: Database, node_id: str, now: datetime, batch: ClaimResult
) -> None:
    """Take what must wait out of the due ones, so that it does not stand in the way of all others."""
    if not batch.blocked:
        return
    rows = (
        (run.id, block.value, run.scheduled_for, run.backlog_until, run.expires_at)
        for run, block in batch.blocked
    )
    connection.execute(_block(database.rows(_BLOCKED)), database.values(_BLOCKED, rows))
    full = {run.task.id for run, block in batch.blocked if block is Block.LIMIT}
    blocked.block_others_of(connection, full, now)
    for run in batch.replacing:
        _stop_oldest(connection, database, node_id, run)


# What downtime left out is told by now, so the turn goes on from what is made up for.
_BLOCKED = Columns(
    id=BigInteger(), blocked=Text(), scheduled_for=Instant(), backlog_until=Instant(), expires_at=Instant()
)


@cache
def _block(batch: FromClause) -> Executable:
    query = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.WAITING))
    return query.values(beside_id(batch))


def _stop_oldest(connection: Connection, database: Database, node_id: str, run: ClaimedRun) -> None:
    """Ask for the end of the run that this one replaces, of one of every node the run here.

    One that is being recorded as over is passed by.
    """
    oldest = (
        select(runs.c.id)
        .where(runs.c.task_id == run.task.id, text(ALIVE), runs.c.cancel_requested_by.is_(None))
        .order_by(runs.c.id)
        .limit(1)
    )
    if run.task.every_node:
        oldest = oldest.where(runs.c.owner == node_id)
    found = connection.scalars(locked(oldest)).all()
    asked = update(runs).where(runs.c.id.in_(found))
    connection.execute(asked.values(cancel_requested_by=f"run {run.id}, which replaces it"))
    database.notify(connection)
