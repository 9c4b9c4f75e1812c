"""The page of a task, and what its keys do to the task."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType

from dcron.model import Run, Task
from dcron.services.dashboard import TaskDetail
from dcron.tui.actions import runs, tasks
from dcron.tui.actions.why import explain
from dcron.tui.frame.tabbed_page import TabbedPage
from dcron.tui.history.pane import HistoryPane
from dcron.tui.pages.dependencies import DependenciesPane
from dcron.tui.pages.task_log import LogPane
from dcron.tui.table.cells import Cell, last_cell, next_cell, task_status
from dcron.tui.table.sections import SectionsPane
from dcron.tui.views.runs import RunsPane
from dcron.tui.views.task_sections import in_tens, removed_section, task_sections


class TaskPage(TabbedPage):
    """Everything about one task. Most keys do what they do in the list of tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why", id="page.why"),
        Binding("l", "log", "log", id="page.log"),
        Binding("h", "history", "history", id="page.history", show=False),
        Binding("e", "edit", "edit", id="page.edit"),
        Binding("E", "edit_text", "edit as text", id="page.edit_text", show=False),
        Binding("r", "run", "run now", id="page.run"),
        Binding("R", "run_with", "run with a payload", id="page.run_with", show=False),
        Binding("s", "pause", "pause/resume", id="page.pause"),
        Binding("K", "cancel", "cancel its run", id="page.cancel", show=False),
        Binding("D", "delete", "delete", id="page.delete", show=False),
        Binding("y", "copy('name')", "copy the name", id="page.copy", show=False),
        Binding("Y", "copy('command')", "copy the command", id="page.copy_command", show=False),
    ]

    def __init__(self, task_id: int, name: str) -> None:
        self._overview, self._log, self._dependencies = SectionsPane(), LogPane(), DependenciesPane()
        self._history = HistoryPane(name)
        self._history.title = "History"
        tabs = [
            self._overview,
            RunsPane(task_id, title="Runs"),
            self._log,
            self._history,
            self._dependencies,
        ]
        super().__init__(name, tabs)
        self._task_id = task_id
        self._task_name = name
        self._detail: TaskDetail | None = None
        self._asked_for: datetime | None = None
        """The start of a run for which the task was read again."""

    def tick(self) -> None:
        """Draw what the time has changed. After a start, others are the next ones."""
        super().tick()
        coming = self._detail.coming if self._detail else ()
        if coming and coming[0].at <= self.host.health.now() and self._asked_for != coming[0].at:
            self._asked_for = coming[0].at
            self.read()

    def read(self) -> None:
        """Read the task."""
        task_id = self._task_id
        self.ask("task", lambda board: board.task_detail(task_id), self._take)

    def _take(self, detail: TaskDetail | None) -> None:
        self._detail = detail
        if detail:
            self.title = detail.row.task.name
        self.draw()
        self.show_status()

    def draw(self) -> None:
        """Draw what is known of the task."""
        detail, now = self._detail, self.host.health.now()
        if detail is None and self.is_asking("task"):
            return
        if not self.front.is_mounted:
            return  # it is drawn when it is mounted
        if self.front is self._overview:
            shown_at = now if detail and detail.row.alive else in_tens(now)
            self._overview.show(task_sections(detail, shown_at) if detail else [removed_section()])
        elif self.front is self._log:
            self._log.watch_run(self._run.id if self._run else None)
        elif self.front is self._dependencies and detail:
            self._dependencies.show_graph(detail.row.task.name, detail.graph)

    def status(self) -> Cell:
        """Return the state of the task, its last run and its next."""
        if self._detail is None:
            return Cell("..." if self.is_asking("task") else "removed", "quiet")
        row, now = self._detail.row, self.host.health.now()
        status = task_status(row, now)
        sign = self.host.signs[status.style]
        last, next_run = last_cell(row, now).text, next_cell(row, now).text
        coming = f"   next {next_run}" if row.next_at else ""
        return Cell(f"{sign} {last or status.word}{coming}", status.style)

    def subject(self, kind: str) -> str:
        """Return the name of the task, or its running or last run."""
        if kind == "run":
            return str(self._run.id) if self._run else ""
        return self._task_name if kind == "task" else ""

    # Acts -------------------------------------------------------------------------------------------

    @property
    def _current(self) -> Task | None:
        return self._detail.row.task if self._detail else None

    @property
    def _run(self) -> Run | None:
        """Its running run, else the last one."""
        if self._detail is None:
            return None
        row = self._detail.row
        return row.alive[-1] if row.alive else row.last_run

    @property
    def _chosen(self) -> Sequence[Task]:
        return [self._current] if self._current else []

    def action_why(self) -> None:
        explain(self.host, self._task_name)

    def action_log(self) -> None:
        if self._run:
            self.host.open_log(self._run.id)
        else:
            self.host.report(f"{self._task_name} has not run yet")

    def action_history(self) -> None:
        self.show_tab(self.panes.index(self._history))

    def action_edit(self) -> None:
        tasks.edit(self.host, self._current)

    def action_edit_text(self) -> None:
        tasks.edit_as_text(self.host, self._chosen)

    def action_run(self) -> None:
        tasks.run_now(self.host, self._chosen)

    def action_run_with(self) -> None:
        tasks.run_with_payload(self.host, self._current)

    def action_pause(self) -> None:
        tasks.pause_or_resume(self.host, self._chosen)

    def action_cancel(self) -> None:
        runs.cancel(self.host, self._detail.row.alive if self._detail else ())

    def action_delete(self) -> None:
        tasks.delete(self.host, self._chosen)

    def action_copy(self, what: str) -> None:
        if self._current:
            self.host.copy(self._current.name if what == "name" else self._current.command)
