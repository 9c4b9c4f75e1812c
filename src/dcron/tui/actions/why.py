"""Explain why a task runs, or does not."""

from textual.content import Content

from dcron.services.dashboard import Dashboard
from dcron.tui.dialogs.modals import NoticeDialog
from dcron.tui.host import Host
from dcron.values.safe_text import safe


def explain(host: Host, name: str, when: str = "") -> None:
    """Show the causes of the last, the present and the next run, or of a time or day in the task's zone.

    The sentences have times in the zone of the screen.
    """
    from dcron.services.why import Cause, Why

    here = host.zone

    def causes(board: Dashboard) -> list[Cause]:
        asked = Why(board.crontab, here)
        return asked.explain(name, asked.meant(name, when) if when.strip() else None)

    def show(found: list[Cause]) -> None:
        content = Content("\n\n").join(Content(safe(cause.sentence)) for cause in found)
        host.push_screen(NoticeDialog(f"why {name} {when}".strip(), lambda: content))

    host.fetch(causes, show)
