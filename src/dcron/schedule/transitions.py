"""The clock changes of a zone, and the conversion between local times and instants.

A *local time* is what a wall clock shows: a naive datetime. An *instant* is aware and in UTC. Everything
here rests on conversions from UTC to local time, which are always unique. The reverse is not, and
zoneinfo's own answer is wrong in places (America/Nuuk, 2023-10-28 23:00-24:00).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

REACH = timedelta(hours=26)
"""Longer than any offset from UTC (14 h) and any transition's size (a day)."""
PROBE = timedelta(days=3)
"""Two transitions of one zone are at least 167 hours apart, so a probe every 72 hours finds each."""

EARLIEST = datetime(3, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 1, 1, tzinfo=UTC)
"""Instants are searched between these two: outside, a datetime cannot hold every offset."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a zone's offset."""

    at: datetime
    """First instant of the new offset."""
    old: timedelta
    new: timedelta

    @property
    def is_gap(self) -> bool:
        """Whether clocks go forward, so that local times are left out. Else they go back: local times
        repeat.
        """
        return self.new > self.old

    @property
    def local_before(self) -> datetime:
        """The local time that clocks would have shown at the transition without it."""
        return self.at.replace(tzinfo=None) + self.old

    @property
    def local_after(self) -> datetime:
        """The local time that clocks show at the transition."""
        return self.at.replace(tzinfo=None) + self.new

    @property
    def local_times(self) -> tuple[datetime, datetime]:
        """The local times left out or shown twice: from the first, up to but excluding the second."""
        return (self.local_before, self.local_after) if self.is_gap else (self.local_after, self.local_before)

    def removes(self, local_time: datetime) -> bool:
        """Return whether no clock ever shows this local time."""
        return self.local_before <= local_time < self.local_after

    def removes_date(self, day: date) -> bool:
        """Return whether the whole date is left out (Apia, 2011-12-30)."""
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 a local time
        return self.local_before <= midnight and midnight + DAY <= self.local_after

    def repeats(self, local_time: datetime) -> bool:
        """Return whether clocks show this local time twice."""
        return self.local_after <= local_time < self.local_before


class ZoneClock:
    """The wall clock of one zone."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._years: dict[int, tuple[Transition, ...]] = {}

    def local_time(self, instant: datetime) -> datetime:
        """Return what the clock shows at this instant."""
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def transitions(self, after: datetime, until: datetime) -> Iterator[Transition]:
        """Yield the transitions after one instant, up to and including the other, in order."""
        for year in range(after.year, until.year + 1):
            known = self._years.get(year)
            for transition in self._year(year) if known is None else known:
                if after < transition.at <= until:
                    yield transition

    def transition_near(self, local_time: datetime) -> Transition | None:
        """Return the only transition that can concern this local time; None if there is none."""
        middle = local_time.replace(tzinfo=UTC)
        return next(self.transitions(middle - REACH, middle + REACH), None)

    def instant(self, local_time: datetime) -> datetime:
        """Return the first instant at which the clock shows this local time or a later one.

        For a local time in a fold that is its first pass; for one in a gap, the transition.
        """
        return self.first_instant_near(local_time, self.transition_near(local_time))

    def first_instant_near(self, local_time: datetime, transition: Transition | None) -> datetime:
        """Return the same as `instant` if the result of `transition_near` is already known."""
        as_utc = local_time.replace(tzinfo=UTC)
        if transition is None:
            return as_utc - self._offset(as_utc)
        if local_time < transition.local_before:
            return as_utc - transition.old
        if local_time < transition.local_after:
            return transition.at
        return as_utc - transition.new

    def latest_local_time(self, instant: datetime) -> datetime:
        """Return the latest local time that the clock has shown up to this instant, to the second.

        That is the current local time. In the second pass of a fold it is the end of the first pass.
        """
        local_time = self.local_time(instant)
        for transition in self.transitions(instant - REACH, instant):
            if transition.repeats(local_time):
                return transition.local_before - SECOND
        return local_time

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).replace(tzinfo=UTC) - instant

    def _year(self, year: int) -> tuple[Transition, ...]:
        """Find all transitions of one year in UTC, and cache them. Two threads may find the same ones."""
        instant = datetime(year, 1, 1, tzinfo=UTC)
        end = datetime(year + 1, 1, 1, tzinfo=UTC)
        found = []
        while instant < end:
            probe = min(instant + PROBE, end)
            if self._offset(probe) != self._offset(instant):
                found.append(self._change_between(instant, probe))
            instant = probe
        self._years[year] = tuple(found)
        return self._years[year]

    def _change_between(self, low: datetime, high: datetime) -> Transition:
        """Bisect to the second at which the offset at `low` changes to the offset at `high`."""
        old, new = self._offset(low), self._offset(high)
        while high - low > SECOND:
            middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
            if self._offset(middle) == old:
                low = middle
            else:
                high = middle
        return Transition(high, old, new)


@cache
def clock(zone: ZoneInfo) -> ZoneClock:
    """Return the shared clock of this zone."""
    return ZoneClock(zone)
