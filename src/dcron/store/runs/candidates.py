"""Find and lock the due runs that a node can take, from the lanes it serves."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from math import inf
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    FromClause,
    Integer,
    bindparam,
    case,
    func,
    or_,
    select,
    text,
)

from dcron.database import Columns, Database, Reply, is_noted, locked, note
from dcron.model import Task, Trigger
from dcron.policy.starting import disconnect
from dcron.policy.starting.lanes import Lane, fits, serves, without
from dcron.schema.conditions import ALIVE, DUE
from dcron.schema.tables import crontab, runs
from dcron.store import freezes
from dcron.store.tasks import queues
from dcron.store.tasks import rows as tasks
from dcron.store.tasks.rows import task_from


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The runs that a node has room for now."""

    node_id: str
    slots: int
    """How many more runs it may start."""
    tags: Sequence[str] = ()
    queues: Sequence[str] = ()
    """None means all."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """Its capacity when nothing runs."""
    free: Mapping[str, float] = field(default_factory=dict)
    """The part of it that no run uses."""
    accounts: Collection[str] | None = None
    """The accounts it runs commands as; None means all."""
    account: str | None = None
    """The account of its agent."""
    ending_tasks: Collection[int] = frozenset()
    """Tasks of which it takes no run now: a run that ended here is about to be recorded."""
    on_disconnect: Mapping[str, Any] = field(default_factory=dict)
    """The settings that say which commands go on while the node is cut off."""

    def serves(self, lane: Lane) -> bool:
        """Return whether this node may ever take runs of the lane."""
        return serves(lane, self.node_id, self.tags, self.queues, self.capacity, self.accounts, self.account)

    def has_room_for(self, lane: Lane) -> bool:
        """Return whether one run of the lane could start now."""
        return self.slots > 0 and fits(lane, self.free)


@dataclass(slots=True)
class ClaimedRun:
    """A run that this node owns, with its task as it was when the run was claimed."""

    id: int
    task: Task
    trigger: Trigger
    attempt: int
    scheduled_for: datetime
    payload: str | None
    spec: dict[str, Any]
    lane: Lane = field(default_factory=Lane)
    due_at: datetime | None = None
    for_node: str | None = None
    expires_at: datetime | None = None
    backlog_until: datetime | None = None
    flow: int | None = None
    event_id: int | None = None
    successor: datetime | None = None
    moved: bool = False
    """Whether catch-up gave it another occurrence or expiry than its row has."""
    delay: timedelta | None = None
    """From its end to the next scheduled run, if the schedule counts from the end."""
    keeps: bool = False
    """Whether its command goes on while the node is cut off. The start writes it into the row."""
    start_by: float = inf
    """When it is too late to begin the command, in seconds of the lease's clock."""


@dataclass(frozen=True)
class Alive:
    """The number of live runs by task id; for a task of every node, of those on this node."""

    all: Counter[int] = field(default_factory=Counter)
    backfilled: Counter[int] = field(default_factory=Counter)
    """The number of these that are backfills."""


@dataclass(frozen=True)
class DueRuns:
    """Due runs that this transaction has locked, with their tasks."""

    runs: list[ClaimedRun] = field(default_factory=list)
    alive: Alive = field(default_factory=Alive)
    """The live runs of the tasks that have a limit."""
    frozen_from: datetime | None = None
    """When the next planned freeze begins; None without one, or if all due runs are manual."""


def lock(
    connection: Connection, database: Database, offer: Capacity, now: datetime, lanes: Iterable[Lane]
) -> DueRuns:
    """Return due runs with their tasks, both locked, and the live runs of these tasks.

    They are the first runs of each lane, as far as slots, queues and capacity last. While the crontab is
    frozen, only lanes of manual runs have any. The caller has opened a transaction that records starts.
    """
    lanes = [lane for lane in lanes if offer.has_room_for(lane)]
    room = queues.send_room(connection, database, {lane.queue for lane in lanes})
    given = {"now": now, "node_id": offer.node_id, "most": offer.slots}
    notes = not database.answers_at_once
    sent = [
        (
            lane,
            database.send(
                connection,
                _due_trials() if lane.is_trial else _due_runs(notes_tasks=notes, manual=lane.manual),
                given | {"lane": str(lane)},
            ),
        )
        for lane in lanes
    ]
    counted = _send_count(connection, database, [reply for lane, reply in sent if not lane.is_trial])
    found = [
        _trial(row, lane) if lane.is_trial else _claimable(row, lane)
        for lane, reply in sent
        for row in reply.rows()
    ]
    for run in found:
        run.keeps = disconnect.keeps(run.task, offer.on_disconnect)
    alive = _alive(counted, offer.node_id, {run.task.id: run.task for run in found})
    # `next_begin` follows the columns of a run and has the same value in each row.
    begins = (row[len(_RUN_COLUMNS)] for lane, reply in sent if not lane.is_requested for row in reply.rows())
    return DueRuns(_first_that_fit(found, offer, room()), alive, next(begins, None))


def _claimable(row: Sequence[Any], lane: Lane) -> ClaimedRun:
    return _claimed(row, task_from(row), lane)


def _trial(row: Sequence[Any], lane: Lane) -> ClaimedRun:
    """Return a trial with a task that has nothing but its name: its spec says what to execute."""
    task_id, name, due_at = row[len(_RUN_COLUMNS) :]
    task = Task(
        id=task_id,
        name=name,
        schedule="",
        timezone="UTC",
        command="",
        max_running=None,
        version=1,
        planned_version=1,
        enabled=True,
        paused_reason=None,
        paused_by=None,
        paused_at=None,
        paused_until=None,
        once=False,
        error=None,
        changed_at=due_at,
        changed_by=None,
    )
    return _claimed(row, task, lane)


def _claimed(row: Sequence[Any], task: Task, lane: Lane) -> ClaimedRun:
    run_id, trigger, *rest = row[: len(_RUN_COLUMNS)]
    attempt, scheduled_for, payload, spec, *facts = rest
    about = (Trigger(trigger), attempt, scheduled_for, payload, spec, lane, *facts)
    return ClaimedRun(run_id, task, *about)


_RUN_COLUMNS = [
    runs.c.id.label("run_id"),
    runs.c.trigger,
    runs.c.attempt,
    runs.c.scheduled_for,
    runs.c.payload,
    runs.c.spec,
    runs.c.due_at,
    runs.c.for_node,
    runs.c.expires_at,
    runs.c.backlog_until,
    runs.c.flow,
    runs.c.event_id,
]


@cache
def _due_runs(*, notes_tasks: bool, manual: bool) -> Executable:
    may_start = [] if manual else [~freezes.is_frozen()]
    frozen_from = [] if manual else [freezes.next_begin()]
    noted = [case((crontab.c.max_running.is_not(None), note(crontab.c.id)))] if notes_tasks else []
    # The limit as a subquery: if Postgres knew the number, it would plan the statement again for each claim.
    most = select(bindparam("most", type_=Integer())).scalar_subquery()
    return locked(
        select(*_RUN_COLUMNS, *frozen_from, *noted, *tasks.COLUMNS)
        .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
        .where(text(DUE), runs.c.lane == bindparam("lane"), runs.c.due_at <= bindparam("now"))
        .where(or_(runs.c.for_node.is_(None), runs.c.for_node == bindparam("node_id")), *may_start)
        .order_by(runs.c.due_at, runs.c.id)
        .limit(most)
    )


@cache
def _due_trials() -> Executable:
    """Select due trials without a task: theirs may be removed, and another definition than theirs runs."""
    most = select(bindparam("most", type_=Integer())).scalar_subquery()
    return locked(
        select(*_RUN_COLUMNS, runs.c.task_id, runs.c.task, runs.c.due_at.label("changed_at"))
        .where(text(DUE), runs.c.lane == bindparam("lane"), runs.c.due_at <= bindparam("now"))
        .where(or_(runs.c.for_node.is_(None), runs.c.for_node == bindparam("node_id")))
        .order_by(runs.c.due_at, runs.c.id)
        .limit(most)
    )


def _first_that_fit(found: list[ClaimedRun], offer: Capacity, room: dict[str, int]) -> list[ClaimedRun]:
    """Return the most urgent of these runs, as far as slots, queues and capacity last."""
    found.sort(key=lambda run: (run.lane.rank(run.due_at or run.scheduled_for), run.id))
    free = dict(offer.free)
    taken: list[ClaimedRun] = []
    for run in found:
        if len(taken) == offer.slots:
            break
        left = room.get(run.lane.queue)
        if run.task.id in offer.ending_tasks or left == 0 or not fits(run.lane, free):
            continue
        if left is not None:
            room[run.lane.queue] = left - 1
        if run.lane.need:
            free = without(free, run.lane)
        taken.append(run)
    return taken


def _send_count(connection: Connection, database: Database, due: Iterable[Reply]) -> Reply:
    """Count the live runs of the tasks in these replies that have a limit.

    The statement follows those that lock. So it sees what other transactions committed while this one waited
    for the locks. On Postgres it shares their round trip, because the server passes the tasks on.
    """
    if not database.answers_at_once:
        return database.send(connection, _count_alive(None))
    limited = {row.id for reply in due for row in reply.rows() if row.max_running is not None}
    given = database.values(_LIMITED, ([task_id] for task_id in limited))
    return database.send(connection, _count_alive(database.rows(_LIMITED)), given)


_LIMITED = Columns(task_id=BigInteger())


@cache
def _count_alive(batch: FromClause | None) -> Executable:
    """Count the live runs of the tasks in the batch, by default of those that were noted."""
    facts = (runs.c.task_id, runs.c.owner, runs.c.trigger)
    count = select(*facts, func.count()).where(text(ALIVE)).group_by(*facts)
    if batch is None:
        return count.where(is_noted(runs.c.task_id))
    return count.join_from(batch, runs, runs.c.task_id == batch.c.task_id)


def _alive(counted: Reply, node_id: str, tasks_by_id: Mapping[int, Task]) -> Alive:
    alive = Alive()
    for task_id, owner, trigger, count in counted.rows():
        # A run of another transaction may hold the lock of a task that was counted.
        task = tasks_by_id.get(task_id)
        if task and (owner == node_id or not task.every_node):
            alive.all[task_id] += count
            alive.backfilled[task_id] += count if trigger == Trigger.BACKFILL else 0
    return alive
