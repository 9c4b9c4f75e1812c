"""The line on which filters and commands are typed."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from dcron.errors import UsageError
from dcron.safetext import safe
from dcron.tui.filters import LONGEST
from dcron.tui.forms.entries import Entry

DEBOUNCE = 0.15
"""Seconds without a key before a filter is applied."""


class Prompt(Horizontal):
    """A line to type a filter or a command on. Esc leaves, Enter does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", id="prompt.leave", show=False)
    ]

    def __init__(
        self, sign: str, text: str, *, typed: Callable[[str], None] | None, done: Callable[[str | None], None]
    ) -> None:
        """`typed` is called when the keys rest, `done` with the text at Enter, or with None after Esc."""
        super().__init__()
        self._sign = sign
        self._text = text
        self._typed = typed
        self._done = done
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(self._sign), classes="prompt--sign", markup=False)
        yield Entry(self._text, select_on_focus=False, max_length=LONGEST)
        yield Static(Content(""), classes="prompt--told", markup=False)

    def complain(self, error: UsageError | None) -> None:
        """Say what is wrong with what was typed."""
        self.query_one(".prompt--told", Static).update(Content(f" {safe(str(error), 60)}" if error else ""))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Not at every key: a filter is a question to the database."""
        event.stop()
        if self._typed is None or event.value == self._text:
            return
        self._text = event.value
        if self._pause:
            self._pause.stop()
        self._pause = self.set_timer(DEBOUNCE, self._apply)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it."""
        event.stop()
        if self._pause:
            self._pause.stop()
        self._done(event.value)

    def action_leave(self) -> None:
        if self._pause:
            self._pause.stop()
        self._done(None)

    def _apply(self) -> None:
        assert self._typed
        try:
            self._typed(self._text)
        except UsageError as error:
            self.complain(error)
        else:
            self.complain(None)
