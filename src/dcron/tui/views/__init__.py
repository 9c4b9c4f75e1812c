"""The views and their digits. A view is a module with a Pane; it is imported when it is first looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dcron.tui.table.pane import Pane


@dataclass(frozen=True)
class View:
    """One of the views on digits."""

    digit: str
    name: str
    """Its word on the command line of the screen."""
    title: str
    module: str
    pane: str
    """The class in that module; it is made without arguments."""

    def load(self) -> "type[Pane]":
        """The class of its panes."""
        return cast("type[Pane]", getattr(import_module(f"dcron.tui.views.{self.module}"), self.pane))

    def open(self) -> "Pane":
        """A new pane of this view."""
        return self.load()()


VIEWS: Sequence[View] = (
    View("1", "tasks", "Tasks", "tasks", "TasksPane"),
    View("2", "runs", "Runs", "runs", "RunsPane"),
    View("3", "timeline", "Timeline", "timeline", "TimelinePane"),
    View("4", "nodes", "Nodes", "nodes", "NodesPane"),
    View("5", "dead", "Dead", "dead_tasks", "DeadTasksPane"),
    View("6", "alerts", "Alerts", "alerts", "AlertsPane"),
)
