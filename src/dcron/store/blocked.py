"""Waiting runs that are kept out of the due ones, until whoever ends the cause lets them go."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Integer, Row, bindparam, select, text, update

from dcron import policy
from dcron.errors import UsageError
from dcron.model import Block, SkipCode, Task, Trigger
from dcron.policy import Skip
from dcron.schema import ALIVE, BLOCKED, DUE, runs
from dcron.store import skipping, tasks, unclaimable

_UNBLOCKED_AT_ONCE = 500


def unblock(connection: Connection, task_ids: Sequence[int], now: datetime) -> int:
    """Let go on what waits for one of these lines and whose cause is gone, as many as there is room for."""
    if not task_ids:
        return 0
    found = sorted(connection.scalars(_blocked_lines(), {"task_ids": list(task_ids)}))
    tasks.lock(connection, found)  # all lines before the first run
    freed = 0
    for task_id in found:
        if task := tasks.by_id(connection, task_id):
            freed += _unblock_line(connection, task, now)
        else:
            kept = select(runs.c.id).where(runs.c.task_id == task_id, text(BLOCKED))
            unclaimable.skip_all(connection, kept.limit(_UNBLOCKED_AT_ONCE), unclaimable.REMOVED, now)
    return freed


@cache
def _blocked_lines() -> Executable:
    of_lines = runs.c.task_id.in_(bindparam("task_ids", expanding=True))
    return select(runs.c.task_id).where(of_lines, text(BLOCKED)).distinct()


def unblock_some(connection: Connection, after_task: int, now: datetime, limit: int) -> int:
    """The same for the next few lines behind this id that have blocked runs; the last one's id, or 0.

    A net below the nets: whoever ends a cause unblocks what waited for it.
    """
    found = connection.scalars(_next_blocked(), {"after_task": after_task, "most": limit})
    task_ids: list[int] = sorted(set(found))
    unblock(connection, task_ids, now)
    return task_ids[-1] if task_ids else 0


@cache
def _next_blocked() -> Executable:
    behind = select(runs.c.task_id).where(text(BLOCKED), runs.c.task_id > bindparam("after_task"))
    return behind.order_by(runs.c.task_id).limit(bindparam("most", type_=Integer()))


def _unblock_line(connection: Connection, task: Task, now: datetime) -> int:
    # Locked: who is just recording the end of one may have looked for blocked runs before there were any.
    alive = Counter(connection.scalars(_living(), {"task_id": task.id}))
    freed = 0
    for row in _in_order(connection, task):
        here = alive[row.for_node] if task.every_node else alive.total()
        free = task.max_running is None or here < task.max_running
        by_hand = row.trigger == Trigger.MANUAL
        if row.blocked == Block.LIMIT and not free:
            continue
        if not (task.enabled or by_hand):
            if row.blocked == Block.LIMIT:
                connection.execute(update(runs).where(runs.c.id == row.id).values(blocked=Block.PAUSED))
            continue
        if row.blocked == Block.DELAY and alive.total():
            continue
        values: dict[str, Any] = {"blocked": None}
        if row.blocked == Block.LIMIT:
            alive[row.for_node] += 1
            if row.trigger == Trigger.SCHEDULE:
                values |= _after_a_hold(connection, task, row, now)
        elif row.blocked == Block.DELAY and (delay := policy.delay_of(task)):
            values |= {"scheduled_for": now + delay, "due_at": now + delay}
            values["expires_at"] = policy.expiry_of(task, now + delay)
        connection.execute(update(runs).where(runs.c.id == row.id).values(values))
        freed += 1
    return freed


@cache
def _living() -> Executable:
    living = select(runs.c.owner).where(runs.c.task_id == bindparam("task_id"), text(ALIVE))
    return living.order_by(runs.c.id).with_for_update(key_share=True)


def _in_order(connection: Connection, task: Task) -> list[Row[Any]]:
    """The line's blocked runs, some of them: what is made up for comes last, a turn that replaces first."""
    given = {"task_id": task.id, "most": _UNBLOCKED_AT_ONCE}
    rows = [
        *connection.execute(_blocked_of(backfilled=False), given),
        *connection.execute(_blocked_of(backfilled=True), given),
    ]
    if task.overlap == "replace":
        rows.sort(key=lambda row: row.trigger not in (Trigger.SCHEDULE, Trigger.NODE))
    return rows


@cache
def _blocked_of(*, backfilled: bool) -> Executable:
    columns = (runs.c.id, runs.c.trigger, runs.c.blocked, runs.c.for_node, runs.c.scheduled_for)
    is_made_up = runs.c.trigger == Trigger.BACKFILL
    of_line = select(*columns).where(runs.c.task_id == bindparam("task_id"), text(BLOCKED))
    some = of_line.where(is_made_up if backfilled else ~is_made_up).order_by(runs.c.due_at, runs.c.id)
    return some.limit(bindparam("most", type_=Integer()))


def _after_a_hold(connection: Connection, task: Task, row: Row[Any], now: datetime) -> dict[str, Any]:
    """How a turn goes on that the limit has kept waiting, others behind it: for all of them where they queue,
    else for the one that would be made up for."""
    if task.overlap == "queue":
        return {"backlog_until": now}
    try:
        turn = policy.catch_up(task, row.scheduled_for, now)
    except UsageError:  # claiming says what is wrong with the line
        return {}
    if turn.runs_at is None or turn.missed is None:
        return {}
    overlap = "overlap: the run before was still alive"
    skipping.record(connection, [(task, Skip(SkipCode.OVERLAP, overlap, covers=turn.missed))], now)
    due_at = policy.due_at(task, turn.runs_at)
    return {
        "scheduled_for": turn.runs_at,
        "backlog_until": turn.backlog_until,
        "expires_at": policy.expiry_of(task, due_at),
    }


def block_others_of(connection: Connection, task_ids: Collection[int], now: datetime) -> None:
    """Take all due runs of these lines, at their limits, out of the way at once; none that may be skipped."""
    waits = (Trigger.RETRY, Trigger.EVENT, Trigger.AFTER, Trigger.BACKFILL)
    due = (runs.c.task_id.in_(task_ids), text(DUE), runs.c.trigger.in_(waits), runs.c.due_at <= now)
    if task_ids:
        connection.execute(update(runs).where(*due).values(blocked=Block.LIMIT))
