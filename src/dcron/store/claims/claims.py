"""The claim protocol: lock due runs, write the node's ID, and commit the start before the command begins.

A claim records the start of the runs for which the node has free slots. `start` records that of a run that
was only claimed. docs/architecture.md describes the protocol; `finishing` records how runs end.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    FromClause,
    Row,
    Select,
    Text,
    bindparam,
    select,
    text,
    update,
)

from dcron.database import Columns, Database, Reply, beside_id, locked
from dcron.errors import ROW_ERRORS, UsageError, unexpected
from dcron.model import Block, RunState, SkipCode, Task, Trigger
from dcron.policy.starting import occurrences
from dcron.policy.starting.admission import Wait
from dcron.policy.starting.catch_up import ScheduleTimes, Times
from dcron.policy.starting.decision import decide, with_freeze
from dcron.policy.starting.lanes import Lane
from dcron.policy.starting.skip_reasons import Skip
from dcron.policy.validation import require_runnable
from dcron.schema.conditions import ALIVE
from dcron.schema.tables import runs
from dcron.schema.types import Instant
from dcron.settings.registry import KEEP_RUNNING
from dcron.store import freezes
from dcron.store.claims import finishing, unheard
from dcron.store.nodes import clock_steps
from dcron.store.planning import dependencies, fan_out, successors
from dcron.store.runs import blocked, candidates, skipping
from dcron.store.runs.candidates import Capacity, ClaimedRun, DueRuns
from dcron.store.runs.rows import is_in_state
from dcron.store.tasks import rows as tasks
from dcron.values.unreadable import Unreadable


@dataclass
class ClaimResult:
    """The decisions of one claim about the due runs that it locked."""

    now: datetime
    """When it decided, by the database's clock."""
    claimed: list[ClaimedRun] = field(default_factory=list)
    started: list[ClaimedRun] = field(default_factory=list)
    """Runs whose start the claim records. Their commands may begin after its commit, if `owned` has them."""
    skipped: list[tuple[ClaimedRun, Skip]] = field(default_factory=list)
    blocked: list[tuple[ClaimedRun, Block]] = field(default_factory=list)
    spread: list[ClaimedRun] = field(default_factory=list)
    """Runs for every node. This node's share of each is also in one of the lists above."""
    replacing: list[ClaimedRun] = field(default_factory=list)
    """Blocked runs that replace a live run of their task."""
    missed: list[tuple[Task, Skip]] = field(default_factory=list)
    """Ranges of missed occurrences, each recorded in one row."""
    unplannable: dict[int, tuple[Task, str]] = field(default_factory=dict)
    """Tasks without a next run, by id, each with the error."""

    written: Reply | None = None
    """The ids of the runs on which the claim wrote this node's ID and the start."""

    def owned(self) -> list[ClaimedRun]:
        """Re-read the ownership: return the started runs that the database reports as written.

        Call it after the commit.
        """
        ids = {row.id for row in self.written.rows()} if self.written else set()
        return [run for run in self.started if run.id in ids]

    @property
    def moved_on(self) -> bool:
        """Whether the next claim finds other runs at the heads of the lanes."""
        return bool(self.claimed or self.started or self.skipped or self.blocked)


def claim(
    connection: Connection,
    database: Database,
    offer: Capacity,
    now: datetime,
    lanes: Iterable[Lane],
    ran_until: datetime | None = None,
    *,
    slots: int = 0,
) -> ClaimResult:
    """Write this node's ID on waiting runs of these lanes, as many as it can take; start `slots` of them.

    The start is recorded in this transaction, with the next scheduled runs of the tasks. Up to `ran_until`
    occurrences may have been started ahead of their times; those are skipped. The caller has renewed its
    node's row before, and calls `blocked.unblock` for the blocked runs.
    """
    due = candidates.lock(connection, database, offer, now, lanes)
    return claim_locked(connection, database, offer.node_id, now, due, ran_until, slots=slots)


def claim_locked(
    connection: Connection,
    database: Database,
    node_id: str,
    now: datetime,
    due: DueRuns,
    ran_until: datetime | None = None,
    *,
    slots: int = 0,
) -> ClaimResult:
    """Claim and start like `claim`, of due runs that `candidates.lock` returned in this transaction."""
    result = ClaimResult(now)
    if due.frozen_from and due.frozen_from <= now:  # a freeze has begun since the runs were locked
        due = replace(due, runs=[run for run in due.runs if run.lane.is_requested])
    if not due.runs:
        return result
    _decide(due, now, result, _ran_early(connection, ran_until))
    _name_freezes(connection, result)
    _name_unheard(connection, result)
    result.started, result.claimed = result.claimed[:slots], result.claimed[slots:]
    _write_spread(connection, database, node_id, now, result)
    _write_owner(connection, database, node_id, now, result)
    successors.add(connection, database, result.started, now, running=True)
    _write_skipped(connection, database, now, result)
    _write_blocked(connection, database, node_id, now, result)
    skipping.record(connection, result.missed, now)
    for task, error in result.unplannable.values():
        tasks.mark_planned(connection, task, error)
    return result


def start(
    connection: Connection, database: Database, node_id: str, now: datetime, claimed: Sequence[ClaimedRun]
) -> list[ClaimedRun]:
    """Re-read the ownership of claimed runs, record their start, and insert the next scheduled runs.

    Only the returned runs may start, and only after the commit.
    """
    given = database.values(_STARTED, ([run.id] for run in claimed)) | {"node_id": node_id, "now": now}
    started_ids = set(connection.scalars(_start(database.rows(_STARTED)), given).all())
    started = [run for run in claimed if run.id in started_ids]
    stamp_kept(connection, database, node_id, started)
    successors.add(connection, database, started, now, running=True)
    return started


_STARTED = Columns(id=BigInteger())


def stamp_kept(
    connection: Connection, database: Database, node_id: str, started: Iterable[ClaimedRun]
) -> None:
    """Write on the started runs whose commands go on while the node is cut off that they do.

    It belongs to the transaction of the start: reaping believes the row, and the warden does the same.
    """
    if kept := [[run.id] for run in started if run.keeps]:
        given = database.values(_STARTED, kept) | {"node_id": node_id}
        database.send(connection, _stamp(database.rows(_STARTED)), given)


@cache
def _stamp(batch: FromClause) -> Executable:
    mine = (runs.c.id == batch.c.id, runs.c.owner == bindparam("node_id"))
    return update(runs).where(*mine).values(on_disconnect=KEEP_RUNNING)


@cache
def _start(batch: FromClause) -> Executable:
    return (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == bindparam("node_id"), is_in_state(RunState.CLAIMED))
        .values(state=RunState.RUNNING, started_at=bindparam("now"))
        .returning(runs.c.id)
    )


def release(connection: Connection, node_ids: Iterable[str], run_ids: Collection[int] | None = None) -> int:
    """Release claimed runs of these nodes, all or those of `run_ids`: they wait again. Return how many.

    They were never started, so it costs no attempt.
    """
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
    return _states(connection.execute(owned_runs(), {"node_id": node_id}))


def send_owned(connection: Connection, database: Database, node_id: str) -> Callable[[], dict[int, RunState]]:
    """Ask for the same together with the next statement. Return a function that reads the answer."""
    reply = database.send(connection, owned_runs(), {"node_id": node_id})
    return lambda: _states(reply.rows())


def _states(rows: Iterable[Row[Any]]) -> dict[int, RunState]:
    return {row.id: RunState(row.state) for row in rows}


@cache
def owned_runs() -> Select[Any]:
    """Return the query for the claimed and running runs of `node_id`."""
    return select(runs.c.id, runs.c.state).where(runs.c.owner == bindparam("node_id"), text(ALIVE))


def _decide(
    due: DueRuns,
    now: datetime,
    result: ClaimResult,
    early: Callable[[ClaimedRun], Skip | None],
) -> None:
    for run in due.runs:
        try:
            _decide_on(run, due.alive, now, result, early)
        except ROW_ERRORS as error:
            _set_aside(run, Skip(SkipCode.OTHER, f"cannot be prepared: {unexpected(error)}"), result)


def _name_freezes(connection: Connection, result: ClaimResult) -> None:
    """Say of the occurrences that were missed during a freeze that this is why."""
    late = [run for run, skip in result.skipped if skip.code is SkipCode.MISSED]
    if not late and not result.missed:
        return
    if not (frozen := freezes.past_and_coming(connection)):
        return
    result.skipped = [(run, with_freeze(frozen, skip)) for run, skip in result.skipped]
    result.missed = [(task, with_freeze(frozen, skip)) for task, skip in result.missed]


def _name_unheard(connection: Connection, result: ClaimResult) -> None:
    """Say of the runs that are skipped for overlap if no node has heard of the run that holds their place."""
    places = {run.task.id for run, skip in result.skipped if skip.code is SkipCode.OVERLAP}
    if not places or not (holders := unheard.of_tasks(connection, places)):
        return
    result.skipped = [
        (run, replace(skip, caused_by=holders.get(run.task.id)) if skip.code is SkipCode.OVERLAP else skip)
        for run, skip in result.skipped
    ]


def _decide_on(
    run: ClaimedRun,
    alive: candidates.Alive,
    now: datetime,
    result: ClaimResult,
    early: Callable[[ClaimedRun], Skip | None],
) -> None:
    trigger, task_id = _origin(run), run.task.id
    live = (alive.all[task_id], alive.backfilled[task_id], _excluded)
    try:
        decision = decide(run, trigger, now, _times(run), *live)
    except UsageError as error:
        # The run was planned while its task was valid, so it runs; the task gets no next run.
        result.unplannable[task_id] = (run.task, str(error))
        decision = decide(run, trigger, now, None, *live)
    run.moved = (run.scheduled_for, run.expires_at) != (decision.scheduled_for, decision.expires_at)
    run.scheduled_for, run.expires_at = decision.scheduled_for, decision.expires_at
    run.successor, run.backlog_until = decision.successor, decision.backlog_until
    if decision.missed:
        result.missed.append((run.task, decision.missed))
    if skip := decision.refusal or early(run):
        result.skipped.append((run, skip))
        return
    if run.task.every_node and run.for_node is None:
        result.spread.append(run)
    match decision.answer:
        case Skip() as skip:
            result.skipped.append((run, skip))
        case Wait(block, replaces):
            result.blocked.append((run, block))
            if replaces:
                result.replacing.append(run)
        case _:
            alive.all[task_id] += 1
            alive.backfilled[task_id] += trigger is Trigger.BACKFILL
            result.claimed.append(run)


def _set_aside(run: ClaimedRun, skip: Skip, result: ClaimResult) -> None:
    """Skip the run. If it is its task's scheduled run, suspend the task until it is edited."""
    run.successor = run.delay = None
    result.skipped.append((run, skip))
    if run.trigger is Trigger.SCHEDULE:
        result.unplannable[run.task.id] = (run.task, skip.reason)


def _ran_early(connection: Connection, ran_until: datetime | None) -> Callable[[ClaimedRun], Skip | None]:
    """Return a function that skips an occurrence that already ran while the clock was ahead.

    It queries the database only for occurrences up to `ran_until`.
    """

    def skip(run: ClaimedRun) -> Skip | None:
        if ran_until is None or run.trigger is not Trigger.SCHEDULE or run.scheduled_for > ran_until:
            return None
        run_id = clock_steps.early_run(connection, run.task.id, run.scheduled_for, run.id)
        if run_id is None:
            return None
        reason = f"it ran ahead of its time, as run {run_id}, while the clock was ahead"
        return Skip(SkipCode.RAN_EARLY, reason, caused_by=run_id)

    return skip


def _origin(run: ClaimedRun) -> Trigger:
    """Return the trigger of the run; for a node's share, that of the run that was shared."""
    if run.trigger is Trigger.NODE and run.event_id is not None:
        return Trigger.EVENT
    if run.trigger is Trigger.NODE and run.flow is not None:
        return Trigger.AFTER
    return run.trigger


def _excluded(run: ClaimedRun, occurrence: datetime) -> Skip | None:
    """Return why the run, which is for this occurrence now, never runs; None if it may."""
    if isinstance(run.spec, Unreadable):
        reason = "what it should execute cannot be read: its spec is not a JSON object"
        return Skip(SkipCode.SUSPENDED, reason)
    if run.trigger is not Trigger.SCHEDULE:
        return None
    try:
        excluded = occurrences.excluded_by(run.task, occurrence)
    except UsageError as error:  # a zone or a calendar cannot be read
        return Skip(SkipCode.OTHER, str(error))
    return Skip(SkipCode.CALENDAR, excluded) if excluded else None


def _times(run: ClaimedRun) -> Times | None:
    """Return the occurrences of its task for a run that the clock has planned. Raises UsageError."""
    if run.trigger is not Trigger.SCHEDULE:
        return None
    require_runnable(run.task)
    run.delay = occurrences.delay_of(run.task)
    return None if run.delay else ScheduleTimes(run.task)


def _write_spread(
    connection: Connection, database: Database, node_id: str, now: datetime, result: ClaimResult
) -> None:
    """Give every node its share of these runs, and insert the next scheduled runs of their tasks."""
    if not result.spread:
        return
    fan_out.share(connection, node_id, result.spread, now)
    successors.add(connection, database, result.spread, now, running=True)
    for run in result.spread:
        run.successor = run.delay = None
        run.trigger = Trigger.NODE if run.trigger is Trigger.SCHEDULE else run.trigger


def _write_owner(
    connection: Connection, database: Database, node_id: str, now: datetime, result: ClaimResult
) -> None:
    taken = ((RunState.RUNNING, now, result.started), (RunState.CLAIMED, None, result.claimed))
    for state, started_at, group in taken:
        if group:
            given = {"state": state, "started_at": started_at, "node_id": node_id, "now": now}
            ids = database.values(_OWNED, ([run.id] for run in group))
            written = database.send(connection, _own(database.rows(_OWNED)), given | ids)
            if state is RunState.RUNNING:
                result.written = written
                stamp_kept(connection, database, node_id, group)
    # A released run waits for the occurrence to which the claim moved it.
    both = (*result.started, *result.claimed)
    moved = [(run.id, run.scheduled_for, run.expires_at) for run in both if run.moved]
    if moved:
        database.send(connection, _move(database.rows(_MOVED)), database.values(_MOVED, moved))


_OWNED = Columns(id=BigInteger())
_MOVED = Columns(id=BigInteger(), scheduled_for=Instant(), expires_at=Instant())


@cache
def _own(batch: FromClause) -> Executable:
    named = {"state": "state", "started_at": "started_at", "owner": "node_id", "claimed_at": "now"}
    mine: dict[str, Any] = {column: bindparam(name) for column, name in named.items()}
    written = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.WAITING)).values(mine)
    return written.returning(runs.c.id)


@cache
def _move(batch: FromClause) -> Executable:
    return update(runs).where(runs.c.id == batch.c.id).values(beside_id(batch))


def _write_skipped(connection: Connection, database: Database, now: datetime, result: ClaimResult) -> None:
    if not result.skipped:
        return
    skips = [(run.id, run.scheduled_for, skip) for run, skip in result.skipped]
    skipping.end_each(connection, database, skips, now)
    successors.add(connection, database, [run for run, _ in result.skipped], now, running=False)
    for run, _ in result.skipped:
        step = dependencies.Step(run.id, run.task.name, run.flow, run.scheduled_for)
        finishing.skipped(connection, database, step, run.trigger, now)


def _write_blocked(
    connection: Connection, database: Database, node_id: str, now: datetime, result: ClaimResult
) -> None:
    """Mark runs that must wait as blocked: they leave the due index, so they do not delay other runs."""
    if not result.blocked:
        return
    rows = (
        (run.id, block.value, run.scheduled_for, run.backlog_until, run.expires_at)
        for run, block in result.blocked
    )
    connection.execute(_block(database.rows(_BLOCKED)), database.values(_BLOCKED, rows))
    full = {run.task.id for run, block in result.blocked if block is Block.LIMIT}
    blocked.block_others_of(connection, full, now)
    for run in result.replacing:
        _stop_oldest(connection, database, node_id, run)


# The missed occurrences are recorded now, so the run goes on from the occurrence that is caught up.
_BLOCKED = Columns(
    id=BigInteger(), blocked=Text(), scheduled_for=Instant(), backlog_until=Instant(), expires_at=Instant()
)


@cache
def _block(batch: FromClause) -> Executable:
    query = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.WAITING))
    return query.values(beside_id(batch))


def _stop_oldest(connection: Connection, database: Database, node_id: str, run: ClaimedRun) -> None:
    """Request the cancellation of the run that this one replaces; for a task of every node, of the run here.

    A run whose row is locked, because its end is being recorded, is left alone.
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
