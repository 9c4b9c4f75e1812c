"""Write the messages about alerts. All foreign text in them is made inert."""

from collections.abc import Sequence
from dataclasses import dataclass

from dcron.model import Alert, Notification
from dcron.notifying import Message
from dcron.safetext import safe

MOST_NAMED = 20
"""Alerts that a message names; it counts the others."""
_NAME_CELLS = 60


@dataclass(frozen=True)
class AlertItem:
    """A notification, and the alert that it is about."""

    notification: Notification
    alert: Alert | None


def compose(items: Sequence[AlertItem]) -> Message:
    """Return the message about these notifications. Its ID is the caller's."""
    first = items[0]
    if actor := first.notification.facts.get("test"):
        return compose_test(first.notification.channel, str(actor))
    sentences = [_sentence(item) for item in items]
    subject = sentences[0] if len(items) == 1 else f"{len(items):,} alerts: {sentences[0]}, …"
    more = [f"… and {len(items) - MOST_NAMED:,} more"] if len(items) > MOST_NAMED else []
    lines = [*sentences[:MOST_NAMED], *more, "", "dcron alerts"]
    return Message("", f"[dcron] {subject}", "\n".join(lines) + "\n")


def compose_test(channel: str, actor: str) -> Message:
    """Return the message that tests a channel. Its ID is the caller's."""
    channel, actor = safe(channel, _NAME_CELLS), safe(actor, _NAME_CELLS)
    text = f"{actor} tests the channel {channel} with `dcron channel test`.\n"
    return Message("", f"[dcron] test of the channel {channel}", text)


def _sentence(item: AlertItem) -> str:
    """Return what happened: `backup: failing since 2026-11-22T02:00:11Z`."""
    alert = item.alert
    if alert is None:
        return safe(f"{item.notification.kind}: notification {item.notification.id}")
    name = safe(alert.task or alert.subject, _NAME_CELLS)
    kind = safe(alert.kind, _NAME_CELLS)
    since = f"{alert.opened_at:%Y-%m-%dT%H:%M:%SZ}"
    if item.notification.kind == "closed":
        return f"{name}: no longer {kind} (since {since})"
    times = f", {alert.times:,} times" if alert.times > 1 else ""
    return f"{name}: {kind} since {since}{times}"
