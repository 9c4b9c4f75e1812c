"""A zone's clock changes, and the way from a wall clock to an instant and back.

A *face* is what a clock on the wall shows: a naive datetime. An *instant* is aware and in UTC.
Everything here rests on UTC → local conversions, which are always unique. Local → UTC is not, and
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
"""Further than any offset from UTC (14 h) or any change's size (a day)."""
PROBE = timedelta(days=3)
"""Two changes of one zone are never closer than 167 hours, so looking every 72 finds each of them."""

EARLIEST = datetime(3, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 1, 1, tzinfo=UTC)
"""Instants are looked for between these; a datetime cannot hold all offsets outside."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a zone's offset."""

    at: datetime
    """The first instant of the new offset."""
    old: timedelta
    new: timedelta

    @property
    def is_gap(self) -> bool:
        """Clocks go forward: faces are left out. Otherwise a fold: faces come twice."""
        return self.new > self.old

    @property
    def reached(self) -> datetime:
        """The face that clocks would have shown at the change, had there been none."""
        return self.at.replace(tzinfo=None) + self.old

    @property
    def resumed(self) -> datetime:
        """The face that clocks show at the change."""
        return self.at.replace(tzinfo=None) + self.new

    @property
    def local_times(self) -> tuple[datetime, datetime]:
        """The faces left out or shown twice: from the first, up to but without the second."""
        return (self.reached, self.resumed) if self.is_gap else (self.resumed, self.reached)

    def removes(self, local_time: datetime) -> bool:
        """Whether no clock ever shows this face."""
        return self.reached <= local_time < self.resumed

    def removes_date(self, day: date) -> bool:
        """Whether the whole date is left out (Apia, 2011-12-30)."""
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 a local time
        return self.reached <= midnight and midnight + DAY <= self.resumed

    def repeats(self, local_time: datetime) -> bool:
        """Whether clocks show this face twice."""
        return self.resumed <= local_time < self.reached


class ZoneClock:
    """The clock on the wall of one zone."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._years: dict[int, tuple[Transition, ...]] = {}

    def local_time(self, instant: datetime) -> datetime:
        """What the clock shows at this instant."""
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def transitions(self, after: datetime, until: datetime) -> Iterator[Transition]:
        """The changes after the one instant, up to and with the other, in order."""
        for year in range(after.year, until.year + 1):
            known = self._years.get(year)
            for transition in self._year(year) if known is None else known:
                if after < transition.at <= until:
                    yield transition

    def transition_near(self, local_time: datetime) -> Transition | None:
        """The one change that this face may have to do with, if there is one."""
        middle = local_time.replace(tzinfo=UTC)
        return next(self.transitions(middle - REACH, middle + REACH), None)

    def instant(self, local_time: datetime) -> datetime:
        """The first instant at which the clock shows this face or a later one.

        A face that comes twice is taken at its first time, one that is left out at the change itself.
        """
        return self.instant_near(local_time, self.transition_near(local_time))

    def instant_near(self, local_time: datetime, transition: Transition | None) -> datetime:
        """The same when change_near() is known already."""
        as_utc = local_time.replace(tzinfo=UTC)
        if transition is None:
            return as_utc - self._offset(as_utc)
        if local_time < transition.reached:
            return as_utc - transition.old
        if local_time < transition.resumed:
            return transition.at
        return as_utc - transition.new

    def latest_local_time(self, instant: datetime) -> datetime:
        """The latest face the clock has shown up to this instant, to the second.

        That is the face itself, but inside the second pass of a fold it is the end of the first one.
        """
        local_time = self.local_time(instant)
        for transition in self.transitions(instant - REACH, instant):
            if transition.repeats(local_time):
                return transition.reached - SECOND
        return local_time

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).replace(tzinfo=UTC) - instant

    def _year(self, year: int) -> tuple[Transition, ...]:
        """All changes of one year in UTC; found once, then remembered (threads may find the same)."""
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
        """Bisect to the second at which the offset at `low` gives way to the one at `high`."""
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
    """The clock of this zone, shared by everybody."""
    return ZoneClock(zone)
