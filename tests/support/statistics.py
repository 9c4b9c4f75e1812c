"""Finished runs by the hundred, and the maintenance jobs that sum up and archive their days."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, update

from dcron.database import Database
from dcron.schema.tables import maintenance_jobs, runs
from dcron.store import maintenance
from dcron.store.maintenance import Hold, Job
from dcron.store.statistics.sum_up import SumUpDays


def take(database: Database, job: str, holder: str = "web-1-00000000") -> Hold:
    """Make a job due, take it, and return the hold."""
    with database.write() as connection:
        now = database.now(connection)
        maintenance.add_missing(connection, database, [job], now)
        connection.execute(update(maintenance_jobs).where(maintenance_jobs.c.name == job).values(due_at=now))
        assert maintenance.take(connection, job, holder, now) is not None
    return Hold(job, holder)


def do_round(database: Database, job: Job) -> Mapping[str, int]:
    """Do a whole round of a job, and return what it handled."""
    hold = take(database, job.name)
    position: Mapping[str, Any] | None = {}
    while position is not None:
        step = job.step(database, hold, position)
        position = step.position
    with database.write() as connection:
        hold.finish(connection, database.now(connection), 0.0, 0.0, step)
    return step.done


def sum_up(database: Database) -> int:
    """Sum up all days that can be; return how many these were."""
    return do_round(database, SumUpDays())["days"]


def ended_run(
    finished_at: datetime, state: str = "succeeded", seconds: float = 10, **values: Any
) -> dict[str, Any]:
    """Return the row of a run that took this long."""
    is_started = state != "skipped"
    started_at = finished_at - timedelta(seconds=seconds) if is_started else None
    due_at = started_at or finished_at
    row = {"task_id": 1, "task": "a", "trigger": "manual", "state": state, "spec": {}, "due_at": due_at}
    row |= {"scheduled_for": due_at, "started_at": started_at, "finished_at": finished_at}
    row |= {"owner": "web-1-00000000" if is_started else None, "reason": None if is_started else "overlap"}
    return row | values


def insert_runs(database: Database, rows: list[dict[str, Any]]) -> list[int]:
    """Insert these rows, which all have the same columns; return their ids."""
    if not rows:
        return []
    added = insert(runs).returning(runs.c.id, sort_by_parameter_order=True)
    with database.write() as connection:
        return list(connection.scalars(added, rows))
