"""The line on which filters and commands are typed."""

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
from dcron.safetext import safe
from dcron.tui.completion import Completion, completed
from dcron.tui.filters import LONGEST
from dcron.tui.forms.entries import Entry

DEBOUNCE = 0.15
"""Seconds without a key before a filter is applied."""
SAID_CELLS = 200
Complete = Callable[[str, Callable[[Completion], None]], None]
"""Finds what may follow a text, and hands it on, at once or later."""


class Prompt(Horizontal):
    """A line to type a filter or a command on. Enter does it, Esc leaves, Tab completes.

    It is closed while nothing is typed on it, and closes when it loses the focus.
    """

    DEFAULT_CSS = "Prompt { display: none; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", id="prompt.leave", show=False),
        Binding("tab,shift+tab", "complete", "complete", id="prompt.complete", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        self.is_completing = False
        """Whether Tab still waits for names; what was typed after it waits too."""
        self._applied = ""
        self._completed = ""
        """What stood there after Tab: what is shown behind it is about that."""
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str | None], None] = _nothing
        self._complete: Complete | None = None
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static("", classes="prompt--sign", markup=False)
        yield Entry(select_on_focus=False, max_length=LONGEST)
        yield Static("", classes="prompt--told", markup=False)

    @property
    def entry(self) -> Entry:
        """What is typed into."""
        return self.query_one(Entry)

    def open(
        self,
        sign: str,
        text: str,
        *,
        typed: Callable[[str], None] | None,
        done: Callable[[str | None], None],
        complete: Complete | None = None,
    ) -> None:
        """Take the keys. `typed` is called when they rest; `done` with the text at Enter, with None at Esc.

        Where either raises UsageError the line stays open and shows it. Losing the focus is neither: what was
        typed of a filter stays applied, and a command is not run.
        """
        self._typed, self._done, self._complete = typed, done, complete
        self._applied = text
        self.is_open, self.is_completing = True, False
        self.display = True
        self.query_one(".prompt--sign", Static).update(Content(sign))
        self.say("")
        with self.prevent(Input.Changed):
            self.entry.value = text
        self.entry.cursor_position = len(text)
        self.screen.set_focus(self.entry)  # at once: the next key may be here already

    def close(self) -> None:
        """Give the line back to the rows."""
        self._rest()
        self.is_open = self.is_completing = self.display = False

    def say(self, text: str, *, is_wrong: bool = False) -> None:
        """Show something behind what is typed."""
        said = self.query_one(".prompt--told", Static)
        said.set_class(is_wrong, "-wrong")
        said.update(Content(f" {safe(text, SAID_CELLS)}" if text else ""))

    # Typing -----------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        """Not at every key: a filter is a question to the database."""
        event.stop()
        if event.value != self._completed:
            self.say("")
        if not self.is_open or self._typed is None or event.value == self._applied:
            return
        self._rest()
        self._pause = self.set_timer(DEBOUNCE, self._apply)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it."""
        event.stop()
        self._rest()
        self._try(lambda: self._done(event.value))

    def action_leave(self) -> None:
        self._rest()
        self._done(None)

    def action_complete(self) -> None:
        """Add what all that may follow have in common, and show what there is."""
        if self._complete is None or self.is_completing:
            return
        self.is_completing = True
        self._complete(self.entry.value[: self.entry.cursor_position], self._show_completion)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Nothing is typed here any more: the keys belong to what was clicked."""
        if self.is_open and not self.has_focus_within:
            if self._pause:
                self._apply()
            self.close()
            self.post_message(self.Left())

    class Left(Message):
        """It has lost the focus."""

    def _show_completion(self, found: Completion) -> None:
        if not (self.is_open and self.is_completing):
            return
        self.is_completing = False
        entry, begun = self.entry, self.entry.value[: self.entry.cursor_position]
        text = completed(begun, found)
        entry.value = self._completed = text + entry.value[len(begun) :]
        entry.cursor_position = len(text)
        self.say(_told(found.choices) if len(found.choices) != 1 else "")

    def _rest(self) -> None:
        if self._pause:
            self._pause.stop()
            self._pause = None

    def _apply(self) -> None:
        self._rest()
        if self._typed:
            typed, self._applied = self._typed, self.entry.value
            self._try(lambda: typed(self._applied))

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except UsageError as error:
            self.say(str(error), is_wrong=True)


def _told(choices: Sequence[str]) -> str:
    return "  ".join(choices) if choices else "nothing begins so"


def _nothing(_: str | None) -> None:
    return
