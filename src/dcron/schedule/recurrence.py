"""Recurrence rules (RFC 5545) in local time.

A rule is counted from the `DTSTART:` before it, else from 1970-01-01T00:00, a Thursday: like every schedule
it must mean the same on every node and at any time.

dateutil steps through a rule tick by tick, and through a rule that matches nothing up to the year 9999,
which takes minutes. So dateutil only returns the matching days, one year at a time; this module counts
periods, times of the day and positions itself.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import groupby, product
from threading import Lock
from typing import Any

from dcron.errors import ScheduleError
from dcron.schedule.croniter_walk import HORIZON_YEARS, LAST_LOCAL_TIME
from dcron.schedule.effort import require, spend
from dcron.schedule.transitions import DAY, SECOND

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
"""In dateutil's order: its constants are these positions."""
YEARLY, MONTHLY, WEEKLY, DAILY = range(4)

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_DAY_PARTS = ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
_TIME_PARTS = ("BYHOUR", "BYMINUTE", "BYSECOND")
_MONTHS = range(1, 13)
_WEEK = 7 * DAY

FIRST = datetime(1970, 1, 1)  # noqa: DTZ001 a local time
"""Start of a rule without DTSTART."""
_IN_EVERY_MONTH = 28
_KEPT = 1_000
"""Local times that a walk remembers before it starts again."""
_CALL, _LOCAL_TIME, _COUNTED_DAY, _YEAR = 5, 2, 5, 80
"""Steps (see `effort`) of one call, one local time, one day of a daily rule, and one year's days."""


@dataclass(frozen=True)
class Recurrence:
    """One rule. Its local times are fixed times, like `0 9 * * *`."""

    text: str
    frequency: int
    """A position in FREQUENCIES."""
    interval: int = 1
    start: datetime = FIRST
    """The local time from which it is counted."""
    count: int | None = None
    last_local_time: datetime | None = None
    """UNTIL in local time."""
    until: datetime | None = None
    """UNTIL in UTC."""
    week_start: int = 0
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """The BY… parts except BYDAY."""
    weekdays: tuple[tuple[int, int], ...] = ()
    """BYDAY: (0, -1) is the last Monday, (0, 0) every Monday."""

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """Return the first local time after this one; None if 50 years hold none, or the rule has ended."""
        last = self._last
        if last is not None and local_time >= last:
            return None
        found = self._walk.next_local_time(local_time)
        if found is None or found >= LAST_LOCAL_TIME or (last is not None and found > last):
            return None
        return found

    @cached_property
    def _last(self) -> datetime | None:
        """The last local time if no walk is needed: from UNTIL, or from COUNT and INTERVAL alone."""
        if self.count is None or self.numbers or self.weekdays:
            return self.last_local_time
        steps = (self.count - 1) * self.interval
        try:
            if self.frequency > MONTHLY:
                return self.start + steps * (_WEEK if self.frequency == WEEKLY else DAY)
            if self.start.day > _IN_EVERY_MONTH:
                return None  # COUNT ignores months without that day
            months = self.start.month - 1 + steps * (12 if self.frequency == YEARLY else 1)
            return self.start.replace(year=self.start.year + months // 12, month=months % 12 + 1)
        except (OverflowError, ValueError):
            return LAST_LOCAL_TIME

    @property
    def walked_count(self) -> int | None:
        """COUNT, if its end is found only by walking there."""
        return self.count if self._last is None else None

    @cached_property
    def _walk(self) -> "_Walk":
        return _Walk(self)

    def local_times_of(self, year: int, begin: datetime) -> Iterator[datetime]:
        """Yield the local times after `begin` in the periods that begin in this year, in order."""
        today = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        for days in self._periods_of(year, today):
            for local_time in self._picked(days, today):
                if local_time > begin and local_time >= self.start:
                    yield local_time

    def _periods_of(self, year: int, today: datetime) -> Iterator[Sequence[datetime]]:
        """Yield the matching days of each counted period that begins in this year; perhaps not those that
        are over.
        """
        if self.frequency == WEEKLY:
            spend(366)
            step = _WEEK * self.interval
            earliest = max(datetime(year, 1, 1), today - 6 * DAY)  # noqa: DTZ001 a local time
            week = self._first_week - (self._first_week - earliest) // step * step
            while week.year == year:
                yield self._days_of_week(week)
                week += step
        elif self.frequency == MONTHLY:
            spend(_YEAR + len(_days_of(self, year)))
            for _, days in groupby(_days_of(self, year), lambda day: day.month):
                yield list(days)
        elif self.frequency == DAILY:
            yield from self._counted_days_of(year, today)
        elif (year - self.start.year) % self.interval == 0:
            spend(_YEAR + len(_days_of(self, year)))
            yield _days_of(self, year)

    def _counted_days_of(self, year: int, today: datetime) -> Iterator[Sequence[datetime]]:
        days = _days_of(self, year)
        spend(_YEAR + len(days))
        first = self.start.toordinal()
        for day in days[bisect_left(days, today) :]:
            spend(1)
            if (day.toordinal() - first) % self.interval == 0:
                spend(_COUNTED_DAY - 1)
                yield (day,)

    def _days_of_week(self, week: datetime) -> list[datetime]:
        numbers, weekdays = self.days_in_effect()
        named = {day for day, _ in weekdays}
        return [
            day
            for day in (week + number * DAY for number in range(7))
            if day.weekday() in named
            and day.month in numbers.get("BYMONTH", (day.month,))
            and day.date() >= self.start.date()  # or BYSETPOS would count other days than dateutil does
        ]

    def months_of(self, year: int, months: Iterable[int]) -> tuple[int, ...]:
        """Return those of these months that the interval counts."""
        passed = (year - self.start.year) * 12 - self.start.month
        return tuple(month for month in months if (passed + month) % self.interval == 0)

    def _picked(self, days: Sequence[datetime], begin: datetime) -> Iterator[datetime]:
        """Return the local times of these days from `begin` on, or those that BYSETPOS picks."""
        times = self._times
        spend(len(days))
        if "BYSETPOS" not in self.numbers:
            return (day + time for day in days if day >= begin for time in times)
        places = (divmod(position, len(times)) for position in self._positions(len(days) * len(times)))
        return (days[day] + times[time] for day, time in places)

    def _positions(self, total: int) -> list[int]:
        """Return the positions, from zero, that BYSETPOS picks of `total`."""
        positions = {nth - 1 if nth > 0 else total + nth for nth in self.numbers["BYSETPOS"]}
        return sorted(position for position in positions if 0 <= position < total)

    @cached_property
    def _times(self) -> list[timedelta]:
        """The times of each day, in order."""
        return [
            timedelta(hours=hour, minutes=minute, seconds=second)
            for hour, minute, second in product(*self.times_in_effect())
        ]

    def days_in_effect(self) -> tuple[dict[str, tuple[int, ...]], tuple[tuple[int, int], ...]]:
        """Return the parts that name days, completed from the start: numbers by name, and BYDAY."""
        numbers = {name: values for name, values in self.numbers.items() if name in _DAY_PARTS}
        if self._names_days or self.frequency > WEEKLY:
            return numbers, self.weekdays
        if self.frequency == WEEKLY:
            return numbers, ((self.start.weekday(), 0),)
        numbers["BYMONTHDAY"] = (self.start.day,)
        if self.frequency == YEARLY:
            numbers.setdefault("BYMONTH", (self.start.month,))
        return numbers, ()

    def times_in_effect(self) -> list[list[int]]:
        """Return the hours, minutes and seconds, completed from the start, each in order."""
        from_start = (self.start.hour, self.start.minute, self.start.second)
        return [
            sorted(set(self.numbers.get(name, (value,))))
            for name, value in zip(_TIME_PARTS, from_start, strict=True)
        ]

    @property
    def has_own_start(self) -> bool:
        """Whether the rule has a DTSTART."""
        return self.start != FIRST

    @property
    def _names_days(self) -> bool:
        return bool(self.weekdays) or any(
            name in self.numbers for name in ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
        )

    @cached_property
    def _first_week(self) -> datetime:
        """The beginning of the week that contains the start."""
        since_monday = (self.start.weekday() - self.week_start) % 7
        return self.start.replace(hour=0, minute=0, second=0) - since_monday * DAY


@lru_cache(maxsize=256)
def _days_of(rule: Recurrence, year: int) -> list[datetime]:
    """Return the days of a year that the parts name; for a monthly rule, in the counted months only."""
    from dateutil.rrule import rrule, weekday  # type: ignore[import-untyped]

    numbers, weekdays = rule.days_in_effect()
    if rule.frequency == MONTHLY:
        numbers["BYMONTH"] = rule.months_of(year, numbers.get("BYMONTH", _MONTHS))
        if not numbers["BYMONTH"]:
            return []
    parts: dict[str, Any] = {name.lower(): values for name, values in numbers.items()}
    # Without a weekday dateutil may use that of its start.
    parts["byweekday"] = [weekday(day, nth or None) for day, nth in weekdays] or range(7)
    first = datetime(year, 1, 1)  # noqa: DTZ001 a local time
    try:
        # With this interval the rule ends after one year.
        return list(
            rrule(YEARLY, dtstart=first, interval=LAST_LOCAL_TIME.year, wkst=rule.week_start, **parts)
        )
    except Exception as error:  # an error in dateutil must end this schedule, not the agent
        raise ScheduleError(f"{rule.text!r} cannot be computed for the year {year}: {error}") from error


class _Walk:
    """Steps through a rule without starting again for every local time."""

    def __init__(self, rule: Recurrence) -> None:
        self._rule = rule
        self._lock = Lock()
        self._begin(rule.start)

    def _begin(self, local_time: datetime) -> None:
        # COUNT counts from the start, so all local times are found, in order, and kept.
        self._count = self._rule.walked_count
        self._from = local_time if self._count is None else self._rule.start - SECOND
        self._steps = 0
        self._found: list[datetime] = []
        self._rest = self._local_times()
        self._year = self._limit = 0
        """The position of the search, and the last year it covers."""

    def _local_times(self) -> Iterator[datetime | None]:
        """Yield the local times from the beginning of the walk; None, repeatedly, at the limit."""
        begin = max(self._from, self._rule.start - SECOND)
        first = begin.year - (self._rule.frequency == WEEKLY)  # a week may begin in the year before
        for self._year in range(first, LAST_LOCAL_TIME.year):
            while self._year > self._limit:
                yield None
            yield from self._rule.local_times_of(self._year, begin)

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """Return the first local time after this one; cheap if the arguments of successive calls increase."""
        with self._lock:
            spend(_CALL)
            if not self._covers(local_time):
                self._begin(local_time)
            self._limit = max(local_time, self._rule.start).year + HORIZON_YEARS
            try:
                found = self._step_past(local_time)
            except ScheduleError:
                self._begin(local_time)  # a generator that has raised cannot go on
                raise
            require(self._steps)
            return found if found is not None and found.year <= self._limit else None

    def _covers(self, local_time: datetime) -> bool:
        """Return whether the local times found so far, and the next one, contain the answer."""
        if self._count is not None:
            return True
        reached = self._found[-1] if self._found else self._from
        return (
            self._from <= local_time
            and (local_time <= reached or local_time.year < self._year)
            and len(self._found) < _KEPT
        )

    def _note_effort(self, found: datetime) -> None:
        """Record the steps to come here: with COUNT every process must walk here from the start."""
        if self._count is None:
            return
        years = found.year - self._rule.start.year + 1
        each = _COUNTED_DAY if self._rule.frequency == DAILY else 1
        self._steps = years * (_YEAR + 366) + len(self._found) * (_LOCAL_TIME + each)

    def _step_past(self, local_time: datetime) -> datetime | None:
        while not self._found or self._found[-1] <= local_time:
            if len(self._found) == self._count:
                return None
            found = next(self._rest, None)
            spend(_LOCAL_TIME)
            if found is None:
                return None
            self._found.append(found)
            self._note_effort(found)
        return self._found[bisect_right(self._found, local_time)]
