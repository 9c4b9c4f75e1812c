"""The view of the fleet: slots, queues and starts of all nodes, and the state, load and clock of each."""

import time
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from dcron.model import Node, NodeState
from dcron.policy.conditions.nodes import is_clock_off
from dcron.presentation import humanize
from dcron.services.dashboard import Dashboard, FleetFigures
from dcron.tui.actions import nodes
from dcron.tui.actions.nodes import LIVING
from dcron.tui.fleet.panel import STYLES, FleetPanel
from dcron.tui.table.cells import EMPTY, Cell, cell, slots_cell
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.lists import WholeListPane

FIGURES_EVERY = 5.0
"""Least seconds between two readings of the figures of the fleet."""
PANEL_FROM = 14
"""Lines of the view from which on it has the panel."""


class NodesPane(WholeListPane):
    """The living nodes, and those that ended within a day."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "drain", "drain", id="nodes.drain"),
        Binding("u", "undrain", "undrain", id="nodes.undrain"),
    ]
    title = "Nodes"
    read = staticmethod(Dashboard.nodes)
    id_of = attrgetter("id")
    nothing = "no agents yet: start `dcron agent` on each server"
    sort_keys: ClassVar = {
        "state": lambda node, now: (node.state(now) not in LIVING, node.id),
        "name": lambda node, _: node.id,
        "running": lambda node, _: (-node.running, node.id),
        "since": lambda node, _: (-node.started_at.timestamp(), node.id),
    }
    orders = tuple(sort_keys)

    def __init__(self) -> None:
        super().__init__()
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
            self.sign_column(lambda node, now: STYLES[node.state(now)]),
            name_column("node", "node", lambda node, _: cell(node.id, "name"), "name"),
            Column("state", "state", 9, _state, order="state"),
            Column("running", "running", 14, self._slots, rank=1, order="running"),
            Column("beat", "lease", 9, _lease, right=True, rank=2),
            Column("clock", "clock", 8, _clock, right=True, rank=3),
            Column("since", "since", 8, _since, right=True, rank=4, order="since"),
            Column("pid", "pid", 7, lambda node, _: Cell(str(node.pid)), right=True, rank=5),
            Column("version", "version", 8, lambda node, _: cell(node.version), rank=6),
            Column(
                "tags",
                "tags",
                12,
                lambda node, _: cell(" ".join(node.tags)),
                rank=7,
                most=30,
                fits=True,
                from_width=90,
            ),
            Column("host", "host", 12, lambda node, _: cell(node.host), rank=8, most=24, from_width=100),
            Column(
                "account",
                "account",
                8,
                lambda node, _: cell(humanize.accounts(node)),
                rank=9,
                most=16,
                grows=True,
                from_width=110,
            ),
        )

    def _slots(self, node: Node, now: datetime) -> Cell:
        if node.unheard_since:
            seconds = (now - node.unheard_since).total_seconds()
            return Cell(f"{node.unheard} unheard {humanize.rough_span(seconds)}", "lost")
        return slots_cell(node.used_slots, node.slots, unicode=self.host.settings.unicode)

    def is_trouble(self, row: Node, now: datetime) -> bool:
        """Return whether the node is late or dead, or its clock is off."""
        return row.state(now) in (NodeState.LATE, NodeState.DEAD) or is_clock_off(row)

    def refresh_data(self) -> None:
        """Read the nodes, and the figures of the fleet."""
        super().refresh_data()
        self._ask_figures()

    def take(self, found: Sequence[Node]) -> None:
        """Show these nodes, and the fleet."""
        self._panel.show(found, self._figures)
        super().take(found)

    def _ask_figures(self) -> None:
        if self._panel.display and time.monotonic() - self._figures_at >= FIGURES_EVERY:
            self._figures_at = time.monotonic()
            self.ask("figures", lambda board: board.fleet(), self._take_figures)

    def _take_figures(self, found: FleetFigures) -> None:
        self._figures = found
        self._panel.show(self.found, found)

    def subject_of(self, row: Node, kind: str) -> str:
        """Return the id of the node."""
        return row.id if kind == "node" else ""

    def action_drain(self) -> None:
        nodes.drain(self.host, self.table.chosen_rows())

    def action_undrain(self) -> None:
        nodes.undrain(self.host, self.table.chosen_rows())

    def open_row(self, row: Node) -> None:
        """Show the page of the node."""
        self.host.open_node(row)


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
