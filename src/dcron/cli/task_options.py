"""The options that describe a task: declared once, for `add`, `set`, `at` and `in`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from dcron.cli import policy_options
from dcron.cli.policy_options import PolicyOptions, named
from dcron.errors import UsageError
from dcron.model import Definition
from dcron.typed import calendar, max_running, named_moment, span, text_or_file, variable


@dataclass(frozen=True)
class RuleOptions:
    """The options that bear on a schedule's occurrences; None is not given."""

    gap: Annotated[
        Literal["after", "skip"] | None,
        typer.Option(
            "--gap", metavar="after|skip", help="A time that the clock leaves out: run after it, or not."
        ),
    ] = None
    fold: Annotated[
        Literal["first", "both"] | None,
        typer.Option(
            "--fold", metavar="first|both", help="A time that comes twice: run at the first, or at both."
        ),
    ] = None
    not_before: Annotated[
        str | None, typer.Option("--not-before", metavar="TIME|none", help="It runs from then on.")
    ] = None
    not_after: Annotated[
        str | None, typer.Option("--not-after", metavar="TIME|none", help="It runs until then.")
    ] = None
    except_calendar: Annotated[
        str | None,
        typer.Option("--except", metavar="CALENDAR|none", help="Skip the dates of this calendar."),
    ] = None
    only_calendar: Annotated[
        str | None,
        typer.Option("--only", metavar="CALENDAR|none", help="Skip all dates but those of this calendar."),
    ] = None

    def rules(self, timezone: str) -> dict[str, Any]:
        """The fields of a Definition that were given, times read in this zone. Raises UsageError."""
        values: dict[str, Any] = {"gap": self.gap, "fold": self.fold}
        values = {field: value for field, value in values.items() if value is not None}
        for field in ("not_before", "not_after"):
            if (text := getattr(self, field)) is not None:
                values[field] = named_moment(text, timezone, f"--{field.replace('_', '-')}")
        for field in ("except_calendar", "only_calendar"):
            if (text := getattr(self, field)) is not None:
                values[field] = calendar(text)
        return values


@dataclass(frozen=True)
class CommandOptions:
    """The options that describe a command; None is not given."""

    name: Annotated[
        str | None,
        typer.Option("-n", "--name", metavar="NAME", help="Its name, else one made of the command."),
    ] = None
    tz: Annotated[
        str | None,
        typer.Option(
            "-z", "--tz", metavar="ZONE", help="The zone its schedule is in, such as Europe/Berlin."
        ),
    ] = None
    stdin: Annotated[
        str | None, typer.Option("--stdin", metavar="TEXT|@FILE", help="What the command reads on stdin.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("-e", "--env", metavar="NAME=VALUE", help="A variable of its environment; repeatable."),
    ] = None
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Where it runs; else the account's home.")
    ] = None
    shell: Annotated[
        str | None, typer.Option("--shell", metavar="PATH", help="What runs a shell line; else /bin/sh.")
    ] = None
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="The account it runs as; else the agent's.")
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="30m|none", help="Stop it, with all its children, after so long."),
    ] = None
    max_running: Annotated[
        str | None,
        typer.Option(
            "--max-running",
            metavar="N|none",
            help="How many of its runs may be alive at once (--every-node: on each node); else 1.",
        ),
    ] = None
    describe: Annotated[
        str | None, typer.Option("--describe", metavar="TEXT", help="A sentence for people.")
    ] = None

    def words(self) -> dict[str, Any]:
        """The fields of a Definition that were given. Raises UsageError."""
        given: dict[str, Any] = {
            "name": self.name,
            "timezone": self.tz,
            "cwd": self.cwd,
            "shell": self.shell,
            "user": self.user,
            "describe": self.describe,
        }
        values = {field: value for field, value in given.items() if value is not None}
        if self.stdin is not None:
            values["stdin"] = text_or_file(self.stdin, "--stdin")
        if self.env:
            values["env"] = dict(named("env", variable, each) for each in self.env)
        if self.timeout is not None:
            values["timeout"] = named("timeout", span, self.timeout)
        if self.max_running is not None:
            values["max_running"] = named("max_running", max_running, self.max_running)
        return values


@dataclass(frozen=True)
class TaskOptions(RuleOptions, PolicyOptions, CommandOptions):
    """All of them, the command's first."""

    def values(self, timezone: str) -> dict[str, Any]:
        """The fields of a Definition that were given, times read in this zone. Raises UsageError."""
        return self.words() | self.policies() | self.rules(timezone)


def command_text(words: Sequence[str]) -> tuple[str, tuple[str, ...] | None]:
    """A command as typed: one word is a shell line, several are an argv. The line to read, and the argv."""
    return (words[0], None) if len(words) == 1 else (shlex.join(words), tuple(words))


CLEARABLE = (
    *("stdin", "env", "cwd", "shell", "user", "timeout", "max-running"),
    *policy_options.CLEARABLE,
    *("gap", "fold", "not-before", "not-after", "except", "only", "describe"),
)
BY_NAME = ("env", "need", "limit")
"""Options that hold values by name: `set` adds to them, and `--clear env.DEBUG` takes one out."""


def cleared(names: Sequence[str], line: Definition) -> dict[str, Any]:
    """The fields that `--clear` puts back to what `add` gives without the option. Raises UsageError."""
    from dcron.crontabfile.options import DEFAULTS

    values: dict[str, Any] = {}
    for name in names:
        option, dot, part = name.partition(".")
        if name in CLEARABLE:
            values[_field(name)] = DEFAULTS[_field(name)]
        elif dot and option in BY_NAME:
            values[option] = _without(part, values.get(option, getattr(line, option)), name)
        else:
            raise UsageError(
                f"--clear {name}: give one of {', '.join(CLEARABLE)} or env.NAME, need.NAME, limit.NAME"
            )
    return values


def require_one_wish(names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise UsageError where `--clear` names what another option gives: one of both would be lost.

    `--clear env -e A=1` has a meaning: A is the only one then.
    """
    for name in names:
        option, dot, part = name.partition(".")
        if part in given.get(option, ()) if dot else option not in BY_NAME and _field(name) in given:
            raise UsageError(f"--clear {name}: another option gives it a value; leave one of the two out")


def _field(option: str) -> str:
    return f"{option}_calendar" if option in ("except", "only") else option.replace("-", "_")


def _without(part: str, values: Mapping[str, Any], name: str) -> dict[str, Any]:
    if part not in values:
        raise UsageError(f"--clear {name}: the task has none of this name; `dcron view` shows what it has")
    return {each: value for each, value in values.items() if each != part}
