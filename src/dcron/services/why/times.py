"""The times of a line: whether it has one, the nearest, and those that a record tells together."""

from datetime import datetime, timedelta

from dcron import policy
from dcron.model import Definition
from dcron.policy import INSTANT
from dcron.schedule import Schedule, clock_transitions, zone

_LONGEST_BACK = timedelta(days=50 * 366)
_SECOND = timedelta(seconds=1)


def schedule_of(line: Definition) -> Schedule:
    """The line's schedule. Raises ScheduleError."""
    return policy.schedule_of(line.schedule, line.name)


def occurs(line: Definition, moment: datetime) -> bool:
    """Whether the line has a turn just then, window considered. Raises ScheduleError or ZoneError."""
    return policy.next_occurrence(line, moment - INSTANT) == moment


def between(line: Definition, first: datetime, end: datetime, limit: int) -> list[datetime]:
    """The line's first `limit` turns from `first` up to but without `end`."""
    found: list[datetime] = []
    following = policy.next_occurrence(line, first - INSTANT)
    while following and following < end and len(found) < limit:
        found.append(following)
        following = policy.next_occurrence(line, following)
    return found


def previous(line: Definition, moment: datetime) -> datetime | None:
    """The line's last turn before the moment, within fifty years: found in doubling steps, then halved."""

    def is_before(start: datetime) -> bool:
        following = policy.next_occurrence(line, start)
        return following is not None and following < moment

    step = _SECOND
    while not is_before(moment - step):
        step *= 2
        if step > _LONGEST_BACK:
            return None
    low, high = moment - step, moment
    while high - low > _SECOND / 2:
        middle = low + (high - low) / 2
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return policy.next_occurrence(line, low)


def clock_change_at(line: Definition, moment: datetime) -> str | None:
    """What a clock change does to a turn that the line does not have just then, or has; None as a rule.

    `moment` is the end of a gap, where a time that the clock leaves out is taken, or in the second pass of
    times that come twice.
    """
    here = zone(line.timezone)
    near = clock_transitions(
        schedule_of(line), here, moment - timedelta(days=1), policy.rules_of(line), count=1
    )
    change = next(iter(near), None)
    if change is None or change.at > moment or moment - change.at > timedelta(days=1):
        return None
    comes_again = moment.astimezone(here).fold == 1
    return change.text if change.at == moment or comes_again else None
