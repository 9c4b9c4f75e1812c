"""A line of text that is drawn inert."""

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Input

from dcron.values.safe_text import safe, safe_characters

LONGEST = 4096
"""Most characters of a typed line; a longer text belongs into a file or an editor."""


class Entry(Input):
    """A line of text. It may hold foreign text, so each character is drawn inert."""

    DEFAULT_CSS = """
    Entry, Entry:focus { height: 1; border: none; padding: 0; background: $panel; }
    Entry:focus { background: $row-cursor; }
    Entry:ansi { text-style: underline; }
    """

    cuts = False
    """Whether a pasted text is made inert, and cut off after `max_length` instead of refused."""

    class Refused(Message):
        """Posted when a pasted text is too long."""

        def __init__(self, entry: "Entry", length: int) -> None:
            """Of `length` characters."""
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
        if self.cuts and self.max_length:
            text = safe(text)[: self.max_length - len(self.value)]
        if len(self.value) + len(text) > LONGEST:
            self.post_message(self.Refused(self, len(text)))
        elif self.selection.is_empty:
            self.insert_text_at_cursor(text)
        else:
            self.replace(text, *self.selection)
