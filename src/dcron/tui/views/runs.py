"""The view of the runs: unfinished ones, then finished ones, of all tasks, one task or one node."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from dcron.model import Run, RunState
from dcron.policy.conditions.lateness import frozen_for
from dcron.policy.starting.freezes import NEVER
from dcron.presentation import humanize
from dcron.services.dashboard import Dashboard, LatestRuns
from dcron.tui.actions import runs
from dcron.tui.table.cells import EMPTY, Cell, cell, ended_cell, run_status
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.filter_counts import MOST_COUNTED, FilterCount
from dcron.tui.table.lists import PAGE
from dcron.tui.views.run_list import RunListPane
from dcron.values.lists import RunListFilter


class RunsPane(RunListPane):
    """Unfinished runs, then finished ones, the latest end first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="runs.log"),
        Binding("K", "cancel", "cancel", id="runs.cancel"),
        Binding("t", "retry", "retry", id="runs.retry"),
        Binding("D", "dismiss", "dismiss", id="runs.dismiss", show=False),
    ]

    def __init__(
        self,
        task_id: int | None = None,
        node_id: str | None = None,
        node_since: datetime | None = None,
        title: str = "Runs",
    ) -> None:
        self._of = RunListFilter(task_id, node_id, node_since)
        super().__init__()
        self.title = title
        self._unfinished: dict[int, Run] = {}
        self._frozen = NEVER

    def columns(self) -> Sequence[Column]:
        """Return the columns; for the runs of one task without its name."""
        task = name_column("task", "task", lambda run, _: cell(run.task, "name"))
        return (
            self.run_sign(),
            Column("id", "run", 7, lambda run, _: Cell(str(run.id)), right=True, rank=1),
            *([] if self._of.task_id is not None else [task]),
            Column("state", "result", 13, _result, rank=0),
            Column("ended", "when", 8, self._when, rank=1),
            Column("took", "took", 8, _took, right=True, rank=2, from_width=50),
            Column("node", "node", 10, lambda run, _: cell(run.node), rank=3, most=16, from_width=60),
            Column(
                "trigger", "trigger", 8, lambda run, _: cell(humanize.trigger(run)), rank=5, from_width=90
            ),
            Column("reason", "reason", 24, self._reason, rank=6, grows=True),
        )

    def counter(self, text: str) -> Callable[[Dashboard], FilterCount]:
        """Return the question how many of the latest runs a filter finds."""
        only = replace(self._of, terms=tuple(self.parse(text)))

        def count(board: Dashboard) -> FilterCount:
            found = board.latest_runs(only, MOST_COUNTED)
            number = min(MOST_COUNTED, len(found.unfinished) + len(found.page.runs))
            return FilterCount(number, has_more=found.page.end is not None)

        return count

    # Data -------------------------------------------------------------------------------------------

    @property
    def _criteria(self) -> RunListFilter:
        return RunListFilter(self._of.task_id, self._of.node_id, self._of.node_since, tuple(self.all_terms))

    def refresh_data(self) -> None:
        """Read the unfinished runs and the newest page; older runs do not change."""
        criteria, fresh = self._criteria, not self.held
        self.ask(
            "latest",
            lambda board: board.latest_runs(criteria, PAGE),
            lambda found: self._take_latest(found, fresh=fresh),
        )

    def ask_more(self) -> None:
        """Read the page after `end`."""
        criteria, end = self._criteria, self.end
        self.ask(
            "more",
            lambda board: board.more_runs(criteria, end, PAGE),
            lambda page: self.take_more(page.runs, page.end),
        )

    def _take_latest(self, found: LatestRuns, *, fresh: bool) -> None:
        self._unfinished = {run.id: run for run in found.unfinished}
        self._frozen = found.frozen
        self.take_newest(found.page.runs, found.page.end, fresh=fresh)

    def show_held(self) -> None:
        """Show the unfinished runs, then the finished ones; at first, go to the last run of a task."""
        finished = {i: run for i, run in self.held.items() if i not in self._unfinished}
        is_first = self.table.awaits_ids
        self.show_list(self._unfinished | finished, "nothing has run yet: r on a task runs it now")
        if is_first and self._of.task_id is not None:
            self.table.move_to(self._first_started())

    def _first_started(self) -> int:
        """Return the position of the first run that does not wait: its next run has nothing to show yet."""
        rows = self.table.rows
        started = (at for at, i in enumerate(self.table.ids) if rows[i].state is not RunState.WAITING)
        return next(started, 0)

    def _when(self, run: Run, now: datetime) -> Cell:
        if run.state is not RunState.WAITING:
            return ended_cell(run, now)
        return Cell(humanize.until_start(run.due_at, now, frozen_for(run, self._frozen)))

    def _reason(self, run: Run, now: datetime) -> Cell:
        if since := humanize.not_heard_of(run, self.host.zone, now):
            return Cell(since, "lost")
        return cell(run.reason, "quiet")

    def action_cancel(self) -> None:
        chosen: list[Any] = self.table.chosen_rows()
        runs.cancel(self.host, [run for run in chosen if not run.state.is_final] or chosen[:1])


def _result(run: Run, now: datetime) -> Cell:
    result = "ok" if run.state is RunState.SUCCEEDED else humanize.result(run, now)
    return cell(result, run_status(run).style)


def _took(run: Run, now: datetime) -> Cell:
    seconds = run.duration(now)
    return EMPTY if seconds is None else Cell(humanize.took(seconds))
