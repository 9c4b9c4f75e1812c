"""From the texts of a form to a line of the crontab, or to what is wrong with which of them."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dcron.crontabfile.names import default_name
from dcron.errors import ScheduleError, UsageError, ZoneError
from dcron.model import Definition, Task
from dcron.tui.forms.fields import FIELDS, WORDS, FormField
from dcron.validation import require_valid

GENERAL = ""
"""Names what is wrong with the line as a whole."""
Texts = Mapping[str, str]
_BEGINNINGS = {"the command": "command", "argv": "command", "H ": "schedule"}


@dataclass(frozen=True)
class Reading:
    """What the texts say."""

    line: Definition
    """As far as they can be read; where they cannot, it is as it was."""
    errors: Mapping[str, str]
    """By the names of fields: what is wrong, and what would be right."""
    named: bool = True
    """Whether a name was typed; else it is made of the command, and may get a number."""


def texts_of(line: Definition) -> dict[str, str]:
    """The line as it stands in the form."""
    return {name: field.text_of(line) for name, field in FIELDS.items()}


def read_texts(base: Definition, texts: Texts, now: datetime) -> Reading:
    """The line that the texts make of `base`. What was not touched stays just as it was.

    The one reading of a form, for its preview and for its saving: all that a writer would refuse, but what
    only the database knows.
    """
    before = texts_of(base)
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, field in FIELDS.items():
        if texts[name] == before[name] and name not in ("name", "schedule", "timezone"):
            continue
        try:
            values[name] = _read(field, texts)
        except UsageError as error:
            errors[name] = str(error)
    values |= _command(base, texts, before, errors)
    named = bool(texts["name"].strip())
    if not named:
        errors.pop("name", None)
        values["name"] = default_name(values.get("command", base.command) or "task")
    line = replace(base, **values)
    if not errors:
        errors = _found_in(line, now, base if isinstance(base, Task) else None)
    return Reading(line, errors, named)


def merged(base: Definition, mine: Definition, theirs: Definition) -> Definition:
    """Theirs, with what is other in mine than it was in what both began with."""
    return replace(theirs, **{name: getattr(mine, name) for name in changed_fields(base, mine)})


def changed_fields(before: Definition, after: Definition) -> list[str]:
    """The names of the fields that differ, in the order of the form."""
    return [name for name in FIELDS if getattr(before, name) != getattr(after, name)]


def place_of(error: UsageError) -> str:
    """The field that an error is about, as far as its words tell."""
    if isinstance(error, ZoneError):
        return "timezone"
    text = str(error)
    for name, field in FIELDS.items():
        if text.startswith((f"{field.option}:", f"{field.option} ", f"there is no {name} ")):
            return name
    for beginning, name in _BEGINNINGS.items():
        if text.startswith(beginning):
            return name
    if isinstance(error, ScheduleError):
        return "schedule"
    return "name" if "task's name" in text else GENERAL


def _read(field: FormField, texts: Texts) -> Any:
    text = texts[field.name]
    if not text.strip() and field.name not in ("name", "schedule", "command", "timezone"):
        return field.default
    return field.read(text, texts)


def _command(base: Definition, texts: Texts, before: Texts, errors: dict[str, str]) -> dict[str, Any]:
    """The command and its words, which are two sides of one thing."""
    if all(texts[name] == before[name] for name in ("command", "argv")):
        return {"command": base.command, "argv": base.argv}
    if texts["argv"] != WORDS:
        return {"command": texts["command"], "argv": None}
    try:
        words = tuple(shlex.split(texts["command"]))
    except ValueError as error:
        errors["command"] = f"{str(error).lower()}; the words are taken apart as by a shell"
        return {}
    return {"command": shlex.join(words), "argv": words or None}


def _found_in(line: Definition, now: datetime, before: Task | None) -> dict[str, str]:
    try:
        require_valid(line, now, before)
    except UsageError as error:
        return {place_of(error): str(error)}
    return {}
