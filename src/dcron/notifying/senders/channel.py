"""A channel as a sender sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcron.notifying.message import Message


@dataclass(frozen=True)
class Channel:
    """A channel with its secrets."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(repr=False)


def document(channel: Channel, message: Message) -> dict[str, Any]:
    """Return what webhooks and commands with `format = "json"` receive (docs/alerts.md)."""
    return {
        "id": message.id,
        "channel": channel.name,
        "subject": message.subject,
        "text": message.text,
        **message.facts,
    }
