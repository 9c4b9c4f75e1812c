"""The view of the runs: unfinished ones, then finished ones, of all tasks, one task or one node."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.services.dashboard import LatestRuns
from dcron.store.listings import Place, RunsPage, WantedRuns
from dcron.store.search_terms import RUN_FIELDS, Term
from dcron.tui.actions import runs
from dcron.tui.cells import EMPTY, Cell, cell, run_status
from dcron.tui.columns import Column
from dcron.tui.filters import parse_run_filter
from dcron.tui.pane import TablePane
from dcron.tui.table import RowTable

PAGE = 200
MOST = 100_000
"""Most runs in the list; a filter finds older ones."""


class RunsPane(TablePane):
    """Unfinished runs, then finished ones, the latest end first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "table_open", "log", id="runs.log"),
        Binding("K", "cancel", "cancel", id="runs.cancel"),
        Binding("t", "retry", "retry", id="runs.retry"),
        Binding("D", "dismiss", "dismiss", id="runs.dismiss", show=False),
    ]
    keeps_top = True

    def __init__(
        self,
        task_id: int | None = None,
        node_id: str | None = None,
        node_since: datetime | None = None,
        title: str = "Runs",
    ) -> None:
        self._of = WantedRuns(task_id, node_id, node_since)
        super().__init__()
        self.title = title
        self._unfinished: dict[int, Run] = {}
        self._finished: dict[int, Run] = {}
        self._end: Place | None = None

    def columns(self) -> Sequence[Column]:
        """Return the columns; for the runs of one task without its name."""
        task = Column("task", "task", 16, lambda run, _: cell(run.task, "name"), most=32, grows=True)
        return (
            Column("sign", "", 1, self._sign),
            Column("id", "run", 7, lambda run, _: Cell(str(run.id)), right=True, rank=1),
            *([] if self._of.task_id is not None else [task]),
            Column("state", "result", 13, _result, rank=0),
            Column("ended", "when", 8, _when, rank=1),
            Column("took", "took", 8, _took, right=True, rank=2, from_width=50),
            Column("node", "node", 10, lambda run, _: cell(run.node), rank=3, most=16, from_width=60),
            Column("trigger", "trigger", 8, lambda run, _: cell(run.trigger.value), rank=5, from_width=90),
            Column("reason", "reason", 24, _reason, rank=6, grows=True),
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

    # Data -------------------------------------------------------------------------------------------

    @property
    def _criteria(self) -> WantedRuns:
        return WantedRuns(self._of.task_id, self._of.node_id, self._of.node_since, tuple(self.all_terms))

    def reload(self) -> None:
        """Read again from the newest run on."""
        self._finished, self._end = {}, None
        self.refresh_data()

    def refresh_data(self) -> None:
        """Read the unfinished runs and the newest page; older runs do not change."""
        criteria, fresh = self._criteria, not self._finished
        self.ask(
            "latest",
            lambda board: board.latest_runs(criteria, PAGE),
            lambda found: self._take_latest(found, fresh=fresh),
        )

    def _take_latest(self, found: LatestRuns, *, fresh: bool) -> None:
        newest = {run.id: run for run in found.page.runs}
        if fresh or not (
            newest.keys() & self._finished.keys()
        ):  # else the runs between them would be missing
            self._finished, self._end = newest, found.page.end
        else:
            self._finished = newest | {i: run for i, run in self._finished.items() if i not in newest}
        self._unfinished = {run.id: run for run in found.unfinished}
        self._show()

    def _take_earlier(self, page: RunsPage) -> None:
        self._end = page.end
        self._finished |= {run.id: run for run in page.runs if run.id not in self._finished}
        self._show()

    def _show(self) -> None:
        finished = {i: run for i, run in self._finished.items() if i not in self._unfinished}
        rows = self._unfinished | finished
        if list(rows) != self.table.ids or self.table.awaits_ids:
            self.show_ids(list(rows), "nothing has run yet: r on a task runs it now")
        self.show_rows(rows)

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        """Read the next page when the end of the list is near."""
        message.stop()
        if not self.table.is_near_end or self._end is None or len(self._finished) >= MOST:
            return
        if not self.is_asking("earlier"):
            criteria, end = self._criteria, self._end
            self.ask("earlier", lambda board: board.more_runs(criteria, end, PAGE), self._take_earlier)

    # Acts -------------------------------------------------------------------------------------------

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        self.action_table_open()

    def action_table_open(self) -> None:
        if run := self.table.cursor_row:
            self.host.open_log(run.id)

    def action_cancel(self) -> None:
        chosen: list[Any] = self.table.chosen_rows()
        runs.cancel(self.host, [run for run in chosen if not run.state.is_final] or chosen[:1])

    def action_retry(self) -> None:
        runs.retry(self.host, self.table.chosen_rows())

    def action_dismiss(self) -> None:
        runs.dismiss(self.host, self.table.chosen_rows())


def _result(run: Run, now: datetime) -> Cell:
    result = "ok" if run.state is RunState.SUCCEEDED else humanize.result(run, now)
    return cell(result, run_status(run).look)


def _when(run: Run, now: datetime) -> Cell:
    if run.finished_at:
        return Cell(humanize.ago(run.finished_at, now))
    return Cell(humanize.left(run.due_at, now)) if run.state is RunState.WAITING else EMPTY


def _took(run: Run, now: datetime) -> Cell:
    seconds = run.duration(now)
    return EMPTY if seconds is None else Cell(humanize.took(seconds))


def _reason(run: Run, _: datetime) -> Cell:
    return cell(run.reason, "quiet")
