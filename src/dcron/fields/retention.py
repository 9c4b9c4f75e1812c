"""How long history is kept: the names of its parts, their defaults, and how values are typed.

The settings `keep.*` and the task field `keep` share them. A value is a number of seconds, or `none` for
ever; for `last` it is a number of runs.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dcron.errors import UsageError
from dcron.fields.named_values import NamedValues, is_number
from dcron.model import LONGEST_DURATION
from dcron.values.quantities import format_duration, format_number, parse_duration

FOREVER = "none"
LAST = "last"
MOST_LAST = 10_000
DAY = 86_400.0
Value = float | str
"""Seconds or a number of runs, or FOREVER."""

DEFAULTS: Mapping[str, Value] = MappingProxyType(
    {
        "runs": 30 * DAY,
        "bad": 180 * DAY,
        LAST: 20,
        "output": 14 * DAY,
        "bad-output": 90 * DAY,
        "dead": 365 * DAY,
        "events": 30 * DAY,
        "nodes": 30 * DAY,
        "statistics": 3 * 365 * DAY,
        "changes": FOREVER,
        "alerts": 365 * DAY,
        "notifications": 90 * DAY,
    }
)
OF_TASK = ("runs", "bad", LAST, "output", "bad-output")
"""What each task may keep for a time of its own."""
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


def parse_value(name: str, text: str) -> Value:
    """Return the value of `30d`, `none`, or for `last` of `20`. Raises UsageError."""
    if name != LAST:
        return FOREVER if text == FOREVER else parse_duration(text)
    if not _COUNT.fullmatch(text):
        raise UsageError(f"{text[:60]!r} is not a number of runs; write digits, such as 20")
    value = float(text)
    require_value(name, value)
    return value


def format_value(name: str, value: Any) -> str:
    """Return the value as parse_value() reads it. A stored value that is no number stays as it is."""
    if not is_number(value):
        return str(value)
    if name == LAST:
        return format_number(value)
    return f"{value / DAY:.0f}d" if value and value % DAY == 0 else format_duration(value)


def require_value(name: str, value: Any) -> None:
    """Raise UsageError unless this is a valid value of this part."""
    if name == LAST:
        if not is_number(value) or not (0 <= value <= MOST_LAST and value == int(value)):
            raise UsageError(f"{name}: give a number of runs from 0 to {MOST_LAST:,}, not {value!r:.60}")
    elif value != FOREVER and not (is_number(value) and 0 <= value <= LONGEST_DURATION):
        raise UsageError(f"{name}: give a duration up to a century, such as 30d, or none, not {value!r:.60}")


KEEP = NamedValues(
    OF_TASK,
    "cannot be kept for a time of its own",
    "runs=7d or last=100",
    parse_value,
    format_value,
    require_value,
)
"""The field `keep`."""
