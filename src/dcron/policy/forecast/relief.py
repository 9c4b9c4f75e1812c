"""Propose changes that shorten the longest wait. Each proposal was simulated before it is made."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from dcron.errors import UsageError
from dcron.model import LATE_AFTER
from dcron.policy.forecast.load import Load, LoadFleet, LoadTask, PlayedRun, play
from dcron.policy.forecast.start_times import Minutes, allowed_occurrences, minute_of
from dcron.policy.starting.catch_up import INSTANT

_MORE_SLOTS = (1.25, 1.5, 2.0, 3.0)
_AROUND = timedelta(minutes=30)
"""Time before the first wait and after the last that is simulated, too."""
_LONGEST = timedelta(hours=6)
"""Most hours before the longest wait that are simulated."""
_HELPS = 0.5
"""What a proposal leaves of the longest wait at most."""
_ANY_MINUTE = "H"


@dataclass(frozen=True)
class Relief:
    """A change that shortens the longest wait."""

    kind: Literal["minute", "slots"]
    value: int
    """The slots of all nodes together; 0 for `minute`, the symbol H as minute."""
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


def reliefs(tasks: Sequence[LoadTask], fleet: LoadFleet, load: Load, worst: PlayedRun) -> Iterator[Relief]:
    """Yield the proposals that help, of each kind the smallest change. `worst` is the longest wait."""
    begin, until = _busy_period(load, worst)
    tasks, fleet = [_within(each, begin, until) for each in tasks], replace(fleet, alive=())
    before = _longest_wait(tasks, fleet, begin, until)
    minute, together = _busiest(tasks, begin)
    if moved := _at_other_minutes(together, begin, until):
        after = _longest_wait([moved.get(each.name, each) for each in tasks], fleet, begin, until)
        if after <= before * _HELPS:
            yield Relief("minute", 0, list(moved), _label_of(moved, tasks), minute, before, after)
    best: Relief | None = None
    for factor in _MORE_SLOTS:
        more = replace(fleet, nodes=[replace(each, slots=ceil(each.slots * factor)) for each in fleet.nodes])
        after = _longest_wait(tasks, more, begin, until)
        if after <= before * _HELPS and (best is None or after < best.after):
            best = Relief("slots", more.slots, [], None, minute, before, after)
        if after <= LATE_AFTER.total_seconds():
            break
    if best:
        yield best


def _busy_period(load: Load, worst: PlayedRun) -> tuple[datetime, datetime]:
    """Return the time around the longest wait in which runs wait all the time."""
    begin, until = worst.due_at, worst.started_at
    for run in sorted(load.runs, key=lambda run: run.started_at, reverse=True):
        if run.due_at < begin <= run.started_at and run.wait > 0:
            begin = run.due_at
    return max(begin, worst.due_at - _LONGEST) - _AROUND, until + _AROUND


def _within(each: LoadTask, begin: datetime, until: datetime) -> LoadTask:
    return replace(each, occurrences=[at for at in each.occurrences if begin <= at <= until])


def _longest_wait(tasks: Sequence[LoadTask], fleet: LoadFleet, begin: datetime, until: datetime) -> float:
    return max((run.wait for run in play(tasks, fleet, begin, until).runs), default=0.0)


def _busiest(tasks: Iterable[LoadTask], begin: datetime) -> tuple[datetime, list[LoadTask]]:
    """Return the minute in which most tasks start, and these tasks."""
    started = {each.name: set(map(minute_of, each.starts)) for each in tasks}
    minutes = Minutes()
    for each in started.values():
        minutes.add(each)
    busiest = next((minute for minute, _ in minutes.busiest(1)), begin)
    return busiest, [each for each in tasks if minute_of(busiest) in started[each.name]]


def _at_other_minutes(tasks: Iterable[LoadTask], begin: datetime, until: datetime) -> Mapping[str, LoadTask]:
    """Return these tasks with H as minute, those that have a number there, by name."""
    found = {}
    for each in tasks:
        minute, *rest = each.task.schedule.split(" ")
        if not minute.isdigit() or len(rest) != 4:
            continue
        task = replace(each.task, schedule=" ".join((_ANY_MINUTE, *rest)))
        try:
            moved = allowed_occurrences(task, begin - INSTANT, until)
        except UsageError:
            continue
        found[each.name] = replace(each, task=task, occurrences=moved)
    return found


def _label_of(names: Collection[str], tasks: Iterable[LoadTask]) -> str | None:
    """Return a label that the tasks of these names have and no other."""
    having: dict[str, set[str]] = {}
    for each in tasks:
        for key, value in each.task.labels.items():
            having.setdefault(f"{key}={value}", set()).add(each.name)
    return next((label for label, named in sorted(having.items()) if named == set(names)), None)
