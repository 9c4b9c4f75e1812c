"""How many rows the saved filters find."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_COUNTED = 100
"""Rows that a filter is counted to; more are `99+`."""
EVERY = 30.0
"""Least seconds between two counts for a filter."""
SHARE = 100
"""A count that took one second is repeated after this many seconds at the earliest."""


@dataclass(frozen=True)
class FilterCount:
    """How many rows a filter finds."""

    number: int
    """Up to MOST_COUNTED."""
    has_more: bool = False
    """Whether there may be more rows than were looked at."""

    def __str__(self) -> str:
        """Return `12`, `12+` or `99+`."""
        if self.number >= MOST_COUNTED:
            return f"{MOST_COUNTED - 1}+"
        return f"{self.number}{'+' if self.has_more else ''}"


class FilterCounts:
    """The counts of the saved filters of all views. For the UI thread."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._counts: dict[tuple[str, str], FilterCount] = {}
        self._due: dict[tuple[str, str], float] = {}
        """The monotonic time from which on each may be counted again."""

    def of_view(self, view: str) -> Mapping[str, FilterCount]:
        """Return the counts of a view by the texts of its filters."""
        return {text: count for (of, text), count in self._counts.items() if of == view}

    def next_due(self, view: str, texts: Sequence[str], now: float) -> str | None:
        """Return the filter that was counted the longest ago, and may be counted again."""
        due = [(at, text) for text in texts if (at := self._due.get((view, text), 0.0)) <= now]
        return min(due)[1] if due else None

    def take(self, view: str, text: str, count: FilterCount | None, seconds: float, now: float) -> None:
        """Keep the count of a filter; None if it cannot be counted."""
        self._due[view, text] = now + max(EVERY, SHARE * seconds)
        if count is None:
            self._counts.pop((view, text), None)
        else:
            self._counts[view, text] = count
