"""The tab with the tasks that run before and after a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.policy.starting.dependencies import downstream_of, upstream_of
from dcron.presentation.graph import graph_lines
from dcron.services.tasks.rows import TaskRow
from dcron.tui.table.cells import Cell, cell, last_cell, next_cell, task_status
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import RowTable
from dcron.values.lists import Term
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


class DependenciesPane(TablePane):
    """The dependency graph around a task, and its tasks as a table. Enter opens the page of one."""

    DEFAULT_CSS = "DependenciesPane Static { height: auto; max-height: 50%; padding: 0 1; }"
    title = "Dependencies"
    can_filter = False

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
            Column("sign", "", 1, self._sign),
            Column("relation", "runs", 12, lambda row, _: Cell(row.relation, "quiet")),
            name_column("task", "task", lambda row, _: cell(row.name, "name")),
            Column("schedule", "schedule", 13, _schedule, rank=2, most=24, from_width=50),
            Column("next", "next", 9, _next, rank=1),
            Column("last", "last", 14, _last, rank=1, most=20, grows=True, from_width=50),
        )

    def parse(self, text: str) -> Sequence[Term]:
        """Return no terms: the graph is not filtered."""
        return ()

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
        if self._graph is not None:
            names = sorted(each for each in self._graph if each != self._of)
            self.ask("tasks", lambda board: board.rows_by_name(names), self._take)

    def _take(self, rows: Mapping[str, TaskRow]) -> None:
        found = list(_related(self._of, self._graph or {}, rows))
        nothing = "no task runs before or after this one: @after in a schedule connects tasks"
        self.show_ids([each.name for each in found], nothing)
        self.show_rows({each.name: each for each in found})

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        message.stop()

    def subject_of(self, row: Related, kind: str) -> str:
        """Return the name of the task."""
        return row.name if kind == "task" else ""

    def _sign(self, row: Related, now: datetime) -> Cell:
        style = task_status(row.row, now).style if row.row else "error"
        return Cell(self.host.signs[style], style)

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        related = self.table.cursor_row
        if related and related.row:
            self.host.open_task(related.row.task.id, related.name)
        elif related:
            self.host.report(f"there is no task {related.name}")


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
