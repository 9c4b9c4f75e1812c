"""The senders by kind of channel. Only the child process imports them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dcron.notifying.message import Message
from dcron.notifying.senders import apprise_service, command, mail, webhook
from dcron.notifying.senders.channel import Channel

SENDERS: Mapping[str, Callable[[Channel, Message], str | None]] = MappingProxyType(
    {
        "mail": mail.send,
        "webhook": webhook.send,
        "command": command.send,
        "apprise": apprise_service.send,
    }
)
"""Each sends one message. It returns a warning if not all receivers got it, else None. Raises SendError."""

__all__ = ["SENDERS", "Channel"]
