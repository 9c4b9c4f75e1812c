"""Acts on alerts."""

import shlex
from collections.abc import Sequence

from dcron.model import Alert
from dcron.presentation import alerts as words
from dcron.presentation.humanize import plural
from dcron.services.alerts import Alerts
from dcron.services.crontab import Crontab
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act


def acknowledge(host: Host, found: Sequence[Alert]) -> None:
    """Acknowledge alerts: they cause no more reminders. Asks for a reason, which may be empty."""
    if not host.may_act(found):
        return
    subject = f"{words.name(found[0])}: {words.word(found[0].kind)}"
    if len(found) > 1:
        subject = plural(len(found), "alert")

    def typed(note: str | None) -> None:
        if note is not None:
            host.act([_acknowledge(found, note.strip() or None)])

    hint = "type what others should know, or nothing; Enter acknowledges"
    host.ask_for(f"acknowledge {subject}?", typed, hint=hint)


def _acknowledge(found: Sequence[Alert], note: str | None) -> Act:
    def do(crontab: Crontab) -> str:
        acknowledged = Alerts(crontab).acknowledge(found, note)
        return f"acknowledged {plural(len(acknowledged), 'alert')}"

    numbers = " ".join(str(alert.id) for alert in found)
    message = f" -m {shlex.quote(note)}" if note else ""
    title, command = f"acknowledge {plural(len(found), 'alert')}", f"dcron ack {numbers}{message}"
    return Act(title, command, do, needs_consent=False)
