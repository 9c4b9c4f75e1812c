"""The occurrences of a task near a time, or between two."""

from datetime import datetime, timedelta

from dcron.model import Definition
from dcron.policy.starting import occurrences
from dcron.policy.starting.catch_up import INSTANT
from dcron.schedule.next_run import clock_transitions
from dcron.schedule.zones import zone

_LONGEST_BACK = timedelta(days=50 * 366)
_SECOND = timedelta(seconds=1)


def occurs(task: Definition, at: datetime) -> bool:
    """Return whether the task has an occurrence at this time. Raises ScheduleError or ZoneError."""
    return occurrences.schedule_of(task).timed and occurrences.next_occurrence(task, at - INSTANT) == at


def occurrences_between(task: Definition, first: datetime, end: datetime, limit: int) -> list[datetime]:
    """Return the task's first `limit` occurrences from `first` to before `end`.

    A task without times of its own has none. Raises ScheduleError or ZoneError.
    """
    found: list[datetime] = []
    if not occurrences.schedule_of(task).timed:
        return found
    following = occurrences.next_occurrence(task, first - INSTANT)
    while following and following < end and len(found) < limit:
        found.append(following)
        following = occurrences.next_occurrence(task, following)
    return found


def previous_occurrence(task: Definition, at: datetime) -> datetime | None:
    """Return the task's last occurrence before `at`, within fifty years.

    Searches backwards in doubling steps, then halves the interval.
    """

    def is_before(start: datetime) -> bool:
        following = occurrences.next_occurrence(task, start)
        return following is not None and following < at

    step = _SECOND
    while not is_before(at - step):
        step *= 2
        if step > _LONGEST_BACK:
            return None
    low, high = at - step, at
    while high - low > _SECOND / 2:
        middle = low + (high - low) / 2
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return occurrences.next_occurrence(task, low)


def clock_change_at(task: Definition, at: datetime) -> str | None:
    """Return what a clock change does to an occurrence at this time; None as a rule.

    `at` is the end of a gap, where an occurrence in the gap runs, or lies in the second pass of a fold.
    """
    here = zone(task.timezone)
    near = clock_transitions(
        occurrences.schedule_of(task), here, at - timedelta(days=1), occurrences.rules_of(task), count=1
    )
    change = next(iter(near), None)
    if change is None or change.at > at or at - change.at > timedelta(days=1):
        return None
    comes_again = at.astimezone(here).fold == 1
    return change.text if change.at == at or comes_again else None
