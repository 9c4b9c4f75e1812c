"""Propose changes that shorten the longest wait. Each proposal was simulated before it is made."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Literal

from dcron.errors import UsageError
from dcron.model import LATE_AFTER
from dcron.policy.forecast.load import Load, LoadFleet, LoadTask, PlayedRun, after_freezes, play
from dcron.policy.forecast.start_times import Minutes, due_times, minute_of
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.occurrences import due_at

_JITTERS = (300, 600, 1200, 1800)
_MORE_SLOTS = (1.25, 1.5, 2.0, 3.0)
_SPREAD = 4
"""A task gets a jitter of at most this part of the time between two of its starts."""
_AROUND = timedelta(minutes=30)
"""Time before the first wait and after the last that is simulated, too."""
_LONGEST = timedelta(hours=6)
"""Most hours before the longest wait that are simulated."""
_HELPS = 0.5
"""What a proposal leaves of the longest wait at most."""
_ANY_MINUTE = "H"
Kind = Literal["jitter", "slots", "minute"]


@dataclass(frozen=True)
class Relief:
    """A change that shortens the longest wait."""

    kind: Kind
    value: int
    """Seconds of jitter, or slots of all nodes together; 0 for `minute`, the symbol H as minute."""
    tasks: Sequence[str]
    """The tasks to change; none for slots."""
    label: str | None
    """A label that these tasks have and no other, such as `tier=bronze`."""
    minute: datetime
    """The minute in which these start now."""
    before: float
    """The longest wait without the change, in seconds."""
    after: float
    """The longest wait with the change."""


def reliefs(tasks: Sequence[LoadTask], fleet: LoadFleet, load: Load, worst: PlayedRun) -> list[Relief]:
    """Return the proposals that help, of each kind the smallest change. `worst` is the longest wait."""
    begin, until = _busy_period(load, worst)
    return list(_Trials(tasks, fleet, begin, until).reliefs())


def _busy_period(load: Load, worst: PlayedRun) -> tuple[datetime, datetime]:
    """Return the time around the longest wait in which runs wait all the time."""
    begin, until = worst.due_at, worst.started_at
    for run in sorted(load.runs, key=lambda run: run.started_at, reverse=True):
        if run.due_at < begin <= run.started_at and run.wait > 0:
            begin = run.due_at
    return max(begin, worst.due_at - _LONGEST) - _AROUND, until + _AROUND


@dataclass(frozen=True)
class _Trial:
    """A change to simulate."""

    kind: Kind
    value: int
    changed: Mapping[str, LoadTask]
    """The tasks that differ, by name."""
    fleet: LoadFleet


class _Trials:
    """Simulates one busy period again and again, with changes."""

    def __init__(self, tasks: Sequence[LoadTask], fleet: LoadFleet, begin: datetime, until: datetime) -> None:
        self._tasks = [_within(each, begin, until) for each in tasks]
        self._fleet = replace(fleet, alive=())
        self._begin, self._until = begin, until
        self._before = self._longest_wait(self._tasks, self._fleet)
        minutes = Minutes()
        for each in self._tasks:
            minutes.add(map(minute_of, each.starts))
        self._minute = next((minute for minute, _ in minutes.busiest(1)), begin)
        self._together = [
            each for each in self._tasks if minute_of(self._minute) in map(minute_of, each.starts)
        ]

    def reliefs(self) -> Iterator[Relief]:
        """Yield of each kind the first change after which no run is late, or else the best that helps."""
        jitters = (_Trial("jitter", seconds, self._with_jitter(seconds), self._fleet) for seconds in _JITTERS)
        yield from self._first(trial for trial in jitters if trial.changed)
        other = _Trial("minute", 0, self._at_other_minutes(), self._fleet)
        yield from self._first([other] if other.changed else [])
        more = (_with_slots(self._fleet, factor) for factor in _MORE_SLOTS)
        yield from self._first(_Trial("slots", fleet.slots, {}, fleet) for fleet in more)

    def _first(self, trials: Iterable["_Trial"]) -> Iterator[Relief]:
        best: Relief | None = None
        for trial in trials:
            tasks = [trial.changed.get(each.name, each) for each in self._tasks]
            after = self._longest_wait(tasks, trial.fleet)
            if after <= self._before * _HELPS and (best is None or after < best.after):
                best = self._relief(trial, after)
            if after <= LATE_AFTER.total_seconds():
                break
        if best:
            yield best

    def _relief(self, trial: "_Trial", after: float) -> Relief:
        names = list(trial.changed)
        label = _label_of(names, self._tasks) if names else None
        return Relief(trial.kind, trial.value, names, label, self._minute, self._before, after)

    def _longest_wait(self, tasks: Sequence[LoadTask], fleet: LoadFleet) -> float:
        return max((run.wait for run in play(tasks, fleet, self._begin, self._until).runs), default=0.0)

    def _with_jitter(self, seconds: int) -> dict[str, LoadTask]:
        """Return those that start in the busiest minute, with this jitter, by name."""

        def spread(each: LoadTask) -> LoadTask | None:
            task = replace(each.task, jitter=float(seconds))
            if each.task.jitter or _least_gap(each.starts) < _SPREAD * seconds:
                return None
            return replace(each, task=task, starts=sorted(due_at(task, at) for at in each.starts))

        return self._changed(spread)

    def _at_other_minutes(self) -> dict[str, LoadTask]:
        """Return those that start in the busiest minute, with H as minute where a number was, by name."""

        def moved(each: LoadTask) -> LoadTask | None:
            minute, *rest = each.task.schedule.split(" ")
            if not minute.isdigit() or len(rest) != 4:
                return None
            task = replace(each.task, schedule=" ".join((_ANY_MINUTE, *rest)))
            try:
                starts = due_times(task, self._begin - INSTANT, self._until)
            except UsageError:
                return None
            return replace(each, task=task, starts=after_freezes(task, starts, self._fleet.frozen))

        return self._changed(moved)

    def _changed(self, change: Callable[[LoadTask], LoadTask | None]) -> dict[str, LoadTask]:
        found = ((each.name, change(each)) for each in self._together)
        return {name: each for name, each in found if each}


def _within(each: LoadTask, begin: datetime, until: datetime) -> LoadTask:
    return replace(each, starts=[at for at in each.starts if begin <= at <= until], overdue=None)


def _with_slots(fleet: LoadFleet, factor: float) -> LoadFleet:
    return replace(fleet, nodes=[replace(each, slots=ceil(each.slots * factor)) for each in fleet.nodes])


def _least_gap(starts: Sequence[datetime]) -> float:
    gaps = ((after - before).total_seconds() for before, after in pairwise(starts))
    return min(gaps, default=float("inf"))


def _label_of(names: Collection[str], tasks: Iterable[LoadTask]) -> str | None:
    """Return a label that the tasks of these names have and no other."""
    having: dict[str, set[str]] = {}
    for each in tasks:
        for key, value in each.task.labels.items():
            having.setdefault(f"{key}={value}", set()).add(each.name)
    return next((label for label, named in sorted(having.items()) if named == set(names)), None)
