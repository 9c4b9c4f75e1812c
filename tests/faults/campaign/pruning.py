"""Old history beside a fault: agents prune it, and what has to stay is still there afterwards."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, insert, select

from dcron.policy.statistics import DAY, day_of
from dcron.schema.tables import holds, maintenance_jobs, output, runs, summed_days
from dcron.store.retention.walk import JOB
from dcron.store.statistics.daily import JOB as SUMMING_UP
from tests.faults.campaign.stage import Stage

TASK = 900_000
"""The number of a task that was removed long ago."""
OLD = 5_000
UNSUMMED_DAYS_AGO = 70


def prepare(stage: Stage, old: int = OLD) -> None:
    """Insert old runs, so many of which may go; make the job due, and judge them at the end."""
    database = stage.cluster.database
    now = datetime.now(UTC)
    with database.write() as connection:
        gone = _insert(connection, now, [{"days": 60}] * old)
        held, first, letter, *_ = kept = _insert(
            connection,
            now,
            [
                {"days": 60},
                {"days": 60, "flow": 900_001},
                {"days": 60, "flow": 900_001, "state": "failed", "dead_at": now, "trigger": "after"},
                *[{"days": UNSUMMED_DAYS_AGO}] * 20,
                *[{"days": 5}] * 20,
                *[{"days": 100, "state": "lost"}] * 20,
            ],
        )
        chunk = {"byte_offset": 0, "stream": "out", "at": now, "lines": 1, "data": b"x" * 300}
        connection.execute(insert(output), [{"run_id": run_id, **chunk} for run_id in (*gone, held)])
        connection.execute(insert(holds).values(run_id=held, task="old", reason="audit"))
        days = (day_of(now) - n * DAY for n in range(1, 200) if n != UNSUMMED_DAYS_AGO)
        connection.execute(insert(summed_days), [{"day": str(day), "summed_at": now} for day in days])
        due = {"name": JOB, "due_at": now, "ran_at": now - timedelta(minutes=10)}
        connection.execute(insert(maintenance_jobs).values(due))
        # Otherwise the day that is not summed up soon would be.
        connection.execute(insert(maintenance_jobs).values(name=SUMMING_UP, due_at=now + timedelta(hours=6)))
    assert letter > first
    stage.at_the_end.append(lambda: _judge(stage, set(kept), held, old))


def _insert(connection: Any, now: datetime, rows: list[dict[str, Any]]) -> list[int]:
    values = []
    for given in rows:
        row = dict(given)
        at = now - timedelta(days=row.pop("days"))
        ran = dict.fromkeys(("scheduled_for", "due_at", "claimed_at", "started_at", "finished_at"), at)
        common = {"task_id": TASK, "task": "old", "trigger": "manual", "state": "succeeded", "spec": {}}
        values.append({**common, **ran, "dead_at": None, "flow": None, "owner": "old-00000000", **row})
    return list(connection.scalars(insert(runs).returning(runs.c.id), values))


def _judge(stage: Stage, kept: set[int], held: int, old: int) -> None:
    """Note what is gone that had to stay, and remove the rows: the campaign's judges do not know them."""
    with stage.cluster.database.write() as connection:
        left = set(connection.scalars(select(runs.c.id).where(runs.c.task_id == TASK)))
        outputs = connection.scalar(select(func.count()).select_from(output).where(output.c.run_id == held))
        connection.execute(delete(output).where(output.c.run_id.in_(left)))
        connection.execute(delete(runs).where(runs.c.task_id == TASK))
        connection.execute(delete(holds))
        job = connection.execute(select(maintenance_jobs).where(maintenance_jobs.c.name == JOB)).one()
    missing = kept - left
    stage.require(not missing, f"pruned, although they had to stay: {sorted(missing)}")
    stage.require(outputs == 1, "the output of the run on hold is gone")
    stage.require(len(left) < old + len(kept), "nothing was pruned")
    stage.require(job.error is None, f"the job failed: {job.error}")
    stage.figures["pruned"] = f"{old + len(kept) - len(left):,} of {old:,}"
