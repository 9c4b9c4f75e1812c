"""Tables whose rows are all read at once, and tables that are read page by page."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from dcron.services.dashboard import Dashboard
from dcron.tui.table.pane import TablePane

PAGE = 200
"""Rows of a page."""


class WholeListPane(TablePane):
    """A table of few rows: they are read at once, and sorted here."""

    sort_keys: ClassVar[Mapping[str, Callable[[Any, datetime], Any]]] = {}
    """What the rows are sorted by, for each order."""
    nothing: ClassVar[str]
    """The text for no rows."""
    read: "staticmethod[[Dashboard], Sequence[Any]]"
    """Read all rows."""
    id_of: "attrgetter[Any]"
    """Return what identifies a row."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Sequence[Any] = ()
        """The rows that were read."""

    def is_trouble(self, row: Any, now: datetime) -> bool:
        """Return whether the row is among those for errors only."""
        return True

    def refresh_data(self) -> None:
        """Read all rows."""
        self.ask("rows", self.read, self.take)

    def reload(self) -> None:
        """Sort the rows again."""
        self.take(self.found)

    def take(self, found: Sequence[Any]) -> None:
        """Show these rows, sorted."""
        self.found, now = found, self.host.health.now()
        shown = [row for row in found if not self.errors_only or self.is_trouble(row, now)]
        if self.order:
            sort_key = self.sort_keys[self.order]
            shown.sort(key=lambda row: sort_key(row, now), reverse=self.backwards)
        rows = {self.id_of(row): row for row in shown}
        self.show_ids(list(rows), self.nothing)
        self.show_rows(rows)


class PagedPane(TablePane):
    """A table that is read page by page, the newest rows first."""

    keeps_top = True
    most: ClassVar[int]
    """Most rows of the list."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        """The rows of the pages that were read, by their ids."""
        self.end: Any = None
        """The end of the last page; None if there are no more."""

    def ask_more(self) -> None:
        """Read the page after `end`."""
        raise NotImplementedError

    def show_held(self) -> None:
        """Show the rows that are held."""
        raise NotImplementedError

    def reload(self) -> None:
        """Read again from the newest row on."""
        self.held, self.end = {}, None
        self.refresh_data()

    def take_newest(
        self, found: Sequence[Any], end: Any, *, fresh: bool, stays: Callable[[int], bool] = lambda _: True
    ) -> None:
        """Show the newest page, and the older rows that stay, if it reaches them and nothing is `fresh`."""
        newest = {row.id: row for row in found}
        # Unless the page reaches the older rows, rows between them would be missing.
        is_joined = not fresh and not newest.keys().isdisjoint(self.held)
        older = {i: row for i, row in self.held.items() if i not in newest and stays(i)} if is_joined else {}
        if not older:
            self.end = end
        self.held = newest | older
        self.show_held()

    def take_more(self, found: Sequence[Any], end: Any) -> None:
        """Show the next page, too."""
        self.end = end
        self.held |= {row.id: row for row in found}
        self.show_held()

    def show_list(self, rows: Mapping[int, Any], nothing: str) -> None:
        """Show these rows in their order; `nothing` is the text for none."""
        if list(rows) != self.table.ids or self.table.awaits_ids:
            self.show_ids(list(rows), nothing)
        self.show_rows(rows)

    def read_more(self) -> None:
        """Read the next page when the end of the list is near."""
        has_room = self.end is not None and len(self.held) < self.most
        if has_room and self.table.is_near_end and not self.is_asking("more"):
            self.ask_more()
