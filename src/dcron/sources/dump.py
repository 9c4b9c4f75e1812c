"""Dump files: a whole crontab without its history as one JSON text (`write`), and back (`read`). Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dcron.errors import UsageError
from dcron.model import Definition, Ownership, Pause, TaskState

FORMAT = 1
"""The newest version of the file that this program reads, and the one it writes."""
MOST = 2**53
"""Largest number of a dump: beyond it, JSON readers may round."""
MAX_BYTES = 256 * 1024 * 1024
_HEAD = "dcron_dump"


@dataclass(frozen=True, kw_only=True)
class DumpedTask:
    """A task and its state, without its history."""

    state: TaskState
    next: datetime | None = None
    """The scheduled time of its next run, or of one that is due; None if it has none."""


@dataclass(frozen=True, kw_only=True)
class Dump:
    """A whole crontab without its history; each part is a mapping by name."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    queues: Mapping[str, int | None] = field(default_factory=dict)
    """Limits: how many runs of the queue may be alive at once; None is no limit."""
    tasks: Mapping[str, DumpedTask] = field(default_factory=dict)


def write(dump: Dump) -> str:
    """Return the file's text: ASCII, in a fixed order, the same for the same crontab."""
    document = {
        _HEAD: FORMAT,
        "settings": dict(sorted(dump.settings.items())),
        "calendars": dict(sorted(dump.calendars.items())),
        "queues": dict(sorted(dump.queues.items())),
        "tasks": [task_json(dump.tasks[name]) for name in sorted(dump.tasks)],
    }
    return json.dumps(document, indent=1) + "\n"


def task_json(task: DumpedTask) -> dict[str, Any]:
    """Return the task as JSON, with all fields, even those that have their defaults."""
    state = task.state
    values = {each.name: _json(getattr(state.definition, each.name)) for each in fields(Definition)}
    pause = state.pause and {each.name: _json(getattr(state.pause, each.name)) for each in fields(Pause)}
    about = {"once": state.once, **state.ownership._asdict()}
    return {**values, **about, "pause": pause, "next": _json(task.next)}


def read(text: str) -> Dump:
    """Return the dump that a file holds. Raises UsageError, which says what is wrong and where."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"this is not a whole dump of dcron: line {error.lineno}, column {error.colno}:"
            f" {error.msg[:1].lower()}{error.msg[1:]}"
        ) from None
    except RecursionError:
        raise UsageError("this is not a dump of dcron: it is nested too deeply") from None
    _require_format(document)
    _require_storable(document)
    parts = {"settings": dict, "calendars": dict, "queues": dict, "tasks": list}
    for name in document.keys() - parts.keys() - {_HEAD}:
        raise UsageError(f"this dump has a part {name[:60]!r} that no dump has")
    for name, kind in parts.items():
        if not isinstance(document.get(name), kind):
            raise UsageError(
                f"this is not a whole dump of dcron: its {name} are missing, or not {_kind(kind)}"
            )
    tasks = [_task(each, number) for number, each in enumerate(document["tasks"], 1)]
    by_name = {task.state.definition.name: task for task in tasks}
    if len(by_name) < len(tasks):
        names = [task.state.definition.name for task in tasks]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"this dump has the task {twice!r} twice")
    calendars = {
        name: _value(dict[str, Any], value, f"calendar {name}")
        for name, value in document["calendars"].items()
    }
    queues = {name: _value(int | None, value, f"queue {name}") for name, value in document["queues"].items()}
    return Dump(settings=document["settings"], calendars=calendars, queues=queues, tasks=by_name)


def _require_format(document: Any) -> None:
    version = document.get(_HEAD) if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f'this is not a dump of dcron: it does not begin with "{_HEAD}": {FORMAT}')
    if version > FORMAT:
        raise UsageError(
            f"this dump has format {version}, made by a newer dcron; this one reads {FORMAT}:"
            " upgrade dcron here"
        )


def _require_storable(document: Any) -> None:
    """Raise UsageError for a text that no database and no command can take."""
    text = json.dumps(document, ensure_ascii=False)
    if "\\u0000" in text.replace("\\\\", ""):
        raise UsageError("this dump has a text with a NUL character, which no crontab has")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("this dump has a text that is not valid Unicode") from None


def _task(document: Any, number: int) -> DumpedTask:
    if not isinstance(document, dict):
        raise UsageError(f"task {number} of the dump is not an object")
    name = document.get("name")
    where = f"task {name[:100]!r}" if isinstance(name, str) else f"task {number} of the dump"
    own = {each: value for each, value in document.items() if each in _DEFINITION}
    rest = {each: value for each, value in document.items() if each not in _DEFINITION}
    definition = _object(Definition, _DEFINITION, own, where)
    dumped = rest.pop("pause", None)
    pause = None if dumped is None else _object(Pause, _PAUSE, dumped, f"{where}: pause")
    about = _object(_State, _STATE, rest, where)
    state = TaskState(definition, pause, about.once, Ownership(about.source, about.applied))
    return DumpedTask(state=state, next=about.next)


@dataclass(frozen=True, kw_only=True)
class _State:
    once: bool = False
    source: str | None = None
    applied: str | None = None
    next: datetime | None = None


_DEFINITION = get_type_hints(Definition)
_PAUSE = get_type_hints(Pause)
_STATE = get_type_hints(_State)


def _object(kind: Callable[..., Any], hints: Mapping[str, Any], document: Any, where: str) -> Any:
    """Return the dataclass that the document describes; missing fields get their defaults."""
    if not isinstance(document, dict):
        raise UsageError(f"{where}: this is not an object")
    for name in document.keys() - hints.keys():
        raise UsageError(f"{where}: there is no field {name[:60]!r}")
    required = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}  # type: ignore[arg-type]
    for name in sorted(required - document.keys()):
        raise UsageError(f"{where}: the field {name} is missing")
    return kind(**{name: _value(hints[name], value, f"{where}: {name}") for name, value in document.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """Return the value of a field of this type. Raises UsageError for one of another type."""
    found = _read(hint, value)
    if found is _WRONG:
        raise UsageError(f"{where}: {_short(value)} is not {_kind(hint)}")
    return found


_WRONG = object()
_UNIONS = (UnionType, Union)
"""`X | None`, and the same with a Literal in it."""


def _read(kind: Any, value: Any) -> Any:
    if get_origin(kind) in _UNIONS:
        read = (_read(each, value) for each in get_args(kind))
        return next((found for found in read if found is not _WRONG), _WRONG)
    origin = get_origin(kind)
    if origin is Literal:
        return value if value in get_args(kind) else _WRONG
    if origin is tuple:
        is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(value) if is_texts else _WRONG
    if origin is not None:
        return _read_mapping(get_args(kind)[1], value)
    if kind is datetime:
        return _read_time(value)
    if kind in (int, float):
        is_number = isinstance(value, kind | int) and not isinstance(value, bool)
        return kind(value) if is_number and abs(value) < MOST else _WRONG
    return value if isinstance(value, kind) else _WRONG


def _read_mapping(kind: Any, value: Any) -> Any:
    """Return names and values; a number keeps its type."""
    if not isinstance(value, dict):
        return _WRONG
    right = kind is Any or all(_read(kind, each) is not _WRONG for each in value.values())
    return value if right else _WRONG


def _read_time(value: Any) -> Any:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return _WRONG
    return _WRONG if time.tzinfo is None else time.astimezone(UTC)


def _kind(hint: Any) -> str:
    """Name a type for people."""
    if get_origin(hint) in _UNIONS:
        return " or ".join(_kind(each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(map(json.dumps, get_args(hint)))
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
    names |= {datetime: "a time such as 2027-01-01T09:00:00Z", dict: "an object", list: "a list"}
    origin = get_origin(hint)
    return names.get(hint) or ("a list of texts" if origin is tuple else "an object of names and values")


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _refuse_constant(name: str) -> None:
    raise UsageError(f"this is not a dump of dcron: {name} is no number of JSON")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
