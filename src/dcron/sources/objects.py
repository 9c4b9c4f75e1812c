"""Read the objects of tasks in JSON and TOML: each key is that of a task field (`fields/registry.py`)."""

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dcron.crontabfile import MAX_SCHEDULE, MAX_VARIABLES
from dcron.crontabfile.names import default_name
from dcron.crontabfile.options import WAS, suggestion
from dcron.errors import UsageError
from dcron.fields import BY_KEY, FIELDS
from dcron.model import Definition
from dcron.schedule import parser
from dcron.sources.values import Mistakes, Place, SourceTask
from dcron.values import json_values

NAME = "name"
STATE_KEYS = frozenset(
    {
        *(
            "enabled",
            "paused_reason",
            "paused_by",
            "paused_until",
            "next_run_at",
            "last_run",
            "node_id",
            "revision",
            *("owner", "version"),
        ),
        *("once", "error", "failed", "late", "frozen", "frozen_until", "dead", "source", "drifted"),
        *("unserved", "alerts"),
    }
)
"""The keys of a task in `--json` that are not part of its definition. A JSON file may have them."""


@dataclass(frozen=True)
class TaskObject:
    """A task as a JSON or TOML file has it."""

    name: str | None
    """Its name; None if the object gives it."""
    values: Mapping[str, Any]
    file: str
    line_of: Callable[..., int]
    """Return the line of a key; of the object if none is given."""

    def place(self, *key: str) -> Place:
        """Return the place of a key, or of the object."""
        return Place(self.file, self.line_of(*key))


def read_task(
    task: TaskObject, *, timezone: str, ignored: Collection[str], mistakes: Mistakes
) -> SourceTask | None:
    """Return the task; or None, once each of its mistakes is reported."""
    name = _name(task, mistakes)
    values = _values(task, name, ignored, mistakes)
    was = values.pop(WAS, None) if values else None
    if name is None or values is None:
        return None
    definition = Definition(**{"timezone": timezone, **values, NAME: name})
    return SourceTask(definition, task.place(), was)


def _name(task: TaskObject, mistakes: Mistakes) -> str | None:
    given = task.values.get(NAME) if task.name is None else task.name
    if given is None:
        command = task.values.get("command")
        name = default_name(command) if isinstance(command, str) and command else "backup"
        mistakes.add(task.place(), f'the task has no name; give it one, such as "name": "{name}"')
        return None
    try:
        return str(FIELDS[NAME].kind.from_json(given))
    except UsageError as error:
        mistakes.add(task.place(NAME) if task.name is None else task.place(), str(error))
        return None


def _values(
    task: TaskObject, name: str | None, ignored: Collection[str], mistakes: Mistakes
) -> dict[str, Any] | None:
    """Return the values of the fields by name, and `was`; or None, once each mistake is reported."""
    about = "" if name is None else f"{name}: "
    found: dict[str, Any] = {}
    missing = [key for key in ("schedule", "command") if key not in task.values]
    if task.values.get("argv"):
        missing = [key for key in missing if key != "command"]
    for key in missing:
        mistakes.add(task.place(), f"{about}there is no {key}")
    is_good = not missing
    for key, value in task.values.items():
        if key in ignored or (key == NAME and task.name is None):
            continue
        try:
            field = _field_name(key, value, name)
            found[field] = _value(field, value, name or "")
        except UsageError as error:
            mistakes.add(task.place(key), f"{about}{error}")
            is_good = False
    if is_good and "command" not in found:
        found["command"] = shlex.join(found["argv"])
    return found if is_good else None


def _field_name(key: str, value: Any, name: str | None) -> str:
    if key == WAS:
        return WAS
    if key == NAME:
        raise UsageError("the name of the task is that of its table; leave out this one")
    if key in STATE_KEYS:
        raise UsageError(f'"{key}" is no part of a definition; leave it out')
    if key not in BY_KEY and isinstance(value, dict) and name:
        whole = json_values.shown(f"{name}.{key}")
        raise UsageError(f"there is no key {json_values.shown(key)}; a name with a dot is quoted: {whole}")
    if key not in BY_KEY:
        raise UsageError(f"there is no key {json_values.shown(key)}{suggestion(key, [*BY_KEY, WAS])}")
    return BY_KEY[key].name


def _value(field: str, value: Any, name: str) -> Any:
    """Return the value of a field. Raises UsageError, with the key."""
    declared = FIELDS[NAME if field == WAS else field]
    key = WAS if field == WAS else declared.key
    if value is None and declared.default is None and field not in (WAS, "schedule", "timezone", "command"):
        return None
    try:
        read = declared.kind.from_json(value)
        if field == "schedule":
            _require_schedule(read, name)
    except UsageError as error:
        raise UsageError(f"{key}: {error}") from None
    if field == "env" and len(read) > MAX_VARIABLES:
        raise UsageError(f"env: there are more than {MAX_VARIABLES} variables")
    return read


def _require_schedule(text: str, name: str) -> None:
    if len(text) > MAX_SCHEDULE:
        raise UsageError(f"the schedule has more than {MAX_SCHEDULE} characters")
    parser.parse(text, name=name)
