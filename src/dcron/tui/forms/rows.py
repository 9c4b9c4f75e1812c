"""A row of a form: one field with its input and its error."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from dcron.fields import Field
from dcron.tui.dialogs.choice_entry import ChoiceEntry
from dcron.tui.forms.fields import choices, placeholder
from dcron.tui.host import Hosted
from dcron.tui.questions.entry import LONGEST, Entry
from dcron.values.safe_text import safe_characters, safe_lines


class Row(Widget):
    """A field of a form: its name, its input, and its error below."""

    DEFAULT_CSS = """
    Row { height: auto; layout: vertical; padding: 0 1 0 3; color: $foreground-muted; }
    Row:focus-within { color: $text-primary; text-style: bold; }
    Row > Entry, Row > ChoiceEntry { margin-left: 17; }
    Row > .wrong { height: auto; color: $text-error; padding-left: 2; }
    """

    class Changed(Message):
        """Posted when something was typed."""

        def __init__(self, row: "Row") -> None:
            """Into this row."""
            super().__init__()
            self.row = row

    def __init__(self, field: Field, text: str) -> None:
        super().__init__(id=f"field-{field.name}")
        self.field = field
        self._locked = text if len(text) > LONGEST else None
        """A text that is too long for a line; it cannot be changed here."""
        self._entry = (
            ChoiceEntry(choices(field), text)
            if choices(field)
            else Entry(
                "" if self._locked else text,
                placeholder=self._placeholder(),
                disabled=self._locked is not None,
                select_on_focus=False,
            )
        )
        self.error = ""
        """The error that is shown."""
        self._refusal = ""
        """Why a pasted text was refused; shown until the text changes, unless the text is wrong."""

    def compose(self) -> ComposeResult:
        yield self._entry

    def render(self) -> Content:
        """Return the name, which is drawn at the left of the input."""
        return Content(self.field.title)

    @property
    def is_default(self) -> bool:
        """Whether the field has its default."""
        return self.text == next(iter(choices(self.field)), "")

    @property
    def text(self) -> str:
        """The text of the field."""
        return self._entry.value if self._locked is None else self._locked

    def set_text(self, text: str) -> None:
        """Replace the text of the field."""
        if isinstance(self._entry, ChoiceEntry):
            self._entry.set(text)
        elif self._locked is None and len(text) <= LONGEST:
            self._entry.value = text
        else:
            self._locked = text

    def show_placeholder(self, text: str) -> None:
        """Show what an empty field means."""
        if isinstance(self._entry, Entry):
            self._entry.placeholder = safe_characters(text)

    def show_error(self, text: str) -> None:
        """Show an error; an empty text removes it."""
        text = text or self._refusal
        if text == self.error:
            return
        self.error = text
        self.query(".wrong").remove()
        if text:
            self.mount(Static(Content(safe_lines(text)), classes="wrong", markup=False))

    def on_resize(self) -> None:
        """Keep the row in sight when its error has come or gone."""
        if self.has_focus_within:
            self.scroll_visible(animate=False)

    def take_focus(self) -> None:
        """Take the keys; its group is unfolded."""
        self.screen.query_one(f"#group-{self.field.group}", GroupHeading).fold(False)
        self.screen.set_focus(self._entry)  # at once: the next key may be here already

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post it as a change of the row."""
        event.stop()
        self._refusal = ""
        self.post_message(self.Changed(self))

    def on_choice_entry_changed(self, event: "ChoiceEntry.Changed") -> None:
        """Post it as a change of the row."""
        event.stop()
        self.post_message(self.Changed(self))

    def on_entry_refused(self, event: Entry.Refused) -> None:
        """Show that the pasted text is too long."""
        event.stop()
        self._refusal = (
            f"the pasted text has {event.length:,} characters, more than the {LONGEST:,} of a line here;"
            " leave the form and press E to edit the task as text"
        )
        self.show_error(self._refusal)

    def _placeholder(self) -> str:
        if self._locked is not None:
            return f"a text of {len(self._locked):,} characters: E changes it"
        return placeholder(self.field)


class GroupHeading(Widget, Hosted, can_focus=True):
    """The name of a group of rows, which it folds and unfolds."""

    DEFAULT_CSS = """
    GroupHeading { height: 1; padding: 0 1; color: $text-primary; text-style: bold; }
    GroupHeading:focus { background: $row-cursor; }
    GroupHeading:ansi:focus { text-style: bold reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "fold or unfold", id="group.fold", show=False),
        Binding("right", "unfold", "unfold", id="group.unfold", show=False),
        Binding("left", "fold(True)", "fold", id="group.close", show=False),
    ]

    def __init__(self, group: str, rows: Sequence[Row], *, is_open: bool) -> None:
        super().__init__(id=f"group-{group}")
        self.group = group
        self._rows = rows
        self._is_open = is_open
        self._show_rows()

    def fold(self, is_folded: bool) -> None:
        """Fold or unfold the group."""
        self._is_open = not is_folded
        self._show_rows()
        self.refresh()

    def _show_rows(self) -> None:
        for row in self._rows:
            row.display = self._is_open

    def action_fold(self, is_folded: bool | None = None) -> None:
        self.fold(self._is_open if is_folded is None else is_folded)

    def action_unfold(self) -> None:
        self.fold(False)

    def on_click(self) -> None:
        """Fold or unfold the group."""
        self.action_fold()

    def render(self) -> Content:
        """Return its sign, its name and, if it is folded, how many of its fields are set."""
        opened, folded = ("▾", "▸") if self.host.settings.unicode else ("-", "+")
        if self._is_open:
            return Content(f"{opened} {self.group}")
        given = sum(not row.is_default for row in self._rows)
        note = f"  {given} of {len(self._rows)} set" if given else f"  {len(self._rows)} fields, all default"
        return Content.assemble(f"{folded} {self.group}", (note, "not bold $foreground-muted"))


def group_of(widget: Widget | None) -> str:
    """Return the group of the row, or of the heading, that contains the widget; empty for none."""
    for each in widget.ancestors_with_self if widget else ():
        if isinstance(each, GroupHeading):
            return each.group
        if isinstance(each, Row):
            return each.field.group
    return ""


def row_of(widget: Widget | None) -> Row | None:
    """Return the row that contains the widget."""
    around = widget.ancestors_with_self if widget else ()
    return next((each for each in around if isinstance(each, Row)), None)
