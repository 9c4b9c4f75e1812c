"""Give each task its next waiting run. The waiting rows of `runs` are the agenda.

Every feature that starts runs is one more way to insert a waiting row.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Executable,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from dcron.errors import ROW_ERRORS, UsageError
from dcron.model import Block, Run, RunState, Task, Trigger
from dcron.policy.starting import catch_up, skip_reasons
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.lanes import Lane, lane_of, read_lane, rerouted, served_by
from dcron.policy.starting.lanes import reservation as reserved_lane
from dcron.policy.starting.occurrences import (
    delay_of,
    is_timed,
    next_occurrence,
    same_times,
    starts_with_node,
)
from dcron.policy.starting.skip_reasons import Skip, paused_skip
from dcron.policy.validation import require_runnable
from dcron.schedule.zones import tzdata_version
from dcron.schema.conditions import ALIVE, DUE, NEXT
from dcron.schema.tables import crontab, runs
from dcron.schema.types import Instant
from dcron.store import audit_log
from dcron.store.audit_log import Author
from dcron.store.nodes import clock_steps
from dcron.store.nodes import rows as store_nodes
from dcron.store.runs import blocked, new_runs, skipping
from dcron.store.runs import rows as store_runs
from dcron.store.tasks import rows as tasks

MOST_LANES = 1000
"""Most lanes that one query reads; the next query continues behind them."""
_PAGES_OF_LANES = 10

_SCHEDULED = (runs.c.trigger == Trigger.SCHEDULE, runs.c.state == RunState.WAITING)


@dataclass(frozen=True)
class MovedRun:
    """A scheduled run that a newer version of the time zones has moved. Times are in UTC."""

    task: str
    before: datetime
    after: datetime | None
    tzdata: str | None
    """The tzdata version by which it was planned before."""


def plan_unplanned(connection: Connection, now: datetime, limit: int) -> tuple[int, list[MovedRun]]:
    """Plan tasks that need it, except those that other nodes hold. Return how many, and the moved runs.

    Which of them were changed with plain SQL goes to the audit log.
    """
    found = tasks.to_plan(connection, now, limit)
    audit_log.record_sql_edits(connection, now, found)
    return len(found), [moved for task in found if (moved := plan(connection, task, now))]


def plan(connection: Connection, task: Task, now: datetime) -> MovedRun | None:
    """Give a task its next waiting run. Return that run's move if newer time zones have moved it.

    The caller has locked the task or has just written it. The waiting row is kept with new values, moved,
    inserted or removed. A task that cannot run is marked with the error and gets no next run.
    """
    if _is_claimed(connection, task):
        # The start of the claimed run inserts the next one; the task is planned after that. Only its events
        # and upstream tasks change now.
        with suppress(UsageError):
            tasks.subscribe(connection, [task])
        return None
    if task.paused_until and task.paused_until <= now:
        task = resume(connection, task, now)
    try:
        require_runnable(task)
        tasks.subscribe(connection, [task])
        next_at, moved = _choose_next(connection, task, now)
    except (UsageError, *ROW_ERRORS) as error:
        problem = str(error) if isinstance(error, UsageError) else f"cannot be read: {error}"
        _remove_next(connection, task, now, skip_reasons.suspended_skip(problem))
        tasks.mark_planned(connection, task, problem)
        return None
    if next_at is None:
        skip = skip_reasons.NO_LONGER_WANTED if task.enabled else paused_skip(task)
        _remove_next(connection, task, now, skip)
    else:
        _write_next(connection, task, next_at, now)
    tasks.mark_planned(connection, task, None)
    _reroute(connection, task)
    blocked.unblock(connection, [task.id], now)
    return moved


def plan_new(connection: Connection, new_tasks: Sequence[Task], now: datetime) -> None:
    """Insert the first runs of tasks that were just written and can run, all in the same few statements."""
    first_runs = [first for task in new_tasks if (first := _first_run(task, now))]
    _write_planned(connection, new_tasks, first_runs)


def plan_added(connection: Connection, task: Task, now: datetime) -> Run | None:
    """Insert the first run of a task that `tasks.add` has just written; return it, or None without one."""
    tasks.subscribe_new(connection, [task])
    first = _first_run(task, now)
    return store_runs.add(connection, first) if first else None


def _first_run(task: Task, now: datetime) -> new_runs.Values | None:
    first = _first_time(task, now) if task.enabled else None
    return new_runs.scheduled(task, first) if first else None


def plan_restored(
    connection: Connection, new_tasks: Sequence[Task], dumped: Mapping[str, datetime | None], now: datetime
) -> list[Task]:
    """Insert the next runs of tasks that were just written from a dump. `dumped` has the times by task name.

    A run whose time has passed is due at once, and the task's catch-up rule decides which occurrences run. It
    is left out if no occurrence follows it; return the tasks for which it was. A task that cannot run is
    marked with the error.
    """
    next_runs, planned, left_out = [], [], []
    for task in new_tasks:
        try:
            require_runnable(task)
            next_at = _restored_time(task, dumped.get(task.name), now)
        except UsageError as error:
            tasks.mark_planned(connection, task, str(error))
            continue
        planned.append(task)
        if next_at and task.enabled:
            next_runs.append(new_runs.scheduled(task, next_at))
        elif dumped.get(task.name) and task.enabled:
            left_out.append(task)
    _write_planned(connection, planned, next_runs)
    return left_out


def _write_planned(connection: Connection, planned: Sequence[Task], next_runs: list[new_runs.Values]) -> None:
    if next_runs:
        connection.execute(insert(runs), next_runs)
    tasks.subscribe_new(connection, planned)
    tasks.mark_all_planned(connection, planned)


def _restored_time(task: Task, dumped: datetime | None, now: datetime) -> datetime | None:
    """Return the dumped time if it is one of the task's occurrences; else the first time after `now`."""
    if dumped is None or not is_timed(task):
        return dumped if dumped and delay_of(task) else _first_time(task, now)
    if next_occurrence(task, dumped - INSTANT) != dumped:
        return _first_time(task, now)
    return dumped if dumped > now or next_occurrence(task, dumped) else None


def next_occurrences(connection: Connection, task_ids: Collection[int]) -> dict[int, datetime]:
    """Return the time (UTC) of each task's next scheduled run, by task id, for tasks that have one."""
    query = select(runs.c.task_id, runs.c.scheduled_for).where(text(NEXT), runs.c.task_id.in_(task_ids))
    return {row.task_id: row.scheduled_for for row in connection.execute(query)}


def add_successor(
    connection: Connection, task: Task, after: datetime, backlog_until: datetime | None = None
) -> None:
    """Insert the task's first scheduled run after `after`. The caller has locked the task and ended its last.

    Occurrences up to `backlog_until` waited at the limit, and each of them runs.
    """
    try:
        require_runnable(task)
        following = _first_time(task, after)
    except UsageError as error:
        tasks.mark_planned(connection, task, str(error))
        return
    if task.enabled and following:
        backlog_until = backlog_until if backlog_until and following <= backlog_until else None
        waits = {"blocked": _delay_block(connection, task), "backlog_until": backlog_until}
        connection.execute(insert(runs).values(new_runs.scheduled(task, following) | waits))


def resume(connection: Connection, task: Task, now: datetime) -> Task:
    """End the task's pause and record what it missed in one row. Return the task as it is then."""
    tasks.change(
        connection,
        task,
        {"enabled": True, **dict.fromkeys(("paused_reason", "paused_by", "paused_at", "paused_until"))},
        now,
        task.changed_by or "dcron",
    )
    record_paused(connection, task, now)
    resumed = tasks.by_id(connection, task.id)
    assert resumed
    audit_log.record(connection, now, Author.agent(), "resume", before=task, after=resumed)
    return resumed


def record_paused(connection: Connection, task: Task, now: datetime) -> None:
    """Record one skipped row for all occurrences in the pause that ends `now`."""
    if task.paused_at is None:
        return
    try:
        first = _first_unrecorded(connection, task, task.paused_at)
        missed = first and catch_up.missed_between(task, first, now + INSTANT)
    except UsageError:
        return  # planning reports the error; which occurrences it missed is unknown
    if missed:
        skipping.record(connection, [(task, paused_skip(task, missed))], now)


def run_now(connection: Connection, task: Task, now: datetime, payload: str | None) -> int:
    """Insert a manual run that is due at once. Return its id."""
    values = new_runs.manual(task, now, payload)
    added: int = connection.execute(insert(runs).values(values).returning(runs.c.id)).scalar_one()
    return added


def add_backfill(
    connection: Connection, task: Task, occurrences: Sequence[datetime], now: datetime
) -> Sequence[int]:
    """Insert runs for past occurrences, all blocked, and return their ids.

    `unblock` then releases as many as may run.
    """
    made = new_runs.backfills(task, occurrences, now)
    return connection.scalars(insert(runs).returning(runs.c.id), made).all()


def add_reboot_runs(connection: Connection, node_id: str, now: datetime) -> int:
    """Insert a run of each `@reboot` task that this node, already registered, may run. Return how many."""
    node = next((node for node in store_nodes.living(connection, now) if node.id == node_id), None)
    values = []
    for task in tasks.with_reboot(connection):
        lane = lane_of(task).on(node_id)
        if node and _starts_with_node(task) and served_by(lane, node):
            values.append(new_runs.at_reboot(task, node_id, now))
    if values:
        connection.execute(insert(runs), values)
    return len(values)


@dataclass(frozen=True)
class LaneHead:
    """A lane, and when its first run is due."""

    lane: Lane
    due_at: datetime


def heads(connection: Connection) -> list[LaneHead]:
    """Return the first lanes in which runs wait, each with its first run."""
    return heads_after(connection, "")[0]


def all_heads(connection: Connection) -> Iterator[LaneHead]:
    """Yield the lanes in which runs wait, each with its first run, up to _PAGES_OF_LANES pages of them."""
    lane = ""
    for _ in range(_PAGES_OF_LANES):
        found, lane = heads_after(connection, lane)
        yield from found
        if not lane:
            return


def reservation(
    heads: Iterable[LaneHead], free: Mapping[str, float], now: datetime, is_full: Callable[[str], bool]
) -> Lane | None:
    """Return the lane for which a node with this much free capacity keeps room; None if its queue is full.

    `heads` are the lanes that the node serves. `is_full` takes the name of a queue.
    """
    lane = reserved_lane(((head.lane, head.due_at) for head in heads), free, now)
    return None if lane is None or is_full(lane.queue) else lane


def heads_after(connection: Connection, lane: str) -> tuple[list[LaneHead], str]:
    """Return the lanes behind `lane` in which runs wait, each with its first run, and where to continue.

    Continue behind the lane that is returned; it is empty when there are no more. Each lane costs one index
    lookup, however many runs wait.
    """
    rows = connection.execute(lane_heads(), lanes_after(lane))
    return read_heads([(row.lane, row.due_at) for row in rows])


def read_heads(rows: Sequence[tuple[str, datetime | None]]) -> tuple[list[LaneHead], str]:
    """Return the rows of `lane_heads` as `heads_after` does."""
    read = ((read_lane(lane), due_at) for lane, due_at in rows)
    last = rows[-1][0] if len(rows) == MOST_LANES else ""
    return [LaneHead(known, due_at) for known, due_at in read if known and due_at], last


def lanes_after(lane: str) -> dict[str, Any]:
    """Return the parameters of `lane_heads`."""
    return {"behind": lane, "most": MOST_LANES}


@cache
def lane_heads() -> Select[Any]:
    """Return the query for lanes in which runs wait, each with when its first run is due."""
    behind = select(runs.c.lane).where(text(DUE), runs.c.lane > bindparam("behind"))
    first = behind.order_by(runs.c.lane).limit(1).scalar_subquery()
    found = select(first.label("lane")).cte("lanes", recursive=True)
    further = select(runs.c.lane).where(text(DUE), runs.c.lane > found.c.lane).correlate(found)
    following = further.order_by(runs.c.lane).limit(1).scalar_subquery()
    lanes = found.union_all(select(following).where(found.c.lane.is_not(None)))
    due = select(runs.c.due_at).where(text(DUE), runs.c.lane == lanes.c.lane).correlate(lanes)
    due_at = due.order_by(runs.c.due_at, runs.c.id).limit(1).scalar_subquery()
    heads = select(lanes.c.lane, due_at.label("due_at")).where(lanes.c.lane.is_not(None))
    return heads.limit(bindparam("most", type_=Integer()))


def due_with(connection: Connection, task: Task, run: Run | None, limit: int) -> list[Task]:
    """Return up to `limit` tasks due in the minute of this scheduled run of the task; none for a one-off."""
    if run is None or run.trigger is not Trigger.SCHEDULE or task.once:
        return []
    return due_in_minute(connection, run.due_at.replace(second=0, microsecond=0), limit)


def due_in_minute(connection: Connection, minute: datetime, limit: int) -> list[Task]:
    """Return up to `limit` tasks with a scheduled run due in this minute, found lane by lane."""
    given = {"begin": minute, "end": minute + timedelta(minutes=1), "limit": limit, **lanes_after("")}
    return [tasks.task_from(row) for row in connection.execute(_due_in_minute(), given)]


@cache
def _due_in_minute() -> Executable:
    lanes = lane_heads().subquery()
    end = bindparam("end", type_=Instant())
    due = (text(DUE), runs.c.due_at >= bindparam("begin", type_=Instant()), runs.c.due_at < end)
    query = (
        select(*tasks.COLUMNS)
        .select_from(lanes)
        .join(runs, and_(runs.c.lane == lanes.c.lane, *due, runs.c.trigger == Trigger.SCHEDULE))
        .join(crontab, crontab.c.id == runs.c.task_id)
    )
    return query.where(lanes.c.due_at < end).limit(bindparam("limit", type_=Integer()))


def withdraw(connection: Connection, task: Task, now: datetime, actor: str) -> None:
    """Skip all waiting runs of a task that this actor removes."""
    skip = skip_reasons.removed_skip(actor)
    _remove_next(connection, task, now, skip)
    skipping.end(connection, [runs.c.task_id == task.id], skip, now)


def _first_unrecorded(connection: Connection, task: Task, after: datetime) -> datetime | None:
    """Return the task's first time after `after` without a finished run, such as one cancelled early."""
    first = _first_time(task, after)
    while first and not delay_of(task) and _is_recorded(connection, task, first):
        first = _first_time(task, first)
    return first


def _is_recorded(connection: Connection, task: Task, occurrence: datetime) -> bool:
    """Return whether a finished scheduled run records the occurrence."""
    final = (runs.c.finished_at.is_not(None), runs.c.trigger == Trigger.SCHEDULE)
    of_time = (runs.c.task_id == task.id, runs.c.scheduled_for == occurrence)
    return connection.scalar(select(runs.c.id).where(*of_time, *final).limit(1)) is not None


def _first_time(task: Task, after: datetime) -> datetime | None:
    """Return when the task first runs by itself after `after`; None if only other runs or events start it."""
    if delay := delay_of(task):
        return after + delay
    return next_occurrence(task, after) if is_timed(task) else None


def _choose_next(
    connection: Connection, task: Task, now: datetime
) -> tuple[datetime | None, MovedRun | None]:
    """Return when the task's next scheduled run should be, and its move if newer time zones moved it."""
    if not task.enabled or not (is_timed(task) or delay_of(task)):
        return None, None
    columns = (runs.c.scheduled_for, runs.c.task, runs.c.spec, runs.c.tzdata)
    waiting = connection.execute(select(*columns).where(runs.c.task_id == task.id, *_SCHEDULED)).first()
    if waiting is None or not same_times(task, waiting.task, waiting.spec):
        return _first_unrecorded(connection, task, now), None
    if task.planned_version == 0 and waiting.scheduled_for > now:
        return _not_too_late(connection, task, now, waiting)
    if delay_of(task):
        return waiting.scheduled_for, None
    if waiting.scheduled_for <= now or (waiting.tzdata or "") >= tzdata_version():
        return waiting.scheduled_for, None
    return _by_newer_zones(task, now, waiting)


def _by_newer_zones(task: Task, now: datetime, waiting: Any) -> tuple[datetime | None, MovedRun | None]:
    next_at = next_occurrence(task, now)
    if next_at == waiting.scheduled_for:
        return next_at, None
    return next_at, MovedRun(task.name, waiting.scheduled_for, next_at, waiting.tzdata)


def _not_too_late(
    connection: Connection, task: Task, now: datetime, waiting: Any
) -> tuple[datetime | None, MovedRun | None]:
    """Return the next run of a task planned from scratch: a clock that was ahead may have put it too late."""
    if delay := delay_of(task):
        return min(waiting.scheduled_for, now + delay), None
    if (waiting.tzdata or "") < tzdata_version():
        return _by_newer_zones(task, now, waiting)
    settled = clock_steps.settled_between(connection, task.id, now, waiting.scheduled_for)
    first = next_occurrence(task, now)
    while first in settled and first < waiting.scheduled_for:
        first = next_occurrence(task, first)
    return min(filter(None, (first, waiting.scheduled_for))), None


def _write_next(connection: Connection, task: Task, next_at: datetime, now: datetime) -> None:
    _end_overdue(connection, task, now, skip_reasons.REPLACED, keep=next_at)
    next_run = update(runs).where(runs.c.task_id == task.id, *_SCHEDULED)
    fitted = new_runs.scheduled(task, next_at)
    # A run that keeps its time also keeps its block; `unblock` knows when that ends.
    stays = next_run.where(runs.c.scheduled_for == next_at)
    if not delay_of(task):
        stays = stays.where(runs.c.blocked.is_distinct_from(Block.DELAY))
    if connection.execute(stays.values(fitted)).rowcount:
        return
    fitted |= {"blocked": _delay_block(connection, task), "backlog_until": None}
    if not connection.execute(next_run.values(fitted)).rowcount:
        connection.execute(insert(runs).values(fitted))


def _delay_block(connection: Connection, task: Task) -> Block | None:
    """Return the block of a new scheduled run that is counted from the end of a run still alive."""
    alive = select(runs.c.id).where(runs.c.task_id == task.id, text(ALIVE)).limit(1)
    return Block.DELAY if delay_of(task) and connection.scalar(alive) else None


def _reroute(connection: Connection, task: Task) -> None:
    """Move the task's other waiting runs to the lanes that match its present requirements and priority."""
    others = (
        runs.c.task_id == task.id,
        runs.c.state == RunState.WAITING,
        runs.c.for_node.is_(None),
        runs.c.trigger != Trigger.SCHEDULE,
    )
    is_backfill = runs.c.trigger == Trigger.BACKFILL
    lanes = select(runs.c.lane, is_backfill.label("is_backfill")).where(*others).distinct()
    for row in connection.execute(lanes).all():
        trigger = Trigger.BACKFILL if row.is_backfill else Trigger.SCHEDULE
        lane = str(rerouted(read_lane(row.lane), task, trigger))
        of_kind = (runs.c.lane == row.lane, is_backfill if row.is_backfill else ~is_backfill)
        if lane != row.lane:
            moved = update(runs).where(*others, *of_kind)
            connection.execute(moved.values(lane=lane, queue=task.queue))


def _is_claimed(connection: Connection, task: Task) -> bool:
    next_run = runs.c.task_id == task.id, text(NEXT), runs.c.state == RunState.CLAIMED
    return connection.scalar(select(runs.c.id).where(*next_run)) is not None


def _remove_next(connection: Connection, task: Task, now: datetime, skip: Skip) -> None:
    """Delete the waiting scheduled run. If its time has come, keep it on record as skipped."""
    _end_overdue(connection, task, now, skip)
    connection.execute(delete(runs).where(runs.c.task_id == task.id, *_SCHEDULED))


def _end_overdue(
    connection: Connection, task: Task, now: datetime, skip: Skip, keep: datetime | None = None
) -> None:
    """Skip the scheduled run whose time has come, unless that is `keep`. Its row covers all missed ones."""
    # By the scheduled time: jitter delays only the start. A run that is counted from the end of another one
    # has no time of its own before that end.
    not_delayed = runs.c.blocked.is_distinct_from(Block.DELAY)
    overdue = (runs.c.task_id == task.id, *_SCHEDULED, not_delayed, runs.c.scheduled_for <= now)
    run = connection.execute(
        select(runs.c.id, runs.c.scheduled_for, runs.c.task, runs.c.spec).where(*overdue)
    ).first()
    if run is None or run.scheduled_for == keep:
        return
    missed = catch_up.missed_as_planned(run.task, run.spec, run.scheduled_for, now + INSTANT)
    if missed and missed.count > 1:
        skip = replace(skip, covers=missed)
    skipping.end(connection, [runs.c.id == run.id], skip, now)


def _starts_with_node(task: Task) -> bool:
    try:
        require_runnable(task)
    except UsageError:
        return False  # planning reports the error
    return starts_with_node(task)
