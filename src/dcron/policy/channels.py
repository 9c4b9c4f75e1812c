"""Decide by which channels living nodes can send, and which mail addresses share one mail."""

from collections.abc import Collection, Iterable

from dcron.config.channels import MAIL_PREFIX, MAILTO
from dcron.fields.kinds import NONE
from dcron.model import Node

_BETWEEN = ","
_LONGEST = 300
"""Most characters of a channel, by a CHECK of the table `notifications`."""


def is_mail(channel: str) -> bool:
    """Return whether a channel is made of addresses: any node with a channel of kind mail sends to them."""
    return channel.startswith(MAIL_PREFIX)


def addresses_of(channel: str) -> tuple[str, ...]:
    """Return the mail addresses of a channel: several if `joined` made it, none if it is a name."""
    return tuple(channel.removeprefix(MAIL_PREFIX).split(_BETWEEN)) if is_mail(channel) else ()


def joined(channels: Iterable[str]) -> list[str]:
    """Return the channels, with all mail addresses as one: `mailto:a` and `mailto:b` become `mailto:a,b`.

    One channel is one mail. Addresses for which it has no room become another channel.
    """
    found: list[str] = []
    for channel in channels:
        last = next((number for number in reversed(range(len(found))) if is_mail(found[number])), None)
        more = None if last is None else found[last] + _BETWEEN + channel.removeprefix(MAIL_PREFIX)
        if last is not None and more is not None and is_mail(channel) and len(more) <= _LONGEST:
            found[last] = more
        else:
            found.append(channel)
    return found


def is_offered(channel: str, offered: Collection[str]) -> bool:
    """Return whether a node that offers these names can send by the channel."""
    return (MAILTO if is_mail(channel) else channel) in offered


def unsendable(channels: Iterable[str], living: Iterable[Node]) -> list[str]:
    """Return those of the channels by which none of these nodes can send, in order and once each."""
    offered = {name for node in living for name in node.channels}
    # A row written with SQL may hold anything; planning suspends a task that cannot be read.
    names = dict.fromkeys(name for name in channels if isinstance(name, str))
    return [name for name in names if name != NONE and not is_offered(name, offered)]


def advice(channels: Collection[str]) -> str:
    """Return what to type so that a node can send by these channels."""
    named = next((name for name in channels if not is_mail(name)), None)
    table = f"[notify.{named}]" if named else '[notify.mail] with kind = "mail"'
    return (
        f"give an agent the table {table} in its config file and restart it; `dcron channel list` shows all"
    )
