"""The line in which a search or a filter is typed."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from dcron.safetext import safe

LONGEST = 200


class LogPrompt(Input):
    """Begins with a sign that says what it is for; gone when it is not in use."""

    DEFAULT_CSS = """
    LogPrompt { border: none; height: 1; padding: 0 1; display: none; }
    LogPrompt:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="log.prompt-cancel", show=False),
        Binding("tab,shift+tab", "stay", "Stay", id="log.prompt-stay", show=False),
    ]

    class Entered(Message):
        """A text for the sign; None when the person thought better of it."""

        def __init__(self, sign: str, text: str | None) -> None:
            """As it was typed, inert."""
            super().__init__()
            self.sign = sign
            self.text = text

    def __init__(self) -> None:
        """Out of sight."""
        super().__init__(max_length=LONGEST, select_on_focus=False)
        self._sign = ""

    def ask(self, sign: str, what: str) -> None:
        """Take a text."""
        self._sign = sign
        self.placeholder = f"{sign} {what}"
        self.value = ""
        self.display = True
        self.screen.set_focus(self)  # at once: the next key may be here already

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self._leave(safe(event.value, LONGEST))

    def action_cancel(self) -> None:
        """Escape."""
        self._leave(None)

    def action_stay(self) -> None:
        """Nothing is completed here, and the keys stay."""

    def on_blur(self) -> None:
        """Something else has the keys now: it was clicked."""
        if self.display:
            self._leave(None)

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted may be of a log."""
        event.prevent_default().stop()
        room = LONGEST - len(self.value)  # what is too long would ring the bell letter by letter
        self.insert_text_at_cursor(safe(event.text)[:room])

    def _leave(self, text: str | None) -> None:
        self.display = False
        self.post_message(self.Entered(self._sign, text))
