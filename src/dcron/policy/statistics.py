"""Statistics of runs as values that add up: of a day, a task, a node or an hour.

Durations are kept in classes, each half as long again as the one before, with the number of runs and their
total. So the rows of a year are small and can be added, and a percentile is that of the runs themselves to
within a quarter; it is exact where all runs take equally long. All sums are whole milliseconds: they are the
same in whatever order runs are added.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from dcron.model import RunState

FACTOR = 1.5
CLASSES = 40
SHORTEST = 20
"""Milliseconds below which all durations are in one class. The last class begins at 27 hours."""
_BOUNDS = [round(SHORTEST * FACTOR**number) for number in range(CLASSES - 1)]
SETTLED_AFTER = timedelta(hours=6)
"""How long after its end a day is summed up. Until then, most ends that are recorded late have come in."""
DAY = timedelta(days=1)
FEWEST = 5
"""Fewest successful runs in each of two spans whose durations are compared."""
SLOWER = 1.25
"""By which factor a percentile differs at least if it has changed."""

StoredClass = tuple[int, int]
"""Number and total milliseconds of the runs in a class."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of these sorted values that at least this share of them does not exceed."""
    return ordered[rank(share, len(ordered)) - 1]


def rank(share: float, count: int) -> int:
    """Return the place of a percentile among `count` sorted values, from 1 on."""
    return max(1, math.ceil(share * count))


@dataclass
class Durations:
    """Durations of runs, in classes."""

    classes: dict[int, StoredClass] = field(default_factory=dict)
    longest: int = 0
    """Milliseconds. It does not fall when durations are taken away."""

    def add(self, milliseconds: int) -> None:
        """Count one duration."""
        number = bisect_right(_BOUNDS, milliseconds)
        count, total = self.classes.get(number, (0, 0))
        self.classes[number] = count + 1, total + milliseconds
        if milliseconds > self.longest:
            self.longest = milliseconds

    def merge(self, other: "Durations", sign: int = 1) -> None:
        """Add the other durations; with `sign` -1, take them away."""
        for number, (count, total) in other.classes.items():
            own_count, own_total = self.classes.get(number, (0, 0))
            count, total = own_count + sign * count, own_total + sign * total
            if count > 0:
                self.classes[number] = count, total
            else:
                self.classes.pop(number, None)
        if sign > 0:
            self.longest = max(self.longest, other.longest)

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(count for count, _ in self.classes.values())

    @property
    def total(self) -> int:
        """Their sum in milliseconds."""
        return sum(total for _, total in self.classes.values())

    def percentile(self, share: float) -> float | None:
        """Return the seconds that this share of the durations does not exceed; None without durations."""
        left = rank(share, self.count)
        for number in sorted(self.classes):
            count, total = self.classes[number]
            left -= count
            if left <= 0:
                return total / count / 1000
        return None


@dataclass
class Totals:
    """How many runs ended in which state, how long they took, and how late they started."""

    succeeded: int = 0
    failed: int = 0
    lost: int = 0
    cancelled: int = 0
    skipped: int = 0
    work: int = 0
    """Milliseconds that commands ran, however they ended."""
    took: Durations = field(default_factory=Durations)
    """The durations of the successful runs: a failure may take no time at all, or all that it may."""
    late: Durations = field(default_factory=Durations)
    """How long after their due times the started runs started."""

    def add(
        self, state: RunState, due_at: datetime, started_at: datetime | None, finished_at: datetime
    ) -> None:
        """Count a run that has ended."""
        self.__dict__[state.value] += 1
        if started_at is None:
            return
        duration = _milliseconds(finished_at - started_at)
        self.work += duration
        self.late.add(_milliseconds(started_at - due_at))
        if state is RunState.SUCCEEDED:
            self.took.add(duration)

    def merge(self, other: "Totals", sign: int = 1) -> None:
        """Add the other totals; with `sign` -1, take them away."""
        for name in (*COUNTS, "work"):
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        self.took.merge(other.took, sign)
        self.late.merge(other.late, sign)

    @property
    def runs(self) -> int:
        """How many runs have ended, without those that were skipped."""
        return self.succeeded + self.failed + self.lost + self.cancelled

    @property
    def failures(self) -> int:
        """How many runs failed or were lost."""
        return self.failed + self.lost

    @property
    def success_rate(self) -> float | None:
        """The share of successes among successes and failures; None without either."""
        judged = self.succeeded + self.failures
        return self.succeeded / judged if judged else None

    @property
    def longest(self) -> float | None:
        """The longest successful run in seconds; None without one."""
        return self.took.longest / 1000 if self.took.classes else None


COUNTS = tuple(state.value for state in RunState if state.is_final)
"""The counters of `Totals`, which have the names of the final states."""


def sum_of(parts: Iterable[Totals]) -> Totals:
    """Return all of these together."""
    total = Totals()
    for part in parts:
        total.merge(part)
    return total


def _milliseconds(duration: timedelta) -> int:
    return max(0, duration // timedelta(milliseconds=1))


# Days -------------------------------------------------------------------------------------------------


def day_of(finished_at: datetime) -> date:
    """Return the day that a run counts for: that of its end, in UTC."""
    return finished_at.astimezone(UTC).date()


def start_of(day: date) -> datetime:
    """Return when the day begins."""
    return datetime.combine(day, time(), UTC)


def last_settled_day(now: datetime) -> date:
    """Return the last day that can be summed up."""
    return day_of(now - SETTLED_AFTER) - DAY


@dataclass(frozen=True)
class Span:
    """From `start` until before `end`."""

    start: datetime
    end: datetime

    @property
    def before(self) -> "Span":
        """The span just before, as long, in whole days if this one begins with a day."""
        length = self.end - self.start
        if self.start == start_of(day_of(self.start)):
            length = -(-length // DAY) * DAY
        return Span(self.start - length, self.start)

    @property
    def days(self) -> list[date]:
        """The days of which the span has a part."""
        first, last = day_of(self.start), day_of(self.end - timedelta(microseconds=1))
        return [first + number * DAY for number in range((last - first).days + 1)]


def span_since(since: datetime, now: datetime) -> Span:
    """Return the span until now; from a day or longer on it begins with a day, in UTC."""
    is_short = now - since < DAY
    return Span(since if is_short else start_of(day_of(since)), now)


# Comparison -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics:
    """The totals of a task, node, queue or hour, and those of the span before."""

    name: str
    now: Totals
    before: Totals
    is_removed: bool = False
    """Whether it is a task that has been removed."""
    task_id: int | None = None
    """None where it is not a task."""

    @property
    def trend(self) -> float | None:
        """By which factor the 95th percentile has changed; None where there is too little to compare."""
        if min(self.now.took.count, self.before.took.count) < FEWEST:
            return None
        now, before = self.now.took.percentile(0.95), self.before.took.percentile(0.95)
        return now / before if now is not None and before else None

    @property
    def has_changed(self) -> bool:
        """Whether the 95th percentile differs by more than its inaccuracy."""
        trend = self.trend
        return trend is not None and not 1 / SLOWER < trend < SLOWER


ORDERS: Mapping[str, Callable[[Statistics], float]] = {
    "slow": lambda each: -(each.now.took.percentile(0.95) or 0.0),
    "failing": lambda each: 1.0 if each.now.success_rate is None else each.now.success_rate,
    "late": lambda each: -(each.now.late.percentile(0.95) or 0.0),
    "trend": lambda each: -(each.trend or 0.0),
}
"""The key of each order, the worst first."""


def ordered(found: Iterable[Statistics], order: str | None) -> list[Statistics]:
    """Return the statistics by one of ORDERS, or by name."""
    by_name = sorted(found, key=lambda each: each.name)
    return sorted(by_name, key=ORDERS[order]) if order else by_name
