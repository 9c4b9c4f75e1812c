"""The view of the dead letters: failed and lost runs that are not retried automatically."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from dcron.model import Run
from dcron.presentation import humanize
from dcron.services.dashboard import DeadLetterPage
from dcron.store.listings import LettersPage
from dcron.store.search_terms import RUN_FIELDS, Term
from dcron.tui.actions import runs
from dcron.tui.cells import EMPTY, Cell, cell, run_status
from dcron.tui.columns import Column
from dcron.tui.filters import parse_run_filter
from dcron.tui.pane import TablePane
from dcron.tui.table import RowTable

PAGE = 200
MOST = 100_000
"""Most dead letters in the list; a filter finds older ones."""


class DeadPane(TablePane):
    """Dead letters, the newest first. Retried and dismissed ones leave the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="dead.log"),
        Binding("t", "retry", "retry", id="dead.retry"),
        Binding("D", "dismiss", "dismiss", id="dead.dismiss"),
        Binding("X", "dismiss_all", "dismiss all", id="dead.dismiss_all"),
    ]
    title = "Dead"
    keeps_top = True

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, Run] = {}
        self._end: int | None = None

    def columns(self) -> Sequence[Column]:
        """Return the columns. The task and the result are always shown."""
        return (
            Column("sign", "", 1, self._sign),
            Column("id", "run", 7, lambda run, _: Cell(str(run.id)), right=True, rank=1),
            Column("task", "task", 12, lambda run, _: cell(run.task, "name"), most=32, grows=True),
            Column("state", "result", 9, _result),
            Column("ended", "when", 8, _when, rank=1),
            Column("attempt", "try", 3, lambda run, _: Cell(str(run.attempt)), right=True, rank=3),
            Column("node", "node", 10, lambda run, _: cell(run.node), rank=4, most=16, from_width=60),
            Column(
                *("reason", "reason", 18, lambda run, _: cell(run.reason, "quiet")),
                rank=2,
                grows=True,
                from_width=56,
            ),
            Column("trigger", "trigger", 8, lambda run, _: cell(run.trigger.value), rank=5, from_width=90),
        )

    def parse(self, text: str) -> Sequence[Term]:
        """Return the terms of a filter for runs."""
        return parse_run_filter(text)

    def filter_fields(self) -> Collection[str]:
        """Return the fields of runs."""
        return RUN_FIELDS

    def _sign(self, run: Run, now: datetime) -> Cell:
        look = run_status(run).look
        return Cell(self.host.signs[look], look)

    def action_errors(self) -> None:
        self.host.report("all of these are errors")

    # Data -------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read again from the newest dead letter on."""
        self._held, self._end = {}, None
        self.refresh_data()

    def refresh_data(self) -> None:
        """Read the newest page, and which of the older ones are still dead letters."""
        terms, since = tuple(self.all_terms), min(self._held, default=None)
        self.ask(
            "newest",
            lambda board: board.dead_letters(terms, since, PAGE),
            lambda found: self._take(found, fresh=since is None),
        )

    def _take(self, found: DeadLetterPage, *, fresh: bool) -> None:
        newest = {run.id: run for run in found.page.runs}
        older = {i: run for i, run in self._held.items() if i in found.standing and i not in newest}
        if fresh or not (newest.keys() & self._held.keys()):
            older = {}  # else the letters between them would be missing
        if not older:
            self._end = found.page.end
        self._show(newest | older)

    def _take_earlier(self, page: LettersPage) -> None:
        self._end = page.end
        self._show(self._held | {run.id: run for run in page.runs})

    def _show(self, rows: dict[int, Run]) -> None:
        self._held = rows
        if list(rows) != self.table.ids or self.table.awaits_ids:
            self.show_ids(list(rows), "no dead letters")
        self.show_rows(rows)

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        """Read the next page when the end of the list is near."""
        message.stop()
        if not self.table.is_near_end or self._end is None or len(self._held) >= MOST:
            return
        if not self.is_asking("earlier"):
            terms, end = tuple(self.all_terms), self._end
            self.ask("earlier", lambda board: board.more_dead_letters(terms, end, PAGE), self._take_earlier)

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

    def action_dismiss_all(self) -> None:
        """Dismiss the whole list. Does nothing while the answer to another filter is awaited."""
        if self.table.awaits_ids:
            self.host.may_act([])
        else:
            newest = max(self._held, default=0)
            letters = runs.ShownLetters(tuple(self.all_terms), self.filter_text, newest)
            runs.dismiss_all(self.host, letters)


def _result(run: Run, now: datetime) -> Cell:
    return cell(humanize.result(run, now), run_status(run).look)


def _when(run: Run, now: datetime) -> Cell:
    return Cell(humanize.ago(run.finished_at, now)) if run.finished_at else EMPTY
