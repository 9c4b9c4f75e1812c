"""A page about one thing, with tabs. Each tab is a pane; the one in front has the keys."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message

from dcron.tui.frame.header_footer import Line
from dcron.tui.keys.hints import ACTIVE
from dcron.tui.table.cells import Cell
from dcron.tui.table.pane import Pane
from dcron.values.safe_text import cells, safe, shorten

GAP = "  "
COLOURS = {
    **dict.fromkeys(("failed", "lost", "error"), "$text-error bold"),
    "late": "$text-warning bold",
    "running": "$text-primary",
    "ok": "$text-success",
}
"""The colours of a state; others have none."""


class TabbedPage(Pane):
    """A page that is opened from a row. Tab shows its next tab, Esc goes back to the row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "step(1)", "next tab", id="page.next", key_display="Tab"),
        Binding("shift+tab", "step(-1)", "previous tab", id="page.previous", show=False),
    ]

    class Switched(Message):
        """Posted when another tab is in front."""

    def __init__(self, title: str, tabs: Sequence[Pane], number: int = 0) -> None:
        """Show the tab of this number first. A tab is mounted when it is first shown."""
        super().__init__()
        self.title = title
        self.panes = tabs
        self._number = number
        self._line = TabLine(self)

    @property
    def front(self) -> Pane:
        """The tab that is shown."""
        return self.panes[self._number]

    def status(self) -> Cell:
        """Return what the line of the tabs shows about the thing."""
        return Cell("")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._line
            with Container(classes="page--body"):
                yield self.front

    def read(self) -> None:
        """Read the thing that the page is about."""

    def draw(self) -> None:
        """Draw what is known of it in the tab in front, if that is mounted."""

    def on_mount(self) -> None:
        """Have the focus: what is in front is mounted now."""
        self.read()
        self._switched()

    def refresh_data(self) -> None:
        """Read the thing, and what the tab in front shows."""
        self.read()
        if self.front.is_mounted:
            self.front.refresh_data()

    def tick(self) -> None:
        """Draw what the time has changed."""
        self._line.refresh()
        if self.front.is_mounted:
            self.front.tick()
        self.draw()

    def show_status(self) -> None:
        """Draw the line of the tabs again."""
        self._line.refresh()

    def show_tab(self, number: int) -> None:
        """Show another tab. The next keys are for it."""
        if number == self._number:
            return
        if not self.front.is_mounted:
            return  # the tab before is still being mounted
        self.screen.set_focus(None)
        self.front.display = False
        self._number = number
        self._line.refresh()
        self.call_later(self._bring_to_front, self.front)

    async def _bring_to_front(self, pane: Pane) -> None:
        if pane.is_mounted:
            pane.display = True
            self.refresh_data()
        else:
            await self.query_one(".page--body").mount(pane)
        self._switched()

    def _switched(self) -> None:
        self.draw()
        self.post_message(self.Switched())

    def action_step(self, by: int) -> None:
        self.show_tab((self._number + by) % len(self.panes))


class TabLine(Line):
    """The names of the tabs, and the state of the thing."""

    DEFAULT_CSS = "TabLine { height: 1; background: $surface; color: $foreground; }"

    def __init__(self, page: TabbedPage) -> None:
        """Show the tabs of this page."""
        super().__init__()
        self._page = page

    def parts(self) -> Iterator[tuple[str, str, str]]:
        left = self.size.width
        for number, pane in enumerate(self._page.panes):
            text = f" {safe(pane.title)} "
            chosen = pane is self._page.front
            yield text, ACTIVE if chosen else "", f"screen.tab({number})"
            left -= cells(text)
        status = self._page.status()
        text = shorten(status.text, max(0, left - len(GAP)))
        yield " " * max(0, left - cells(text) - 1), "", ""
        yield f"{text} ", COLOURS.get(status.style, ""), ""
