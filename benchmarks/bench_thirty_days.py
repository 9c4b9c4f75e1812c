"""Play days of constant load on simulated time: the database must not grow once retention has set in.

`python -m benchmarks.bench_thirty_days --runs-a-day 100000` is the long form. Each day, runs end with
output, the agents' jobs sum up and prune, and on Postgres VACUUM does what autovacuum does all day.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, text, update

from benchmarks.machine import describe
from benchmarks.servers import new_database, postgres_server
from dcron import migrations
from dcron.agent.maintenance import Maintenance
from dcron.database import Database
from dcron.schema.tables import daily_statistics, maintenance_jobs, output, runs
from dcron.services.settings import SharedSettings
from dcron.store import maintenance
from dcron.store.maintenance import Job
from dcron.store.retention.walk import Prune
from dcron.store.statistics.sum_up import SumUpDays

if TYPE_CHECKING:  # it loads pytest
    from tests.support.stage import Stage

TASKS, OUTPUT, DAYS = 5, 300, 30
KEPT = {"runs": "3d", "bad": "6d", "output": "1d", "bad-output": "2d", "last": "5"}
WARM_UP = 10
"""Days until as much goes as comes."""
_AT_ONCE = 5_000
_STATES = ("succeeded", "failed", "lost", "skipped", "cancelled")


@dataclass(frozen=True)
class Size:
    """The database at the end of a day."""

    bytes: int
    runs: int
    counted: int
    """The runs that the daily statistics have counted."""


def play(stage: "Stage", runs_a_day: int, days: int) -> Iterator[Size]:
    """Play so many days; yield the size of the database at the end of each."""
    shared = SharedSettings(stage.crontab)
    for name, value in KEPT.items():
        shared.set(f"keep.{name}", value)
    tasks = [stage.task(f"t{number}", "@on never").id for number in range(TASKS)]
    prune, sum_up = Prune(lambda: stage.now.timestamp()), SumUpDays()
    for day in range(days):
        _insert_day(stage, tasks, runs_a_day, day)
        stage.forward(days=1)
        for job in (sum_up, prune):
            _do(stage, job)
        _vacuum(stage.database)
        yield _size(stage.database)


def _insert_day(stage: "Stage", tasks: list[int], number: int, day: int) -> None:
    """Insert runs that end in the next 24 hours, one in fifty of them failed."""
    for first in range(0, number, _AT_ONCE):
        rows = []
        for n in range(first, min(number, first + _AT_ONCE)):
            at = stage.now + timedelta(days=n / number)
            times = dict.fromkeys(("scheduled_for", "due_at", "claimed_at", "started_at", "finished_at"), at)
            task = n % len(tasks)
            of_task = {"task_id": tasks[task], "task": f"t{task}", "trigger": "manual", "spec": {}}
            state = "succeeded" if n % 50 else "failed"
            rows.append({**of_task, **times, "state": state, "owner": "web-1-00000000"})
        with stage.database.write() as connection:
            ids = connection.scalars(insert(runs).returning(runs.c.id, sort_by_parameter_order=True), rows)
            chunk = {"byte_offset": 0, "stream": "out", "at": stage.now, "lines": 1, "data": b"x" * OUTPUT}
            connection.execute(insert(output), [{"run_id": run_id, **chunk} for run_id in ids])


class _NoRest:
    """An event that is never set, and ends each pause at once."""

    def is_set(self) -> bool:
        return False

    def wait(self, _timeout: float | None = None) -> bool:
        return False


def _do(stage: "Stage", job: Job) -> None:
    """Do a round of the job, which is due."""
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [job.name], stage.now)
        own = update(maintenance_jobs).where(maintenance_jobs.c.name == job.name)
        connection.execute(own.values(due_at=stage.now))
        first = own.where(maintenance_jobs.c.ran_at.is_(None))  # without a round, the clock is not trusted
        connection.execute(first.values(ran_at=stage.now - timedelta(minutes=10)))
    Maintenance(stage.database, "web-1-00000000", [job]).do(job, _NoRest())  # type: ignore[arg-type]


def _vacuum(database: Database) -> None:
    if not database.is_sqlite:
        with database.engine.connect() as connection:
            connection.execute(text("VACUUM"))


def _size(database: Database) -> Size:
    with database.read() as connection:
        counted = sum((daily_statistics.c[state] for state in _STATES[1:]), daily_statistics.c[_STATES[0]])
        return Size(
            sum(database.table_bytes(connection).values()),
            connection.scalar(select(func.count()).where(runs.c.finished_at.is_not(None))) or 0,
            connection.scalar(select(func.sum(counted))) or 0,
        )


def main() -> None:
    """Play by hand."""
    from tests.support.stage import Stage

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs-a-day", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=DAYS)
    options = parser.parse_args()
    print(describe())
    with postgres_server() as server:
        for kind in ("sqlite", "postgres"):
            with new_database(kind, server) as url:
                stage = Stage(url)
                migrations.prepare(stage.database)
                print(f"  {kind}: {options.runs_a_day:,} runs a day")
                for day, size in enumerate(play(stage, options.runs_a_day, WARM_UP + options.days)):
                    shown = f"{size.bytes / 2**20:8,.1f} MiB, {size.runs:,} runs"
                    print(f"    day {day - WARM_UP + 1:3}: {shown}", flush=True)
                stage.database.close()


if __name__ == "__main__":
    main()
