"""Saved filters of a view, as tabs above its rows, with the number of rows that each finds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dcron.safetext import safe
from dcron.tui.header_footer import ACTIVE, Line

NAME_CELLS = 20
MOST = 20
"""Most saved filters of a view."""
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


class SavedFilters(NamedTuple):
    """The saved filters of the visible view, and the text of the filter in force."""

    filters: Sequence[tuple[str, str]]
    """Names and texts."""
    text: str
    counts: Mapping[str, FilterCount]
    """By the texts of the filters, as far as they were counted."""


class FilterTabs(Line):
    """One tab for each saved filter. It is visible only in a view that has some."""

    DEFAULT_CSS = "FilterTabs { height: 1; background: $surface; color: $foreground; display: none; }"

    def __init__(self, saved: Callable[[], SavedFilters]) -> None:
        """`saved` returns what to show."""
        super().__init__()
        self._saved = saved

    def update_tabs(self) -> None:
        """Show, hide or draw the line."""
        self.display = bool(self._saved().filters)
        self.refresh()

    def parts(self) -> Iterator[tuple[str, str, str]]:
        filters, text, counts = self._saved()
        yield " all ", "" if text else ACTIVE, "screen.saved_filter(0)"
        for number, (name, saved) in enumerate(filters, 1):
            style = ACTIVE if saved == text else ""
            count = f"{counts[saved]} " if saved in counts else ""
            yield f" {safe(name, NAME_CELLS)} {count}", style, f"screen.saved_filter({number})"
