"""The prompt: the line for filters and commands."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from dcron.errors import UsageError
from dcron.tui.keys.completion import Completion, completed
from dcron.tui.questions.entry import Entry
from dcron.values.safe_text import safe

LONGEST = 200
"""Most characters of a filter or a command."""
DEBOUNCE = 0.15
"""Seconds without a key before a filter is applied."""
NOTE_CELLS = 200
Complete = Callable[[str, Callable[[Completion], None]], None]
"""Find what may follow a text, and hand it on, now or later."""


class Prompt(Horizontal):
    """A line for a filter or a command. Enter takes it, Esc leaves, Tab completes.

    It is always mounted, and hidden while it is closed. It closes when it loses the focus.
    """

    DEFAULT_CSS = """
    Prompt { display: none; height: 1; layout: horizontal; background: $surface; }
    Prompt Input { border: none; height: 1; padding: 0; width: 1fr; background: $surface; }
    Prompt Input:focus { border: none; }
    Prompt .prompt--sign { width: auto; }
    Prompt .prompt--note { width: auto; max-width: 70%; color: $foreground-muted; }
    Prompt .prompt--note.-wrong { color: $text-error; text-style: bold; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", id="prompt.leave", show=False),
        Binding("up", "recall(-1)", "the command before", id="prompt.before", show=False),
        Binding("down", "recall(1)", "the command after", id="prompt.after", show=False),
        Binding("ctrl+r", "search", "search what was typed", id="prompt.search", show=False),
        Binding("tab,shift+tab", "complete", "complete", id="prompt.complete", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        self.is_completing = False
        """Whether Tab waits for names; the keys after it wait, too."""
        self._applied = ""
        self._completed = ""
        """The text after Tab; the note behind it is about this text."""
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str | None], None] = _nothing
        self._complete: Complete | None = None
        self._pause: Timer | None = None
        self._history: Sequence[str] = ()
        """Texts that were typed before, the newest last."""
        self._recalled = 0
        """The position of the shown text in the history; its length for a new text."""
        self._new_text = ""
        """The text that was typed before an older one was recalled."""

    def compose(self) -> ComposeResult:
        yield Static("", classes="prompt--sign", markup=False)
        yield Entry(select_on_focus=False, max_length=LONGEST)
        yield Static("", classes="prompt--note", markup=False)

    @property
    def entry(self) -> Entry:
        """The input."""
        return self.query_one(Entry)

    def open(
        self,
        sign: str,
        text: str,
        *,
        done: Callable[[str | None], None],
        typed: Callable[[str], None] | None = None,
        what: str = "",
        complete: Complete | None = None,
        history: Sequence[str] = (),
    ) -> None:
        """Take the focus. Call `typed` when the keys rest, and `done` with the text, or with None after Esc.

        An empty line shows `what` is asked for; then a pasted text that is too long is cut off.
        If one of them raises UsageError, the prompt stays open and shows it. When the prompt loses the focus,
        a filter stays applied and a command is not run.
        """
        self._stop_timer()
        self._typed, self._done, self._complete = typed, done, complete
        self.entry.placeholder, self.entry.cuts = what, bool(what)
        self._history, self._recalled, self._new_text = history, len(history), text
        self._applied = text
        self.is_open, self.is_completing = True, False
        self.display = True
        self.screen.add_class("-prompting")
        self.query_one(".prompt--sign", Static).update(Content(sign))
        self.show_note("")
        with self.prevent(Input.Changed):
            self.entry.value = text
        self.entry.cursor_position = len(text)
        self.screen.set_focus(self.entry)  # at once: the next key may have arrived already

    def close(self) -> None:
        """Hide the prompt."""
        self._stop_timer()
        self.is_open = self.is_completing = self.display = False
        self.screen.remove_class("-prompting")

    def show_note(self, text: str, *, is_wrong: bool = False) -> None:
        """Show a text behind the input."""
        note = self.query_one(".prompt--note", Static)
        note.set_class(is_wrong, "-wrong")
        content = Content(f" {safe(text, NOTE_CELLS)}" if text else "")
        if note.content != content:
            note.update(content)

    # Typing -----------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter when the keys rest: each filter is a query."""
        event.stop()
        if event.value != self._completed:
            self.show_note("")
        if not self.is_open or self._typed is None or event.value == self._applied:
            return
        self._stop_timer()
        self._pause = self.set_timer(DEBOUNCE, self._apply)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text."""
        event.stop()
        self._stop_timer()
        self._try(lambda: self._done(event.value))

    def action_leave(self) -> None:
        self._stop_timer()
        self._done(None)

    def action_recall(self, by: int) -> None:
        """Show a text that was typed before and begins as the new one does."""
        self._recall(by, lambda text: text.startswith(self._new_text))

    def action_search(self) -> None:
        """Show the text before that contains what was typed."""
        self._recall(-1, lambda text: self._new_text in text)

    def _recall(self, by: int, matches: Callable[[str], bool]) -> None:
        """Show the next text that matches, in this direction of the history."""
        if self._recalled == len(self._history):
            self._new_text = self.entry.value
        position = self._recalled + by
        while 0 <= position < len(self._history) and not matches(self._history[position]):
            position += by
        if not 0 <= position <= len(self._history):
            return
        self._recalled = position
        texts = (*self._history, self._new_text)
        self.entry.value = texts[position]
        self.entry.cursor_position = len(texts[position])

    def action_complete(self) -> None:
        """Add the common part of all choices, and list them."""
        if self._complete is None or self.is_completing:
            return
        self.is_completing = True
        self._complete(self.entry.value[: self.entry.cursor_position], self._show_completion)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Close: another widget was clicked."""
        if self.is_open and not self.has_focus_within:
            if self._pause:
                self._apply()
            self.close()
            self.post_message(self.Left())

    class Left(Message):
        """Posted after the prompt has lost the focus."""

    def _show_completion(self, found: Completion) -> None:
        if not (self.is_open and self.is_completing):
            return
        self.is_completing = False
        entry, typed = self.entry, self.entry.value[: self.entry.cursor_position]
        text = completed(typed, found)
        entry.value = self._completed = text + entry.value[len(typed) :]
        entry.cursor_position = len(text)
        self.show_note(_listed(found.choices) if len(found.choices) != 1 else "")

    def _stop_timer(self) -> None:
        if self._pause:
            self._pause.stop()
            self._pause = None

    def _apply(self) -> None:
        self._stop_timer()
        if self._typed:
            typed, self._applied = self._typed, self.entry.value
            self._try(lambda: typed(self._applied))

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except UsageError as error:
            self.show_note(str(error), is_wrong=True)


def _listed(choices: Sequence[str]) -> str:
    return "  ".join(choices) if choices else "no completion"


def _nothing(_: str | None) -> None:
    return
