"""Questions: an app with dialogs."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from textual.content import Content

from dcron.tui.host import Host
from dcron.tui.keys.keynames import key_of
from dcron.values.safe_text import safe


class MessagingApp(Host):
    """An app with dialogs."""

    _has_agreed = False
    """Whether the answer to `confirm` in a protected context is being acted on."""

    def confirm(
        self,
        question: str,
        details: Sequence[str],
        go: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
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
        from dcron.tui.dialogs.modals import Choose

        self.push_screen(Choose(question, choices), lambda chosen: done(chosen) if chosen else None)

    def action_help_quit(self) -> None:
        """Report the key that quits: ctrl+c quits other programs."""
        self.report(f"{key_of(self, 'app.quit')} quits")

    def action_help(self) -> None:
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
