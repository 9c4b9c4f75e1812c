"""Protect the history of tasks, and single runs, from retention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, select

from dcron.database import Database
from dcron.schema.tables import holds, maintenance_jobs
from dcron.store.retention.walk import JOB


@dataclass(frozen=True, kw_only=True)
class Held:
    """A task or a run on hold."""

    id: int
    task_id: int | None
    """The task whose runs are all on hold; None for a single run."""
    run_id: int | None
    task: str
    """The task's name when it was put on hold."""
    reason: str
    created_at: datetime
    created_by: str | None


_COLUMNS = [holds.c[name] for name in Held.__dataclass_fields__]


def listing(connection: Connection) -> list[Held]:
    """Return all holds, the oldest first."""
    rows = connection.execute(select(*_COLUMNS).order_by(holds.c.id))
    return [Held(**row._mapping) for row in rows]


def of_task(connection: Connection, name: str) -> list[Held]:
    """Return the holds on tasks that had this name."""
    return [each for each in listing(connection) if each.task_id is not None and each.task == name]


def find(connection: Connection, *, task_id: int | None = None, run_id: int | None = None) -> Held | None:
    """Return the hold on this task, or on this run alone."""
    column, value = (holds.c.task_id, task_id) if run_id is None else (holds.c.run_id, run_id)
    row = connection.execute(select(*_COLUMNS).where(column == value)).first()
    return Held(**row._mapping) if row else None


def wait_for_pruning(connection: Connection) -> None:
    """Wait until no transaction prunes; the next one begins after this transaction."""
    job = select(maintenance_jobs.c.name).where(maintenance_jobs.c.name == JOB)
    connection.execute(job.with_for_update())


def add(
    connection: Connection,
    database: Database,
    *,
    task: str,
    task_id: int | None,
    run_id: int | None,
    reason: str,
    now: datetime,
    actor: str,
) -> bool:
    """Put all runs of a task, or one run, on hold; return whether it was not on hold before."""
    values = {"task_id": task_id, "run_id": run_id, "task": task, "reason": reason}
    added = database.insert_if_absent(holds).values(**values, created_at=now, created_by=actor)
    return connection.execute(added.returning(holds.c.id)).first() is not None


def remove(connection: Connection, ids: Sequence[int]) -> None:
    """End these holds."""
    connection.execute(delete(holds).where(holds.c.id.in_(ids)))
