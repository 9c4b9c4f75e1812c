"""The panel above the nodes: used slots, queues, due and late runs, and the starts of the next hour."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from textual.content import Content
from textual.widget import Widget

from dcron.model import Node, NodeState
from dcron.presentation.humanize import plural
from dcron.services.dashboard import HOUR, FleetFigures
from dcron.tui.host import Host, Hosted
from dcron.values.safe_text import cells, safe, shorten

Part = tuple[str, str]
"""A text and its style."""
LABEL = 10
LINES = 5
"""Lines of the panel."""
BAR_CELLS = 30
HEIGHTS = {True: " ▁▂▃▄▅▆▇", False: " .:-=+*#"}
FILLED, EMPTY = {True: "█", False: "#"}, {True: "░", False: "-"}
STYLES = {
    NodeState.ALIVE: "ok",
    NodeState.DRAINING: "paused",
    NodeState.LATE: "late",
    NodeState.DEAD: "failed",
    NodeState.STOPPED: "quiet",
}
"""The styles of the states of a node."""
WARNING, ERROR = "$text-warning", "$text-error bold"


class FleetPanel(Widget, Hosted):
    """Five lines about all nodes together."""

    DEFAULT_CSS = f"FleetPanel {{ height: {LINES}; background: $surface; color: $foreground; }}"

    def __init__(self) -> None:
        super().__init__()
        self._fleet: Sequence[Node] = ()
        self._figures: FleetFigures | None = None

    def show(self, nodes: Sequence[Node], figures: FleetFigures | None) -> None:
        """Show these nodes and figures."""
        self._fleet, self._figures = nodes, figures
        self.refresh()

    def render(self) -> Content:
        """Draw the lines."""
        host = self.host
        now, unicode = host.health.now(), host.settings.unicode
        width = self.size.width
        lines = [_slots(self._fleet, now, width, unicode=unicode)]
        if self._figures:
            lines += [_due(self._figures), _queues(self._figures, width)]
            lines += _starts(self._figures, width, host, unicode=unicode)
        else:
            lines.append([(" ...", "$foreground-muted")])
        return Content("\n").join(Content.assemble(*line) for line in lines[:LINES])


def bar(used: int, size: int, width: int, *, unicode: bool) -> str:
    """Return a bar of this width, filled as far as `used` is of `size`; any use fills one cell."""
    filled = 0 if not used or not size else max(1, min(width, width * used // size))
    return FILLED[unicode] * filled + EMPTY[unicode] * (width - filled)


def heights(numbers: Sequence[int], *, unicode: bool) -> str:
    """Return one sign per number, as high as the number relative to the greatest; blank for none."""
    signs, most = HEIGHTS[unicode], max(numbers, default=0)
    last = len(signs) - 1
    return "".join(signs[max(1, number * last // most)] if number else " " for number in numbers)


def _label(text: str) -> Part:
    return f" {text:<{LABEL}}", "$foreground-muted"


def _slots(nodes: Sequence[Node], now: datetime, width: int, *, unicode: bool) -> list[Part]:
    states = [node.state(now) for node in nodes]
    taking = [node for node, state in zip(nodes, states, strict=True) if state is NodeState.ALIVE]
    slots, used = sum(node.slots for node in taking), sum(node.used_slots for node in taking)
    if not {NodeState.ALIVE, NodeState.DRAINING, NodeState.LATE}.intersection(states):
        return [_label("slots"), ("no agent is running", ERROR)]
    drawn = bar(used, slots, max(4, min(BAR_CELLS, width - 50)), unicode=unicode)
    style = WARNING if used >= slots else "$text-success"
    free = drawn.lstrip(FILLED[unicode])
    taken = drawn.removesuffix(free)
    parts = [
        _label("slots"),
        (taken, style),
        (free, "$foreground-muted"),
        (f" {used}/{slots} used   {plural(len(taking), 'node')}", ""),
    ]
    for state, each_style in ((NodeState.DRAINING, WARNING), (NodeState.LATE, ERROR)):
        if number := states.count(state):
            parts.append((f", {number} {state.value}", each_style))
    return parts


def _due(figures: FleetFigures) -> list[Part]:
    due = figures.due
    late = (f", {due.late:,} late", ERROR) if due.late else ("", "")
    frozen = (f", {due.frozen:,} frozen", WARNING) if due.frozen else ("", "")
    return [_label("waiting"), (f"{plural(due.number, 'due run')}", ""), late, frozen]


def _queues(figures: FleetFigures, width: int) -> list[Part]:
    """Return each queue with its living runs, its limit and its due runs, as far as there is room."""
    parts, left = [_label("queues")], width - LABEL - 1
    for name, alive, limit, waiting in figures.queues:
        text = f"{shorten(safe(name), 20)} {alive}" + ("" if limit is None else f"/{limit}")
        text += f" +{waiting:,}" if waiting else ""
        if cells(text) + 5 > left:
            parts.append(("...", "$foreground-muted"))
            break
        is_full = limit is not None and alive >= limit
        parts.append((f"{text}   ", WARNING if is_full and waiting else ""))
        left -= cells(text) + 3
    return parts if len(parts) > 1 else [*parts, ("none in use", "$foreground-muted")]


def _starts(figures: FleetFigures, width: int, host: Host, *, unicode: bool) -> Iterator[list[Part]]:
    """Yield the number of starts of the next hour, and their distribution."""
    minutes, begin = figures.starts, figures.begin
    more = "+" if figures.has_more else ""
    total = sum(minutes)
    text = f"{total:,}{more} in the next hour"
    if total:
        most = max(minutes)
        at = (begin + minutes.index(most) * HOUR / len(minutes)).astimezone(host.zone)
        text += f", most at {at:%H:%M}: {most:,}"
    yield [_label("starts"), (text, "")]
    cell = next(size for size in (1, 2, 3, 5) if len(minutes) // size <= max(12, width - LABEL - 14))
    summed = [sum(minutes[at : at + cell]) for at in range(0, len(minutes), cell)]
    first, last = begin.astimezone(host.zone), (begin + HOUR).astimezone(host.zone)
    drawn = heights(summed, unicode=unicode)
    yield [
        _label(""),
        (f"{first:%H:%M} ", "$foreground-muted"),
        (drawn, "$text-primary"),
        (f" {last:%H:%M}", "$foreground-muted"),
    ]
