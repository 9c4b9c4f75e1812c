"""The agenda: the waiting rows of `runs`. Every feature is one more way to insert a waiting row."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Select,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from dcron import policy
from dcron.errors import ROW_ERRORS, UsageError
from dcron.model import Block, RunState, SkipCode, Task, Trigger
from dcron.policy import INSTANT, Lane, Skip
from dcron.schedule import tzdata_version
from dcron.schema import ALIVE, DUE, NEXT, runs
from dcron.store import audit_log, blocked, clock_steps, new_runs, queues, skipping, tasks
from dcron.store import nodes as store_nodes
from dcron.validation import require_runnable

MOST_LANES = 1000
"""Lanes of one look; the next look goes on behind them."""

TURN = (runs.c.trigger == Trigger.SCHEDULE, runs.c.state == RunState.WAITING)


@dataclass(frozen=True)
class MovedRun:
    """A turn that a newer version of the time zones has put elsewhere."""

    task: str
    before: datetime
    after: datetime | None
    tzdata: str | None
    """The version by which it was planned before."""


def plan(connection: Connection, task: Task, now: datetime) -> MovedRun | None:
    """Give the line, locked or just written by the caller, the one next run it should have.

    Whatever changed, the waiting row is made to fit: kept with fresh contents, moved, made, or taken away.
    A line that cannot be run is marked with the reason, and has no next run until it is mended.
    Tells when it was newer time zones that moved the turn.
    """
    if _is_claimed(connection, task):
        # Its next turn comes in with the start of this one; then the line is planned. What it follows it
        # follows from now on.
        with suppress(UsageError):
            tasks.subscribe(connection, [task])
        return None
    if task.paused_until and task.paused_until <= now:
        task = resume(connection, task, now)
    try:
        require_runnable(task)
        tasks.subscribe(connection, [task])
        wanted, moved = _wanted_turn(connection, task, now)
    except (UsageError, *ROW_ERRORS) as error:
        problem = str(error) if isinstance(error, UsageError) else f"cannot be read: {error}"
        _take_away(connection, task, now, Skip(SkipCode.SUSPENDED, f"suspended: {problem}"))
        tasks.mark_planned(connection, task, problem)
        return None
    if wanted is None:
        skip = Skip(SkipCode.EDITED, "no longer wanted") if task.enabled else policy.paused_skip(task)
        _take_away(connection, task, now, skip)
    else:
        _put(connection, task, wanted, now)
    tasks.mark_planned(connection, task, None)
    _reroute(connection, task)
    blocked.unblock(connection, [task.id], now)
    return moved


def plan_new(connection: Connection, lines: Sequence[Task], now: datetime) -> None:
    """Give lines that were written just now, and can be run, their first runs: two statements for all."""
    turns = [
        new_runs.scheduled(task, first)
        for task in lines
        if task.enabled and (first := _first_turn(task, now))
    ]
    if turns:
        connection.execute(insert(runs), turns)
    tasks.subscribe(connection, lines)
    tasks.mark_all_planned(connection, lines)


def plan_restored(
    connection: Connection, lines: Sequence[Task], kept: Mapping[str, datetime | None], now: datetime
) -> list[Task]:
    """Give lines that were written just now the next turns that were kept for them, by name.

    A turn whose time has passed is due at once, and the line's catch-up rule says what of it runs; one after
    which nothing more would come is left out. Returns the lines it was left out of. A line that cannot be
    run is marked with the reason.
    """
    turns, well, over = [], [], []
    for task in lines:
        try:
            require_runnable(task)
            turn = _kept_turn(task, kept.get(task.name), now)
        except UsageError as error:
            tasks.mark_planned(connection, task, str(error))
            continue
        well.append(task)
        if turn and task.enabled:
            turns.append(new_runs.scheduled(task, turn))
        elif kept.get(task.name) and task.enabled:
            over.append(task)
    if turns:
        connection.execute(insert(runs), turns)
    tasks.subscribe(connection, well)
    tasks.mark_all_planned(connection, well)
    return over


def _kept_turn(task: Task, kept: datetime | None, now: datetime) -> datetime | None:
    """The turn that was kept, if it is one of the line's; else the first from now on."""
    if kept is None or not policy.is_timed(task):
        return kept if kept and policy.delay_of(task) else _first_turn(task, now)
    if policy.next_occurrence(task, kept - INSTANT) != kept:
        return _first_turn(task, now)
    return kept if kept > now or policy.next_occurrence(task, kept) else None


def next_occurrences(connection: Connection, task_ids: Collection[int]) -> dict[int, datetime]:
    """The scheduled time of each of these lines' next turn, as far as they have one."""
    query = select(runs.c.task_id, runs.c.scheduled_for).where(text(NEXT), runs.c.task_id.in_(task_ids))
    return {row.task_id: row.scheduled_for for row in connection.execute(query)}


def plan_after(
    connection: Connection, task: Task, after: datetime, backlog_until: datetime | None = None
) -> None:
    """Give the line, locked by the caller, the turn that follows `after`, in place of one taken from it.

    Up to `backlog_until` its turns were kept waiting, and each runs.
    """
    try:
        require_runnable(task)
        following = _first_turn(task, after)
    except UsageError as error:
        tasks.mark_planned(connection, task, str(error))
        return
    if task.enabled and following:
        turn = new_runs.scheduled(task, following)
        left = backlog_until if backlog_until and following <= backlog_until else None
        held = {"blocked": _held(connection, task), "backlog_until": left}
        connection.execute(insert(runs).values(turn | held))


def resume(connection: Connection, task: Task, now: datetime) -> Task:
    """End the line's pause and record, in one row, what was passed over; the line as it then is."""
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
    audit_log.record(connection, now, "dcron", "resume", before=task, after=resumed)
    return resumed


def record_paused(connection: Connection, task: Task, now: datetime) -> None:
    """One skipped row for all occurrences that fell into the pause that ends `now`."""
    if task.paused_at is None:
        return
    try:
        first = _first_open(connection, task, task.paused_at)
        span = first and policy.missed_between(task, first, now + INSTANT)
    except UsageError:
        return  # planning says what is wrong with the line; nobody can say what it missed
    if span:
        skipping.record(connection, [(task, policy.paused_skip(task, span))], now)


def run_now(connection: Connection, task: Task, now: datetime, payload: str | None) -> int:
    """A run that is due at once; its id."""
    values = new_runs.manual(task, now, payload)
    added: int = connection.execute(insert(runs).values(values).returning(runs.c.id)).scalar_one()
    return added


def add_backfill(connection: Connection, task: Task, occurrences: Sequence[datetime], now: datetime) -> None:
    """Runs for occurrences of the past, all held back at first: `unblock` lets go as many as may run."""
    connection.execute(insert(runs), new_runs.backfills(task, occurrences, now))


def add_reboot_runs(connection: Connection, node_id: str, now: datetime) -> int:
    """One run for each `@reboot` line that this node, which is there by now, may run; how many."""
    node = next((node for node in store_nodes.living(connection, now) if node.id == node_id), None)
    values = []
    for task in tasks.with_reboot(connection):
        lane = policy.lane_of(task).on(node_id)
        if node and _starts_with_node(task) and policy.served_by(lane, node):
            values.append(new_runs.at_reboot(task, node_id, now))
    if values:
        connection.execute(insert(runs), values)
    return len(values)


@dataclass(frozen=True)
class LaneHead:
    """A lane with when the first of its runs is due."""

    lane: Lane
    due_at: datetime


def heads(connection: Connection) -> list[LaneHead]:
    """The first lanes in which runs wait, each with its first run."""
    return heads_after(connection, "")[0]


def reservation(
    connection: Connection, heads: Iterable[LaneHead], free: Mapping[str, float], now: datetime
) -> Lane | None:
    """The lane for which a node with so much free keeps room; none where its queue lets nothing start anyway.

    `heads` are those that the node serves.
    """
    lane = policy.reservation(((head.lane, head.due_at) for head in heads), free, now)
    return None if lane is None or queues.is_full(connection, lane.queue) else lane


def heads_after(connection: Connection, lane: str) -> tuple[list[LaneHead], str]:
    """The lanes behind this one in which runs wait, each with its first run: one look at an index each,
    however many wait. With them the lane behind which there may be more; empty when these are all.
    """
    rows = connection.execute(lane_heads(), lanes_after(lane))
    return read_heads([(row.lane, row.due_at) for row in rows])


def read_heads(rows: Sequence[tuple[str, datetime | None]]) -> tuple[list[LaneHead], str]:
    """Return the rows of `lane_heads` as `heads_after` does."""
    read = ((policy.read_lane(lane), due_at) for lane, due_at in rows)
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


def due_in_minute(connection: Connection, minute: datetime, limit: int) -> list[int]:
    """The ids of tasks whose turns are due in this minute: lane by lane, for so there is an index."""
    found: list[int] = []
    end = minute + timedelta(minutes=1)
    for head in heads(connection):
        if head.due_at < end and len(found) < limit:
            due = (text(DUE), runs.c.lane == str(head.lane), runs.c.due_at >= minute, runs.c.due_at < end)
            query = select(runs.c.task_id).where(*due, runs.c.trigger == Trigger.SCHEDULE)
            found += connection.scalars(query.order_by(runs.c.due_at, runs.c.id).limit(limit - len(found)))
    return found


def withdraw(connection: Connection, task: Task, now: datetime, reason: str) -> None:
    """Skip all that waits for the task, which is being removed."""
    skip = Skip(SkipCode.REMOVED, reason)
    _take_away(connection, task, now, skip)
    skipping.end(connection, [runs.c.task_id == task.id], skip, now)


def _first_open(connection: Connection, task: Task, after: datetime) -> datetime | None:
    """The line's first turn after then that nobody has called off before its time."""
    first = _first_turn(task, after)
    while first and not policy.delay_of(task) and _is_settled(connection, task, first):
        first = _first_turn(task, first)
    return first


def _is_settled(connection: Connection, task: Task, occurrence: datetime) -> bool:
    """Whether the record already says what became of the occurrence."""
    final = (runs.c.finished_at.is_not(None), runs.c.trigger == Trigger.SCHEDULE)
    of_time = (runs.c.task_id == task.id, runs.c.scheduled_for == occurrence)
    return connection.scalar(select(runs.c.id).where(*of_time, *final).limit(1)) is not None


def _first_turn(task: Task, after: datetime) -> datetime | None:
    """When the line first runs by itself after then; None for one that only follows others."""
    if delay := policy.delay_of(task):
        return after + delay
    return policy.next_occurrence(task, after) if policy.is_timed(task) else None


def _wanted_turn(
    connection: Connection, task: Task, now: datetime
) -> tuple[datetime | None, MovedRun | None]:
    if not task.enabled or not (policy.is_timed(task) or policy.delay_of(task)):
        return None, None
    columns = (runs.c.scheduled_for, runs.c.task, runs.c.spec, runs.c.tzdata)
    waiting = connection.execute(select(*columns).where(runs.c.task_id == task.id, *TURN)).first()
    if waiting is None or not policy.same_times(task, waiting.task, waiting.spec):
        return _first_open(connection, task, now), None
    if task.planned_version == 0 and waiting.scheduled_for > now:
        return _not_later(connection, task, now, waiting)
    if policy.delay_of(task):
        return waiting.scheduled_for, None
    if waiting.scheduled_for <= now or (waiting.tzdata or "") >= tzdata_version():
        return waiting.scheduled_for, None
    return _by_newer_zones(task, now, waiting)


def _by_newer_zones(task: Task, now: datetime, waiting: Any) -> tuple[datetime | None, MovedRun | None]:
    wanted = policy.next_occurrence(task, now)
    if wanted == waiting.scheduled_for:
        return wanted, None
    return wanted, MovedRun(task.name, waiting.scheduled_for, wanted, waiting.tzdata)


def _not_later(
    connection: Connection, task: Task, now: datetime, waiting: Any
) -> tuple[datetime | None, MovedRun | None]:
    """The turn of a line planned from scratch: a clock that was ahead may have put it too far away."""
    if delay := policy.delay_of(task):
        return min(waiting.scheduled_for, now + delay), None
    if (waiting.tzdata or "") < tzdata_version():
        return _by_newer_zones(task, now, waiting)
    settled = clock_steps.settled_between(connection, task.id, now, waiting.scheduled_for)
    first = policy.next_occurrence(task, now)
    while first in settled and first < waiting.scheduled_for:
        first = policy.next_occurrence(task, first)
    return min(filter(None, (first, waiting.scheduled_for))), None


def _put(connection: Connection, task: Task, wanted: datetime, now: datetime) -> None:
    replaced = Skip(SkipCode.EDITED, "replaced by an edit")
    _end_overdue(connection, task, now, replaced, kept=wanted)
    turn = update(runs).where(runs.c.task_id == task.id, *TURN)
    fitted = new_runs.scheduled(task, wanted)
    # A turn that stays where it was waits on for what it waited for; `unblock` knows when that is over.
    stays = turn.where(runs.c.scheduled_for == wanted)
    if not policy.delay_of(task):
        stays = stays.where(runs.c.blocked.is_distinct_from(Block.DELAY))
    if connection.execute(stays.values(fitted)).rowcount:
        return
    fitted |= {"blocked": _held(connection, task), "backlog_until": None}
    if not connection.execute(turn.values(fitted)).rowcount:
        connection.execute(insert(runs).values(fitted))


def _held(connection: Connection, task: Task) -> Block | None:
    """Whether a new turn of the line waits for an end from which it is counted."""
    alive = select(runs.c.id).where(runs.c.task_id == task.id, text(ALIVE)).limit(1)
    return Block.DELAY if policy.delay_of(task) and connection.scalar(alive) else None


def _reroute(connection: Connection, task: Task) -> None:
    """What waits for the line besides its turn goes where the line says now, with its priority."""
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
        lane = str(policy.rerouted(policy.read_lane(row.lane), task, trigger))
        of_kind = (runs.c.lane == row.lane, is_backfill if row.is_backfill else ~is_backfill)
        if lane != row.lane:
            moved = update(runs).where(*others, *of_kind)
            connection.execute(moved.values(lane=lane, queue=task.queue))


def _is_claimed(connection: Connection, task: Task) -> bool:
    turn = select(runs.c.id).where(runs.c.task_id == task.id, text(NEXT), runs.c.state == RunState.CLAIMED)
    return connection.scalar(turn) is not None


def _take_away(connection: Connection, task: Task, now: datetime, skip: Skip) -> None:
    """Delete the scheduled run if its time is still to come; else keep it in the record as skipped."""
    _end_overdue(connection, task, now, skip)
    connection.execute(delete(runs).where(runs.c.task_id == task.id, *TURN))


def _end_overdue(
    connection: Connection, task: Task, now: datetime, skip: Skip, kept: datetime | None = None
) -> None:
    """Skip the turn whose time has come, unless it is for `kept`; its row tells all that passed with it."""
    # By its own time: one that its jitter holds back has had its time. One that is counted from the end of
    # a run has none before that.
    not_held = runs.c.blocked.is_distinct_from(Block.DELAY)
    overdue = (runs.c.task_id == task.id, *TURN, not_held, runs.c.scheduled_for <= now)
    turn = connection.execute(
        select(runs.c.id, runs.c.scheduled_for, runs.c.task, runs.c.spec).where(*overdue)
    ).first()
    if turn is None or turn.scheduled_for == kept:
        return
    span = policy.missed_as_planned(turn.task, turn.spec, turn.scheduled_for, now + INSTANT)
    if span and span.count > 1:
        skip = replace(skip, covers=span)
    skipping.end(connection, [runs.c.id == turn.id], skip, now)


def _starts_with_node(task: Task) -> bool:
    try:
        require_runnable(task)
    except UsageError:
        return False  # planning says what is wrong with the line
    return policy.starts_with_node(task)
