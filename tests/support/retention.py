"""History of any age, and rounds of the job that prunes it."""

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, update

from dcron.agent.maintenance import Maintenance
from dcron.policy.statistics import DAY, day_of
from dcron.schema.tables import maintenance_jobs, output, runs, summed_days
from dcron.store import maintenance
from dcron.store.retention.walk import JOB, Prune
from tests.support.stage import Stage


class Restless(threading.Event):
    """Never set, and ends each pause at once."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def sum_up_all(stage: Stage, first: int = 1200, last: int = 1) -> None:
    """Mark the days from so many days ago on as summed up."""
    today = day_of(stage.now)
    days = [{"day": str(today - n * DAY), "summed_at": stage.now} for n in range(last, first + 1)]
    with stage.database.write() as connection:
        known = set(connection.scalars(select(summed_days.c.day)))
        if missing := [row for row in days if row["day"] not in known]:
            connection.execute(insert(summed_days), missing)


def insert_history(stage: Stage, rows: list[dict[str, Any]]) -> list[int]:
    """Insert runs that ended `days` ago, with `bytes` of output; return their ids."""
    values, sizes = [], []
    for given in rows:
        row = dict(given)
        at = stage.now - timedelta(days=row.pop("days"))
        sizes.append(row.pop("bytes", 0))
        state = row.get("state", "succeeded")
        ran = {"started_at": None, "reason": "overlap"} if state == "skipped" else {"started_at": at}
        common = {"task_id": 1, "task": "a", "trigger": "manual", "state": state, "spec": {}, "reason": None}
        common |= {"scheduled_for": at, "due_at": at, "finished_at": at, "dead_at": None}
        common |= {"flow": None, "retry_of": None, **ran}
        values.append({**common, **row})
    with stage.database.write() as connection:
        found = connection.scalars(insert(runs).returning(runs.c.id, sort_by_parameter_order=True), values)
        ids = list(found)
        chunks = [
            {"run_id": i, "byte_offset": 0, "stream": "out", "at": stage.now, "lines": 1, "data": b"x" * size}
            for i, size in zip(ids, sizes, strict=True)
            if size
        ]
        if chunks:
            connection.execute(insert(output), chunks)
    return ids


def trust_clock(stage: Stage) -> None:
    """Make the job due, with a round some minutes ago."""
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [JOB], stage.now)
        values = {"ran_at": stage.now - timedelta(minutes=10), "due_at": stage.now}
        connection.execute(update(maintenance_jobs).where(maintenance_jobs.c.name == JOB).values(values))


def prune(stage: Stage, job: Prune | None = None) -> Mapping[str, int]:
    """Do a round of the job; return how many rows it handled."""
    trust_clock(stage)
    agent = Maintenance(stage.database, "web-1", [])
    agent.do(job or Prune(lambda: stage.now.timestamp()), Restless())
    found = job_row(stage)
    assert found.error is None, found.error
    assert found.holder is None
    return {kind: number for kind, number in found.done.items() if kind != "bytes"}


def job_row(stage: Stage) -> Any:
    with stage.database.read() as connection:
        return maintenance.last_round(connection, JOB)


def left(stage: Stage) -> list[int]:
    """The ids of all runs, in order."""
    with stage.database.read() as connection:
        return list(connection.scalars(select(runs.c.id).order_by(runs.c.id)))


def with_output(stage: Stage) -> set[int]:
    """The ids of the runs that have output."""
    with stage.database.read() as connection:
        return set(connection.scalars(select(output.c.run_id)))
