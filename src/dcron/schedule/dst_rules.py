"""The rules at clock changes: from the local times a schedule names to the instants at which it runs.

The source of the rules is docs/schedules.md; they are checked against Debian cron's own code. Both searches
are pure: the answer does not depend on where an earlier search ended.
"""

from datetime import datetime
from typing import Protocol

from dcron.schedule.rules import Fold, Gap
from dcron.schedule.transitions import REACH, SECOND, ZoneClock


class LocalTimes(Protocol):
    """Something that names local times, such as a cron expression."""

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """Return the first local time strictly after this one; None if there is none."""


def next_interval(local_times: LocalTimes, clock: ZoneClock, after: datetime) -> datetime | None:
    """Return the first instant after `after` at which the clock shows a named local time.

    This is the rule for intervals (`*/5 * * * *`). Local times in a gap do not occur, those in a fold occur
    in both passes, and nothing is caught up.
    """
    seen = here = after
    shown = clock.local_time(after)
    while (local_time := local_times.next_local_time(shown)) is not None:
        instant = here + (local_time - shown)
        transition = next(clock.transitions(seen, instant), None)
        if transition is None:
            return instant
        # The clock jumps before that: continue at the transition, with the local time it then shows.
        seen, here, shown = transition.at, transition.at - SECOND, transition.local_after - SECOND
    return None


def next_fixed(
    local_times: LocalTimes, clock: ZoneClock, after: datetime, gap: Gap, fold: Fold
) -> datetime | None:
    """Return the first instant after `after` at which a schedule of fixed times runs.

    A local time in a gap runs when the gap ends, or never with `gap="skip"`. If the gap removes its whole
    date, it never runs. A local time in a fold runs in the first pass, or in both with `fold="both"`.
    """
    first = _next_first_pass(local_times, clock, after, gap)
    if fold == "first":
        return first
    second = _next_second_pass(local_times, clock, after, first)
    return min(filter(None, (first, second)), default=None)


def _next_first_pass(local_times: LocalTimes, clock: ZoneClock, after: datetime, gap: Gap) -> datetime | None:
    """Return the next instant if each local time runs once, in its first pass.

    A later local time never runs earlier, so the next local time decides.
    """
    shown = clock.latest_local_time(after)
    while (local_time := local_times.next_local_time(shown)) is not None:
        transition = clock.transition_near(local_time)
        if transition is None or not transition.removes(local_time):
            return clock.first_instant_near(local_time, transition)
        if gap == "skip":
            shown = transition.local_after - SECOND
        elif transition.removes_date(local_time.date()):
            shown = local_time.replace(hour=23, minute=59, second=59)
        else:
            return transition.at
    return None


def _next_second_pass(
    local_times: LocalTimes, clock: ZoneClock, after: datetime, limit: datetime | None
) -> datetime | None:
    """Return the first named local time in the second pass of a fold, no later than `limit`."""
    for transition in clock.transitions(after - REACH, limit or after + REACH):
        if transition.is_gap:
            continue
        shown = clock.local_time(after) if after >= transition.at else transition.local_after - SECOND
        local_time = local_times.next_local_time(shown)
        if local_time is not None and transition.repeats(local_time):
            return clock.first_instant_near(local_time, transition) + (transition.old - transition.new)
    return None
