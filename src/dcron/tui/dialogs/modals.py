"""Dialogs. They show foreign text, so it is `Content` of inert text and never markup."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dcron.tui.dialogs.entries import LONGEST, Entry
from dcron.tui.dialogs.text_search import hits, next_line, nothing_found, with_hits
from dcron.tui.host import Hosted
from dcron.tui.keys.hints import ACTIVE, KEY, hints
from dcron.tui.keys.input_queue import Listener
from dcron.tui.keys.keynames import key_of, with_keys
from dcron.values.safe_text import safe, safe_lines

PATIENCE = 0.3
"""Seconds in which a new dialog ignores consent: the key was typed before the question was read."""

LINES_ABOVE = 2
"""Lines that are shown above a hit."""

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer], Hosted, Listener):
    """A box above the screen. It has to be answered first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", id="dialog.leave")]
    AT_ONCE: ClassVar[Collection[str] | None] = ()
    """The actions that are accepted before the dialog can have been read; None for all keys."""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-airy")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._opened = time.monotonic()

    def on_mount(self) -> None:
        """Start the time for reading, and remove the toasts that would cover it."""
        self._opened = time.monotonic()
        self.app.clear_notifications()

    def hears(self, event: events.Event) -> bool:
        """Ignore keys that were typed before the dialog was read, unless they are harmless."""
        if self.AT_ONCE is None or not isinstance(event, events.Key | events.Paste):
            return True
        if event.time - self._opened >= PATIENCE:
            return True
        bound = self.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        return bound is not None and bound.binding.action in self.AT_ONCE

    def action_leave(self) -> None:
        self.dismiss(None)


def heading(text: str) -> Static:
    """Return the first lines of a dialog."""
    return Static(Content(safe_lines(text)), classes="heading", markup=False)


def key_line(keys: Content) -> Static:
    """Return the last line of a dialog: its keys."""
    return Static(keys, classes="keys", markup=False)


class Confirm(Dialog[bool]):
    """A question whose default answer is No."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes", id="confirm.yes"),
        Binding("n,q", "no", "no", id="confirm.no"),
        Binding("tab,left,right,h,l", "other", "the other answer", id="confirm.other", show=False),
        Binding("enter", "answer", "the marked answer", id="confirm.answer", show=False),
    ]
    AT_ONCE = ("no", "leave", "answer")  # the marked answer is No until another key is accepted

    def __init__(self, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = question
        self._details = details
        self._yes = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -asks"):
            yield heading(self._question)
            yield Static(Content(safe_lines("\n".join(self._details))), markup=False)
            yield Static(self._choices(), classes="choices", markup=False)

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_no(self) -> None:
        self.dismiss(False)

    def action_leave(self) -> None:
        self.dismiss(False)

    def action_answer(self) -> None:
        self.dismiss(self._yes)

    def action_other(self) -> None:
        self._yes = not self._yes
        self.query_one(".choices", Static).update(self._choices())

    def _choices(self) -> Content:
        yes, no = (ACTIVE, KEY) if self._yes else (KEY, ACTIVE)
        no_key, yes_key = key_of(self, "confirm.no"), key_of(self, "confirm.yes")
        return Content.assemble((f" {no_key}  No ", no), "   ", (f" {yes_key}  Yes ", yes))


class Ask(Dialog[str | None]):
    """A question that is answered with a text. The result is None after Esc."""

    DEFAULT_CSS = "Ask .wrong { color: $text-error; height: auto; display: none; }"
    AT_ONCE = ("leave",)

    def __init__(self, question: str, text: str = "", *, hint: str = "", must_be: str | None = None) -> None:
        """With `must_be`, Enter takes nothing but exactly this text."""
        super().__init__()
        self._question = question
        self._text = text
        self._hint = hint
        self._must_be = must_be

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._question)
            yield Entry(self._text, max_length=LONGEST)
            if self._hint:
                yield Static(Content.styled(safe_lines(self._hint), "$foreground-muted"), markup=False)
            yield Static("", classes="wrong", markup=False)
            does_it = [] if self._hint else ["Enter does it"]
            yield key_line(hints(self, *does_it, "{dialog.leave} leaves"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        event.stop()
        if self._must_be is None or event.value == self._must_be:
            self.dismiss(event.value)
        else:
            self.show_error(f"{event.value or 'nothing'} is not {self._must_be}; nothing was done")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Hide the error: it was about another text."""
        event.stop()
        self.query_one(".wrong", Static).display = False

    def show_error(self, text: str) -> None:
        """Show what is wrong with the typed text."""
        wrong = self.query_one(".wrong", Static)
        wrong.update(Content(safe(text)))
        wrong.display = True


class Choose(Dialog[str | None]):
    """A choice of a few words, by arrow keys or by digit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j,tab", "move(1)", "down", id="choose.down", show=False),
        Binding("up,k,shift+tab", "move(-1)", "up", id="choose.up", show=False),
        Binding("enter", "answer", "choose", id="choose.answer", show=False),
    ]
    AT_ONCE = None

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices
        self._at = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._question)
            yield Static(self._list(), classes="list", markup=False)

    def action_move(self, by: int) -> None:
        self._at = (self._at + by) % len(self._choices)
        self.query_one(".list", Static).update(self._list())

    def action_answer(self) -> None:
        self.dismiss(self._choices[self._at])

    def on_key(self, event: events.Key) -> None:
        """Choose by digit."""
        if event.character and event.character.isdigit() and 0 < int(event.character) <= len(self._choices):
            event.stop()
            self.dismiss(self._choices[int(event.character) - 1])

    def _list(self) -> Content:
        lines = [
            Content.styled(f" {number} {safe_lines(choice)} ", ACTIVE if number - 1 == self._at else "")
            for number, choice in enumerate(self._choices, 1)
        ]
        return Content("\n").join(lines)


class ReadDialog(Dialog[None]):
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
        self.read.update(with_hits(content, self._sought))

    def action_search(self) -> None:
        """Ask for a text and show where it is."""

        def search(text: str) -> None:
            self._sought, self._hit = text, -1
            self.show(self._content)
            self.action_hit(1)

        hint = with_keys(self, f"{{{self.NEXT_HIT}}} shows the next one")
        self.host.ask_for("search for", search, hint=hint)

    def action_hit(self, by: int) -> None:
        """Scroll to the next or the previous line with a hit."""
        lines = self._content.wrap(self.read.content_size.width)
        found = (number for number, line in enumerate(lines) if hits(line.plain, self._sought))
        line = next_line(found, self._hit, by)
        if line is None:
            self.notify(nothing_found(self._sought), markup=False)
            return
        self._hit = line
        top = self.read.virtual_region.y + line - LINES_ABOVE
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
