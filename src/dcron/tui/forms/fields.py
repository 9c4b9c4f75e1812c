"""The fields of the form: all there is of a Definition, each typed as for its option of `add`."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dcron import typed
from dcron.errors import UsageError
from dcron.model import SPEC_DEFAULTS, Definition
from dcron.policy import schedule_of
from dcron.quantities import format_amount, format_limit, format_number, parse_limit, parse_need, parse_number
from dcron.schedule import format_duration, parse_duration, zone
from dcron.validation import require_name

SHELL, WORDS = "shell", "words"
"""How a command is run: as a line by a shell, or as words, without one."""
MOST_COUNTED = 9
"""Digits of a number that counts something."""
Context = Mapping[str, str]
"""The texts of all fields, for one that depends on another."""


@dataclass(frozen=True)
class FormField:
    """A field of Definition as it stands in the form."""

    name: str
    group: str
    hint: str
    """What to write, on one line."""
    read: Callable[[str, Context], Any]
    """The value that a text stands for. Raises UsageError."""
    write: Callable[[Any, str], str] = lambda value, _: str(value)
    """The text of a value that is not the default; gets the zone of the line, too."""
    choices: tuple[str, ...] = ()
    """The only texts there are; the first is the default."""
    spelt: str = ""
    """The option's name, where that is not the field's."""
    label: str = ""

    @property
    def option(self) -> str:
        """The option of `add`, without its dashes."""
        return self.spelt or self.name.replace("_", "-")

    @property
    def title(self) -> str:
        """What stands before it."""
        return self.label or self.option.replace("-", " ")

    @property
    def default(self) -> Any:
        """The value of a text that is empty."""
        return SPEC_DEFAULTS[self.name]

    def text_of(self, line: Definition) -> str:
        """The line's value as it stands in the form; nothing for the default."""
        value = getattr(line, self.name)
        if self.choices:
            return self.write(value, line.timezone)
        return "" if value == self.default else self.write(value, line.timezone)


def shown(field: FormField, line: Definition) -> str:
    """The line's value in words, the default too."""
    return field.text_of(line) or placeholder(field) or "none"


def placeholder(field: FormField) -> str:
    """What an empty field stands for."""
    value = field.default
    return "" if value in (None, "", (), {}) else field.write(value, "UTC")


def _as_typed(text: str, _: Context) -> str:
    return text


def _plain(read: Callable[[str], Any]) -> Callable[[str, Context], Any]:
    return lambda text, _: read(text.strip())


def _name(text: str) -> str:
    require_name(text)
    return text


def _schedule(text: str, texts: Context) -> str:
    schedule_of(text, texts["name"])
    return text


def _moment(text: str, texts: Context) -> datetime | None:
    return typed.moment(text.strip(), texts["timezone"] or "UTC")


def _write_moment(moment: datetime, timezone: str) -> str:
    try:
        local = moment.astimezone(zone(timezone))
    except UsageError:  # a zone that this machine does not have
        local = moment
    return local.isoformat(timespec="seconds").replace("+00:00", "Z")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_COUNTED):
        raise UsageError(f"{text[:60]!r} is not a whole number; write digits, such as 3")
    return int(text)


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{str(error).lower()}; put a value with spaces in quotes") from None


def _several(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _environment(text: str) -> dict[str, str]:
    return dict(map(typed.variable, _shell_words(text)))


def _write_environment(variables: Mapping[str, str], _: str) -> str:
    return shlex.join(f"{name}={value}" for name, value in variables.items())


def _write_span(seconds: float | None, _: str) -> str:
    """As it reads back: to the millisecond at worst, and untouched it stays as it is."""
    if seconds is None:
        return typed.NONE
    text = format_duration(seconds)
    return text if parse_duration(text) == seconds else f"{seconds:.3f}s"


def _stdin(text: str, _: Context) -> str:
    return text_or_file(text, "stdin")


def text_or_file(text: str, what: str) -> str:
    """`TEXT` or `@FILE`, as on a command line, whose own input a screen has not. Raises UsageError."""
    if text.startswith("@") and not text.startswith("@@") and not Path(text[1:]).is_file():
        raise UsageError(f"{what}: {text[1:][:60]!r} is not a file; @@ begins a text that begins with @")
    return typed.text_or_file(text, what)


def _amounts(write: Callable[[str, Any], str]) -> Callable[[Mapping[str, Any], str], str]:
    return lambda amounts, _: " ".join(write(name, amount) for name, amount in amounts.items())


def _choice(name: str, group: str, hint: str, *choices: str) -> FormField:
    return FormField(name, group, hint, _as_typed, choices=choices)


def _fields() -> Iterable[FormField]:
    what, when, limits, retries, where, environment = GROUPS
    yield FormField("name", what, "A-Z a-z 0-9 . _ -; else one made of the command", _plain(_name))
    yield FormField("command", what, "a shell line, or words that are run without a shell", _as_typed)
    yield FormField(
        *("argv", what, "shell: /bin/sh runs the line; words: the words are run as they are"),
        read=_as_typed,
        write=lambda argv, _: WORDS if argv else SHELL,
        choices=(SHELL, WORDS),
        label="run as",
    )
    yield FormField("describe", what, "a sentence for people", _as_typed)
    yield FormField(
        *("schedule", when, "'30 2 * * *', @daily, @every 90s, @after A,B, @on EVENT, @reboot", _schedule)
    )
    yield FormField(
        *("timezone", when, "the zone its schedule is in, such as Europe/Berlin"),
        read=_plain(lambda text: zone(text).key),
        spelt="tz",
        label="zone",
    )
    yield _choice("gap", when, "a time that the clock leaves out: run after it, or not", "after", "skip")
    yield _choice("fold", when, "a time that comes twice: run at the first, or at both", "first", "both")
    for name, told in (("not_before", "from"), ("not_after", "until")):
        hint = f"it runs {told} then on: 2027-01-01T09:00, tomorrow 09:00, +2h, none"
        yield FormField(name, when, hint.replace("until then on", "until then"), _moment, _write_moment)
    for name, told in (("except", "skip the dates"), ("only", "skip all but the dates")):
        hint = f"{told} of this calendar; none"
        yield FormField(f"{name}_calendar", when, hint, _plain(typed.calendar), spelt=name)
    yield FormField(
        "jitter", when, "spread its starts over so long: 30s, none", _plain(typed.span), _write_span
    )
    yield FormField("timeout", limits, "stop it after so long: 30m, none", _plain(typed.span), _write_span)
    yield FormField(
        *("deadline", limits, "skip a turn not started so long after its time: 1h, none"),
        read=_plain(typed.span),
        write=_write_span,
    )
    yield FormField(
        *("max_running", limits, "how many of its runs may be alive at once: 1, 2, none"),
        read=_plain(typed.max_running),
        write=lambda number, _: typed.NONE if number is None else str(number),
    )
    yield _choice(
        *("overlap", limits, "a turn while so many are alive: skip it, queue it, replace the oldest"),
        *("skip", "queue", "replace"),
    )
    yield _choice("catch_up", limits, "which missed turns to make up for", "last", "skip", "all")
    yield FormField(
        *("catch_up_window", limits, "how far back to make up for them: 24h, none"),
        read=_plain(typed.span),
        write=_write_span,
    )
    yield FormField(
        *("limit", limits, "mem=2G cpu-time=2m files=100 procs=50 file-size=1G core=0"),
        read=_plain(lambda text: parse_limit(_several(text))),
        write=_amounts(format_limit),
    )
    yield FormField("tries", retries, "attempts in all when it fails", _plain(_count))
    yield FormField(
        "backoff", retries, "the wait before the second attempt: 1s", _plain(typed.wait), _write_span
    )
    yield FormField(
        *("backoff_factor", retries, "how many times longer each further wait is: 2"),
        read=_plain(parse_number),
        write=lambda number, _: format_number(number),
    )
    yield FormField("backoff_max", retries, "what no wait exceeds: 1h", _plain(typed.wait), _write_span)
    yield _choice("on_lost", retries, "its node died: tell people, or try again", "dead", "retry")
    yield FormField("queue", where, "its queue, which may have a limit", _plain(str))
    yield _choice("priority", where, "who goes first when slots are short", "normal", "high", "low")
    yield FormField(
        *("require", where, "tags its node must have: ssd zone=eu-1"),
        read=_plain(lambda text: tuple(_several(text))),
        write=lambda tags, _: " ".join(map(str, tags)),
    )
    yield FormField(
        *("every_node", where, "run each turn once on every node that may"),
        read=lambda text, _: text == "yes",
        write=lambda every, _: "yes" if every else "no",
        choices=("no", "yes"),
    )
    yield FormField(
        *("need", where, "what it takes of a node's capacity: gpu=1 mem=8G"),
        read=_plain(lambda text: parse_need(_several(text))),
        write=_amounts(format_amount),
    )
    yield FormField("user", where, "the account it runs as; else the agent's", _plain(str))
    yield FormField("shell", environment, "what runs a shell line", _plain(str))
    yield FormField("cwd", environment, "where it runs; else the account's home", _as_typed)
    yield FormField(
        *("env", environment, "NAME=value 'OTHER=two words'"),
        read=_plain(_environment),
        write=_write_environment,
    )
    yield FormField(
        *("stdin", environment, "what the command reads: TEXT, or @FILE"),
        read=_stdin,
        write=lambda text, _: f"@{text}" if text.startswith("@") else text,
    )


GROUPS = ("what", "when", "limits", "retries", "where", "environment")
FIELDS: Mapping[str, FormField] = MappingProxyType({field.name: field for field in _fields()})
