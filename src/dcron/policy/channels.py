"""Decide by which channels living nodes can send."""

from collections.abc import Collection, Iterable

from dcron.channels import MAILTO
from dcron.fields.kinds import NONE
from dcron.model import Node

_ADDRESS = f"{MAILTO}:"
_BETWEEN = ","
_LONGEST = 300
"""Characters of a channel in the table `notifications`."""


def is_mail(channel: str) -> bool:
    """Return whether a channel is an address: any node with a channel of kind mail sends to it."""
    return channel.startswith(_ADDRESS)


def addresses_of(channel: str) -> tuple[str, ...]:
    """Return the mail addresses of a channel: several if it is one of `joined`, none if it is a name."""
    return tuple(channel.removeprefix(_ADDRESS).split(_BETWEEN)) if is_mail(channel) else ()


def joined(channels: Iterable[str]) -> list[str]:
    """Return the channels with all addresses as one channel: `mailto:a,mailto:b` is one mail to `a,b`.

    Addresses for which it has no room are another channel, and so another mail.
    """
    found: list[str] = []
    for channel in channels:
        last = next((number for number in reversed(range(len(found))) if is_mail(found[number])), None)
        more = None if last is None else found[last] + _BETWEEN + channel.removeprefix(_ADDRESS)
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
