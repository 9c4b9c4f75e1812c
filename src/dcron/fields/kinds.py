"""The kinds of single values that task fields have: how each is typed, written and checked.

One value has three spellings. The command line and the form have a text (`parse`, `format`), a `#dcron:`
directive has a word (`read`, `write`), which may have no value, and JSON and TOML have a value of their own
types (`from_json`, `to_json`, `to_toml`).
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from dcron.errors import UsageError
from dcron.values import json_values, quantities
from dcron.values.text_input import text_or_file
from dcron.values.unreadable import Unreadable

NONE = "none"
"""The text of no value, where a field may have none."""
SHORTEST = 0.001
"""Seconds. The shortest time that counts."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PRINTED = re.compile("[!-~]+")
LONGEST_WEB_ADDRESS = 2_000
_DIGITS = re.compile(r"\d{1,9}", re.ASCII)
Problem = str | None
"""What is wrong with a value and what would be right; None for a valid one."""


class Kind:
    """How the values of one kind are read, written and checked."""

    typed: Any = str
    """The type to which the command line converts a text before `parse`, which then gets only a str."""
    choices: tuple[str, ...] = ()
    """The only texts there are."""
    is_many = False
    """The command line takes the option several times, and a form several words."""
    is_by_name = False
    """Values by name: `set` adds to them, and `--clear env.DEBUG` takes one out."""
    needs_zone = False
    """What a text means depends on the task's time zone."""
    keeps_blanks = False
    """Blanks around a text belong to it."""

    def parse(self, text: str, timezone: str = "UTC") -> Any:
        """Return the value of a text. Raises UsageError, without the name of the field."""
        return text

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the text of a value, as `parse` reads it."""
        return str(value)

    def parse_many(self, texts: Iterable[str]) -> Any:
        """Return the value of an option that was given several times. Raises UsageError."""
        raise NotImplementedError

    def split(self, text: str) -> list[str]:
        """Return the words of a form's line, each as the option takes it. Raises UsageError."""
        return text.replace(",", " ").split()

    def read(self, word: str | None) -> Any:
        """Return the value of a directive's word; None is a word without a value. Raises UsageError."""
        return self.parse(required(word))

    def write(self, value: Any) -> str | None:
        """Return the word of a value, as `read` takes it."""
        return self.format(value)

    def to_json(self, value: Any) -> Any:
        """Return the value as JSON has it: durations in seconds, sizes in bytes, times in UTC."""
        return json_values.number(value)

    def to_toml(self, value: Any) -> Any:
        """Return the value as people write it in TOML. TOML has no null: `none` is a text there."""
        return self.format(value) if value is None else self.to_json(value)

    def from_json(self, value: Any) -> Any:
        """Return the value that JSON or TOML has; a text may be one of a directive. Raises UsageError."""
        if not isinstance(value, str):
            raise UsageError(f"{json_values.shown(value)} is not a text; write it in double quotes")
        return self.read(value)

    def problem(self, value: Any) -> Problem:
        """Return what keeps agents from running a task with this value, or None."""
        return None

    def require(self, value: Any) -> Any:
        """Return the value. Raises UsageError unless it is valid."""
        problem = self.problem(value)
        if problem:
            raise UsageError(problem)
        return value


class Text(Kind):
    """A text, kept as it is."""

    keeps_blanks = True

    def __init__(self, *, may_be_none: bool = False, most_bytes: int | None = None) -> None:
        """Refuse a text of more bytes than `most_bytes`."""
        self._may_be_none, self._most_bytes = may_be_none, most_bytes

    def problem(self, value: Any) -> Problem:
        """Return what keeps a database or a command from taking this text, or None."""
        if value is None and self._may_be_none:
            return None
        problem = text_problem(value)
        if problem is None and self._most_bytes is not None and len(value.encode()) > self._most_bytes:
            return f"has {len(value.encode()):,} bytes; at most {self._most_bytes:,} are allowed"
        return problem


class Word(Text):
    """A text without blanks around it."""

    keeps_blanks = False


class TextOrFile(Text):
    """A text, or @FILE for what is in a file."""

    def parse(self, text: str, timezone: str = "UTC") -> str:
        """Return the text, read from a file where one is named."""
        return text_or_file(text)

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the text; one that begins with @ gets another @."""
        return f"@{value}" if value.startswith("@") else str(value)

    def read(self, word: str | None) -> str:
        """Return the text as it is: a directive names no files."""
        return required(word)

    def write(self, value: Any) -> str:
        """Return the text as it is."""
        return str(value)


class Path(Word):
    """The absolute path of a file or directory."""

    def __init__(self, *, example: str = "", may_be_none: bool = False, keeps_blanks: bool = False) -> None:
        """Name an example in messages."""
        super().__init__(may_be_none=may_be_none)
        self._example = f" such as {example}" if example else ""
        self.keeps_blanks = keeps_blanks

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with a path that is not absolute."""
        problem = super().problem(value)
        if problem or value is None or value.startswith("/"):
            return problem
        return f"{short(value)} is not an absolute path{self._example}"


class WebAddress(Word):
    """An address that begins with https:// or http://, or none."""

    def __init__(self) -> None:
        super().__init__(may_be_none=True)

    def parse(self, text: str, timezone: str = "UTC") -> str | None:
        """Return the address, or None for `none`."""
        return None if text == NONE else text

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with it."""
        return super().problem(value) or web_address_problem(value)


class Account(Word):
    """The name of an account, or its number."""

    def __init__(self, *, most_bytes: int) -> None:
        """Refuse a name of more bytes."""
        super().__init__(may_be_none=True)
        self._longest = most_bytes

    def problem(self, value: Any) -> Problem:
        """Return what keeps this from being an account's name."""
        problem = super().problem(value) or reference_problem(value)
        if problem or value is None or len(value.encode()) <= self._longest:
            return problem
        return f"{short(value)} has more than {self._longest} bytes"


class Zone(Kind):
    """An IANA time zone."""

    def parse(self, text: str, timezone: str = "UTC") -> str:
        """Return the zone's name. Raises ZoneError."""
        from dcron.schedule.zones import zone

        return zone(text).key

    def read(self, word: str | None) -> str:
        """Return the name unread: a task whose zone this machine lacks is kept, and reported by its agent."""
        return required(word)


class Choice(Kind):
    """One of a few words."""

    def __init__(self, choices: Sequence[str], *, may_be_none: bool = False) -> None:
        """Take these words, in the order in which messages list them, and perhaps `none`."""
        self.choices = (*choices, NONE) if may_be_none else tuple(choices)
        self._may_be_none = may_be_none

    def parse(self, text: str, timezone: str = "UTC") -> str | None:
        """Return the word, or None for `none` where the field may have none."""
        word: str = self.require(text)
        return None if self._may_be_none and word == NONE else word

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the word, or `none`."""
        return NONE if value is None else str(value)

    def from_json(self, value: Any) -> Any:
        """Return the word, or None where the field may have none."""
        return None if value is None and self._may_be_none else super().from_json(value)

    def problem(self, value: Any) -> Problem:
        """Return the words there are, for any other value."""
        if value is None and self._may_be_none:
            return None
        return None if value in self.choices else f"{short(value)} is none of {', '.join(self.choices)}"


class Flag(Kind):
    """Yes or no; a directive's word without a value is yes."""

    typed = bool
    choices = ("no", "yes")

    def parse(self, text: str, timezone: str = "UTC") -> bool:
        """Return whether it is yes."""
        if text not in self.choices:
            raise UsageError("write yes or no")
        return text == "yes"

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return yes or no."""
        return "yes" if value else "no"

    def read(self, word: str | None) -> bool:
        """Return whether the word has no value, or is yes."""
        if word is not None and word not in self.choices:
            raise UsageError("write it alone, or with yes or no")
        return word != "no"

    def write(self, value: Any) -> str | None:
        """Return None for yes: the word needs no value."""
        return None if value else "no"

    def from_json(self, value: Any) -> bool:
        """Return whether it is true."""
        if not isinstance(value, bool):
            raise UsageError(f"{json_values.shown(value)} is neither true nor false")
        return value


class Bounded(Kind):
    """A number between two bounds."""

    def __init__(self, least: float, most: float, right: str, *, may_be_none: bool = False) -> None:
        """Describe a valid value in `right`, for messages: `1 to 1000, the first included`."""
        self._least, self._most, self._right = least, most, right
        self._may_be_none = may_be_none

    def parse(self, text: str, timezone: str = "UTC") -> float | None:
        """Return the number, or None for `none` where the field may have none."""
        if self._may_be_none and text == NONE:
            return None
        number: float = self.require(self._number(text))
        return number

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the number in digits, or `none`."""
        return NONE if value is None else quantities.format_number(value)

    def from_json(self, value: Any) -> float | None:
        """Return the number, also of a text such as `30m`."""
        if isinstance(value, str):
            return self.read(value)  # type: ignore[no-any-return]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number and not (value is None and self._may_be_none):
            raise UsageError(f"{json_values.shown(value)} is not valid; give {self._right}")
        self.require(value)
        return None if value is None else self._stored(value)

    def problem(self, value: Any) -> Problem:
        """Return what would be a valid number, for any other value."""
        if value is None and self._may_be_none:
            return None
        if isinstance(value, int | float) and self._least <= value <= self._most:
            return None
        return f"{self._shown(value)} is not valid; give {self._right}"

    def _number(self, text: str) -> float:
        return quantities.parse_number(text)

    def _stored(self, value: float) -> float:
        return float(value)

    def _shown(self, value: Any) -> str:
        return short(value)


class Number(Bounded):
    """A number, whole or not."""

    typed = float


class Whole(Bounded):
    """A whole number."""

    def __init__(self, least: float, most: float, right: str, *, may_be_none: bool = False) -> None:
        """Have the command line read a number, or a text where it may also be `none`."""
        super().__init__(least, most, right, may_be_none=may_be_none)
        self.typed = str if may_be_none else int

    def problem(self, value: Any) -> Problem:
        """Return what would be a valid number, for any other value."""
        problem = super().problem(value)
        if problem is None and value is not None and value != int(value):
            return f"{value} is not a whole number"
        return problem

    def _number(self, text: str) -> float:
        if not _DIGITS.fullmatch(text):
            raise UsageError(f"{text[:60]!r} is not a whole number; give {self._right}")
        return int(text)

    def _stored(self, value: float) -> int:
        return int(value)


class Duration(Bounded):
    """A number of seconds, typed as `1h30m`."""

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the duration, or `none`."""
        if value is None:
            return NONE
        text = quantities.format_duration(value)
        # 1m30.1s sometimes adds up to another float than 90.1s does.
        return text if quantities.parse_duration(text) == value else f"{value:.3f}".rstrip("0") + "s"

    def to_json(self, value: Any) -> Any:
        """Return the seconds."""
        return json_values.seconds(value)

    def to_toml(self, value: Any) -> str:
        """Return the duration as people type it: `1h30m`."""
        return self.format(value)

    def _number(self, text: str) -> float:
        return quantities.parse_duration(text)

    def _shown(self, value: Any) -> str:
        is_time = isinstance(value, int | float) and abs(value) < 1e12
        return quantities.format_duration(value) if is_time else short(value)


class Time(Kind):
    """A time: local to the task's zone where it is typed, in UTC where it is stored; or none."""

    needs_zone = True

    def parse(self, text: str, timezone: str = "UTC") -> datetime | None:
        """Return the time in UTC, or None for `none`. Raises UsageError or ZoneError."""
        from dcron.schedule.time_parser import parse_time
        from dcron.schedule.zones import zone

        return None if text == NONE else parse_time(text, zone(timezone), datetime.now(UTC))

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the local time with its offset, in ISO 8601."""
        from dcron.schedule.zones import zone

        if value is None:
            return NONE
        try:
            local = value.astimezone(zone(timezone))
        except UsageError:  # a zone that this machine does not have
            local = value
        return str(local.isoformat(timespec="seconds")).replace("+00:00", "Z")

    def read(self, word: str | None) -> datetime | None:
        """Return the time as an export or a person writes it, in UTC where no zone is written."""
        try:
            written = datetime.fromisoformat(required(word))
        except ValueError:
            written = None
        return written.astimezone(UTC) if written and written.tzinfo else self.parse(required(word))

    def write(self, value: Any) -> str:
        """Return the time in ISO 8601, with all its digits."""
        return str(value.isoformat())

    def to_json(self, value: Any) -> str | None:
        """Return the time in UTC, with all its digits."""
        return json_values.instant(value)

    def from_json(self, value: Any) -> datetime | None:
        """Return the time of a text, or of a time of TOML, which is in UTC where it has no offset."""
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, str):
            return self.read(value)
        raise UsageError(f'{json_values.shown(value)} is not a time; write one such as "2027-01-01T09:00Z"')


def text_problem(value: Any) -> Problem:
    """Return what keeps databases and commands from taking this as a text, or None."""
    if not isinstance(value, str):
        return f"{short(value)} is not a text"
    if "\0" in value:
        return "has a NUL character, which no command can be given"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return None


def json_problem(value: Any, example: str) -> Problem:
    """Return what is wrong with stored JSON that cannot be read, or None."""
    if isinstance(value, Unreadable):
        return f"{value.text[:100]!r} is not JSON that can be read; write {example}"
    return None


def short(value: Any) -> str:
    """Return a value as messages show it."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def reference_problem(value: Any) -> Problem:
    """Return what keeps this from being the name of something else: an account, a calendar."""
    if value == "":
        return "the name is empty; leave it out"
    if value and _CONTROL.search(value):
        return f"{short(value)} has a line end or another control character"
    return None


def required(word: str | None) -> str:
    """Return the value of a directive's word. Raises UsageError for a word without one."""
    if word is None:
        raise UsageError("it needs a value")
    return word


def web_address_problem(address: str | None) -> Problem:
    """Return what keeps this from being a web address, in words that do not repeat it: it may be a secret."""
    if address is None:
        return None
    right = "write an address such as https://hc-ping.com/UUID"
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not _PRINTED.fullmatch(address) or parts.fragment:
        return f"this is not a web address; {right}"
    if "@" in parts.netloc:
        return f"a web address takes no account and no password here; {right}"
    if len(address) > LONGEST_WEB_ADDRESS:
        return f"a web address has at most {LONGEST_WEB_ADDRESS:,} characters"
    return None
