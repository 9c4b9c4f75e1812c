"""Compare the starts of a schedule with those of all other tasks, minute by minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from dcron.model import Definition
from dcron.policy.forecast.start_times import Minutes, minute_of, minutes_of

SPAN = timedelta(days=1)
"""How far ahead the starts are compared."""
FARTHEST = 30
"""Most minutes by which a quieter time may be later."""
MOST_MOVED = 300
"""Most starts of a schedule for which a quieter time is searched."""


@dataclass(frozen=True)
class OtherStarts:
    """The starts of the other tasks within SPAN from `begin` on."""

    begin: datetime
    minutes: Minutes
    left_out: int = 0
    """How many tasks were not counted, because the time for counting was used up."""


@dataclass(frozen=True)
class StartLoad:
    """How many other tasks start together with a schedule. Times are in UTC."""

    starts: int
    """How many minutes have a start of the schedule."""
    others: int = 0
    """How many other tasks start in `fullest`."""
    fullest: datetime | None = None
    """The one of these minutes in which most other tasks start."""
    busiest: int = 0
    """How many other tasks start in the busiest minute of all."""
    better: datetime | None = None
    """A quieter minute after `fullest`, for a schedule whose starts all move by the same time."""
    better_others: int = 0
    """How many other tasks start in the fullest minute then."""
    left_out: int = 0
    """How many other tasks were not counted."""

    @property
    def is_worst(self) -> bool:
        """Return whether the schedule makes the busiest minute busier."""
        return self.starts > 0 and self.others > 0 and self.others >= self.busiest


def start_load(task: Definition, others: OtherStarts) -> StartLoad:
    """Compare the starts of the task with the others. Raises UsageError if its schedule cannot be read."""
    own = minutes_of(task, others.begin, others.begin + SPAN)
    (_, busiest), *_ = others.minutes.busiest(1) or [(others.begin, 0)]
    if not own:
        return StartLoad(0, busiest=busiest, left_out=others.left_out)
    fullest = max(own, key=lambda minute: (others.minutes.starts_in(minute), -minute))
    met = others.minutes.starts_in(fullest)
    moved, least = _better(own, others) if met else (0, met)
    return StartLoad(
        len(own),
        others=met,
        fullest=_time_of(fullest),
        busiest=busiest,
        better=_time_of(fullest + moved) if moved and least <= met // 2 else None,
        better_others=least,
        left_out=others.left_out,
    )


def _better(own: Sequence[int], others: OtherStarts) -> tuple[int, int]:
    """Return by how many minutes to move the starts to meet the fewest others, and how many these are."""
    if len(own) > MOST_MOVED:
        return 0, 0
    gaps = (later - earlier for earlier, later in pairwise(own))
    farthest = min([FARTHEST, *(gap - 1 for gap in gaps)])
    end, length = minute_of(others.begin + SPAN), int(SPAN.total_seconds() // 60)

    def met(by: int) -> int:
        moved = (minute + by for minute in own)  # after `end`, take the minute of the day before
        return max(others.minutes.starts_in(minute - length if minute >= end else minute) for minute in moved)

    best = min(((met(by), by) for by in range(1, farthest + 1)), default=(0, 0))
    return best[1], best[0]


def _time_of(minute: int) -> datetime:
    return datetime.fromtimestamp(60 * minute, UTC)
