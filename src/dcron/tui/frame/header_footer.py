"""The lines around a pane: the header, the tabs and the hints."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget

from dcron.errors import DatabaseError
from dcron.presentation import humanize
from dcron.tui.host import Hosted
from dcron.tui.keys.hints import ACTIVE, KEY, LABEL
from dcron.tui.keys.keynames import fitting, possible_bindings
from dcron.tui.views import VIEWS
from dcron.values.safe_text import LEAST_MIDDLE, cells, safe, shorten, shorten_middle

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Counts

LEAST_ADDRESS = 12
"""Least cells of an address that are of use."""
WHOLE_CLOCK = 60
"""Least columns for a clock with seconds and the zone."""
HELP = "app.help"
"""The action of the last hint."""


class Line(Widget, Hosted):
    """One line of inert parts. A click on a part may run an action."""

    def parts(self) -> "Iterator[Part]":
        """Yield the parts from left to right."""
        raise NotImplementedError

    def render(self) -> Content:
        """Draw the parts that fit."""
        content, left = Content(""), self.size.width
        for text, style, _ in self.parts():
            text = shorten(text, left)
            left -= cells(text)
            content += Content.styled(text, style)
        return content

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked part."""
        x = 0
        for text, _, action in self.parts():
            x += cells(text)
            if event.x < x:
                await self.do(action)
                return

    async def do(self, action: str) -> None:
        """Run the action of a part."""
        if action:
            await self.screen.run_action(action)


Part = tuple[str, str, str]
"""A text, its style, and the action of a click on it; an empty action does nothing."""

_CONNECTION = {"x": ("✗", "bold $text-error"), "~": ("~", "$text-warning"), "=": ("‖", "$text-warning")}
"""The sign with Unicode, and the style, of each sign of the connection."""


class Bar(Line):
    """The header: the connection, the numbers of tasks and runs, the database, and its time."""

    def parts(self) -> Iterator[Part]:
        host = self.host
        left = [*self._connection(), *self._context_name()]
        form = "%a %H:%M:%S %Z " if self.size.width >= WHOLE_CLOCK else "%H:%M "
        clock = host.health.now().astimezone(host.zone).strftime(form)
        room = self.size.width - _length(left) - cells(clock)
        error = host.health.error
        middle = self._error(error, room) if error else self._numbers(room)
        yield from left
        yield from middle
        yield " " * (room - _length(middle)), "", ""
        yield clock, "", ""

    def _connection(self) -> Iterator[Part]:
        text = self.host.health.summary()
        sign, style = _CONNECTION.get(text[0], ("●", "$text-success"))
        text = sign + text[1:] if self.host.settings.unicode else text
        yield f" {text}  ", style, "app.refresh_now"

    def _context_name(self) -> Iterator[Part]:
        settings = self.host.settings
        if settings.context:
            yield f" {safe(settings.context)} ", "bold reverse" if settings.is_protected else "bold", ""
            yield "  ", "", ""

    def _error(self, error: DatabaseError, room: int) -> list[Part]:
        """Return the time of the shown rows, and why there are no newer ones."""
        host, since = self.host, self.host.as_of
        text = f"as of {since.astimezone(host.zone):%H:%M:%S}  " if since else ""
        return [(shorten(text + safe(str(error)), room - 1), "$text-error", "")]

    def _numbers(self, room: int) -> list[Part]:
        """Return the numbers, in words if there is room, then as much of the address as fits."""
        address, counts = self.host.settings.address, self.host.counts
        if counts is None:
            return [(shorten_middle(address, room - 1), "$foreground-muted", "")]
        chips = _chips(counts)
        shown = _spaced((f"{number:,} {word}", style, action) for number, word, style, action in chips)
        if _length(shown) > room:
            signs = self.host.signs
            short = [(f"{signs[word]}{number:,}", style, action) for number, word, style, action in chips[1:]]
            shown = [*shown[:1], *_spaced(short)]
        left = room - _length(shown) - 2
        if (idle := counts.activity.idle) and left >= LEAST_ADDRESS:
            shown.append((f"{shorten(idle, left)}  ", "bold $text-warning", ""))
        left = room - _length(shown) - 1
        if left >= LEAST_ADDRESS:
            shown.append((shorten_middle(address, left), "$foreground-muted", ""))
        pruned = _pruned_text(counts, self.host.health.now())
        if _length(shown) + cells(pruned) < room:
            shown.append((pruned, "$foreground-muted", ""))
        return shown


def _chips(counts: "Counts") -> list[tuple[int, str, str, str]]:
    """Return numbers with their words, their styles, and the actions that show what is counted."""
    running = counts.activity.running
    chips = [
        (counts.tasks, "task" if counts.tasks == 1 else "tasks", "", "screen.show_tasks('')"),
        (
            running,
            "running",
            "$text-primary" if running else "$foreground-muted",
            "screen.show_tasks('running')",
        ),
    ]
    for number, word, style in (
        (counts.failed, "failed", "bold $text-error"),
        (counts.late.number, "late", "bold $text-warning"),
        (counts.paused, "paused", "$foreground-muted"),
    ):
        if number:
            chips.append((number, word, style, f"screen.show_tasks('{word}')"))
    return chips


def _spaced(parts: Iterable[Part]) -> list[Part]:
    return [(f"{text}  ", style, action) for text, style, action in parts]


def _length(parts: Iterable[Part]) -> int:
    return sum(cells(text) for text, _, _ in parts)


def _pruned_text(counts: "Counts", now: datetime) -> str:
    if counts.pruned_at is None:
        return ""
    return f"  {humanize.pruned(counts.pruned_at, counts.pruned_runs, counts.oldest_end, now)}"


@dataclass(frozen=True)
class Location:
    """What the tabs show about the present view. All texts are inert."""

    view: str
    crumbs: str
    """The way from the view to the pane, without the view."""
    filter_text: str
    errors_only: bool
    counted: str


class Tabs(Line):
    """The views, the way to the pane, and the filter."""

    def __init__(self, location: Callable[[], Location]) -> None:
        super().__init__()
        self._location = location

    def parts(self) -> Iterator[tuple[str, str, str]]:
        here = self._location()
        used = 0
        for view in VIEWS:
            text = f" {view.digit} {view.title} "
            used += cells(text)
            yield text, ACTIVE if view.name == here.view else "", f"screen.view('{view.name}')"
        counted = f"{here.counted} "
        mode = "read-only " if self.host.settings.readonly else ""
        filters = _filters(here, self.size.width - used - cells(mode + counted))
        right = f"{mode}{filters}{counted}"
        room = max(0, self.size.width - used - cells(right))
        left = shorten(f" > {here.crumbs}" if here.crumbs else "", max(0, room - 1))
        yield left + " " * (room - cells(left)), "bold", "screen.back"
        yield right, "$text-warning" if filters else "$foreground-muted", ""


def _filters(here: Location, room: int) -> str:
    """Return the filter in this room, without the middle of its text if that is too long."""
    errors = "errors only " if here.errors_only else ""
    if not here.filter_text:
        return errors
    whole = f"filter: {here.filter_text} {errors}"
    if cells(whole) <= room:
        return whole
    return f"/{shorten_middle(here.filter_text, max(LEAST_MIDDLE, room - cells(errors) - 2))} {errors}"


class Hint(NamedTuple):
    """A key, what it does, its action, and the node on which the action is done."""

    key: str
    label: str
    action: str
    node: DOMNode


class Hints(Line):
    """The most important keys, as many as fit, and always the key of the help."""

    def parts(self) -> Iterator[Part]:
        for hint in self._fitting():
            yield f" {hint.key}", KEY, hint.action
            yield f" {hint.label} ", LABEL, hint.action

    async def do(self, action: str) -> None:
        """Act as the key of this action does."""
        node = next(hint.node for hint in self._hints() if hint.action == action)
        await self.app.run_action(action, node)

    def _fitting(self) -> list[Hint]:
        hints = {_shown(hint): hint for hint in self._hints()}
        return [hints[each] for each in fitting(list(hints), self.size.width)]

    def _hints(self) -> list[Hint]:
        found: dict[str, Hint] = {}
        for active in possible_bindings(self.screen, readonly=self.host.settings.readonly):
            binding = active.binding
            if binding.show and binding.action not in found:
                key = safe(self.app.get_key_display(binding))
                found[binding.action] = Hint(key, binding.description, binding.action, active.node)
        return sorted(found.values(), key=lambda hint: hint.action == HELP)


def _shown(hint: Hint) -> str:
    return f" {hint.key} {hint.label} "
