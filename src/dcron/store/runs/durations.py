"""Read how long the last successful runs of tasks took, and how long runs have been alive."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, func, select, text

from dcron.model import LAST_RUN, RunState
from dcron.schema.conditions import ALIVE
from dcron.schema.tables import crontab, runs
from dcron.values.unreadable import UnreadableTime

LAST = 50
"""Successful runs of a task that count."""
_NEWEST = 200
"""Runs of a task among which they are looked for: one that always fails must not be read as a whole."""


def of_tasks(
    connection: Connection, task_ids: Sequence[int], before: Mapping[int, int] = MappingProxyType({})
) -> dict[int, list[float]]:
    """Return the seconds that the last successful runs of each task took, sorted; in one statement.

    Of the tasks in `before`, only runs with lower ids than that count.
    """
    found: dict[int, list[float]] = {}
    rows = connection.execute(_succeeded(), {"ids": task_ids}) if task_ids else ()
    for run_id, task_id, started_at, finished_at in rows:
        is_readable = not any(isinstance(each, UnreadableTime) for each in (started_at, finished_at))
        if is_readable and run_id < before.get(task_id, LAST_RUN + 1):
            seconds = (finished_at - started_at).total_seconds()
            found.setdefault(task_id, []).append(max(0.0, seconds))
    return {task_id: sorted(seconds) for task_id, seconds in found.items()}


@cache
def _succeeded() -> Select[Any]:
    newest = runs.alias("newest")
    of_task = select(newest.c.id).where(newest.c.task_id == crontab.c.id).order_by(newest.c.id.desc())
    oldest = of_task.limit(1).offset(_NEWEST - 1).correlate(crontab).scalar_subquery()
    succeeded = (runs.c.state == RunState.SUCCEEDED, runs.c.started_at.is_not(None))
    counted = runs.alias("counted")
    last = (
        select(counted.c.id)
        .where(
            counted.c.task_id == crontab.c.id,
            counted.c.id >= func.coalesce(oldest, 0),
            counted.c.state == RunState.SUCCEEDED,
            counted.c.started_at.is_not(None),
        )
        .order_by(counted.c.id.desc())
        .limit(1)
        .offset(LAST - 1)
        .correlate(crontab)
        .scalar_subquery()
    )
    since = func.coalesce(last, oldest, 0)
    of_these = and_(runs.c.task_id == crontab.c.id, runs.c.id >= since, *succeeded)
    query = select(runs.c.id, runs.c.task_id, runs.c.started_at, runs.c.finished_at).select_from(crontab)
    return query.join(runs, of_these).where(crontab.c.id.in_(bindparam("ids", expanding=True)))


def of_alive(connection: Connection, now: datetime) -> list[tuple[str, str, float]]:
    """Return task, node ID and seconds since the start of each run that is alive; no task for a trial."""
    query = select(runs.c.task_id, runs.c.task, runs.c.owner, runs.c.started_at).where(text(ALIVE))
    return [
        (row.task if row.task_id > 0 else "", row.owner or "", _seconds_since(row.started_at, now))
        for row in connection.execute(query)
    ]


def _seconds_since(started_at: datetime | None, now: datetime) -> float:
    if started_at is None or isinstance(started_at, UnreadableTime):
        return 0.0
    return max(0.0, (now - started_at).total_seconds())
