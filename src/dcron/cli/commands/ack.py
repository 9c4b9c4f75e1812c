"""`ack`: acknowledge alerts."""

from datetime import timedelta
from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, argument, option
from dcron.cli.asking.which import agreed
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.running.context import opened_crontab, reason
from dcron.errors import UsageError
from dcron.model import Alert
from dcron.presentation import alerts
from dcron.values.quantities import parse_duration
from dcron.values.safe_text import safe


def command(
    which: Annotated[
        list[str],
        argument(
            "NAME|ALERT...", "Whole names of tasks, or numbers of alerts, as `dcron alerts` shows them."
        ),
    ],
    duration: Annotated[
        str | None, option("--for", "4h", "For this long only [default: until it closes].")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Acknowledge alerts: send no more reminders of them.

    \b
    dcron ack backup -m "the disk is full, a new one comes today"
    dcron ack 17 --for 4h
    dcron ack node:web-2

    A NAME means all open alerts of the task. The alerts stay open until their causes are gone. All are looked
    up before the first is acknowledged.
    """
    lasting = timedelta(seconds=parse_duration(duration)) if duration is not None else None
    if lasting is not None and not lasting:
        raise UsageError("--for: give a duration of more than 0 seconds, such as 4h")
    with opened_crontab(db) as crontab:
        service = services.alerts.Alerts(crontab)
        found: dict[int, Alert] = {}
        for each in which:
            found |= {alert.id: alert for alert in agreed(service.find, "ack", each)}
        acknowledged = service.acknowledge(list(found.values()), reason(), lasting)
    if as_json:
        console.emit_list(make("alert", each) for each in acknowledged)
        return
    for alert in acknowledged:
        until = f" for {duration}" if duration else ""
        console.data(f"acknowledged{until}  {safe(alerts.name(alert))}: {alerts.word(alert.kind)}")
