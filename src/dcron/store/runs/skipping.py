"""End runs that never started: skipped by a rule, or cancelled by a person while they waited.

Only this module makes such rows. A waiting run becomes one (`end`, `end_each`, `cancel`, `cancel_all`), or
occurrences that never had a row of their own are recorded together in a new one (`record`).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Integer,
    Text,
    bindparam,
    insert,
    update,
)

from dcron.database import Columns, Database, beside_id
from dcron.model import Run, RunState, Task, Trigger
from dcron.policy.starting import catch_up
from dcron.policy.starting.catch_up import MissedRange
from dcron.policy.starting.skip_reasons import Skip
from dcron.schema.tables import runs
from dcron.schema.types import Instant
from dcron.store.runs.rows import COLUMNS, is_in_state, run_from


def columns(skip: Skip, now: datetime) -> dict[str, Any]:
    """Return the values that a skipped run has besides those of a waiting one."""
    return {"state": RunState.SKIPPED, "finished_at": now, "blocked": None, **_facts(skip)}


def _facts(skip: Skip) -> dict[str, Any]:
    return {
        "reason": skip.text,
        "skip_code": skip.code.value,
        "caused_by": skip.caused_by,
        **_covering(skip.covers),
    }


def _covering(covers: MissedRange | None) -> dict[str, Any]:
    """Return the columns of a row that stands for these occurrences; empty ones for a single occurrence."""
    several = covers if covers and covers.count > 1 else None
    return {
        "covers_from": several and several.first,
        "covers_until": several and several.last,
        "covers_count": several and several.count,
    }


def end(
    connection: Connection,
    which: Iterable[ColumnElement[bool]],
    skip: Skip,
    now: datetime,
    scheduled_for: datetime | None = None,
) -> list[int | None]:
    """Skip the waiting runs that meet these conditions; move them to `scheduled_for` if it is given.

    Return for each of them the run that it was a retry of, or None.
    """
    values = columns(skip, now) | ({"scheduled_for": scheduled_for} if scheduled_for else {})
    waiting = update(runs).where(*which, runs.c.state == RunState.WAITING)
    return list(connection.scalars(waiting.values(values).returning(runs.c.retry_of)))


def end_each(
    connection: Connection, database: Database, skips: Sequence[tuple[int, datetime, Skip]], now: datetime
) -> None:
    """Skip waiting runs, given by id, each for its own reason and at its own time: in one statement."""
    rows = ((run_id, at, *_facts(skip).values()) for run_id, at, skip in skips)
    given = database.values(_SKIPPED, rows) | {"now": now}
    connection.execute(_end_each(database.rows(_SKIPPED)), given)


_SKIPPED = Columns(
    id=BigInteger(),
    scheduled_for=Instant(),
    reason=Text(),
    skip_code=Text(),
    caused_by=BigInteger(),
    covers_from=Instant(),
    covers_until=Instant(),
    covers_count=Integer(),
)


@cache
def _end_each(batch: FromClause) -> Executable:
    ended = {"state": RunState.SKIPPED, "finished_at": bindparam("now")}
    query = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.WAITING))
    return query.values(beside_id(batch) | ended)


def cancel(connection: Connection, run: Run, now: datetime, actor: str) -> bool:
    """Cancel a run that no node has claimed. Return whether it was still waiting.

    An overdue scheduled run takes along all occurrences that have passed since.
    """
    missed = None
    if run.trigger is Trigger.SCHEDULE and run.scheduled_for <= now:
        missed = catch_up.missed_as_planned(run.task, run.spec, run.scheduled_for, now + catch_up.INSTANT)
    covers = missed if missed and missed.count > 1 else None
    reason = f"cancelled by {actor}"
    waiting = update(runs).where(runs.c.id == run.id, runs.c.state == RunState.WAITING)
    values = {
        "state": RunState.CANCELLED,
        "reason": f"{reason} ({covers})" if covers else reason,
        "scheduled_for": covers.last if covers else run.scheduled_for,
        "finished_at": now,
        "blocked": None,
        **_covering(covers),
    }
    return connection.execute(waiting.values(values)).rowcount == 1


def cancel_all(connection: Connection, run_ids: Sequence[int], now: datetime, actor: str) -> list[Run]:
    """Cancel those of these runs that no node has claimed, and return them. None of them is a schedule's."""
    waiting = update(runs).where(runs.c.id.in_(run_ids), runs.c.state == RunState.WAITING)
    values = {
        "state": RunState.CANCELLED,
        "reason": f"cancelled by {actor}",
        "finished_at": now,
        "blocked": None,
    }
    cancelled = connection.execute(waiting.values(values).returning(*COLUMNS))
    return [run_from(row) for row in cancelled]


def record(connection: Connection, skips: Sequence[tuple[Task, Skip]], now: datetime) -> None:
    """Add a skipped row for each range of occurrences, at the last one of the range."""
    values = [
        {
            "task_id": task.id,
            "task": task.name,
            "trigger": Trigger.SCHEDULE,
            "scheduled_for": skip.covers.last,
            "due_at": skip.covers.last,
            "spec": task.spec(),
            **columns(skip, now),
        }
        for task, skip in skips
        if skip.covers
    ]
    if values:
        connection.execute(insert(runs), values)
