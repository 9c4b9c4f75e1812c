"""Dialogs of the forms: a choice below a text to read, and a few texts to fill in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from dcron.errors import UsageError
from dcron.tui.host import Host
from dcron.tui.keys.hints import hints
from dcron.tui.questions.dialogs import Dialog, heading, key_line
from dcron.tui.questions.entry import LONGEST, Entry
from dcron.values.safe_text import safe


class Choice(NamedTuple):
    """A key of a dialog, and what it does."""

    key: str
    label: str
    """What it does, in words; empty for another key that does the same."""
    go: Callable[[], None]


class Decide(Dialog[Choice | None]):
    """A text to read and choices; Esc chooses nothing."""

    DEFAULT_CSS = """
    Decide .read { height: auto; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "scroll(1)", "down", id="decide.down", show=False),
        Binding("up", "scroll(-1)", "up", id="decide.up", show=False),
        Binding("pagedown,ctrl+d", "scroll(8)", "page down", id="decide.page_down", show=False),
        Binding("pageup,ctrl+u", "scroll(-8)", "page up", id="decide.page_up", show=False),
    ]

    def __init__(self, heading: str, text: Content, choices: Sequence[Choice], leave: str) -> None:
        """`leave` says what Esc does."""
        super().__init__()
        self._heading = heading
        self._text = text
        self._choices = choices
        self._leave = leave

    def compose(self) -> ComposeResult:
        keys = [f"{each.key} {each.label}" for each in self._choices if each.label]
        with Vertical(classes="dialog decides"):
            yield heading(self._heading)
            with Vertical(classes="read"):
                yield Static(self._text, markup=False)
            yield key_line(hints(self, *keys, f"{{dialog.leave}} {self._leave}"))

    def on_resize(self, event: events.Resize) -> None:
        """Keep the choices visible."""
        self.query_one(".read").styles.max_height = max(1, event.size.height - 9)

    def on_key(self, event: events.Key) -> None:
        """Take one of the keys, by its name or its character."""
        for each in self._choices:
            if event.key == each.key.lower() or event.character == each.key:
                event.stop()
                self.dismiss(each)
                return

    def action_scroll(self, by: int) -> None:
        self.query_one(".read").scroll_relative(y=by, animate=False)


@dataclass(frozen=True)
class Question:
    """A text to fill in."""

    label: str
    hint: str
    check: Callable[[str], object]
    """Raises UsageError for an invalid text."""


class Fill(Dialog[list[str] | None]):
    """A few texts to fill in. The result is the list of texts, or None after Esc."""

    DEFAULT_CSS = "Fill .wrong { color: $text-error; height: auto; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", "next", id="fill.next", show=False),
        Binding("up", "app.focus_previous", "previous", id="fill.previous", show=False),
    ]
    AT_ONCE = None

    def __init__(self, heading: str, questions: Sequence[Question]) -> None:
        super().__init__()
        self._heading = heading
        self._questions = questions

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield heading(self._heading)
            for question in self._questions:
                yield Static(Content(f"{question.label}:"), markup=False)
                yield Entry(placeholder=question.hint, max_length=LONGEST)
            yield Static("", classes="wrong", markup=False)
            yield key_line(hints(self, "Enter does it", "Tab next line", "{dialog.leave} leaves"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the texts, or show the first error."""
        event.stop()
        entries = list(self.query(Entry))
        for question, entry in zip(self._questions, entries, strict=True):
            try:
                question.check(entry.value)
            except UsageError as error:
                self._show_error(f"{question.label}: {error}")
                entry.focus()
                return
        self.dismiss([entry.value for entry in entries])

    def on_entry_refused(self, event: Entry.Refused) -> None:
        """Show that the pasted text is too long."""
        event.stop()
        self._show_error(f"{event.length:,} characters are too many for a line; @FILE reads a file")

    def _show_error(self, text: str) -> None:
        self.query_one(".wrong", Static).update(Content(safe(text)))


def decide(
    host: Host,
    heading: str,
    text: Content,
    choices: Sequence[Choice],
    leaves: str,
    leave: Callable[[], None] = lambda: None,
) -> None:
    """Show a text and let one of the choices be done. `leaves` says what Esc does, and `leave` does it."""
    dialog = Decide(heading, text, choices, leaves)
    host.push_screen(dialog, lambda choice: choice.go() if choice else leave())


def fill(host: Host, heading: str, questions: Sequence[Question], take: Callable[..., None]) -> None:
    """Let the texts be filled in; `take` gets them, unless the person leaves."""
    host.push_screen(Fill(heading, questions), lambda texts: take(*texts) if texts is not None else None)
