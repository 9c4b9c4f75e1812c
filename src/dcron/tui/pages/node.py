"""The page of a node: what it is and can take, and its runs."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar

from textual.binding import Binding, BindingType

from dcron.model import Node, NodeState
from dcron.policy.conditions.nodes import is_clock_off
from dcron.presentation import humanize
from dcron.tui.actions import nodes
from dcron.tui.fleet.panel import STYLES, bar
from dcron.tui.frame.tabbed_page import TabbedPage
from dcron.tui.table.cells import Cell
from dcron.tui.table.sections import Fact, Section, SectionsPane
from dcron.tui.views.runs import RunsPane

BAR_CELLS = 20
_ERROR = "$text-error bold"


class NodePage(TabbedPage):
    """Everything about one node: one life of an agent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "drain", "drain", id="page.drain"),
        Binding("u", "undrain", "undrain", id="page.undrain"),
        Binding("y", "copy", "copy the name", id="page.copy_node", show=False),
    ]

    def __init__(self, node: Node) -> None:
        self._overview = SectionsPane()
        runs = RunsPane(node_id=node.id, node_since=node.started_at, title="Runs")
        super().__init__(node.id, [self._overview, runs])
        self._node = node

    def read(self) -> None:
        """Read the node."""
        self.ask("node", lambda board: board.nodes(), self._take)

    def _take(self, found: Sequence[Node]) -> None:
        """Show the node; one that is not listed any more ended over a day ago."""
        self._node = next((node for node in found if node.id == self._node.id), self._node)
        self.draw()
        self.show_status()

    def draw(self) -> None:
        """Draw what is known of the node."""
        if self._overview.is_mounted:
            unicode = self.host.settings.unicode
            now, here = self.host.health.now(), self.host.zone
            self._overview.show(node_sections(self._node, now, here, unicode=unicode))

    def status(self) -> Cell:
        """Return the state of the node."""
        state = self._node.state(self.host.health.now())
        return Cell(f"{self.host.signs[STYLES[state]]} {state.value}", STYLES[state])

    def subject(self, kind: str) -> str:
        """Return the id of the node."""
        return self._node.id if kind == "node" else ""

    def action_drain(self) -> None:
        nodes.drain(self.host, [self._node])

    def action_undrain(self) -> None:
        nodes.undrain(self.host, [self._node])

    def action_copy(self) -> None:
        self.host.copy(self._node.name)


def node_sections(node: Node, now: datetime, here: tzinfo, *, unicode: bool) -> Iterator[Section]:
    """Yield the sections about a node; what is wrong comes first."""
    yield Section("What is wrong", 0, list(_wrong(node, now, here)))
    yield Section("Work", 0, list(_work(node, now, unicode=unicode)))
    takes = {
        "tags": " ".join(node.tags) or "no tags",
        "queues": ", ".join(node.queues) or "all queues",
        "capacity": ", ".join(f"{name}={amount:,.10g}" for name, amount in node.capacity.items()),
        "account": humanize.accounts(node),
        "channels": ", ".join(node.channels),
    }
    yield Section("Takes", 1, [Fact(*each) for each in takes.items()])
    agent = {
        "name": node.name,
        "id": node.id,
        "host": node.host,
        "pid": str(node.pid),
        "since": _ago(node.started_at, now),
        "version": node.version,
        "tzdata": node.tzdata,
    }
    yield Section("Agent", 2, [Fact(*each) for each in agent.items()])


def _wrong(node: Node, now: datetime, here: tzinfo) -> Iterator[Fact]:
    state = node.state(now)
    if state is NodeState.LATE:
        yield Fact("lease", f"it ended {humanize.ago(node.alive_until, now)} without a heartbeat", _ERROR)
    if state is NodeState.DEAD:
        others = "its other runs" if node.unheard else "its runs"
        yield Fact("lost", f"it was declared dead {_ago(node.died_at, now)}; {others} were lost", _ERROR)
    if node.unheard_since:
        since = humanize.clock(node.unheard_since, here, now)
        runs = humanize.plural(node.unheard, "run")
        yield Fact("unheard", f"{runs} not heard of since {since}: the commands may still run", _ERROR)
    if is_clock_off(node):
        yield Fact("clock", f"{node.clock_offset:+.1f}s from the database's", _ERROR)


def _work(node: Node, now: datetime, *, unicode: bool) -> Iterator[Fact]:
    state = node.state(now)
    yield Fact("state", state.value)
    drawn = bar(node.used_slots, node.slots, BAR_CELLS, unicode=unicode)
    yield Fact("slots", f"{drawn} {node.used_slots}/{node.slots} used")
    if state in nodes.LIVING:
        yield Fact("lease", f"{humanize.left(node.alive_until, now)} without a heartbeat")
    else:
        yield Fact("ended", _ago(node.died_at, now))
    yield Fact("clock", "" if node.clock_offset is None else f"{node.clock_offset:+.2f}s")


def _ago(at: datetime | None, now: datetime) -> str:
    return humanize.ago(at, now) if at else ""
