"""The spelling of times, durations and numbers in JSON."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LONGEST_SHOWN = 60
"""Characters of a value in a message."""


def instant(at: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, with Z at the end."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def seconds(duration: float | None) -> float | int | None:
    """Return a duration in seconds: an integer if it is whole, else rounded to milliseconds."""
    if duration is None:
        return None
    rounded = round(duration, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def number(value: Any) -> Any:
    """Return a whole float as an integer, and None for one that is not finite; keep other values."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def shown(value: Any) -> str:
    """Return a value of JSON or TOML as messages show it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def numbers(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers by name; a value that is no number is kept."""
    return {name: number(amount) for name, amount in amounts.items()}
