"""A time that was forecast run by run, then played by the real dispatchers.

Each task's runs always take equally long, so the forecast knows all that will happen.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from dcron.database import Database, open_database
from dcron.model import Definition, RunState, SkipCode
from dcron.policy.forecast.load import Load
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.services.forecast import Forecast
from dcron.services.freezes import Freezes
from tests.simulation.cluster import BEGINNING, Time
from tests.simulation.forecast_day import QUEUE, node_of, play
from tests.support.statistics import ended_run, insert_runs

BY_THEMSELVES = ("schedule", "after", "node")
"""The triggers of the runs that a forecast names."""
KINDS = ("plain", "catch-up", "jitter", "limits", "freeze", "every-node")
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Played:
    """What became of the occurrences of a crontab."""

    runs: Sequence[tuple[str, float, float]]
    """Task, and the seconds from the beginning to due time and start, in this order."""
    skips: Counter[tuple[str, str]]
    """How many occurrences of a task were skipped for this code."""


def crontab_of(kind: str, chance: random.Random, until: datetime) -> list[tuple[Definition, float]]:
    """Return tasks with the seconds that their runs take, made to meet the rules of this kind."""
    schedules = {f"often-{each}": f"{each} */{chance.choice([3, 5, 7])} * * * *" for each in range(3)}
    schedules |= {f"together-{each}": f"3{each} */20 * * * *" for each in range(4)}
    schedules |= {} if kind == "every-node" else {"load": "@after often-0"}
    found = []
    for name, schedule in schedules.items():
        given = _policies(kind, chance, schedule)
        task = Definition(name=name, schedule=schedule, timezone="UTC", command="true", **given)
        found.append((replace(task, not_after=None if "@" in schedule else until), _seconds(chance)))
    return found


def _seconds(chance: random.Random) -> float:
    return chance.choice([1.5, 20.25, 70.75, 133.5, 400.125])


def _policies(kind: str, chance: random.Random, schedule: str) -> dict[str, Any]:
    """Return what decides about the runs of a task, besides its schedule."""
    is_after = schedule.startswith("@")
    found: dict[str, Any] = {
        "overlap": chance.choice(["skip", "queue", "replace"]),
        "priority": chance.choice(["high", "normal", "normal", "low"]),
        "deadline": chance.choice([None, None, 200.0]),
    }
    if kind == "catch-up" and not is_after:
        found["catch_up"] = chance.choice(["skip", "last", "all"])
        if found["catch_up"] != "skip":
            found["catch_up_window"] = chance.choice([None, 90.0, 600.0])
    if kind == "jitter" and not is_after:
        found["jitter"] = chance.choice([None, 45.0, 400.0, 1200.0])
    if kind == "limits":
        found |= {"max_running": chance.choice([1, 2, None]), "queue": chance.choice(["default", QUEUE])}
    if kind == "every-node":
        found["every_node"] = True
    return found


def play_both(url: str, kind: str, seed: int, length: timedelta) -> tuple[Played, Played]:
    """Return what is forecast for a new crontab of this kind, and what happens when nodes play it."""
    chance, time, until = random.Random(f"{kind} {seed}"), Time(), BEGINNING + length
    database = open_database(url, clock=time)
    try:
        crontab = Crontab(database, "ann@desk")
        seconds = {task.name: took for task, took in _added(crontab, crontab_of(kind, chance, until))}
        insert_runs(
            database,
            [
                ended_run(BEGINNING - 24 * HOUR, seconds=seconds[task.name], task_id=task.id, task=task.name)
                for task in crontab.tasks()
            ],
        )
        if kind == "limits":
            Fleet(crontab).set_queue(QUEUE, chance.choice([1, 2]))
        begin = thaw = BEGINNING
        if kind == "freeze":
            begin = BEGINNING + timedelta(minutes=chance.randrange(1, 60), seconds=30)
            thaw = begin + timedelta(minutes=chance.randrange(5, 70))
            Freezes(crontab).freeze(from_at=begin, until_at=thaw)
        history: dict[str, Sequence[float]] = {name: [took] for name, took in seconds.items()}
        number = 2 if kind in ("every-node", "limits") else 1
        nodes = [node_of(database, time, chance, history, each) for each in range(number)]
        forecast = Forecast(crontab).situation(until).play()
        play(database, time, nodes, until + HOUR, thaw)
        return _forecast(forecast, until), _happened(database, until, begin, thaw)
    finally:
        database.close()


def _added(crontab: Crontab, tasks: list[tuple[Definition, float]]) -> list[tuple[Definition, float]]:
    crontab.import_tasks([task for task, _ in tasks])
    return tasks


def _forecast(load: Load, until: datetime) -> Played:
    came_due = [run for run in load.runs if run.due_at <= until]
    found = [(run.task, _seconds_of(run.due_at), _seconds_of(run.started_at)) for run in came_due]
    return Played(sorted(found), Counter((each.task, each.code.value) for each in load.skipped))


def _happened(database: Database, until: datetime, begin: datetime, thaw: datetime) -> Played:
    """Return the runs that came due and ended, and the occurrences that were skipped.

    A forecast counts runs as due at the `thaw` that came due in the freeze before it, from `begin` on.
    """
    found = []
    skips = Counter[tuple[str, str]]()
    with database.read() as connection:
        rows = connection.execute(
            select(runs).where(runs.c.trigger.in_(BY_THEMSELVES), runs.c.due_at <= until)
        )
        for row in rows:
            if row.started_at is not None:
                due_at = thaw if begin <= row.due_at < thaw else row.due_at
                found.append((row.task, _seconds_of(due_at), _seconds_of(row.started_at)))
            elif row.state == RunState.SKIPPED and row.skip_code is not SkipCode.UPSTREAM:
                skips[row.task, str(row.skip_code.value)] += row.covers_count or 1
    return Played(sorted(found), skips)


def _seconds_of(at: datetime) -> float:
    return round((at - BEGINNING).total_seconds(), 3)
