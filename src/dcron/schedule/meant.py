"""Guess which schedule was meant by a text that is none: `daily`, `5m`, `every 5 minutes`, `at 9am`."""

import re

from dcron.schedule.cron_expression import WORDS
from dcron.values.quantities import is_duration

_INTERVAL = re.compile(r"(?:every\s+)?(?:(\d{1,4})\s*)?(second|sec|minute|min|hour|day)s?", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:(?:every\s?day|daily)\s+)?(?:at\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE
)


def meant(text: str) -> str | None:
    """Return the schedule that a text probably means, or None. The text is not a schedule."""
    words = " ".join(text.lower().split())
    if f"@{words}" in WORDS:
        return f"@{words}"
    rest = words.removeprefix("every ")
    if is_duration(rest):
        return f"@every {rest}"
    if interval := _INTERVAL.fullmatch(words):
        return f"@every {interval[1] or 1}{interval[2][0]}"
    clock = _CLOCK.fullmatch(words)
    if clock and (clock[2] or clock[3]):
        hour = int(clock[1]) % 12 + 12 * (clock[3] == "pm") if clock[3] else int(clock[1])
        if hour < 24 and int(clock[2] or 0) < 60:
            return f"{int(clock[2] or 0)} {hour} * * *"
    return None


def hint(text: str) -> str:
    """Return `; did you mean '@every 5m'?`, or nothing."""
    found = meant(text)
    return f"; did you mean {found if ' ' not in found else repr(found)}?" if found else ""
