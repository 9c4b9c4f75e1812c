"""The kinds of task fields that say by which channels, and about what, messages are sent."""

import re
from collections.abc import Iterable
from typing import Any

from dcron.fields.collection_kinds import Tags
from dcron.fields.kinds import NONE, Problem, json_problem, short
from dcron.model import AlertKind

MOST_CHANNELS = 10
LONGEST_CHANNEL = 254
OUTPUT = "output"
"""Notify of the output of each run that wrote any, as cron does."""
NOTIFY_ON = (*AlertKind, OUTPUT)
"""What can cause messages."""
MAILTO = "mailto:"
_CHANNEL = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)
_ADDRESS = re.compile(r"(?!-)[\w.+%='&~#-]+(?:@\w[\w.-]*)?")
"""An account or an address. What sendmail(8) could take for a program, a file or an option is none."""


class Channels(Tags):
    """Channels: names, and addresses such as `mailto:ops@example.org`; or `none` alone."""

    _example = 'a list of channels such as ["ops", "mailto:ann@example.org"]'

    def parse_many(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the channels; one text may have several, with commas between them."""
        return tuple(name for text in texts for name in text.split(","))

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with the first bad channel."""
        if problem := json_problem(value, self._example):
            return problem
        if len(value) > MOST_CHANNELS:
            return f"{len(value)} channels are too many; at most {MOST_CHANNELS} are allowed"
        if NONE in value:
            return None if len(value) == 1 else f"{NONE} is no channel: give it alone"
        return next(filter(None, map(channel_problem, value)), None) or _repeated(value)


class AlertKinds(Tags):
    """What causes messages: kinds of alerts, and `output`."""

    _example = 'a list of kinds such as ["failing", "late"]'

    def parse_many(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the words; one text may have several, with commas between them."""
        return tuple(word for text in texts for word in text.split(","))

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with the first bad word."""
        if problem := json_problem(value, self._example):
            return problem
        for word in value:
            if word not in NOTIFY_ON:
                return f"{short(word)} is none of {', '.join(NOTIFY_ON)}"
        return _repeated(value)


def channel_problem(name: Any) -> Problem:
    """Return what keeps this from being a channel, or None."""
    scheme, _, address = name.partition(":") if isinstance(name, str) else ("", "", "")
    if f"{scheme}:" == MAILTO:
        if _ADDRESS.fullmatch(address) and len(name) <= LONGEST_CHANNEL:
            return None
        return f"{short(address)} is not a mail address; write mailto:ann@example.org"
    if isinstance(name, str) and _CHANNEL.fullmatch(name):
        return None
    return (
        f"{short(name)} cannot be a channel: use 1 to 40 of a-z 0-9 _ -, beginning with a letter, or"
        " mailto:ADDRESS"
    )


def _repeated(words: Any) -> Problem:
    twice = next((word for position, word in enumerate(words) if word in words[:position]), None)
    return f"{short(twice)} is given twice; give it once" if twice is not None else None
