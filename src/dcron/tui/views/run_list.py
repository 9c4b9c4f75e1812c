"""The common part of the lists of runs: filter, pages and acts."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from textual import on

from dcron.model import Run
from dcron.services.dashboard import RUN_TERMS
from dcron.tui.actions import runs
from dcron.tui.table.cells import Cell, run_status
from dcron.tui.table.filters import parse_run_filter
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import RowTable
from dcron.values.lists import Term

PAGE = 200
MOST = 100_000
"""Most runs in a list; a filter finds older ones."""


class RunListPane(TablePane):
    """A list of runs that is read page by page, the newest first."""

    keeps_top = True

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, Run] = {}
        """The runs of the pages that were read."""
        self._end: Any = None
        """The end of the last page; None if there are no more."""

    def parse(self, text: str) -> Sequence[Term]:
        """Return the terms of a filter for runs."""
        return parse_run_filter(text)

    def filter_fields(self) -> Collection[str]:
        """Return the fields of runs."""
        return RUN_TERMS

    @property
    def hides_rows(self) -> bool:
        """Whether the list goes on: it is read page by page."""
        return True

    def sign(self, run: Run, now: datetime) -> Cell:
        """Return the sign of the run's state."""
        style = run_status(run).style
        return Cell(self.host.signs[style], style)

    def reload(self) -> None:
        """Read again from the newest run on."""
        self._held, self._end = {}, None
        self.refresh_data()

    def ask_more(self) -> None:
        """Read the page after `_end`."""
        raise NotImplementedError

    def show_runs(self, found: dict[int, Run], nothing: str) -> None:
        """Show these runs; `nothing` is the text for none."""
        if list(found) != self.table.ids or self.table.awaits_ids:
            self.show_ids(list(found), nothing)
        self.show_rows(found)

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        """Read the next page when the end of the list is near."""
        message.stop()
        has_room = self._end is not None and len(self._held) < MOST
        if has_room and self.table.is_near_end and not self.is_asking("more"):
            self.ask_more()

    def subject_of(self, row: Run, kind: str) -> str:
        """Return the number of the run, its task, or the node that it ran on."""
        return {"run": str(row.id), "task": row.task, "node": row.node or ""}.get(kind, "")

    # Acts -------------------------------------------------------------------------------------------

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        self.action_log()

    def action_log(self) -> None:
        if run := self.table.cursor_row:
            self.host.open_log(run.id)

    def action_retry(self) -> None:
        runs.retry(self.host, self.table.chosen_rows())

    def action_dismiss(self) -> None:
        runs.dismiss(self.host, self.table.chosen_rows())
