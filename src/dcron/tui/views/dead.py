"""Dead letters one by one: failed and lost runs that are not retried automatically."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType

from dcron.model import Run
from dcron.presentation import humanize
from dcron.tui.actions import runs
from dcron.tui.table.cells import Cell, cell, ended_cell, run_status
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.lists import PAGE
from dcron.tui.views.run_list import RunListPane
from dcron.values.lists import DeadTask


class DeadPane(RunListPane):
    """Dead letters, the newest first. Retried and dismissed ones leave the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="dead.log"),
        Binding("t", "retry", "retry", id="dead.retry"),
        Binding("D", "dismiss", "dismiss", id="dead.dismiss"),
        Binding("X", "dismiss_all", "dismiss all", id="dead.dismiss_all"),
        Binding("b", "screen.back_or_quit", "by task", id="dead.by_task"),
    ]
    title = "single runs"

    def __init__(self, of: DeadTask | None = None, filter_text: str = "") -> None:
        """Show the dead letters that match a filter, of all tasks or of one."""
        super().__init__()
        self.filter_text, self.terms = filter_text, self.parse(filter_text)
        self._of = of
        if of:
            self.title = of.name

    def columns(self) -> Sequence[Column]:
        """Return the columns. The task and the result are always shown."""
        return (
            self.run_sign(),
            Column("id", "run", 7, lambda run, _: Cell(str(run.id)), right=True, rank=1),
            name_column("task", "task", lambda run, _: cell(run.task, "name")),
            Column("state", "result", 9, _result),
            Column("ended", "when", 8, ended_cell, rank=1),
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

    def action_errors(self) -> None:
        self.host.report("all of these are errors")

    @property
    def _task_id(self) -> int | None:
        return self._of.task_id if self._of else None

    # Data -------------------------------------------------------------------------------------------

    def refresh_data(self) -> None:
        """Read the newest page, and which of the older ones are still dead letters."""
        terms, since, task_id = tuple(self.all_terms), min(self.held, default=None), self._task_id
        self.ask(
            "newest",
            lambda board: board.dead_letters(terms, since, PAGE, task_id),
            lambda found: self.take_newest(
                found.page.runs, found.page.end, fresh=since is None, stays=found.dead_ids.__contains__
            ),
        )

    def ask_more(self) -> None:
        """Read the page after `end`."""
        terms, end, task_id = tuple(self.all_terms), self.end, self._task_id
        self.ask(
            "more",
            lambda board: board.more_dead_letters(terms, end, PAGE, task_id),
            lambda page: self.take_more(page.runs, page.end),
        )

    def show_held(self) -> None:
        """Show the letters."""
        self.show_list(self.held, "no dead letters")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable what is about all tasks in the list of one."""
        return not (self._of and action == "dismiss_all") and super().check_action(action, parameters)

    def action_dismiss_all(self) -> None:
        """Dismiss the whole list. Does nothing while the answer to another filter is awaited."""
        if self.table.awaits_ids:
            self.host.may_act([])
        else:
            newest = max(self.held, default=0)
            letters = runs.ShownLetters(tuple(self.all_terms), self.filter_text, newest)
            runs.dismiss_all(self.host, letters)


def _result(run: Run, now: datetime) -> Cell:
    return cell(humanize.result(run, now), run_status(run).style)
