"""The view of the dead letters: by task, with how many each has, the first and the last."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import ClassVar

from textual.binding import Binding, BindingType

from dcron.model import Run
from dcron.presentation import humanize
from dcron.services.dashboard import RUN_TERMS, Dashboard
from dcron.tui.actions import dead_letters, runs
from dcron.tui.reads.database_thread import timed
from dcron.tui.table.cells import Cell, cell, ended_cell
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.filter_counts import MOST_COUNTED, FilterCount
from dcron.tui.table.lists import WholeListPane
from dcron.tui.views.dead import DeadPane
from dcron.values.lists import DeadTask

SHARE = 20
"""Reading that took one second is repeated after this many seconds at the earliest."""


class DeadTasksPane(WholeListPane):
    """The tasks with dead letters, those with the newest first. Enter shows the runs of one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log of the last", id="dead.log_of_last", show=False),
        Binding("t", "retry", "retry all of it", id="dead.retry_task"),
        Binding("D", "dismiss", "dismiss all of it", id="dead.dismiss_task"),
        Binding("X", "dismiss_all", "dismiss all", id="dead.dismiss_shown", show=False),
        Binding("b", "single", "single runs", id="dead.single"),
        Binding("v", "view", "task", id="dead.view_task"),
    ]
    title = "Dead"
    id_of = attrgetter("task_id")
    nothing = "no dead letters"
    fields = RUN_TERMS
    sort_keys: ClassVar = {
        "last": lambda row, _: (-_end(row.last), -row.last.id),
        "first": lambda row, _: (_end(row.first), row.first.id),
        "count": lambda row, _: (-row.count, row.name),
        "name": lambda row, _: row.name,
    }
    orders = tuple(sort_keys)

    def __init__(self) -> None:
        super().__init__()
        self._read_again_at = 0.0
        """The monotonic time before which changes of the database cause no reading."""
        self._has_changed = False

    def columns(self) -> Sequence[Column]:
        """Return the columns. The task and the number are always shown."""
        return (
            self.sign_column(lambda row, _: "failed"),
            name_column("task", "task", lambda row, _: cell(row.name, "name"), order="name"),
            Column("count", "letters", 8, lambda row, _: Cell(f"{row.count:,}"), right=True, order="count"),
            Column("first", "first", 8, lambda row, now: ended_cell(row.first, now), rank=1, order="first"),
            Column("last", "last", 8, lambda row, now: ended_cell(row.last, now), order="last"),
            Column("result", "last result", 14, _result, rank=2, from_width=56),
            Column("node", "last node", 12, lambda row, _: cell(row.last.node), rank=3, from_width=70),
            Column(
                *("reason", "last reason", 18, lambda row, _: cell(row.last.reason, "quiet")),
                rank=4,
                grows=True,
                from_width=90,
            ),
        )

    def counter(self, text: str) -> Callable[[Dashboard], FilterCount]:
        """Return the question how many tasks have dead letters that match a filter."""
        terms = self.parse(text)
        return lambda board: FilterCount(min(MOST_COUNTED, len(board.dead_tasks(terms))))

    def refresh_data(self) -> None:
        """Read the tasks, unless reading took long and was a short time ago."""
        self._has_changed = time.monotonic() < self._read_again_at
        if not self._has_changed:
            self.reload()

    def tick(self) -> None:
        """Read what has changed as soon as it may be read again."""
        super().tick()
        if self._has_changed:
            self.refresh_data()

    def reload(self) -> None:
        """Read the tasks. There are at most as many as tasks."""
        terms = tuple(self.all_terms)

        def take(answer: tuple[list[DeadTask], float]) -> None:
            found, seconds = answer
            self._read_again_at = time.monotonic() + SHARE * seconds
            self.take(found)

        self.ask("rows", timed(lambda board: board.dead_tasks(terms)), take)

    def copied(self) -> str | None:
        """Return the name of the task."""
        return self.table.cursor_row.name if self.table.cursor_row else None

    def subject_of(self, row: DeadTask, kind: str) -> str:
        """Return the name of the task, or its last dead letter."""
        return {"task": row.name, "run": str(row.last.id)}.get(kind, "")

    def action_errors(self) -> None:
        self.host.report("all of these are errors")

    # Acts -------------------------------------------------------------------------------------------

    def open_row(self, row: DeadTask) -> None:
        """Show the dead letters of the task."""
        self.host.open_pane(DeadPane(row, self.filter_text))

    def action_single(self) -> None:
        self.host.open_pane(DeadPane(filter_text=self.filter_text))

    def action_view(self) -> None:
        if row := self.table.cursor_row:
            self.host.open_task(row.task_id, row.name)

    def action_log(self) -> None:
        if row := self.table.cursor_row:
            self.host.open_log(row.last.id)

    def action_retry(self) -> None:
        dead_letters.retry(self.host, self.table.chosen_rows(), self._shown_letters())

    def action_dismiss(self) -> None:
        dead_letters.dismiss(self.host, self.table.chosen_rows(), self._shown_letters())

    def action_dismiss_all(self) -> None:
        """Dismiss the whole list. Does nothing while the answer to another filter is awaited."""
        if self.table.awaits_ids:
            self.host.may_act([])
        else:
            runs.dismiss_all(self.host, self._shown_letters())

    def _shown_letters(self) -> runs.ShownLetters:
        newest = max((row.last.id for row in self.found), default=0)
        return runs.ShownLetters(tuple(self.all_terms), self.filter_text, newest)


def _result(row: DeadTask, now: datetime) -> Cell:
    return cell(humanize.result(row.last, now), "failed")


def _end(run: Run) -> float:
    return run.finished_at.timestamp() if run.finished_at else 0.0
