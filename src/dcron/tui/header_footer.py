"""The lines around a pane: the bar, the tabs and the hints. Each draws itself, on one line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from dcron.safetext import cells, safe, shorten
from dcron.tui.keynames import fitting
from dcron.tui.views import VIEWS

if TYPE_CHECKING:
    from dcron.tui.main_screen import MainScreen

LEAST_ADDRESS = 8
"""Cells of an address; less tells nothing."""
HELP = "app.help"
"""What the hint of the help does."""


class Line(Widget):
    """One line of inert parts, each of which may do something when it is clicked."""

    @property
    def main(self) -> "MainScreen":
        """The screen, as what it is."""
        return cast("MainScreen", self.screen)

    def parts(self) -> Iterator[tuple[str, str, str]]:
        """Text, style, and the action of a click, or an empty one."""
        raise NotImplementedError

    def render(self) -> Content:
        """The parts that fit, one after the other."""
        content, left = Content(""), self.size.width
        for text, style, _ in self.parts():
            text = shorten(text, left)
            left -= cells(text)
            content += Content.styled(text, style)
        return content

    async def on_click(self, event: events.Click) -> None:
        """Do what stands there."""
        x = 0
        for text, _, action in self.parts():
            x += cells(text)
            if event.x < x:
                if action:
                    await self.main.run_action(action)
                return


class Bar(Line):
    """How the database is, which it is, how the crontab stands, and the database's time."""

    def parts(self) -> Iterator[tuple[str, str, str]]:
        app = self.main.dcron
        health = app.health
        told = health.told()
        style = (
            "$text-error bold" if told[0] == "x" else "$text-warning" if told[0] in "~=" else "$text-success"
        )
        clock = f"{health.now().astimezone(app.zone):%a %H:%M:%S %Z}"
        if health.error:
            since = app.as_of
            middle = f"as of {since.astimezone(app.zone):%H:%M:%S}  " if since else ""
            middle += safe(str(health.error))
        else:
            middle = ""
        yield f" {told}  ", style, "app.refresh_now"
        room = self.size.width - cells(told) - cells(clock) - 4
        if not health.error:
            middle = _with_address(app.settings.address, app.counted(), room)
        shown = shorten(middle, room)
        yield shown + " " * (room - cells(shown)), "$text-error" if health.error else "", ""
        yield clock, "", ""


def _with_address(address: str, counted: str, room: int) -> str:
    """Return both, the address shortened first: how things stand matters more than where."""
    left = room - cells(counted) - 2
    return f"{shorten(address, left)}  {counted}" if left >= LEAST_ADDRESS else counted


class Tabs(Line):
    """The views, the way to what is shown, and the filter."""

    def parts(self) -> Iterator[tuple[str, str, str]]:
        main = self.main
        used = 0
        for view in VIEWS:
            text = f" {view.digit} {view.title} "
            used += cells(text)
            yield text, "reverse" if view.name == main.view.name else "", f"screen.view('{view.name}')"
        crumbs = " > ".join(main.crumbs()[1:])
        pane = main.pane
        filtered = f"filter: {safe(pane.filter_text)} " if pane and pane.filter_text else ""
        if getattr(pane, "errors_only", False):
            filtered += "errors only "
        counted = pane.counted() if pane else ""
        right = f"{filtered}{counted} "
        if main.dcron.settings.readonly:
            right = f"read-only {right}"
        left = f" > {crumbs}" if crumbs else ""
        room = self.size.width - used - cells(right)
        left = shorten(left, max(0, room))
        yield left + " " * max(0, room - cells(left)), "bold", "screen.back"
        yield right, "$text-warning" if filtered else "$foreground-muted", ""


class Hints(Line):
    """The keys that matter here, as far as there is room; the one that tells the others always."""

    def parts(self) -> Iterator[tuple[str, str, str]]:
        hints = {f" {key} {told} ": (key, told, action) for key, told, action in self._hints()}
        for each in fitting(list(hints), self.size.width):
            key, told, action = hints[each]
            yield f" {key}", "bold $text-primary", action
            yield f" {told} ", "", action

    def _hints(self) -> list[tuple[str, str, str]]:
        found: dict[str, tuple[str, str, str]] = {}
        for active in self.main.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                owner = "" if "." in binding.action else _namespace(active.node)
                found[binding.action] = (safe(shown), binding.description, f"{owner}{binding.action}")
        return sorted(found.values(), key=lambda hint: hint[2] == HELP)


def _namespace(node: object) -> str:
    return "screen." if isinstance(node, Screen) else "focused."
