"""Tasks that never succeed, never run, take longer than the time between their runs, or have drifted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from dcron.errors import UsageError
from dcron.model import Task
from dcron.policy.ownership import is_drifted
from dcron.policy.starting import occurrences
from dcron.policy.statistics import Totals
from dcron.presentation.doctor import Finding
from dcron.store.statistics.figures import ClusterFigures, TaskFigures

MOST_EXAMINED = 200
"""Tasks whose schedules one examination computes."""
_FEWEST_FAILURES = 3
_FEWEST_RUNS = 5
"""Successful runs from which a duration can be judged."""
_SLOT_MINUTE = 60.0
_DAY = timedelta(days=1)


def examine(figures: ClusterFigures) -> Iterator[Finding]:
    """Yield what the figures of the tasks show."""
    if suspended := figures.tasks["suspended"]:
        yield Finding("suspended", suspended=suspended)
    if figures.dead_letters:
        yield Finding("dead-letters", letters=figures.dead_letters)
    yield from _about("never-succeeded", [task for task in figures.of_tasks if _never_succeeds(task)])
    yield from _crowds(figures)


def examine_owned(owned: Iterable[Task]) -> Iterator[Finding]:
    """Yield the tasks among these that were changed by hand since their source was applied."""
    yield from _about("drifted", [task for task in owned if is_drifted(task)])


def _about(code: str, found: Iterable[Task | TaskFigures]) -> Iterator[Finding]:
    if names := [task.name for task in found]:
        yield Finding(code, names)


def _never_succeeds(task: TaskFigures) -> bool:
    return task.last_success is None and task.failures >= _FEWEST_FAILURES


def _crowds(figures: ClusterFigures) -> Iterator[Finding]:
    """Yield the minute of the next day in which the runs that start need most time of the slots."""
    if not figures.slots:
        return
    work: dict[datetime, float] = defaultdict(float)
    starts: dict[datetime, int] = defaultdict(int)
    for task in figures.of_tasks:
        if task.next_run and figures.now < task.next_run < figures.now + _DAY:
            minute = task.next_run.replace(second=0, microsecond=0)
            work[minute] += task.last_duration or 0.0
            starts[minute] += 1
    busiest = max(work, key=lambda minute: (work[minute], minute), default=None)
    if busiest is None or starts[busiest] <= figures.slots:
        return
    wait = work[busiest] / figures.slots
    if wait > _SLOT_MINUTE:
        yield Finding("crowd", starts=starts[busiest], minute=busiest, slots=figures.slots, wait=wait)


def never_started(figures: ClusterFigures) -> list[int]:
    """Return the ids of tasks that wait for a run and have never started one."""
    ids = [task.id for task in figures.of_tasks if task.last_run is None and task.next_run is not None]
    return ids[:MOST_EXAMINED]


def examine_unstarted(tasks: Sequence[Task], now: datetime) -> Iterator[Finding]:
    """Yield the tasks among these, which have never started, that should have."""
    yield from _about("never-run", (task for task in tasks if _has_missed_one(task, now)))


def _has_missed_one(task: Task, now: datetime) -> bool:
    try:
        first = occurrences.next_occurrence(task, task.changed_at)
    except UsageError:
        return False
    return first is not None and first < now - _DAY


def slowest(totals: Mapping[int, Totals]) -> dict[int, float]:
    """Return the p95 durations, in seconds, of the tasks with the longest."""
    judged = {task_id: each.took for task_id, each in totals.items() if each.succeeded >= _FEWEST_RUNS}
    seconds = {task_id: took.percentile(0.95) or 0.0 for task_id, took in judged.items()}
    longest = sorted(seconds, key=lambda task_id: -seconds[task_id])[:MOST_EXAMINED]
    return {task_id: seconds[task_id] for task_id in longest}


def examine_durations(
    tasks: Sequence[Task], seconds: Mapping[int, float], now: datetime
) -> Iterator[Finding]:
    """Yield the tasks among these whose runs take longer than the time to the next one."""
    long = (task for task in tasks if task.enabled and _is_too_long(task, seconds[task.id], now))
    yield from _about("overlaps", long)


def _is_too_long(task: Task, seconds: float, now: datetime) -> bool:
    try:
        first = occurrences.next_occurrence(task, now)
        second = first and occurrences.next_occurrence(task, first)
    except UsageError:
        return False
    return first is not None and second is not None and seconds > (second - first).total_seconds()
