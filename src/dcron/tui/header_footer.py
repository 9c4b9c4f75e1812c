"""The lines around a pane: the header, the tabs and the hints."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from dcron.presentation import alerts, humanize
from dcron.presentation.humanize import plural
from dcron.safetext import cells, safe, shorten
from dcron.tui.host import Host
from dcron.tui.keynames import fitting
from dcron.tui.views import VIEWS

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Counts
    from dcron.store.alert_list import UnacknowledgedAlerts

LEAST_ADDRESS = 8
"""Least cells of an address that are of use."""
HELP = "app.help"
"""The action of the last hint."""


class Line(Widget):
    """One line of inert parts. A click on a part may run an action."""

    @property
    def host(self) -> Host:
        """The app."""
        return cast("Host", self.app)

    def parts(self) -> Iterator[tuple[str, str, str]]:
        """Yield the text, the style and the action of each part; an empty action does nothing."""
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
                if action:
                    await self.screen.run_action(action)
                return


@dataclass(frozen=True)
class Status:
    """What the header shows about the crontab."""

    counts: "Counts | None"
    """None before the first count."""
    as_of: datetime | None
    """The database's time at its last answer."""


class Bar(Line):
    """The header: the connection, the database, the number of tasks and runs, and the database's time."""

    def __init__(self, status: Callable[[], Status]) -> None:
        super().__init__()
        self._status = status

    def parts(self) -> Iterator[tuple[str, str, str]]:
        host, status = self.host, self._status()
        health = host.health
        connection = health.summary()
        style = {"x": "$text-error bold", "~": "$text-warning", "=": "$text-warning"}.get(
            connection[0], "$text-success"
        )
        yield f" {connection}  ", style, "app.refresh_now"
        if host.settings.context:
            name = f" {safe(host.settings.context)} "
            yield name, "bold reverse" if host.settings.is_protected else "bold", ""
            yield "  ", "", ""
            connection += f"{name}  "
        clock = f"{health.now().astimezone(host.zone):%a %H:%M:%S %Z}"
        room = self.size.width - cells(connection) - cells(clock) - 4
        if health.error:
            since = status.as_of
            middle = f"as of {since.astimezone(host.zone):%H:%M:%S}  " if since else ""
            middle += safe(str(health.error))
        else:
            counts = _counts_text(status.counts, host.signs) if status.counts else ""
            middle = _with_address(host.settings.address, counts, room)
            pruned = _pruned_text(status.counts, health.now())
            middle += pruned if cells(middle) + cells(pruned) <= room else ""
        shown = shorten(middle, room)
        yield shown + " " * (room - cells(shown)), "$text-error" if health.error else "", ""
        yield clock, "", ""


class AlertLine(Line):
    """What is wrong now, in words. It is visible only while there are unacknowledged alerts."""

    def __init__(self, status: Callable[[], Status]) -> None:
        super().__init__()
        self._status = status
        self.display = False

    def update_alerts(self) -> None:
        """Show, hide or draw the line."""
        self.display = self._found() is not None
        self.refresh()

    def _found(self) -> "UnacknowledgedAlerts | None":
        counts = self._status().counts
        return counts.activity.alerts if counts else None

    def parts(self) -> Iterator[tuple[str, str, str]]:
        if found := self._found():
            name, word = alerts.name(found.newest), alerts.word(found.newest.kind)
            since = f"{found.newest.opened_at.astimezone(self.host.zone):%H:%M}"
            more = f", and {plural(found.count - 1, 'other alert')}" if found.count > 1 else ""
            text = safe(f" {name}: {word} since {since}{more}")
            yield text + " " * max(0, self.size.width - cells(text)), "", "screen.view('alerts')"


def _counts_text(counts: "Counts", signs: Mapping[str, str]) -> str:
    """Return `60 tasks  R9 x9 -8 !8`."""
    text = f"{counts.tasks:,} tasks" if counts.tasks != 1 else "1 task"
    text += f"  {signs['running']}{counts.activity.running}"
    for style, number in (("failed", counts.failed), ("paused", counts.paused), ("late", counts.late)):
        text += f" {signs[style]}{number:,}" if number else ""
    return f"{text}  {counts.activity.idle}" if counts.activity.idle else text


def _pruned_text(counts: "Counts | None", now: datetime) -> str:
    if counts is None or counts.pruned_at is None:
        return ""
    return f"  {humanize.pruned(counts.pruned_at, counts.pruned_runs, counts.oldest_end, now)}"


def _with_address(address: str, counts: str, room: int) -> str:
    """Return both. If they do not fit, shorten the address: the counts matter more."""
    left = room - cells(counts) - 2
    return f"{shorten(address, left)}  {counts}" if left >= LEAST_ADDRESS else counts


@dataclass(frozen=True)
class Location:
    """What the tabs show about the present view. All texts are inert."""

    view: str
    crumbs: str
    """The way from the view to the pane, without the view."""
    filters: str
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
            yield text, "reverse" if view.name == here.view else "", f"screen.view('{view.name}')"
        right = f"{here.filters}{here.counted} "
        if self.host.settings.readonly:
            right = f"read-only {right}"
        room = max(0, self.size.width - used - cells(right))
        left = shorten(f" > {here.crumbs}" if here.crumbs else "", room)
        yield left + " " * (room - cells(left)), "bold", "screen.back"
        yield right, "$text-warning" if here.filters else "$foreground-muted", ""


class Hints(Line):
    """The most important keys, as many as fit, and always the key of the help."""

    def parts(self) -> Iterator[tuple[str, str, str]]:
        hints = {f" {hint[0]} {hint[1]} ": hint for hint in self._hints()}
        for each in fitting(list(hints), self.size.width):
            key, label, action = hints[each]
            yield f" {key}", "bold $text-primary", action
            yield f" {label} ", "", action

    def _hints(self) -> list[tuple[str, str, str]]:
        found: dict[str, tuple[str, str, str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                owner = "" if "." in binding.action else _namespace(active.node)
                found[binding.action] = (safe(shown), binding.description, f"{owner}{binding.action}")
        return sorted(found.values(), key=lambda hint: hint[2] == HELP)


def _namespace(node: object) -> str:
    return "screen." if isinstance(node, Screen) else "focused."
