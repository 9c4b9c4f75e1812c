"""Skip runs that were not started in time, whether any node could take them or not."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Integer, Row, Select, bindparam, select, text

from dcron.database import Database, locked
from dcron.errors import UsageError
from dcron.model import Block, Task, Trigger
from dcron.policy.starting import admission, catch_up, occurrences, skip_reasons
from dcron.policy.starting.catch_up import INSTANT
from dcron.schema.conditions import EXPIRING
from dcron.schema.tables import crontab, runs
from dcron.store.claims import finishing
from dcron.store.planning import dependencies, planning
from dcron.store.runs import skipping
from dcron.store.tasks import rows as tasks


def expire(connection: Connection, database: Database, now: datetime, limit: int) -> int:
    """Skip up to `limit` waiting runs that are past their deadlines. Return how many."""
    rows = connection.execute(_expired(), {"now": now, "most": limit}).all()
    for row in rows:
        _expire(connection, database, row, tasks.task_from(row), now)
    return len(rows)


@cache
def _expired() -> Executable:
    columns = (
        runs.c.id.label("run_id"),
        runs.c.trigger,
        runs.c.scheduled_for,
        runs.c.expires_at,
        runs.c.blocked,
        runs.c.backlog_until,
        runs.c.flow,
    )
    found = select(*columns, *tasks.COLUMNS).join_from(runs, crontab, crontab.c.id == runs.c.task_id)
    return locked(expired(found).order_by(runs.c.expires_at).limit(bindparam("most", type_=Integer())))


def expired(query: Select[Any]) -> Select[Any]:
    """Restrict a query to waiting runs that are past their deadlines at `now`."""
    # A run that is counted from the end of another one has no time of its own before that end.
    has_time = runs.c.blocked.is_distinct_from(Block.DELAY)
    return query.where(text(EXPIRING), runs.c.expires_at < bindparam("now"), has_time)


def _expire(connection: Connection, database: Database, row: Row[Any], task: Task, now: datetime) -> None:
    skip = admission.expired(task, row.expires_at, now) or skip_reasons.expired_skip(task)
    last = row.scheduled_for
    if row.trigger == Trigger.SCHEDULE:
        missed = _expired_range(task, row.scheduled_for, now)
        if missed and missed.count > 1:
            last, skip = missed.last, replace(skip, covers=missed)
    skipping.end(connection, [runs.c.id == row.run_id], skip, now, scheduled_for=last)
    if row.trigger == Trigger.SCHEDULE and task.planned_version == task.version:
        was_in_queue = row.blocked == Block.LIMIT and task.overlap == "queue"
        backlog_until = now if was_in_queue else row.backlog_until
        planning.add_successor(connection, task, now if occurrences.delay_of(task) else last, backlog_until)
    step = dependencies.Step(row.run_id, task.name, row.flow, last)
    finishing.skipped(connection, database, step, Trigger(row.trigger), now)


def _expired_range(task: Task, first: datetime, now: datetime) -> catch_up.MissedRange | None:
    """Return the occurrences from `first` on that are past the task's deadline."""
    end = now - timedelta(seconds=(task.deadline or 0) + (task.jitter or 0))
    try:
        return catch_up.missed_between(task, first, max(end, first + INSTANT))
    except UsageError:  # planning reports the error
        return None
