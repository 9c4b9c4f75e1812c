"""The texts of a task's fields in the form, made by the registry of fields."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcron.errors import UsageError
from dcron.fields import FIELDS, Field
from dcron.model import Definition
from dcron.policy.starting.occurrences import schedule_from
from dcron.values import text_input

SHELL, WORDS = "shell", "words"
"""How a command is run: as a line by a shell, or as words, without one."""
Texts = Mapping[str, str]
"""The texts of all fields, by their names."""


def choices(field: Field) -> tuple[str, ...]:
    """Return the only texts that the field can have, the default first; none if any text can be written."""
    if field.name == "argv":
        return SHELL, WORDS
    known = field.kind.choices
    default = field.kind.format(field.default) if known else ""
    return tuple(sorted(known, key=lambda choice: choice != default))


def read(field: Field, texts: Texts) -> Any:
    """Return the value of the field's text. Raises UsageError."""
    kind, text = field.kind, texts[field.name]
    text = text if kind.keeps_blanks else text.strip()
    match field.name:
        case "argv":
            return text
        case "schedule":
            schedule_from(text, texts["name"])
            return text
        case "stdin":
            return text_or_file(text, field.option)
    if kind.is_many:
        return kind.parse_many(kind.split(text))
    return kind.parse(text, texts["timezone"] or "UTC")


def write(field: Field, value: Any, timezone: str) -> str:
    """Return the text of a value; a time is local to this zone."""
    if field.name == "argv":
        return WORDS if value else SHELL
    return field.kind.format(value, timezone)


def text_of(field: Field, task: Definition) -> str:
    """Return the text of the task's value; empty for the default."""
    value = getattr(task, field.name)
    return "" if value == field.default and not choices(field) else write(field, value, task.timezone)


def texts_of(task: Definition) -> dict[str, str]:
    """Return the texts of a task in the form."""
    return {name: text_of(field, task) for name, field in FIELDS.items()}


def shown(field: Field, task: Definition) -> str:
    """Return the task's value in words, the default too."""
    return text_of(field, task) or placeholder(field) or "none"


def placeholder(field: Field) -> str:
    """Return what an empty text means."""
    value = field.default
    return "" if value in (None, "", (), {}) else write(field, value, "UTC")


def text_or_file(text: str, what: str) -> str:
    """Return `TEXT`, or for `@FILE` what is in the file; a screen has no stdin to read. Raises UsageError."""
    if text.startswith("@") and not text.startswith("@@") and not Path(text[1:]).is_file():
        raise UsageError(f"{what}: {text[1:][:60]!r} is not a file; @@ begins a text that begins with @")
    return text_input.text_or_file(text, what)
