"""Values as people type them for the options of `add`, on the command line and in the TUI's form."""

from datetime import UTC, datetime
from pathlib import Path

from dcron.errors import UsageError, ZoneError

NONE = "none"
MOST_READ = 1024 * 1024
"""Bytes of a file whose text is a value."""


def wait(text: str) -> float:
    """Seconds. Raises UsageError."""
    from dcron.schedule import parse_duration

    return parse_duration(text)


def span(text: str) -> float | None:
    """Seconds, or None for `none`. Raises UsageError."""
    return None if text == NONE else wait(text)


def max_running(text: str) -> int | None:
    """How many, or None for `none`. Raises UsageError."""
    if text == NONE:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text[:60]!r}: give a number from 1 on, or none for no limit")
    return int(text[:9])


def variable(text: str) -> tuple[str, str]:
    """Name and value. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text[:60]!r}: write NAME=value")
    return name, value


def moment(text: str, timezone: str) -> datetime | None:
    """The instant, in UTC, that is meant in this zone, or None for `none`. Raises UsageError or ZoneError."""
    from dcron.schedule import parse_time, zone

    return None if text == NONE else parse_time(text, zone(timezone), datetime.now(UTC))


def calendar(text: str) -> str | None:
    """A calendar's name, or None for `none`."""
    return None if text == NONE else text


def named_moment(text: str, timezone: str, option: str) -> datetime | None:
    """As `moment`; a mistake in it, not in the zone, is told with the option's name."""
    try:
        return moment(text, timezone)
    except ZoneError:
        raise
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def default_name(command: str) -> str:
    """A readable name made from the command, as an import makes them."""
    from dcron.crontabfile import names

    return names.assign([(command,)], taken=(), prefix="")[0]


def text_or_file(value: str, option: str) -> str:
    """`TEXT`, or `@FILE` for what is in a file (`@-` is stdin, `@@TEXT` a text that begins with @)."""
    if not value.startswith("@"):
        return value
    if value.startswith("@@"):
        return value[1:]
    return read_text(value[1:], option)


def read_text(name: str, what: str, limit: int = MOST_READ) -> str:
    """The text of a file, or of stdin for `-`. Raises UsageError."""
    import sys

    try:
        if name == "-":
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{what}: cannot read {name}: {error.strerror}") from None
    if len(content) > limit:
        raise UsageError(f"{what}: {name} is larger than {limit:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise UsageError(f"{name}:{line}:{column}: this is not UTF-8") from None
