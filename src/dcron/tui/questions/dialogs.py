"""Dialogs that ask. They show foreign text, so it is `Content` of inert text and never markup."""

import time
from collections.abc import Collection, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dcron.tui.keys.hints import ACTIVE, KEY, hints
from dcron.tui.keys.input_queue import Listener
from dcron.tui.keys.keynames import key_of
from dcron.tui.questions.entry import LONGEST, Entry
from dcron.values.safe_text import safe, safe_lines

PATIENCE = 0.3
"""Seconds in which a new dialog ignores consent: the key was typed before the question was read."""

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer], Listener):
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
