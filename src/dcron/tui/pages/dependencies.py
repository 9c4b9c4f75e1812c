"""The tab with the tasks that run before and after a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.policy.starting.dependencies import downstream_of, upstream_of
from dcron.presentation.graph import graph_lines
from dcron.services.tasks.rows import TaskRow
from dcron.tui.table.cells import Cell, cell, last_cell, next_cell, task_status
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.lists import WholeListPane
from dcron.values.safe_text import safe_lines

MOST_GRAPH_LINES = 12
"""Lines of the drawn graph; the table below lists every task."""


@dataclass(frozen=True)
class Related:
    """A task of the graph, and how it is related."""

    relation: str
    name: str
    row: TaskRow | None
    """None if there is no such task."""


class DependenciesPane(WholeListPane):
    """The dependency graph around a task, and its tasks as a table. Enter opens the page of one."""

    DEFAULT_CSS = "DependenciesPane Static { height: auto; max-height: 50%; padding: 0 1; }"
    title = "Dependencies"
    id_of = attrgetter("name")
    nothing = "no task runs before or after this one: @after in a schedule connects tasks"

    def __init__(self) -> None:
        super().__init__()
        self._drawing = Static("", markup=False)
        self._of = ""
        self._graph: Mapping[str, Sequence[str]] | None = None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._drawing
            yield self.table

    def columns(self) -> Sequence[Column]:
        """Return the columns. The relation and the name are always shown."""
        return (
            self.sign_column(lambda row, now: task_status(row.row, now).style if row.row else "error"),
            Column("relation", "runs", 12, lambda row, _: Cell(row.relation, "quiet")),
            name_column("task", "task", lambda row, _: cell(row.name, "name")),
            Column("schedule", "schedule", 13, _schedule, rank=2, most=24, from_width=50),
            Column("next", "next", 9, _next, rank=1),
            Column("last", "last", 14, _last, rank=1, most=20, grows=True, from_width=50),
        )

    def show_graph(self, name: str, graph: Mapping[str, Sequence[str]]) -> None:
        """Show the graph around the task of this name, and read its tasks."""
        if (name, graph) == (self._of, self._graph):
            return
        self._of, self._graph = name, graph
        lines = graph_lines(graph, name)
        more = [f"and {len(lines) - MOST_GRAPH_LINES} more lines"] if len(lines) > MOST_GRAPH_LINES else []
        self._drawing.update(Content(safe_lines("\n".join([*lines[:MOST_GRAPH_LINES], *more]))))
        self.refresh_data()

    def refresh_data(self) -> None:
        """Read the tasks of the graph."""
        name, graph = self._of, self._graph
        if graph is not None:
            names = sorted(each for each in graph if each != name)
            self.ask("rows", lambda board: _related(name, graph, board.rows_by_name(names)), self.take)

    def subject_of(self, row: Related, kind: str) -> str:
        """Return the name of the task."""
        return row.name if kind == "task" else ""

    def open_row(self, row: Related) -> None:
        """Show the page of the task."""
        if row.row:
            self.host.open_task(row.row.task.id, row.name)
        else:
            self.host.report(f"there is no task {row.name}")


def _related(name: str, graph: Mapping[str, Sequence[str]], rows: Mapping[str, TaskRow]) -> Sequence[Related]:
    """Return the tasks of the graph: what runs before the task comes first."""
    before, after = upstream_of(graph, [name]), downstream_of(graph, [name])
    found = []
    for each in graph:
        if each == name:
            continue
        if each in graph.get(name, ()):
            relation = "before it"
        elif name in graph[each]:
            relation = "after it"
        else:
            relation = "earlier" if each in before else "later" if each in after else "beside it"
        found.append(Related(relation, each, rows.get(each)))
    order = ("earlier", "before it", "after it", "later", "beside it")
    return sorted(found, key=lambda each: (order.index(each.relation), each.name))


def _schedule(row: Related, _: datetime) -> Cell:
    return cell(row.row.task.schedule if row.row else "there is no such task")


def _next(row: Related, now: datetime) -> Cell:
    return next_cell(row.row, now) if row.row else Cell("")


def _last(row: Related, now: datetime) -> Cell:
    return last_cell(row.row, now) if row.row else Cell("")
