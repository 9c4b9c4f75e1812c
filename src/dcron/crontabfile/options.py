"""The options of a `#dcron:` directive, one row each: a field of Definition, and how its value is spelt.

A new field of Definition is a new row of OPTIONS; nothing else here or in the reader and writer names it.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from dcron.crontabfile.directive import Word
from dcron.crontabfile.problems import BadLine, shown
from dcron.errors import UsageError
from dcron.model import SPEC_DEFAULTS
from dcron.quantities import (
    format_amount,
    format_limit,
    format_number,
    parse_limit,
    parse_need,
    parse_number,
)
from dcron.schedule import format_duration, parse_duration, parse_time, zone

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
COUNT = re.compile(r"\d{1,9}", re.ASCII)
PAIR = re.compile(r"(?P<name>(?:[^=\\]++|\\.)*+)=(?P<value>.*)", re.DOTALL)
NONE = "none"
T = TypeVar("T")


class FromCommand:
    """The word `argv` alone: the words to execute are those of the command."""


FROM_COMMAND = FromCommand()


@dataclass(frozen=True)
class Kind:
    """How values of one kind are read and written; None stands for an option without `=value`."""

    read: Callable[[str | None], Any]
    """Raises ValueError with a sentence that says what would be right."""
    write: Callable[[Any], str | None]


@dataclass(frozen=True)
class Option:
    """A field of Definition that a directive can set."""

    field: str
    kind: Kind
    advice: bool = False
    """A plain cron that ignores it runs the same command, as the same user, in the same place."""
    many: bool = False
    """May be given more than once."""
    spelt: str = ""
    """Its name in a directive, where that is not the field's."""


def _given(value: str | None) -> str:
    if value is None:
        raise ValueError("it needs a value")
    return value


def _name(value: str | None) -> str:
    if not NAME.fullmatch(_given(value)):
        raise ValueError("a name is 1 to 100 letters, digits, dots, dashes and underscores")
    return _given(value)


def _duration(value: str | None) -> float | None:
    if value == NONE:
        return None
    seconds = _wait(value)
    if seconds == 0:
        raise ValueError("a duration is longer than nothing")
    return seconds


def _wait(value: str | None) -> float:
    return _in_our_words(parse_duration, _given(value))


def _in_our_words(read: Callable[[str], T], value: str) -> T:
    try:
        return read(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _write_duration(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    text = format_duration(seconds)
    # 1m30.1s adds up to another float than 90.1s now and then.
    return text if parse_duration(text) == seconds else f"{seconds:.3f}".rstrip("0") + "s"


def _whole(value: str | None, right: str = "it is a number from 1 on") -> int:
    if not COUNT.fullmatch(_given(value)) or int(_given(value)) == 0:
        raise ValueError(right)
    return int(_given(value))


def _count(value: str | None) -> int | None:
    return None if value == NONE else _whole(value, "it is a number from 1 on, or none")


def _write_count(count: int | None) -> str:
    return NONE if count is None else str(count)


def _flag(value: str | None) -> bool:
    if value not in (None, "yes", "no"):
        raise ValueError("it stands alone, or is yes or no")
    return value != "no"


def _words(value: str | None) -> tuple[str, ...]:
    return tuple(_given(value).split(",")) if value != "" else ()


def _write_words(words: Iterable[Any]) -> str:
    return ",".join(map(str, words))


def _amounts(read: Callable[[Iterable[str]], dict[str, T]], write: Callable[[str, Any], str]) -> "Kind":
    """Names and amounts, `gpu=1,mem=8G`."""
    return Kind(
        lambda value: _in_our_words(lambda text: read(_words(text)), _given(value)),
        lambda amounts: _write_words(write(name, amount) for name, amount in amounts.items()),
    )


def _pair(value: str | None) -> tuple[str, str]:
    pair = PAIR.fullmatch(_given(value))
    if pair is None:
        raise ValueError("an environment variable is written env=NAME=value")
    return re.sub(r"\\(.)", r"\1", pair["name"], flags=re.DOTALL), pair["value"]


def _write_pair(pair: tuple[str, str]) -> str:
    return re.sub(r"[=\\]", r"\\\g<0>", pair[0]) + "=" + pair[1]


def _argv(value: str | None) -> tuple[str, ...] | FromCommand:
    return FROM_COMMAND if value is None else tuple(shlex.split(value))


def _write_argv(argv: tuple[str, ...] | FromCommand) -> str | None:
    return None if isinstance(argv, FromCommand) else shlex.join(argv)


def _choice(*values: str) -> Kind:
    def read(value: str | None) -> str:
        if _given(value) not in values:
            raise ValueError(f"it is {' or '.join(values)}")
        return _given(value)

    return Kind(read, str)


def _moment(value: str | None) -> datetime:
    try:
        return datetime.fromisoformat(_given(value)).astimezone(UTC)
    except ValueError:
        pass  # not as an export writes it
    try:
        return parse_time(_given(value), zone("UTC"), datetime.now(UTC))
    except UsageError as error:
        raise ValueError(str(error)) from None


TEXT = Kind(_given, str)
CALENDAR = Kind(_name, str)
MOMENT = Kind(_moment, datetime.isoformat)
DURATION = Kind(_duration, _write_duration)
NUMBER = Kind(lambda value: _in_our_words(parse_number, _given(value)), format_number)
WAIT = Kind(_wait, _write_duration)
OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        option.field: option
        for option in (
            Option("name", Kind(_name, str), advice=True),
            Option("schedule", TEXT),
            Option("timezone", TEXT),
            Option("user", TEXT),
            Option("timeout", DURATION, advice=True),
            Option("max_running", Kind(_count, _write_count), advice=True),
            Option("overlap", _choice("skip", "queue", "replace"), advice=True),
            Option("tries", Kind(_whole, str), advice=True),
            Option("backoff", WAIT, advice=True),
            Option("backoff_factor", NUMBER, advice=True),
            Option("backoff_max", WAIT, advice=True),
            Option("on_lost", _choice("dead", "retry"), advice=True),
            Option("deadline", DURATION, advice=True),
            Option("catch_up", _choice("skip", "last", "all"), advice=True),
            Option("catch_up_window", DURATION, advice=True),
            Option("jitter", DURATION, advice=True),
            Option("priority", _choice("high", "normal", "low"), advice=True),
            Option("queue", Kind(_name, str)),
            Option("require", Kind(_words, _write_words)),
            Option("every_node", Kind(_flag, lambda every: None if every else "no")),
            Option("need", _amounts(parse_need, format_amount)),
            Option("limit", _amounts(parse_limit, format_limit), advice=True),
            Option("gap", _choice("after", "skip"), advice=True),
            Option("fold", _choice("first", "both"), advice=True),
            Option("not_before", MOMENT),
            Option("not_after", MOMENT),
            Option("except_calendar", CALENDAR, spelt="except"),
            Option("only_calendar", CALENDAR, spelt="only"),
            Option("cwd", TEXT),
            Option("shell", TEXT),
            Option("env", Kind(_pair, _write_pair), many=True),
            Option("stdin", TEXT),
            Option("argv", Kind(_argv, _write_argv)),
            Option("command", TEXT),
            Option("describe", TEXT, advice=True),
        )
    }
)
PLACED = {"name", "schedule", "timezone", "command", "argv", "env", "stdin", "shell", "describe", "user"}
"""Options that a crontab line, an assignment or a comment can say too; the writer decides on each of them."""
FIELDS = {option.spelt or option.field: option.field for option in OPTIONS.values()}
"""The field behind each name in a directive."""
DEFAULTS = SPEC_DEFAULTS
UNSET = "unset"
SYSTEM = "system"


def read_option(word: Word) -> Any:
    """The value of one word of a directive."""
    if word.key not in FIELDS:
        raise BadLine(word.column, _unknown(word.key))
    try:
        return OPTIONS[FIELDS[word.key]].kind.read(word.value)
    except ValueError as error:
        value = "" if word.value is None else f"={shown(word.value)}"
        raise BadLine(word.value_column, f"{word.key}{value}: {_sentence(error)}") from None


def _sentence(error: ValueError) -> str:
    # shlex says "No closing quotation"; a message of ours goes on after a colon.
    text = str(error)
    return text[:1].lower() + text[1:]


def _unknown(key: str) -> str:
    known = [*FIELDS, UNSET, SYSTEM]
    near = get_close_matches(key[:40].replace("-", "_").lower(), known, n=1)
    return f"there is no option {shown(key)}" + (f"; did you mean {near[0]}?" if near else "")
