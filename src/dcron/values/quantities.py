"""Durations (`1h30m`), sizes (`8G`), needs (`gpu=1`) and limits (`mem=2G`) as people type them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from dcron.errors import UsageError
from dcron.model import LONGEST_DURATION

T = TypeVar("T")
Kind = Literal["bytes", "seconds", "count"]

LIMITS: Mapping[str, Kind] = MappingProxyType(
    {
        "mem": "bytes",
        "cpu-time": "seconds",
        "files": "count",
        "procs": "count",
        "file-size": "bytes",
        "core": "bytes",
    }
)
"""The limits of a command, and the unit of each. The warden has the same ones."""
MOST: Mapping[Kind, int] = MappingProxyType({"bytes": 1 << 62, "seconds": 1 << 32, "count": 1 << 31})
"""The highest number of each unit."""
MAY_BE_NOTHING = ("core", "file-size")
"""Limits that may be 0."""
SLOTS = "slots"
"""Every run takes one of its node's slots. Tasks and nodes do not name them."""
LEAST_AMOUNT = 1e-6
MOST_AMOUNT = 1e9
"""Bounds of needs that are not measured in bytes."""

_NAME = re.compile(r"[a-z0-9._-]{1,40}", re.ASCII)
_NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,30})?", re.ASCII)
_SIZE = re.compile(rf"({_NUMBER.pattern})(?:([kmgt])(?:i?b)?|b)?", re.ASCII | re.IGNORECASE)
_TIME = re.compile(rf"{_NUMBER.pattern}s?|(?:{_NUMBER.pattern}[wdhms])+", re.ASCII)
_TIME_PART = re.compile(rf"({_NUMBER.pattern})([wdhms]?)", re.ASCII)
_BYTES = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds; a day always has 24 hours."""
_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?", re.ASCII)
_LONG_DURATION = 64
"""Characters of a text that may be a duration."""


def parse_duration(text: str) -> float:
    """Return the seconds in `90s`, `5m`, `1h30m`, `2d` or `1w`. Raises UsageError."""
    counts = _counts(text.strip())
    if not any(counts):
        raise UsageError(
            f"{_short(text)} is not a duration; write a number with s, m, h, d or w, such as 90s, 5m or 1h30m"
        )
    seconds = sum(float(count) * _UNITS[unit] for unit, count in zip("wdhms", counts, strict=True) if count)
    if seconds > LONGEST_DURATION:
        raise UsageError(f"{_short(text)} is longer than a century")
    return seconds


def is_duration(text: str) -> bool:
    """Return whether the text has the form of a duration, such as `2h`."""
    return any(_counts(text))


def _counts(text: str) -> Sequence[str | None]:
    """Return the numbers of weeks, days, hours, minutes and seconds in a duration; empty for another text."""
    match = _DURATION.fullmatch(text) if len(text) <= _LONG_DURATION else None
    return match.groups() if match else ()


def format_duration(seconds: float) -> str:
    """Return seconds as parse_duration() reads them, to the millisecond: `1h30m`, `0.25s`, `0s`."""
    whole, rest = divmod(round(abs(seconds) * 1000), 1000)
    parts = []
    for unit, size in _UNITS.items():
        count, whole = divmod(whole, size)
        fraction = f".{rest:03}".rstrip("0") if unit == "s" and rest else ""
        if count or fraction:
            parts.append(f"{count}{fraction}{unit}")
    return ("-" if seconds < 0 and parts else "") + ("".join(parts) or "0s")


def is_size(name: str) -> bool:
    """Return whether a need of this name is a number of bytes."""
    return name == "mem" or name.endswith("-bytes")


def parse_size(text: str) -> int:
    """Return the bytes in `8G`, `512M`, `1.5GiB` or `4096`, by powers of 1024. Raises UsageError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{_short(text)} is not a size; write a number of bytes, or one with K, M, G or T, such as 1.5G"
        )
    return int(Decimal(match[1]) * _BYTES.get((match[2] or "").upper(), 1))


def format_size(size: float) -> str:
    """Return bytes as parse_size() reads them, in the largest unit with a whole number: `8G`, `1536M`."""
    for unit, factor in _BYTES.items():
        if size and size % factor == 0:
            return f"{format_number(size // factor)}{unit}"
    return format_number(size)


def format_number(number: float) -> str:
    """Return a number in plain digits, which read back as the same: `1`, `0.5`, `0.00001`."""
    return f"{Decimal(repr(number)).normalize():f}"


def parse_number(text: str) -> float:
    """Return the number in plain digits, such as `1` or `0.5`. Raises UsageError."""
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{_short(text)} is not a number; write digits, such as 1 or 0.5")
    return float(text)


def parse_amount(text: str) -> tuple[str, float]:
    """Return name and amount of `gpu=1` or `mem=8G`; sizes in bytes. Raises UsageError."""
    name, value = _pair(text, "gpu=1 or mem=8G")
    amount = _in_context(text, parse_size if is_size(name) else parse_number, value)
    require_amount(name, amount)
    return name, float(amount)


def parse_need(texts: Iterable[str]) -> dict[str, float]:
    """Return the amounts of `gpu=1`, `mem=8G`, `cpu=0.5` by name. Raises UsageError."""
    return _each_once(texts, parse_amount)


def parse_limit(texts: Iterable[str]) -> dict[str, int]:
    """Return the limits of `mem=2G`, `cpu-time=2m`, `files=100` by name, in bytes, seconds and counts.

    Raises UsageError.
    """
    return _each_once(texts, _parse_one_limit)


def format_amount(name: str, amount: Any) -> str:
    """Return a need as parse_amount() reads it. A stored value that is no number stays as it is."""
    return f"{name}={_formatted(amount, format_size if is_size(name) else format_number)}"


def format_limit(name: str, value: Any) -> str:
    """Return a limit as parse_limit() reads it. A stored value that is no number stays as it is."""
    return f"{name}={_formatted(value, format_size if LIMITS.get(name) == 'bytes' else format_number)}"


def require_amount(name: str, amount: Any) -> None:
    """Raise UsageError unless this is a valid name with a valid amount."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{_short(name)} is not a name; write 1 to 40 of the letters a-z, digits and . _ -")
    if not _is_number(amount):
        raise UsageError(f"{name}: {_short(amount)} is not a number")
    if not is_size(name) and not LEAST_AMOUNT <= amount <= MOST_AMOUNT:
        raise UsageError(f"{name}: give more than 0 and up to {MOST_AMOUNT:,.0f}, not {_short(amount)}")
    if is_size(name) and not (1 <= amount <= MOST["bytes"] and amount == int(amount)):
        raise UsageError(f"{name}: give whole bytes, from 1 on, as in {name}=8G, not {_short(amount)}")


def require_need(name: str, amount: Any) -> None:
    """Raise UsageError unless a task can need, and a node can have, this amount of something of this name."""
    if name == SLOTS:
        raise UsageError("slots are counted by themselves, one for each run; leave them out")
    require_amount(name, amount)


def require_limit(name: str, value: Any) -> None:
    """Raise UsageError unless this is a valid limit: a name, and a number of its unit."""
    kind = LIMITS.get(name)
    if kind is None:
        raise UsageError(f"{_short(name)} cannot be limited; there are {', '.join(LIMITS)}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name}: {_short(value)} is not a whole number")
    least = 0 if name in MAY_BE_NOTHING else 1
    if not least <= value <= MOST[kind]:
        unit = "" if kind == "count" else f" {kind}"
        raise UsageError(f"{name}: give from {least} to {MOST[kind]:,}{unit}, not {_short(value)}")


def _parse_one_limit(text: str) -> tuple[str, int]:
    name, value = _pair(text, "mem=2G or files=100")
    readers = {"bytes": parse_size, "seconds": _parse_seconds, "count": _parse_count}
    # `require_limit` reports an unknown name.
    number = _in_context(text, readers[LIMITS[name]], value) if name in LIMITS else 0
    require_limit(name, number)
    return name, number


def _parse_seconds(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise UsageError(
            f"{_short(text)} is not a time; write seconds, or a duration such as 90s, 2m or 1h30m"
        )
    seconds = sum(Decimal(number) * _UNITS[unit or "s"] for number, unit in _TIME_PART.findall(text))
    if seconds != int(seconds):
        raise UsageError(f"{_short(text)}: the time is kept in whole seconds")
    return int(seconds)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UsageError(f"{_short(text)} is not a whole number")
    return int(text)


def _pair(text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{_short(text)}: write a name and an amount, such as {example}")
    return name, value


def _in_context(text: str, read: Callable[[str], T], value: str) -> T:
    try:
        return read(value)
    except UsageError as error:
        raise UsageError(f"{_short(text)}: {error}") from None


def _each_once(texts: Iterable[str], read: Callable[[str], tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for text in texts:
        name, amount = read(text)
        if name in found:
            raise UsageError(f"{name} is given twice; give it once, with the amount that counts")
        found[name] = amount
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _formatted(value: Any, write: Callable[[float], str]) -> str:
    return write(value) if _is_number(value) else str(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
