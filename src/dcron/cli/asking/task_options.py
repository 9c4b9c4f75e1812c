"""The task options of `add`, `set`, `at` and `preview`, made from the registry of fields."""

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import typer

from dcron.errors import UsageError, ZoneError
from dcron.fields import BY_NAME, CLEARABLE, FIELDS, OPTIONS, Field
from dcron.model import COMMAND_FIELDS

T = TypeVar("T")
TRIES_WHEN_LOST = 3
TRIAL = "Trial"
"""The section of options that make a trial of a run."""
_BY_OPTION = {field.option: field for field in OPTIONS}
_PARTS = tuple(f"{FIELDS[name].option}.NAME" for name in BY_NAME)


class TaskOptions:
    """The task options of one command line, as typed. One that was not given is None, or an empty list."""

    fields: tuple[Field, ...] = OPTIONS

    def __init__(self, **typed: Any) -> None:
        """Take the typed values, by the names of fields."""
        self._typed = typed

    @property
    def is_empty(self) -> bool:
        """Whether no option was given."""
        return all(typed in (None, []) for typed in self._typed.values())

    def __getitem__(self, name: str) -> Any:
        """Return the typed value for the field of this name."""
        return self._typed[name]

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the parameters from which typer makes the options."""
        return [*map(_parameter, cls.fields), _after_parameter()]

    def require_valid(self) -> None:
        """Raise UsageError for a value that is valid for no task."""
        for name, value in self.values("UTC").items():
            field = FIELDS[name]
            if name != "name" and value != field.default and (problem := field.kind.problem(value)):
                raise UsageError(f"--{field.option}: {problem}")

    def values(self, timezone: str) -> dict[str, Any]:
        """Return the fields that were given; times are read in this zone. Raises UsageError."""
        return self._without_times | self._read(lambda field: field.kind.needs_zone, timezone)

    @cached_property
    def _without_times(self) -> dict[str, Any]:
        """The values that are the same for every zone. They are read once: one may be on stdin."""
        return self._read(lambda field: not field.kind.needs_zone, "UTC")

    def _read(self, wanted: Callable[[Field], bool], timezone: str) -> dict[str, Any]:
        # An option that may be repeated comes as an empty list when it is not given.
        given = [field for field in self.fields if wanted(field) and self[field.name] not in (None, [])]
        return {field.name: _value(field, self[field.name], timezone) for field in given}


class ChangeOptions(TaskOptions):
    """The options of `set`. Their help names no defaults: what is not given stays as it is."""

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the parameters from which typer makes the options."""
        return [*(_parameter(field, f"{field.help}.") for field in cls.fields), _after_parameter()]


class RuleOptions(TaskOptions):
    """The options that decide which occurrences a schedule has."""

    fields = tuple(field for field in OPTIONS if field.is_rule)

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the parameters from which typer makes the options."""
        return [*map(_parameter, cls.fields)]


class TrialOptions(TaskOptions):
    """The options that decide what a command does, without its timeout: `run` has another such option."""

    fields = tuple(field for field in OPTIONS if field.name in COMMAND_FIELDS and field.name != "timeout")

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the parameters from which typer makes the options."""
        return [_parameter(field, f"{field.help}.", TRIAL) for field in cls.fields]


def named(option: str, read: Callable[[Any], T], value: Any) -> T:
    """Return the value that was read. Raises UsageError with the option's name, but for a bad zone."""
    try:
        return read(value)
    except ZoneError:
        raise
    except UsageError as error:
        raise UsageError(f"--{option}: {error}") from None


def command_text(words: Sequence[str]) -> tuple[str, tuple[str, ...] | None]:
    """Return a command's text, and its argv where it has several words: one word is a shell line."""
    return (words[0], None) if len(words) == 1 else (shlex.join(words), tuple(words))


def with_tries(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values, with a number of tries for a task that is retried when lost and gives none."""
    if values.get("on_lost") == "retry" and "tries" not in values:
        return {**values, "tries": TRIES_WHEN_LOST}
    return values


def cleared(names: Sequence[str], task: Any) -> dict[str, Any]:
    """Return the fields that `--clear` puts back to their defaults. Raises UsageError."""
    values: dict[str, Any] = {}
    for name in names:
        option, dot, part = name.partition(".")
        field = _BY_OPTION.get(option)
        if field and field.is_clearable and not dot:
            values[field.name] = field.default
        elif field and dot and field.kind.is_by_name:
            values[field.name] = _without(part, values.get(field.name, getattr(task, field.name)), name)
        else:
            parts = ", ".join(_PARTS)
            raise UsageError(f"--clear {name}: give one of {', '.join(CLEARABLE)}, {parts}")
    return values


def clearable(names: Sequence[str], task: Any) -> list[str]:
    """Return what `--clear` names, without values by name that this task lacks: one of many may."""
    return [name for name in names if not _is_absent(name, task)]


def _is_absent(name: str, task: Any) -> bool:
    option, dot, part = name.partition(".")
    field = _BY_OPTION.get(option)
    return bool(dot and field and field.kind.is_by_name and part not in getattr(task, field.name))


def require_one_wish(names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise UsageError where `--clear` names what another option gives: one of the two would be lost.

    `--clear env -e A=1` has a meaning: the task then has only the variable A.
    """
    for name in names:
        option, dot, part = name.partition(".")
        field = _BY_OPTION[option]
        if part in given.get(field.name, ()) if dot else not field.kind.is_by_name and field.name in given:
            raise UsageError(f"--clear {name}: another option gives it a value; leave one of the two out")


def added(given: Mapping[str, Any], task: Any) -> dict[str, Any]:
    """Return the fields that were given; values by name are added to those that the task has."""
    both = {name: {**getattr(task, name), **given[name]} for name in BY_NAME if name in given}
    return {**given, **both}


def _after_parameter() -> inspect.Parameter:
    """Return the hidden option `--after`, which explains how to write it."""
    option = typer.Option(
        "--after",
        metavar="TASK,TASK",
        help="Not an option: write '@after TASK,TASK' for the schedule.",
        hidden=True,
        is_eager=True,
        callback=_explain_after,
    )
    return _keyword("after", Annotated[str | None, option])


def _explain_after(value: str | None) -> None:
    if value is not None:
        raise UsageError(
            f"--after: what a task comes after is its schedule; write '@after {value}' for the schedule"
            f" (`set`: --schedule '@after {value}')"
        )


def _parameter(field: Field, text: str = "", panel: str = "") -> inspect.Parameter:
    """Return the parameter of a field; `text` and `panel` replace its help and the section that it is in."""
    is_flag = field.kind.typed is bool
    option = typer.Option(
        *([field.short] if field.short else []),
        f"--{field.option}/--no-{field.option}" if is_flag else f"--{field.option}",
        metavar=None if is_flag else field.metavar,
        help=text or field.option_help,
        rich_help_panel=panel or field.group.title(),
    )
    return _keyword(field.name, Annotated[_typed(field), option])


def _typed(field: Field) -> Any:
    if field.kind.is_many:
        return list[str] | None
    if field.kind.typed is bool:
        return bool | None
    return (Literal[field.kind.choices] if field.kind.choices else str) | None


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(field: Field, typed: Any, timezone: str) -> Any:
    """Return the value of a typed text; of a flag, typer has made a bool."""
    if field.kind.is_many:
        return named(field.option, field.kind.parse_many, typed)
    if not isinstance(typed, str):
        return typed
    return named(field.option, lambda text: field.kind.parse(text, timezone), typed)


def _without(part: str, values: Mapping[str, Any], name: str) -> dict[str, Any]:
    if part not in values:
        raise UsageError(f"--clear {name}: the task has none of this name; `dcron view` shows what it has")
    return {each: value for each, value in values.items() if each != part}
