"""Acts on alerts."""

import shlex
from collections.abc import Sequence

from dcron.model import Alert
from dcron.presentation import alerts as words
from dcron.presentation.humanize import plural
from dcron.services.alerts import Alerts
from dcron.tui.actions.subjects import subject
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act


def acknowledge(host: Host, found: Sequence[Alert]) -> None:
    """Acknowledge alerts: they cause no more reminders. Asks for a reason, which may be empty."""
    if not host.may_act(found):
        return
    which = subject([f"{words.name(each)}: {words.word(each.kind)}" for each in found], "alert")
    host.ask_for(
        f"acknowledge {which}?",
        lambda note: host.act([_acknowledge(found, note.strip() or None)]),
        hint="type what others should know, or nothing; Enter acknowledges",
    )


def _acknowledge(found: Sequence[Alert], note: str | None) -> Act:
    numbers = " ".join(str(alert.id) for alert in found)
    return Act(
        f"acknowledge {plural(len(found), 'alert')}",
        f"dcron ack {numbers}" + (f" -m {shlex.quote(note)}" if note else ""),
        lambda crontab: Alerts(crontab).acknowledge(found, note),
        lambda acknowledged: f"acknowledged {plural(len(acknowledged), 'alert')}",
        needs_consent=False,
    )
