"""The first tab of a task's page: everything about it, in sections."""

from datetime import datetime

from textual.app import ComposeResult

from dcron.services.dashboard import TaskDetail
from dcron.tui.table.pane import Pane
from dcron.tui.table.sections import Sections
from dcron.tui.views.task_sections import removed_section, task_sections


class OverviewPane(Pane):
    """What is wrong, the schedule, the runs, the statistics and the policies of a task."""

    title = "Overview"

    def __init__(self) -> None:
        super().__init__()
        self.sections = Sections()
        self._has_shown = False

    def compose(self) -> ComposeResult:
        yield self.sections

    @property
    def is_ready(self) -> bool:
        """Whether the task was read."""
        return self._has_shown

    def show(self, detail: TaskDetail | None, now: datetime) -> None:
        """Show the task, or that it was removed."""
        self._has_shown = True
        self.sections.show(task_sections(detail, now) if detail else [removed_section()])
