"""The questions that writing asks: a choice below a text to read, and a few lines to fill in."""

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
from dcron.safetext import safe, safe_lines
from dcron.tui.forms.entries import LONGEST, Entry
from dcron.tui.keynames import key_of, told_keys
from dcron.tui.modals import Dialog


class ChoiceDialog(NamedTuple):
    """A key, and what the dialog answers to it."""

    key: str
    word: str
    told: str = ""
    """What it does; nothing for another key to the same."""


class Decide(Dialog[str | None]):
    """Something to read, and what can be done about it; Esc does nothing."""

    DEFAULT_CSS = """
    Decide .dialog { width: 90%; max-width: 100; overflow: hidden; }
    Decide .read { height: auto; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "scroll(1)", "down", id="decide.down", show=False),
        Binding("up", "scroll(-1)", "up", id="decide.up", show=False),
        Binding("pagedown,ctrl+d", "scroll(8)", "page down", id="decide.page_down", show=False),
        Binding("pageup,ctrl+u", "scroll(-8)", "page up", id="decide.page_up", show=False),
    ]

    def __init__(self, heading: str, text: Content, choices: Sequence[ChoiceDialog], leave: str) -> None:
        """`leave` says what Esc comes to."""
        super().__init__()
        self._heading = heading
        self._text = text
        self._choices = choices
        self._leave = leave

    def compose(self) -> ComposeResult:
        keys = "  ".join(f"{each.key} {each.told}" for each in self._choices if each.told)
        with Vertical(classes="dialog decides"):
            yield Static(Content.styled(safe_lines(self._heading), "bold"), markup=False)
            with Vertical(classes="read"):
                yield Static(self._text, markup=False)
            keys += f"  {key_of(self, 'dialog.leave')} {self._leave}"
            yield Static(Content.styled(keys, "bold"), markup=False)

    def on_resize(self, event: events.Resize) -> None:
        """What can be done stays in sight."""
        self.query_one(".read").styles.max_height = max(1, event.size.height - 7)

    def on_key(self, event: events.Key) -> None:
        """One of the keys, by its name or its sign."""
        for each in self._choices:
            if event.key == each.key.lower() or event.character == each.key:
                event.stop()
                self.dismiss(each.word)
                return

    def action_scroll(self, by: int) -> None:
        self.query_one(".read").scroll_relative(y=by, animate=False)


@dataclass(frozen=True)
class Question:
    """A line to fill in."""

    label: str
    hint: str
    check: Callable[[str], object]
    """Raises UsageError for a text that will not do."""


class Fill(Dialog[list[str] | None]):
    """A few lines to fill in; Enter answers with all of them, Esc with None."""

    DEFAULT_CSS = "Fill .wrong { color: $text-error; height: auto; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", "next", id="fill.next", show=False),
        Binding("up", "app.focus_previous", "previous", id="fill.previous", show=False),
    ]
    UNREAD = None

    def __init__(self, heading: str, questions: Sequence[Question]) -> None:
        super().__init__()
        self._heading = heading
        self._questions = questions

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe_lines(self._heading), "bold"), markup=False)
            for question in self._questions:
                yield Static(Content(f"{question.label}:"), markup=False)
                yield Entry(placeholder=question.hint, max_length=LONGEST)
            yield Static("", classes="wrong", markup=False)
            keys = told_keys(self, "Enter does it  Tab next line  {dialog.leave} leaves")
            yield Static(Content.styled(keys, "dim"), markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Those are the answers, if they will do."""
        event.stop()
        entries = list(self.query(Entry))
        for question, entry in zip(self._questions, entries, strict=True):
            try:
                question.check(entry.value)
            except UsageError as error:
                self._complain(f"{question.label}: {error}")
                entry.focus()
                return
        self.dismiss([entry.value for entry in entries])

    def on_entry_refused(self, event: Entry.Refused) -> None:
        """A text that long would hold up the screen."""
        event.stop()
        self._complain(f"{event.length:,} characters are too many for a line; @FILE reads a file")

    def _complain(self, text: str) -> None:
        self.query_one(".wrong", Static).update(Content(safe(text)))
