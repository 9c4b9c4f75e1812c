"""The prompt of the log viewer."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from dcron.safetext import safe

LONGEST = 200


class LogPrompt(Input):
    """A line for a search or a filter. It is always mounted, and hidden while it is not used."""

    DEFAULT_CSS = """
    LogPrompt { border: none; height: 1; padding: 0 1; display: none; }
    LogPrompt:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="log.prompt-cancel", show=False),
        Binding("tab,shift+tab", "stay", "Stay", id="log.prompt-stay", show=False),
    ]

    class Entered(Message):
        """Posted when the prompt closes, with the sign and the text, or None after Esc."""

        def __init__(self, sign: str, text: str | None) -> None:
            """The text is inert."""
            super().__init__()
            self.sign = sign
            self.text = text

    def __init__(self) -> None:
        """The prompt is hidden at first."""
        super().__init__(max_length=LONGEST, select_on_focus=False)
        self._sign = ""

    def ask(self, sign: str, what: str, text: str = "") -> None:
        """Show the prompt with this text, and take the focus."""
        self._sign = sign
        self.placeholder = f"{sign} {what}"
        self.value = text
        self.cursor_position = len(text)
        self.display = True
        self.screen.add_class("-prompting")
        self.screen.set_focus(self)  # at once: the next key may have arrived already

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text."""
        event.stop()
        self._leave(safe(event.value, LONGEST))

    def action_cancel(self) -> None:
        """Close without a text."""
        self._leave(None)

    def action_stay(self) -> None:
        """Keep the focus: nothing is completed here."""

    def on_blur(self) -> None:
        """Close: another widget was clicked."""
        if self.display:
            self._leave(None)

    def on_paste(self, event: events.Paste) -> None:
        """Make a pasted text inert: it may come from a log."""
        event.prevent_default().stop()
        room = LONGEST - len(self.value)  # each letter too many would ring the bell
        self.insert_text_at_cursor(safe(event.text)[:room])

    def _leave(self, text: str | None) -> None:
        self.display = False
        self.screen.remove_class("-prompting")
        self.post_message(self.Entered(self._sign, text))
