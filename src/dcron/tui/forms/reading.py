"""Read the texts of a form into a task, or report what is wrong with which text."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dcron.crontabfile.names import default_name
from dcron.errors import UsageError
from dcron.fields import FIELDS, Field
from dcron.model import REQUIRED_FIELDS, Definition, Task
from dcron.policy.validation import require_valid
from dcron.tui.forms.fields import WORDS, Texts, read, texts_of

GENERAL = ""
"""Key of an error that is about the task as a whole."""


@dataclass(frozen=True)
class Reading:
    """The result of reading the texts."""

    task: Definition
    """The task. A text that cannot be read leaves its field unchanged."""
    errors: Mapping[str, str]
    """What is wrong and what would be right, by the names of fields."""
    named: bool = True
    """Whether a name was typed. If not, it is made from the command, and may get a number."""


def read_texts(base: Definition, texts: Texts, now: datetime) -> Reading:
    """Return the task that the texts make of `base`. A text that did not change leaves its field unchanged.

    The preview of a form and its saving both use it. It finds every error, but for those that only the
    database can find.
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
    task = replace(base, **values)
    if not errors:
        errors = _found_in(task, now, base if isinstance(base, Task) else None)
    return Reading(task, errors, named)


def merged(base: Definition, mine: Definition, theirs: Definition) -> Definition:
    """Return `theirs` with the changes that `mine` makes to `base`."""
    return replace(theirs, **{name: getattr(mine, name) for name in changed_fields(base, mine)})


def changed_fields(before: Definition, after: Definition) -> list[str]:
    """Return the names of the fields that differ, in the order of the form."""
    return [name for name in FIELDS if getattr(before, name) != getattr(after, name)]


def _read(field: Field, texts: Texts) -> Any:
    if not texts[field.name].strip() and field.name not in REQUIRED_FIELDS:
        return field.default
    return read(field, texts)


def _command(base: Definition, texts: Texts, before: Texts, errors: dict[str, str]) -> dict[str, Any]:
    """Return the command and its words, which depend on each other."""
    if all(texts[name] == before[name] for name in ("command", "argv")):
        return {"command": base.command, "argv": base.argv}
    if texts["argv"] != WORDS:
        return {"command": texts["command"], "argv": None}
    try:
        words = tuple(shlex.split(texts["command"]))
    except ValueError as error:
        errors["command"] = f"{str(error).lower()}; the words are split as a shell splits them"
        return {}
    return {"command": shlex.join(words), "argv": words or None}


def _found_in(task: Definition, now: datetime, before: Task | None) -> dict[str, str]:
    try:
        require_valid(task, now, before)
    except UsageError as error:
        return {error.field or GENERAL: str(error)}
    return {}
