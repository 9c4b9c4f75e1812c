"""What is typed into: lines of text that are drawn inert, and words to choose from."""

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from dcron.safetext import safe_characters, safe_lines
from dcron.tui.forms.fields import FormField, placeholder

LONGEST = 4096
"""Characters of a line that is typed; a longer text is for a file or an editor."""


class Entry(Input):
    """A line of text. What it holds may be foreign, and is drawn inert, sign by sign."""

    DEFAULT_CSS = """
    Entry, Entry:focus { height: 1; border: none; padding: 0; background: $surface; }
    Entry:focus { background: $panel; }
    """

    class Refused(Message):
        """What was pasted is too long."""

        def __init__(self, entry: "Entry", length: int) -> None:
            """Of so many characters."""
            super().__init__()
            self.entry = entry
            self.length = length

    @property
    def _value(self) -> Text:
        return Text(safe_characters(self.value), no_wrap=True, overflow="ignore", end="")

    def _position_to_cell(self, position: int) -> int:
        return cell_len(safe_characters(self.value[:position]))

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = event.text.rstrip("\r\n").replace("\r\n", "\n").replace("\r", "\n")
        if len(self.value) + len(text) > LONGEST:
            self.post_message(self.Refused(self, len(text)))
        elif self.selection.is_empty:
            self.insert_text_at_cursor(text)
        else:
            self.replace(text, *self.selection)


class ChoiceEntry(Widget, can_focus=True):
    """A few words, one of which holds; shown as `[skip] queue replace`."""

    DEFAULT_CSS = "ChoiceEntry { height: 1; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "move(1)", "next choice", id="choice.next", show=False),
        Binding("left", "move(-1)", "previous choice", id="choice.previous", show=False),
    ]

    class Changed(Message):
        """Another word was chosen."""

        def __init__(self, choice: "ChoiceEntry") -> None:
            """By this widget."""
            super().__init__()
            self.choice = choice

    def __init__(self, choices: tuple[str, ...], value: str) -> None:
        """A value that is none of the choices, written by hand, is shown beside them until it is changed."""
        super().__init__()
        self._choices = choices if value in choices else (*choices, value)
        self.value = value

    def set(self, value: str) -> None:
        """Let another word hold."""
        self.value = value
        self.refresh()
        self.post_message(self.Changed(self))

    def action_move(self, by: int) -> None:
        self.set(self._choices[(self._choices.index(self.value) + by) % len(self._choices)])

    def on_key(self, event: events.Key) -> None:
        """A letter chooses the next word that begins with it."""
        letter = event.character
        at = self._choices.index(self.value)
        for word in (*self._choices[at + 1 :], *self._choices[:at]):
            if letter and letter.isalpha() and word.startswith(letter):
                event.stop()
                self.set(word)
                return

    def render(self) -> Content:
        """All of them, the one that holds in brackets."""
        chosen = "bold reverse" if self.has_focus else "bold"
        words = [
            (f"[{safe_characters(word)}]", chosen) if word == self.value else (f" {word} ", "")
            for word in self._choices
        ]
        return Content.assemble(*words)


class Row(Widget):
    """A field: its name, what is typed, and below what is wrong with it."""

    DEFAULT_CSS = """
    Row { height: auto; layout: vertical; padding: 0 1; }
    Row > Entry, Row > ChoiceEntry { margin-left: 17; }
    Row > .wrong { height: auto; color: $text-error; padding-left: 2; }
    """

    class Changed(Message):
        """Something was typed."""

        def __init__(self, row: "Row") -> None:
            """Into this field."""
            super().__init__()
            self.row = row

    def __init__(self, field: FormField, text: str) -> None:
        super().__init__(id=f"field-{field.name}")
        self.field = field
        self._locked = text if len(text) > LONGEST else None
        """A text that is too long to be typed stays as it is."""
        self._entry = (
            ChoiceEntry(field.choices, text)
            if field.choices
            else Entry(
                "" if self._locked else text,
                placeholder=self._said_of_nothing(),
                disabled=self._locked is not None,
                select_on_focus=False,
            )
        )
        self.error = ""
        """What is said to be wrong with it."""

    def compose(self) -> ComposeResult:
        yield self._entry

    def render(self) -> Content:
        """The name, at the left of what is typed."""
        return Content(self.field.title)

    @property
    def text(self) -> str:
        """What stands there."""
        return self._entry.value if self._locked is None else self._locked

    def set_text(self, text: str) -> None:
        """Let something else stand there."""
        if isinstance(self._entry, ChoiceEntry):
            self._entry.set(text)
        elif self._locked is None and len(text) <= LONGEST:
            self._entry.value = text
        else:
            self._locked = text

    def show_placeholder(self, text: str) -> None:
        """Say what nothing stands for."""
        if isinstance(self._entry, Entry):
            self._entry.placeholder = safe_characters(text)

    def show_error(self, text: str) -> None:
        """Say what is wrong; nothing for nothing."""
        if text == self.error:
            return
        self.error = text
        self.query(".wrong").remove()
        if text:
            self.mount(Static(Content(safe_lines(text)), classes="wrong", markup=False))

    def on_resize(self) -> None:
        """What is wrong has come or gone: it is read where it is typed."""
        if self.has_focus_within:
            self.scroll_visible(animate=False)

    def take_focus(self) -> None:
        """Be typed into."""
        self.screen.set_focus(self._entry)  # at once: the next key may be here already

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell of it as of any other change."""
        event.stop()
        self.post_message(self.Changed(self))

    def on_choice_entry_changed(self, event: "ChoiceEntry.Changed") -> None:
        """The same."""
        event.stop()
        self.post_message(self.Changed(self))

    def on_entry_refused(self, event: Entry.Refused) -> None:
        """A text that long would hold up the screen."""
        event.stop()
        self.show_error(
            f"what was pasted has {event.length:,} characters, and a line here takes {LONGEST:,};"
            " leave the form, and E takes it as text"
        )

    def _said_of_nothing(self) -> str:
        if self._locked is not None:
            return f"a text of {len(self._locked):,} characters: E changes it"
        return placeholder(self.field)


def row_of(widget: Widget | None) -> Row | None:
    """The row that the widget belongs to."""
    around = widget.ancestors_with_self if widget else ()
    return next((each for each in around if isinstance(each, Row)), None)
