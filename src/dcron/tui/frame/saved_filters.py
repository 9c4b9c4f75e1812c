"""Saved filters of a view, as tabs above its rows, with the number of rows that each finds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dcron.tui.frame.header_footer import Line
from dcron.tui.keys.hints import ACTIVE
from dcron.tui.table.filter_counts import FilterCount
from dcron.values.safe_text import safe

NAME_CELLS = 20
MOST = 20
"""Most saved filters of a view."""


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
