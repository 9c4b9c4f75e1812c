"""A day that was forecast, then played: the real dispatchers, with durations drawn from the same history."""

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, text

from dcron import migrations
from dcron.database import Database, open_database
from dcron.model import Definition, RunState
from dcron.schema.conditions import DUE
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.services.forecast import Forecast
from dcron.warden.client import Job
from tests.simulation.cluster import BEGINNING, Command, SimulatedNode, Start, Time, settings
from tests.support.statistics import ended_run, insert_runs

QUEUE = "mail"
NOTICED = 15.0
"""Waits up to this many seconds count as equal: nothing is late."""
LEASE = 40 * 86_400.0
_KEPT = 50
_SOON = 1.0
"""A node that waits for less than this many seconds has more to do than to look again."""


@dataclass(frozen=True)
class Day:
    """What was forecast, and what happened."""

    predicted: float
    """The longest wait in seconds."""
    played: float
    starts_predicted: int
    starts_played: int

    @property
    def factor(self) -> float:
        """By which factor the two waits differ; 1 if no run was late."""
        low, high = sorted((max(self.predicted, NOTICED), max(self.played, NOTICED)))
        return high / low


class PlayedNode(SimulatedNode):
    """A node whose commands succeed, after one of the durations of their task's history."""

    history: dict[str, Sequence[float]]

    def register(self) -> None:
        super().register()
        self.beat()  # which takes the lease of the settings

    def _begin(self, job: Job) -> None:
        now, name = self.time.now, job.env["DCRON_TASK"]
        start = Start(job.run_id, name, job.env["DCRON_SCHEDULED_FOR"], "", 1, None, self.id, now)
        lasts = timedelta(seconds=self.chance.choice(self.history[name]))
        self.ledger.append(start)
        self.commands[job.run_id] = Command(job.run_id, start, now + lasts, RunState.SUCCEEDED)


def definitions(chance: random.Random) -> list[tuple[Definition, float]]:
    """Return tasks with their usual durations: some that start together, and some that start often."""
    hour, zone = chance.randrange(24), chance.choice(["UTC", "Europe/Berlin"])
    found: list[tuple[dict[str, Any], float]] = [
        ({"name": f"dump-{each}", "schedule": f"0 {hour} * * *"}, chance.lognormvariate(5, 0.8))
        for each in range(chance.randint(6, 24))
    ]
    found += [
        ({"name": f"hourly-{each}", "schedule": "H * * * *"}, chance.lognormvariate(4, 1))
        for each in range(chance.randint(1, 5))
    ]
    found += [
        ({"name": "often", "schedule": "*/15 * * * *", "overlap": chance.choice(["skip", "queue"])}, 100.0),
        ({"name": "spread", "schedule": "0 */2 * * *", "jitter": 900.0, "priority": "low"}, 200.0),
        ({"name": "mail", "schedule": "20 * * * *", "queue": QUEUE}, 90.0),
        ({"name": "post", "schedule": "20 * * * *", "queue": QUEUE}, 90.0),
        ({"name": "load", "schedule": "@after hourly-0"}, 60.0),
        ({"name": "urgent", "schedule": f"5 {hour} * * *", "priority": "high"}, 30.0),
    ]
    return [(Definition(**{"timezone": zone, "command": "true", **each}), usual) for each, usual in found]


def play_day(url: str, seed: int, length: timedelta) -> Day:
    """Forecast this time on an empty database, and play it."""
    chance, time = random.Random(seed), Time()
    database = open_database(url, clock=time)
    try:
        crontab = Crontab(database, "ann@desk")
        tasks = definitions(chance)
        crontab.import_tasks([task for task, _ in tasks])
        Fleet(crontab).set_queue(QUEUE, 1)
        history = _add_history(crontab, {task.name: usual for task, usual in tasks}, chance)
        nodes = [node_of(database, time, chance, history, number) for number in range(2)]
        until = BEGINNING + length
        outlook = Forecast(crontab).of(until)
        play(database, time, nodes, until)
        waits = list(_waits(database, until))
    finally:
        database.close()
    predicted = outlook.worst.wait if outlook.worst else 0.0
    return Day(predicted, max(waits, default=0.0), outlook.starts, len(waits))


def _add_history(
    crontab: Crontab, usual: dict[str, float], chance: random.Random
) -> dict[str, Sequence[float]]:
    history: dict[str, Sequence[float]] = {
        name: [seconds * chance.lognormvariate(0, 0.4) for _ in range(_KEPT)]
        for name, seconds in usual.items()
    }
    rows = [
        ended_run(BEGINNING - timedelta(days=1), seconds=each, task_id=task.id, task=task.name)
        for task in crontab.tasks()
        for each in history[task.name]
    ]
    insert_runs(crontab.database, rows)
    return history


def node_of(
    database: Database,
    time: Time,
    chance: random.Random,
    history: dict[str, Sequence[float]],
    number: int,
) -> PlayedNode:
    of_node = replace(settings(f"web-{number}", chance), lease=LEASE, slots=chance.randint(1, 4), capacity={})
    node = PlayedNode(database, time, chance, [], of_node, f"web-{number}-0000000{number}")
    node.history = history
    node.register()
    return node


def play(
    database: Database,
    time: Time,
    nodes: Sequence[PlayedNode],
    until: datetime,
    thaw: datetime | None = None,
) -> None:
    """Let the nodes work, from one end or due time to the next, until nothing that was due is left.

    `thaw` is when a freeze ends, so that they go on then.
    """
    while True:
        for node in nodes:
            node.record()
        while 0 in (waits := [node.step() for node in nodes]):
            pass
        ends = [command.ends_at for node in nodes for command in node.commands.values()]
        soon = [time.now + timedelta(seconds=wait) for wait in waits if wait < _SOON]
        coming = (*ends, *soon, _next_due(database, time.now), thaw if thaw and thaw > time.now else None)
        following = min(filter(None, coming), default=None)
        if following is None or (following > until and not ends):
            return
        time.now = max(following, time.now + timedelta(microseconds=1))


def _next_due(database: Database, now: datetime) -> datetime | None:
    with database.read() as connection:
        found: datetime | None = connection.scalar(
            select(func.min(runs.c.due_at)).where(text(DUE), runs.c.due_at > now)
        )
    return found


def _waits(database: Database, until: datetime) -> Iterator[float]:
    """Yield the seconds that the runs waited that came due in the forecast."""
    started = (runs.c.trigger.in_(["schedule", "after"]), runs.c.started_at.is_not(None))
    due = (runs.c.due_at > BEGINNING, runs.c.due_at <= until)
    with database.read() as connection:
        for row in connection.execute(select(runs.c.due_at, runs.c.started_at).where(*started, *due)):
            yield (row.started_at - row.due_at).total_seconds()


def play_days_on_sqlite(seeds: Sequence[int], length: timedelta) -> Iterator[tuple[int, Day]]:
    """Yield the days of these seeds, each on a SQLite file in memory."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        empty = Path(directory) / "empty.db"
        template = open_database(f"sqlite:///{empty}")
        migrations.prepare(template)
        template.close()
        for seed in seeds:
            path = Path(directory) / f"{seed}.db"
            shutil.copyfile(empty, path)
            yield seed, play_day(f"sqlite:///{path}", seed, length)
            path.unlink()
