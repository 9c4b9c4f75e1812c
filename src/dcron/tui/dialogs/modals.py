"""Dialogs with a text to read, which may be searched, and the one after a conflict."""

import re
from collections.abc import Callable
from itertools import islice
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.tui.host import Hosted
from dcron.tui.keys.hints import hints
from dcron.tui.keys.keynames import with_keys
from dcron.tui.questions.dialogs import Dialog, heading, key_line
from dcron.values.safe_text import safe_lines

LINES_ABOVE = 2
"""Lines that are shown above a hit."""
MOST_HITS = 1000


class ReadDialog(Dialog[None], Hosted):
    """A text to read, to scroll and to search. The widget `.read` shows it."""

    AT_ONCE = None
    SCROLLS = ".dialog"
    """The widget that scrolls."""
    NEXT_HIT: ClassVar[str]
    """The binding that goes to the next hit."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content
        self._sought = ""
        self._hit = -1
        """The line of the last hit."""

    @property
    def read(self) -> Static:
        """The text."""
        return self.query_one(".read", Static)

    def show(self, content: Content) -> None:
        """Show another text."""
        self._content = content
        for start, end in self._hits(content.plain):
            content = content.stylize("reverse", start, end)
        self.read.update(content)

    def _hits(self, text: str) -> list[tuple[int, int]]:
        """Return where the sought text is; case matters if it has capitals."""
        if not (sought := self._sought):
            return []
        pattern = re.compile(re.escape(sought), 0 if sought != sought.lower() else re.IGNORECASE)
        return [match.span() for match in islice(pattern.finditer(text), MOST_HITS)]

    def action_search(self) -> None:
        """Ask for a text and show where it is."""

        def search(text: str) -> None:
            self._sought, self._hit = text, -1
            self.show(self._content)
            self.action_hit(1)

        hint = with_keys(self, f"{{{self.NEXT_HIT}}} shows the next one")
        self.host.ask_for("search for", search, hint=hint)

    def action_hit(self, by: int) -> None:
        """Scroll to the next or the previous line with a hit; the search wraps around."""
        lines = self._content.wrap(self.read.content_size.width)
        found = [number for number, line in enumerate(lines) if self._hits(line.plain)][::by]
        if not found:
            sought = self._sought
            self.notify(f"nothing matches {sought}" if sought else "no text was searched for", markup=False)
            return
        self._hit = next((line for line in found if (line - self._hit) * by > 0), found[0])
        top = self.read.virtual_region.y + self._hit - LINES_ABOVE
        self.query_one(self.SCROLLS).scroll_to(y=max(0, top), animate=False)

    def action_scroll(self, by: int) -> None:
        self.query_one(self.SCROLLS).scroll_relative(y=by, animate=False)


class NoticeDialog(ReadDialog):
    """A text to read. It may change with the time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q,question_mark", "leave", "leave", id="notice.leave", show=False),
        Binding(
            "colon", "app.leave_for_command", "command", id="notice.command", show=False, key_display=":"
        ),
        Binding("slash", "search", "search", id="notice.search", show=False),
        Binding("n", "hit(1)", "next hit", id="notice.next_hit", show=False),
        Binding("N", "hit(-1)", "previous hit", id="notice.previous_hit", show=False),
        Binding("down,j", "scroll(1)", "down", id="notice.down", show=False),
        Binding("up,k", "scroll(-1)", "up", id="notice.up", show=False),
        Binding("pagedown,ctrl+d", "scroll(10)", "page down", id="notice.page_down", show=False),
        Binding("pageup,ctrl+u", "scroll(-10)", "page up", id="notice.page_up", show=False),
    ]
    NEXT_HIT = "notice.next_hit"

    def __init__(self, heading: str, text: Callable[[], Content]) -> None:
        """`text` is called every second."""
        super().__init__(text())
        self._heading = heading
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._heading)
            yield Static(self._content, classes="read", markup=False)

    def on_mount(self) -> None:
        """Draw the text again every second."""
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        content = self._text()
        if not content.is_same(self._content):
            self.show(content)


class HelpDialog(NoticeDialog):
    """The keys, in a wider box."""

    WIDTH = 124

    @classmethod
    def room(cls, width: int) -> int:
        """Return the cells of its text on a screen of this width: the box has a frame and a scroll bar."""
        return min(cls.WIDTH, int(width * 0.96)) - 5


class ConflictDialog(Dialog[bool]):
    """Another person changed the task first: shows their change and the act that was not done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "do it anyway", id="conflict.again"),
        Binding("enter,q", "leave", "leave it", id="conflict.leave", show=False),
    ]

    def __init__(self, theirs: str, changed: Content, mine: str) -> None:
        """Show who changed it, the changed fields, and the command line of the act."""
        super().__init__()
        self._theirs = theirs
        self._changed = changed
        self._mine = mine

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading("another person changed it first")
            yield Static(Content(safe_lines(self._theirs)), markup=False)
            yield Static(self._changed, markup=False)
            yield Static(
                Content.assemble(("\nyours, not done: ", "bold"), safe_lines(self._mine)), markup=False
            )
            keys = "{conflict.again} do it to the task as it is now", "{dialog.leave} leave it"
            yield key_line(hints(self, *keys))

    def action_again(self) -> None:
        self.dismiss(True)

    def action_leave(self) -> None:
        self.dismiss(False)
