"""The view of the fleet: slots, queues and starts of all nodes, and the state, load and clock of each."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from dcron.model import Node, NodeState
from dcron.policy.conditions.nodes import is_clock_off
from dcron.presentation import humanize
from dcron.services.dashboard import FleetFigures
from dcron.tui.actions import nodes
from dcron.tui.actions.nodes import LIVING
from dcron.tui.fleet.panel import FleetPanel
from dcron.tui.fleet.states import STYLES
from dcron.tui.table.cells import EMPTY, Cell, cell, slots_cell
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import RowTable
from dcron.values.lists import Term

FIGURES_EVERY = 5.0
"""Least seconds between two readings of the figures of the fleet."""
PANEL_FROM = 14
"""Lines of the view from which on it has the panel."""


class NodesPane(TablePane):
    """The living nodes, and those that ended within a day."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "drain", "drain", id="nodes.drain"),
        Binding("u", "undrain", "undrain", id="nodes.undrain"),
    ]
    title = "Nodes"
    can_filter = False
    orders: ClassVar[Sequence[str]] = ("state", "name", "running", "since")

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Node] = []
        self._panel = FleetPanel()
        self._panel.display = False  # until the size is known
        self._figures: FleetFigures | None = None
        self._figures_at = 0.0
        """The monotonic time at which the figures were asked for."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._panel
            yield self.table

    def on_resize(self) -> None:
        """Show the panel if there is room for it."""
        self._fit()

    def tick(self) -> None:
        """Draw what the time has changed; due runs become late with the time."""
        super().tick()
        self._fit()  # under load, a view was once laid out without a resize after it

    def _fit(self) -> None:
        has_room = self.size.height >= PANEL_FROM
        if self._panel.display != has_room:
            self._panel.display = has_room
        self._ask_figures()

    def columns(self) -> Sequence[Column]:
        """Return the columns. The name and the state are always shown."""
        return (
            Column("sign", "", 1, self._sign),
            name_column("node", "node", lambda node, _: cell(node.id, "name"), "name"),
            Column("state", "state", 9, _state, order="state"),
            Column("running", "running", 14, self._slots, rank=1, order="running"),
            Column("beat", "lease", 9, _lease, right=True, rank=2),
            Column("clock", "clock", 8, _clock, right=True, rank=3),
            Column("since", "since", 8, _since, right=True, rank=4, order="since"),
            Column("pid", "pid", 7, lambda node, _: Cell(str(node.pid)), right=True, rank=5),
            Column("version", "version", 8, lambda node, _: cell(node.version), rank=6),
            Column("tags", "tags", 12, _tags, rank=7, most=30, fits=True, from_width=90),
            Column("host", "host", 12, lambda node, _: cell(node.host), rank=8, most=24, from_width=100),
            Column("account", "account", 8, _account, rank=9, most=16, grows=True, from_width=110),
        )

    def parse(self, text: str) -> Sequence[Term]:
        """Return no terms: nodes are not filtered."""
        return ()

    def _sign(self, node: Node, now: datetime) -> Cell:
        style = STYLES[node.state(now)]
        return Cell(self.host.signs[style], style)

    def _slots(self, node: Node, now: datetime) -> Cell:
        if node.unheard_since:
            seconds = (now - node.unheard_since).total_seconds()
            return Cell(f"{node.unheard} unheard {humanize.rough_span(seconds)}", "lost")
        return slots_cell(node.used_slots, node.slots, unicode=self.host.settings.unicode)

    def refresh_data(self) -> None:
        """Read all nodes. There are as many as servers."""
        self.ask("nodes", lambda board: board.nodes(), self._take)
        self._ask_figures()

    def _ask_figures(self) -> None:
        if self._panel.display and time.monotonic() - self._figures_at >= FIGURES_EVERY:
            self._figures_at = time.monotonic()
            self.ask("figures", lambda board: board.fleet(), self._take_figures)

    def _take_figures(self, found: FleetFigures) -> None:
        self._figures = found
        self._panel.show(self._found, found)

    def reload(self) -> None:
        """Sort the nodes again."""
        self._show()

    def _take(self, found: list[Node]) -> None:
        self._found = found
        self._panel.show(found, self._figures)
        self._show()

    def _show(self) -> None:
        now = self.host.health.now()
        shown = [node for node in self._found if not self.errors_only or _is_trouble(node, now)]
        shown.sort(key=lambda node: _key(node, self.order, now), reverse=self.backwards)
        self.show_ids([node.id for node in shown], "no agents yet: start `dcron agent` on each server")
        self.show_rows({node.id: node for node in shown})

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        message.stop()

    def subject_of(self, row: Node, kind: str) -> str:
        """Return the id of the node."""
        return row.id if kind == "node" else ""

    def action_drain(self) -> None:
        nodes.drain(self.host, self.table.chosen_rows())

    def action_undrain(self) -> None:
        nodes.undrain(self.host, self.table.chosen_rows())

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        if node := self.table.cursor_row:
            self.host.open_node(node)


def _key(node: Node, order: str, now: datetime) -> tuple[object, ...]:
    match order:
        case "running":
            return (-node.running, node.id)
        case "since":
            return (-node.started_at.timestamp(), node.id)
        case "name":
            return (node.id,)
    return (node.state(now) not in LIVING, node.id)


def _is_trouble(node: Node, now: datetime) -> bool:
    return node.state(now) in (NodeState.LATE, NodeState.DEAD) or is_clock_off(node)


def _state(node: Node, now: datetime) -> Cell:
    state = node.state(now)
    return Cell(state.value, STYLES[state])


def _lease(node: Node, now: datetime) -> Cell:
    """Return the time left until the lease ends without another heartbeat."""
    if node.state(now) not in LIVING:
        return Cell(humanize.ago(node.died_at, now), "quiet") if node.died_at else EMPTY
    left = humanize.left(node.alive_until, now)
    return Cell(left, "late" if left.startswith("late") else "")


def _clock(node: Node, now: datetime) -> Cell:
    if node.clock_offset is None:
        return EMPTY
    mark = "!" if is_clock_off(node) else ""
    return Cell(f"{node.clock_offset:+.1f}s{mark}", "late" if mark else "")


def _since(node: Node, now: datetime) -> Cell:
    return Cell(humanize.rough_span((now - node.started_at).total_seconds()))


def _account(node: Node, now: datetime) -> Cell:
    return cell(humanize.accounts(node))


def _tags(node: Node, now: datetime) -> Cell:
    return cell(" ".join(getattr(node, "tags", ())))
