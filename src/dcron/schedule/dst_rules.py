"""The rules at clock changes: from the faces a schedule names to the instants it runs at.

The rules are those of docs/schedules.md, checked against Debian cron's own code. Both walks are pure:
the answer does not depend on where the walk before ended.
"""

from datetime import datetime
from typing import Protocol

from dcron.schedule.rules import Fold, Gap
from dcron.schedule.transitions import REACH, SECOND, ZoneClock


class LocalTimes(Protocol):
    """Something that names faces of the clock on the wall."""

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """The first face it names strictly after this one; None when there is none."""


def next_interval(local_times: LocalTimes, clock: ZoneClock, after: datetime) -> datetime | None:
    """The first real tick after an instant at which the clock shows a named face.

    Faces that are left out do not occur, faces that come twice do so in both passes, nothing is caught up.
    """
    seen = here = after
    shown = clock.local_time(after)
    while (local_time := local_times.next_local_time(shown)) is not None:
        instant = here + (local_time - shown)
        transition = next(clock.transitions(seen, instant), None)
        if transition is None:
            return instant
        # The clock jumps on the way: start again at the change, with the face it then shows.
        seen, here, shown = transition.at, transition.at - SECOND, transition.resumed - SECOND
    return None


def next_fixed(
    local_times: LocalTimes, clock: ZoneClock, after: datetime, gap: Gap, fold: Fold
) -> datetime | None:
    """The first instant after another at which a schedule of fixed times runs.

    A face that is left out runs when the gap ends, or with `gap="skip"` not at all; a face of a date
    that is left out has no run. A face that comes twice runs the first time, or with `fold="both"` twice.
    """
    first = _next_first_pass(local_times, clock, after, gap)
    if fold == "first":
        return first
    second = _next_second_pass(local_times, clock, after, first)
    return min(filter(None, (first, second)), default=None)


def _next_first_pass(local_times: LocalTimes, clock: ZoneClock, after: datetime, gap: Gap) -> datetime | None:
    """Once per face, at its first time. Later faces never run earlier, so the next face decides."""
    shown = clock.latest_local_time(after)
    while (local_time := local_times.next_local_time(shown)) is not None:
        transition = clock.transition_near(local_time)
        if transition is None or not transition.removes(local_time):
            return clock.instant_near(local_time, transition)
        if gap == "skip":
            shown = transition.resumed - SECOND
        elif transition.removes_date(local_time.date()):
            shown = local_time.replace(hour=23, minute=59, second=59)
        else:
            return transition.at
    return None


def _next_second_pass(
    local_times: LocalTimes, clock: ZoneClock, after: datetime, limit: datetime | None
) -> datetime | None:
    """The first named face in the second pass of a fold, no later than `limit`."""
    for transition in clock.transitions(after - REACH, limit or after + REACH):
        if transition.is_gap:
            continue
        shown = clock.local_time(after) if after >= transition.at else transition.resumed - SECOND
        local_time = local_times.next_local_time(shown)
        if local_time is not None and transition.repeats(local_time):
            return clock.instant_near(local_time, transition) + (transition.old - transition.new)
    return None
