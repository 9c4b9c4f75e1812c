"""Unblock waiting runs. A blocked run is outside the index of due runs until its cause has ended.

The transaction that ends the cause (a limit, a pause, a delay) unblocks the runs that waited for it.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Integer, Row, bindparam, select, text, update

from dcron.errors import UsageError
from dcron.model import Block, Task, Trigger
from dcron.policy.starting import occurrences, skip_reasons
from dcron.policy.starting.decision import after_limit
from dcron.schema.conditions import ALIVE, BLOCKED, DUE
from dcron.schema.tables import runs
from dcron.store.runs import skipping, unclaimable
from dcron.store.tasks import rows as tasks

_UNBLOCKED_AT_ONCE = 500


def unblock(connection: Connection, task_ids: Sequence[int], now: datetime) -> int:
    """Unblock waiting runs of these tasks whose cause has ended, up to their limits. Return how many.

    Blocked runs of a removed task are skipped.
    """
    if not task_ids:
        return 0
    found = sorted(connection.scalars(_blocked_tasks(), {"task_ids": list(task_ids)}))
    tasks.lock(connection, found)  # all tasks before the first run, as everywhere
    unblocked = 0
    for task_id in found:
        if task := tasks.by_id(connection, task_id):
            unblocked += _unblock_task(connection, task, now)
        else:
            orphans = select(runs.c.id).where(runs.c.task_id == task_id, text(BLOCKED))
            unclaimable.skip_all(
                connection, orphans.limit(_UNBLOCKED_AT_ONCE), skip_reasons.removed_skip(), now
            )
    return unblocked


@cache
def _blocked_tasks() -> Executable:
    of_tasks = runs.c.task_id.in_(bindparam("task_ids", expanding=True))
    return select(runs.c.task_id).where(of_tasks, text(BLOCKED)).distinct()


def unblock_some(connection: Connection, after_task: int, now: datetime, limit: int) -> int:
    """Unblock runs of the next tasks with ids above `after_task`. Return the last of these ids, or 0.

    It reads `limit` blocked runs. This is a safety net: the transaction that ends a cause already unblocks.
    """
    found = connection.scalars(_next_blocked(), {"after_task": after_task, "most": limit})
    task_ids: list[int] = sorted(set(found))
    unblock(connection, task_ids, now)
    return task_ids[-1] if task_ids else 0


@cache
def _next_blocked() -> Executable:
    behind = select(runs.c.task_id).where(text(BLOCKED), runs.c.task_id > bindparam("after_task"))
    return behind.order_by(runs.c.task_id).limit(bindparam("most", type_=Integer()))


def _unblock_task(connection: Connection, task: Task, now: datetime) -> int:
    # Locked: a transaction that records an end now may have looked for blocked runs before these existed.
    alive = Counter(connection.scalars(_alive_owners(), {"task_id": task.id}))
    unblocked = 0
    for row in _in_order(connection, task):
        counted = alive[row.for_node] if task.every_node else alive.total()
        free = task.max_running is None or counted < task.max_running
        is_manual = row.trigger == Trigger.MANUAL
        if row.blocked == Block.LIMIT and not free:
            continue
        if not (task.enabled or is_manual):
            if row.blocked == Block.LIMIT:
                connection.execute(update(runs).where(runs.c.id == row.id).values(blocked=Block.PAUSED))
            continue
        if row.blocked == Block.DELAY and alive.total():
            continue
        values: dict[str, Any] = {"blocked": None}
        if row.blocked == Block.LIMIT:
            alive[row.for_node] += 1
            if row.trigger == Trigger.SCHEDULE:
                values |= _after_limit(connection, task, row, now)
        elif row.blocked == Block.DELAY and (delay := occurrences.delay_of(task)):
            values |= {"scheduled_for": now + delay, "due_at": now + delay}
            values["expires_at"] = occurrences.expiry_of(task, now + delay)
        connection.execute(update(runs).where(runs.c.id == row.id).values(values))
        unblocked += 1
    return unblocked


@cache
def _alive_owners() -> Executable:
    alive = select(runs.c.owner).where(runs.c.task_id == bindparam("task_id"), text(ALIVE))
    return alive.order_by(runs.c.id).with_for_update(key_share=True)


def _in_order(connection: Connection, task: Task) -> list[Row[Any]]:
    """Return some of the task's blocked runs in order: a run that replaces another first, backfills last."""
    given = {"task_id": task.id, "most": _UNBLOCKED_AT_ONCE}
    rows = [
        *connection.execute(_blocked_of(backfills=False), given),
        *connection.execute(_blocked_of(backfills=True), given),
    ]
    if task.overlap == "replace":
        rows.sort(key=lambda row: row.trigger not in (Trigger.SCHEDULE, Trigger.NODE))
    return rows


@cache
def _blocked_of(*, backfills: bool) -> Executable:
    columns = (runs.c.id, runs.c.trigger, runs.c.blocked, runs.c.for_node, runs.c.scheduled_for)
    is_backfill = runs.c.trigger == Trigger.BACKFILL
    of_task = select(*columns).where(runs.c.task_id == bindparam("task_id"), text(BLOCKED))
    some = of_task.where(is_backfill if backfills else ~is_backfill).order_by(runs.c.due_at, runs.c.id)
    return some.limit(bindparam("most", type_=Integer()))


def _after_limit(connection: Connection, task: Task, row: Row[Any], now: datetime) -> dict[str, Any]:
    """Return the new values of a scheduled run that the limit kept waiting while later occurrences passed."""
    try:
        found = after_limit(task, row.scheduled_for, now)
    except UsageError:  # the claim reports what is wrong with the task
        return {}
    if found is None or found.runs_at is None:
        return {}
    if found.missed:
        skipping.record(connection, [(task, skip_reasons.overlapped_skip(found.missed))], now)
    due_at = occurrences.due_at(task, found.runs_at)
    return {
        "scheduled_for": found.runs_at,
        "backlog_until": found.backlog_until,
        "expires_at": occurrences.expiry_of(task, due_at),
    }


def block_others_of(connection: Connection, task_ids: Collection[int], now: datetime) -> None:
    """Block the due runs of these tasks, which are at their limits, in one statement.

    Scheduled and manual runs are not blocked: the overlap rule may skip them.
    """
    waits = (Trigger.RETRY, Trigger.EVENT, Trigger.AFTER, Trigger.BACKFILL)
    due = (runs.c.task_id.in_(task_ids), text(DUE), runs.c.trigger.in_(waits), runs.c.due_at <= now)
    if task_ids:
        connection.execute(update(runs).where(*due).values(blocked=Block.LIMIT))
