"""Measure a forecast: a day of a large crontab with a history of 50 runs for each task.

python -m benchmarks.bench_forecast --tasks 2000
"""

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from benchmarks.bench_turns import node
from benchmarks.machine import describe
from benchmarks.servers import new_database, postgres_server
from dcron.database import Database, open_database
from dcron.model import Definition
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.forecast import Forecast, outlook
from dcron.store.nodes import rows as nodes
from dcron.store.runs import durations

HISTORY, AGENTS, SLOTS = 50, 8, 16
SCHEDULES = {
    "* * * * *": 40,
    "*/5 * * * *": 200,
    "*/10 * * * *": 200,
    "*/15 * * * *": 200,
    "H/15 * * * *": 200,
    "@every 7m": 200,
    "H * * * *": 300,
    "H 2 * * *": 300,
    "0 2 * * *": 300,
    "30 1 * * mon-fri": 60,
}
"""The schedules of 2,000 tasks."""


def main() -> None:
    """Read the options and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    tasks = parser.parse_args().tasks
    print(describe())
    with postgres_server() as server:
        report(server, tasks=tasks)


def report(server: str, *, tasks: int) -> None:
    """Print the seconds of this processor that each part of a forecast takes."""
    print(f"\nforecast of 24 hours, {tasks:,} tasks, {HISTORY} runs of each, {AGENTS} agents")
    print(f"{'database':10} {'read':>7} {'durations':>10} {'simulate':>9} {'whole':>7}  starts")
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url:
            database = open_database(url)
            _fill(database, tasks)
            _measure(kind, database)
            database.close()


def _measure(kind: str, database: Database) -> None:
    crontab = Crontab(database, "ann@desk")
    until = crontab.now() + timedelta(days=1)
    began = time.process_time()
    ids = list(crontab.task_ids())
    for first in range(0, len(ids), 500):
        with database.read() as connection:
            durations.of_tasks(connection, ids[first : first + 500])
    read = time.process_time()
    situation = Forecast(crontab).situation(until)
    ready = time.process_time()
    situation.play()
    played = time.process_time()
    found = outlook(situation, UTC)
    summed = time.process_time() - played
    print(
        f"{kind:10} {ready - read:6.1f}s {read - began:9.1f}s {played - ready:8.1f}s"
        f" {ready - read + summed:6.1f}s  {found.starts:,}"
    )


def _fill(database: Database, number: int) -> None:
    chance = random.Random(1)
    crontab = Crontab(database, "ann@desk")
    schedules = chance.choices(list(SCHEDULES), list(SCHEDULES.values()), k=number)
    crontab.import_tasks(
        [
            Definition(name=f"task-{each}", schedule=schedule, timezone="Europe/Berlin", command="true")
            for each, schedule in enumerate(schedules)
        ]
    )
    now = crontab.now()
    rows = [row for task in crontab.tasks() for row in _history(task.id, task.name, now, chance)]
    with database.write() as connection:
        for first in range(0, len(rows), 5000):
            connection.execute(insert(runs), rows[first : first + 5000])
        for each in range(AGENTS):
            nodes.register(connection, replace(node(f"web-{each}-00000000", now), slots=SLOTS))


def _history(task_id: int, name: str, now: datetime, chance: random.Random) -> Iterator[dict[str, Any]]:
    usual = chance.lognormvariate(2, 1.2)
    for each in range(HISTORY):
        ended = now - timedelta(hours=HISTORY - each)
        began = ended - timedelta(seconds=usual * chance.lognormvariate(0, 0.4))
        times = {"scheduled_for": began, "due_at": began, "started_at": began, "finished_at": ended}
        about = {"task_id": task_id, "task": name, "trigger": "manual", "state": "succeeded", "spec": {}}
        yield {**about, **times, "owner": "web-0-00000000"}


if __name__ == "__main__":
    main()
