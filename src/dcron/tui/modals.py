"""Dialogs. What they say is foreign text in part, so it is `Content` of inert text and never markup."""

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

from dcron.safetext import safe_lines
from dcron.tui.forms.entries import LONGEST, Entry
from dcron.tui.keynames import key_of, told_keys

PATIENCE = 0.3
"""Seconds in which a new question hears no consent: the key was typed before the question was read."""

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """A box over the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", id="dialog.leave")]
    UNREAD: ClassVar[Collection[str] | None] = ()
    """The actions that count even before the dialog can have been read; None for all keys."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = time.monotonic()

    def on_mount(self) -> None:
        """From now on it can be seen, and nothing lies over it."""
        self._opened = time.monotonic()
        self.app.clear_notifications()

    def holds(self, event: events.Event) -> bool:
        """A dialog waits for nothing."""
        return False

    def hears(self, event: events.Event) -> bool:
        """What was typed before the dialog was seen was meant for something else, unless it is harmless."""
        if self.UNREAD is None or not isinstance(event, events.Key | events.Paste):
            return True
        if event.time - self._opened >= PATIENCE:
            return True
        bound = self.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        return bound is not None and bound.binding.action in self.UNREAD

    def action_leave(self) -> None:
        self.dismiss(None)


class Confirm(Dialog[bool]):
    """A question that silence answers with No."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes", id="confirm.yes"),
        Binding("n,q", "no", "no", id="confirm.no"),
        Binding("tab,left,right,h,l", "other", "the other answer", id="confirm.other", show=False),
        Binding("enter", "answer", "the marked answer", id="confirm.answer", show=False),
    ]
    UNREAD = ("no", "leave", "answer")  # the marked answer is No as long as nothing else was heard

    def __init__(self, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = question
        self._details = details
        self._yes = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -asks"):
            yield Static(Content.styled(safe_lines(self._question), "bold"), markup=False)
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
        yes, no = ("bold reverse", "") if self._yes else ("", "bold reverse")
        no_key, yes_key = key_of(self, "confirm.no"), key_of(self, "confirm.yes")
        return Content.assemble((f" {no_key}  No ", no), "   ", (f" {yes_key}  Yes ", yes))


class Ask(Dialog[str | None]):
    """A question with a line to answer it on; Esc is no answer."""

    UNREAD = ("leave",)

    def __init__(self, question: str, text: str = "", *, hint: str = "", must_be: str | None = None) -> None:
        """With `must_be`, Enter does nothing until exactly that was typed."""
        super().__init__()
        self._question = question
        self._text = text
        self._hint = hint
        self._must_be = must_be

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe_lines(self._question), "bold"), markup=False)
            yield Entry(self._text, max_length=LONGEST)
            hint = f"{self._hint or 'Enter does it'}  {key_of(self, 'dialog.leave')} leaves"
            yield Static(Content.styled(safe_lines(hint), "dim"), markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """That is the answer."""
        event.stop()
        if self._must_be is None or event.value == self._must_be:
            self.dismiss(event.value)


class Choose(Dialog[str | None]):
    """A few words to choose from, by key or by their first free letter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j,tab", "move(1)", "down", id="choose.down", show=False),
        Binding("up,k,shift+tab", "move(-1)", "up", id="choose.up", show=False),
        Binding("enter", "answer", "choose", id="choose.answer", show=False),
    ]
    UNREAD = None

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices
        self._at = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe_lines(self._question), "bold"), markup=False)
            yield Static(self._list(), classes="list", markup=False)

    def action_move(self, by: int) -> None:
        self._at = (self._at + by) % len(self._choices)
        self.query_one(".list", Static).update(self._list())

    def action_answer(self) -> None:
        self.dismiss(self._choices[self._at])

    def on_key(self, event: events.Key) -> None:
        """A digit chooses at once."""
        if event.character and event.character.isdigit() and 0 < int(event.character) <= len(self._choices):
            event.stop()
            self.dismiss(self._choices[int(event.character) - 1])

    def _list(self) -> Content:
        lines = [
            (f" {number} {safe_lines(choice)} \n", "bold reverse" if number - 1 == self._at else "")
            for number, choice in enumerate(self._choices, 1)
        ]
        return Content.assemble(*lines)


class NoticeDialog(Dialog[None]):
    """Something to read, that may go on with the clock; any of the leaving keys leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,q,question_mark", "leave", "leave", id="notice.leave", show=False),
        Binding("down,j", "scroll(1)", "down", id="notice.down", show=False),
        Binding("up,k", "scroll(-1)", "up", id="notice.up", show=False),
        Binding("pagedown,ctrl+d", "scroll(10)", "page down", id="notice.page_down", show=False),
        Binding("pageup,ctrl+u", "scroll(-10)", "page up", id="notice.page_up", show=False),
    ]
    UNREAD = None

    def __init__(self, heading: str, told: Callable[[], Content]) -> None:
        """`told` is asked every second what there is to read."""
        super().__init__()
        self._heading = heading
        self._told = told
        self._content = told()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe_lines(self._heading), "bold"), markup=False)
            yield Static(self._content, classes="read", markup=False)

    def on_mount(self) -> None:
        """What is read may be of the past soon."""
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        content = self._told()
        if not content.is_same(self._content):
            self._content = content
            self.query_one(".read", Static).update(content)

    def action_scroll(self, by: int) -> None:
        self.query_one(".dialog").scroll_relative(y=by, animate=False)


class Conflicted(Dialog[bool]):
    """Somebody else was first: what they did, and what was wanted here; neither is lost."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "do it all the same", id="conflict.again"),
        Binding("enter,q", "leave", "leave it", id="conflict.leave", show=False),
    ]

    def __init__(self, theirs: str, changed: Content, mine: str) -> None:
        """Who did what and when, what that changed, and the command line that was wanted."""
        super().__init__()
        self._theirs = theirs
        self._changed = changed
        self._mine = mine

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled("somebody else changed it first", "bold"), markup=False)
            yield Static(Content(safe_lines(self._theirs)), markup=False)
            yield Static(self._changed, markup=False)
            yield Static(
                Content.assemble(("\nyours, not done: ", "bold"), safe_lines(self._mine)), markup=False
            )
            keys = "\n{conflict.again}  do it to the task as it is now   {dialog.leave}  leave it"
            yield Static(Content.styled(told_keys(self, keys), "dim"), markup=False)

    def action_again(self) -> None:
        self.dismiss(True)

    def action_leave(self) -> None:
        self.dismiss(False)
