"""Channels that no node has, and channels that do not deliver."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from dcron.model import Node
from dcron.policy import channels as policy
from dcron.presentation import humanize
from dcron.services.doctor.finding import Finding, named
from dcron.store.tasks.used_channels import Users


def examine(users: Mapping[str, Users], living: Sequence[Node]) -> Iterator[Finding]:
    """Yield the channels that tasks or settings name and that none of these nodes has."""
    missing = policy.unsendable(sorted(users), living)
    mails = [name for name in missing if policy.is_mail(name)]
    named_ones = [name for name in missing if name not in mails]
    for name in named_ones:
        yield _finding([name], f"no running agent has the channel {name}", users)
    if mails:
        yield _finding(mails, f"no running agent can send mail to {named(mails)}", users)


def _finding(channels: Sequence[str], problem: str, users: Mapping[str, Users]) -> Finding:
    first = min(users[channels[0]].names)
    others = sum(users[name].count for name in channels) - 1
    more = f" and {humanize.plural(others, 'other')}" if others else ""
    return Finding(
        "no-channel", problem, f"what {first}{more} should send waits", policy.advice(channels), channels
    )


def examine_failing(since: Mapping[str, datetime]) -> Iterator[Finding]:
    """Yield the channels that have not delivered since these times."""
    for name, at in since.items():
        yield Finding(
            "undeliverable",
            f"the channel {name} has given up messages since {at:%Y-%m-%dT%H:%M:%SZ}",
            "what it could not send within a day is not sent any more",
            f"`dcron channel list` shows its last error; `dcron channel test {name}` tries it",
            [name],
        )
