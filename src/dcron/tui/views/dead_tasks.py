"""The dead letters by task: how many each has, and since when."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from dcron.model import Run
from dcron.presentation import humanize
from dcron.services.dashboard import Dashboard
from dcron.services.dead_letters import DeadLetters
from dcron.store.listings import DeadTask
from dcron.store.search_terms import Term
from dcron.tui.actions import runs
from dcron.tui.cells import EMPTY, Cell, cell
from dcron.tui.columns import Column, name_column
from dcron.tui.host import Host
from dcron.tui.pane import TablePane
from dcron.tui.table import RowTable

MOST_LETTERS = 1000
"""Most dead letters that one key acts on."""


class DeadTasksPane(TablePane):
    """The tasks with dead letters, those with the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "retry", "retry all of it", id="dead.retry_task"),
        Binding("D", "dismiss", "dismiss all of it", id="dead.dismiss_task"),
        Binding("v", "view", "task", id="dead.view_task"),
    ]
    title = "by task"
    can_filter = False
    orders: ClassVar[Sequence[str]] = ("last", "first", "count", "name")

    def __init__(self, open_letters: Callable[[DeadTask], None]) -> None:
        """Enter calls `open_letters` with the task under the cursor."""
        super().__init__()
        self._open_letters = open_letters
        self._found: Sequence[DeadTask] = ()

    def columns(self) -> Sequence[Column]:
        """Return the columns. The task and the number are always shown."""
        return (
            Column("sign", "", 1, lambda row, _: Cell(self.host.signs["failed"], "failed")),
            name_column("task", "task", _name, order="name"),
            Column("count", "letters", 8, lambda row, _: Cell(f"{row.count:,}"), right=True, order="count"),
            Column("first", "first", 8, lambda row, now: _ended(row.first, now), rank=1, order="first"),
            Column("last", "last", 8, lambda row, now: _ended(row.last, now), order="last"),
            Column("result", "last result", 14, _result, rank=2, from_width=56),
            Column("node", "last node", 12, lambda row, _: cell(row.last.node), rank=3, from_width=70),
            Column(
                *("reason", "last reason", 18, lambda row, _: cell(row.last.reason, "quiet")),
                rank=4,
                grows=True,
                from_width=90,
            ),
        )

    def parse(self, text: str) -> Sequence[Term]:
        """Return no terms: the tasks are not filtered."""
        return ()

    def refresh_data(self) -> None:
        """Read the tasks. There are at most as many as tasks."""
        self.ask("tasks", lambda board: board.dead_tasks(), self._take)

    def reload(self) -> None:
        """Sort the tasks again."""
        self._take(self._found)

    def _take(self, found: Sequence[DeadTask]) -> None:
        self._found = found
        shown = sorted(found, key=lambda row: _key(row, self.order), reverse=self.backwards)
        self.show_ids([row.task_id for row in shown], "no dead letters")
        self.show_rows({row.task_id: row for row in shown})

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        message.stop()

    def copied(self) -> str | None:
        """Return the name of the task."""
        return self.table.cursor_row.name if self.table.cursor_row else None

    def subject_of(self, row: DeadTask, kind: str) -> str:
        """Return the name of the task, or its last dead letter."""
        return {"task": row.name, "run": str(row.last.id)}.get(kind, "")

    def action_errors(self) -> None:
        self.host.report("all of these are errors")

    # Acts -------------------------------------------------------------------------------------------

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        if row := self.table.cursor_row:
            self._open_letters(row)

    def action_view(self) -> None:
        if row := self.table.cursor_row:
            self.host.open_task(row.task_id, row.name)

    def action_retry(self) -> None:
        self._act(runs.retry)

    def action_dismiss(self) -> None:
        self._act(runs.dismiss)

    def _act(self, act: Callable[[Host, Sequence[Run]], None]) -> None:
        """Act on all dead letters of the chosen tasks. The act asks if there are several."""
        ids = [row.task_id for row in self.table.chosen_rows()]
        if not self.host.may_act(ids):
            return

        def letters(board: Dashboard) -> list[Run]:
            found = DeadLetters(board.crontab)
            return [run for task_id in ids for run in found.page(MOST_LETTERS, task_id=task_id)]

        self.host.fetch(letters, lambda found: act(self.host, found))


def _name(row: DeadTask, _: datetime) -> Cell:
    return cell(row.name, "name")


def _ended(run: Run, now: datetime) -> Cell:
    return Cell(humanize.ago(run.finished_at, now)) if run.finished_at else EMPTY


def _result(row: DeadTask, now: datetime) -> Cell:
    return cell(humanize.result(row.last, now), "failed")


def _key(row: DeadTask, order: str) -> tuple[object, ...]:
    match order:
        case "first":
            return (row.first.id,)
        case "count":
            return (-row.count, row.name)
        case "name":
            return (row.name,)
    return (-row.last.id,)
