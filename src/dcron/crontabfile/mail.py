"""MAILTO of crontab(5): to whom cron mails what the commands below it print."""

import re
from collections.abc import Mapping
from typing import Any

from dcron.crontabfile.problems import shown
from dcron.fields.channel_kinds import MAILTO, MOST_CHANNELS, OUTPUT, channel_problem

VARIABLE = "MAILTO"
_SAFE = re.compile(r"[A-Za-z0-9@!:%+.,_=-]+")
"""The letters of an address to which Debian's cron mails (`safe_p` in do_command.c)."""
_BETWEEN = re.compile(r"[,\s]+")


def mail_fields(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a task below these assignments: mail what it prints, or none of them."""
    channels = tuple(f"{MAILTO}{each}" for each in addresses(env.get(VARIABLE, "")))
    return {"notify": channels, "notify_on": (OUTPUT,)} if channels else {}


def addresses(value: str) -> list[str]:
    """Return the valid addresses in a MAILTO: accounts such as `root`, or whole addresses."""
    valid = (each for each in _BETWEEN.split(value.strip()) if each and problem_with(each) is None)
    return list(dict.fromkeys(valid))[:MOST_CHANNELS]


def problem_with(address: str) -> str | None:
    """Return why cron, or dcron, mails nothing to this address."""
    problem = channel_problem(MAILTO + address)
    if problem is None and not _SAFE.fullmatch(address):
        return "cron mails nothing to an address with such characters"
    return problem


def warnings(value: str) -> list[str]:
    """Return what a person should know about a MAILTO with this value."""
    found = addresses(value)
    others = [each for each in _BETWEEN.split(value.strip()) if each and each not in found]
    messages = [
        f"MAILTO: {shown(each)} gets no mail: {problem_with(each) or f'more than {MOST_CHANNELS} addresses'}"
        for each in others
    ]
    if found:
        receivers = ", ".join(found)
        messages.insert(
            0,
            f"what the commands below print is mailed to {receivers}, as cron does;"
            " `dcron import --no-mail` leaves that out",
        )
    return messages
