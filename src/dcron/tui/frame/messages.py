"""Messages and questions: an app that reports to the person, and asks."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from textual.content import Content

from dcron.errors import DcronError
from dcron.tui.keys.input_queue import OrderedApp, Result
from dcron.tui.keys.keynames import key_of
from dcron.tui.look.settings import TuiSettings
from dcron.tui.reads.health import Health
from dcron.values.safe_text import safe, safe_lines

ERROR_SECONDS = 12.0


class MessagingApp(OrderedApp[Result]):
    """An app with toasts and dialogs."""

    settings: TuiSettings
    health: Health
    _has_agreed = False
    """Whether the answer to `confirm` in a protected context is being acted on."""

    def report(self, text: str, *, error: bool = False) -> None:
        """Show a text for some seconds. It is made inert here."""
        self.notify(
            safe_lines(text),
            severity="error" if error else "information",
            timeout=ERROR_SECONDS if error else 5.0,
            markup=False,
        )

    def copy(self, text: str) -> None:
        """Put a text, made inert, into the clipboard of the terminal."""
        self.copy_to_clipboard(safe_lines(text))
        self.report(f"copied {text}")

    def report_error(self, error: DcronError) -> None:
        """Show an error for some seconds."""
        self.report(str(error), error=True)

    def reports_lost(self) -> bool:
        """Return whether the database is lost, and report it: nothing is kept for later."""
        error = self.health.error
        if error:
            text = f"nothing was done: {error}"
            if not self._shows(text):
                self.report(text, error=True)
        return error is not None

    def _shows(self, text: str) -> bool:
        """Return whether a message with this text is on the screen still."""
        return any(each.message == safe_lines(text) for each in self._notifications)

    def confirm(
        self,
        question: str,
        details: Sequence[str],
        go: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask a question whose default answer is No. In a protected context, its name must be typed."""
        from dcron.tui.dialogs.modals import Ask, Confirm

        lines = [*details, f"on {self.settings.address}"]
        if not self.settings.is_protected:
            self.push_screen(Confirm(f"{question}?", lines), lambda yes: go() if yes else leave())
            return
        name = self.settings.context

        def answered(text: str | None) -> None:
            self._has_agreed = text == name
            try:
                (go if self._has_agreed else leave)()
            finally:
                self._has_agreed = False

        asked = "\n".join([f"{question} in {name}?", *lines])
        self.push_screen(Ask(asked, hint=f"type {name} and Enter to do it", must_be=name), answered)

    def ask_if_protected(self, question: str, go: Callable[[], None]) -> None:
        """Go on, in a protected context only after its name was typed, for this or for `confirm`."""
        if self._has_agreed or not self.settings.is_protected:
            go()
        else:
            self.confirm(question, [], go)

    def ask_for(
        self,
        question: str,
        take: Callable[[str], None],
        *,
        hint: str = "",
        must_be: str | None = None,
        text: str = "",
    ) -> None:
        """Ask for a text, at first `text`, and go on with it. With `must_be`, Enter takes nothing else.

        In a protected context, its name must be typed after such a text.
        """
        from dcron.tui.dialogs.modals import Ask

        def answered(text: str | None) -> None:
            if text is None:
                return
            if must_be is None or not self.settings.is_protected:
                take(text)
            else:
                self.confirm(question.splitlines()[0].rstrip("?"), [], lambda: take(text))

        self.push_screen(Ask(question, text, hint=hint, must_be=must_be), answered)

    def choose(self, question: str, choices: Sequence[str], done: Callable[[str], None]) -> None:
        """Let one of a few words be chosen."""
        from dcron.tui.dialogs.modals import Choose

        self.push_screen(Choose(question, choices), lambda chosen: done(chosen) if chosen else None)

    def action_help_quit(self) -> None:
        """Report the key that quits: ctrl+c quits other programs."""
        self.report(f"{key_of(self, 'app.quit')} quits")

    def action_help(self) -> None:
        """Show the keys."""
        from dcron.tui.dialogs.modals import HelpDialog
        from dcron.tui.frame.help import help_content

        keys = help_content(cast("Any", self.screen), HelpDialog.room(self.size.width))
        self.push_screen(HelpDialog("keys", lambda: keys))

    def action_error(self) -> None:
        """Show the error of the database."""
        from dcron.tui.dialogs.modals import NoticeDialog

        self.push_screen(
            NoticeDialog(
                "the database", lambda: Content(safe(str(self.health.error or "the database answers")))
            )
        )
