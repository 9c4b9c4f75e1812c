"""Compare the starts of a schedule with those of all other tasks, minute by minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from dcron.model import Definition
from dcron.policy.start_times import Minutes, minute_of, minutes_of

SPAN = timedelta(days=1)
"""How far ahead the starts are compared."""
FARTHEST = 30
"""Most minutes by which a better time may be later."""
MOST_MOVED = 300
"""Most starts of a schedule for which a better time is looked for."""


@dataclass(frozen=True)
class OtherStarts:
    """The starts of the other tasks in the span that begins with a time."""

    begin: datetime
    minutes: Minutes
    left_out: int = 0
    """How many tasks were not counted, for lack of time."""


@dataclass(frozen=True)
class StartLoad:
    """What the starts of a schedule meet."""

    starts: int
    """Its minutes with a start."""
    others: int = 0
    """How many other tasks start in the fullest of them."""
    fullest: datetime | None = None
    busiest: int = 0
    """The starts in the busiest minute without it."""
    better: datetime | None = None
    """Instead of `fullest`; a later minute with fewer starts, if all starts are moved as far."""
    better_others: int = 0
    """The most other tasks that it would meet then."""
    left_out: int = 0

    @property
    def is_worst(self) -> bool:
        """Return whether it makes the busiest minute busier."""
        return self.starts > 0 and self.others > 0 and self.others >= self.busiest


def start_load(task: Definition, others: OtherStarts) -> StartLoad:
    """Return what the starts of the task meet. Raises UsageError if its schedule cannot be read."""
    own = minutes_of(task, others.begin, others.begin + SPAN)
    (_, busiest), *_ = others.minutes.busiest(1) or [(others.begin, 0)]
    if not own:
        return StartLoad(0, busiest=busiest, left_out=others.left_out)
    fullest = max(own, key=lambda minute: (others.minutes.starts_in(minute), -minute))
    met = others.minutes.starts_in(fullest)
    moved, least = _better(own, others) if met else (0, met)
    return StartLoad(
        len(own),
        met,
        _time_of(fullest),
        busiest,
        _time_of(fullest + moved) if moved and least <= met // 2 else None,
        least,
        others.left_out,
    )


def _better(own: Sequence[int], others: OtherStarts) -> tuple[int, int]:
    """Return by how many minutes to move the starts so that they meet the fewest others, and how many."""
    if len(own) > MOST_MOVED:
        return 0, 0
    gaps = (later - earlier for earlier, later in pairwise(own))
    farthest = min([FARTHEST, *(gap - 1 for gap in gaps)])
    end, length = minute_of(others.begin + SPAN), int(SPAN.total_seconds() // 60)

    def met(by: int) -> int:
        moved = (minute + by for minute in own)
        return max(others.minutes.starts_in(minute - length if minute >= end else minute) for minute in moved)

    best = min(((met(by), by) for by in range(1, farthest + 1)), default=(0, 0))
    return best[1], best[0]


def _time_of(minute: int) -> datetime:
    return datetime.fromtimestamp(60 * minute, UTC)
