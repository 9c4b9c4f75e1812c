"""A choice of words in a line."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from dcron.tui.host import Hosted
from dcron.values.safe_text import safe_characters


class ChoiceEntry(Widget, Hosted, can_focus=True):
    """A choice of one of a few words, drawn as `[skip] queue replace`, or with `●` and `○`."""

    DEFAULT_CSS = "ChoiceEntry { height: 1; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "move(1)", "next choice", id="choice.next", show=False),
        Binding("left", "move(-1)", "previous choice", id="choice.previous", show=False),
    ]

    class Changed(Message):
        """Posted when another word was chosen."""

        def __init__(self, choice: "ChoiceEntry") -> None:
            """In this widget."""
            super().__init__()
            self.choice = choice

    def __init__(self, choices: tuple[str, ...], value: str) -> None:
        """Add `value` to the choices if it is none of them: it may have been written by hand."""
        super().__init__()
        self._choices = choices if value in choices else (*choices, value)
        self.value = value

    def set(self, value: str) -> None:
        """Choose a word."""
        self.value = value
        self.refresh()
        self.post_message(self.Changed(self))

    def action_move(self, by: int) -> None:
        self.set(self._choices[(self._choices.index(self.value) + by) % len(self._choices)])

    def on_key(self, event: events.Key) -> None:
        """Choose the next word that begins with the typed letter."""
        letter = event.character
        at = self._choices.index(self.value)
        for word in (*self._choices[at + 1 :], *self._choices[:at]):
            if letter and letter.isalpha() and word.startswith(letter):
                event.stop()
                self.set(word)
                return

    def render(self) -> Content:
        """Return all words, the chosen one in brackets or with a full circle."""
        has_unicode = self.host.settings.unicode
        chosen_form, form = ("● {}  ", "○ {}  ") if has_unicode else ("[{}]", " {} ")
        chosen = "bold reverse" if self.has_focus else "bold $text-primary"
        words = [
            (chosen_form.format(safe_characters(word)), chosen)
            if word == self.value
            else (form.format(word), "$foreground-muted")
            for word in self._choices
        ]
        return Content.assemble(*words)

    def on_click(self, event: events.Click) -> None:
        """Choose the next word."""
        self.action_move(1)
