"""The fields of the form, made of the registry: a text for each field of a task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dcron import text_input
from dcron.errors import UsageError
from dcron.fields import FIELDS as REGISTRY
from dcron.fields import GROUPS, Field
from dcron.model import Definition
from dcron.policy import schedule_of

__all__ = ["FIELDS", "GROUPS", "FormField", "placeholder", "shown", "text_or_file"]

SHELL, WORDS = "shell", "words"
"""How a command is run: as a line by a shell, or as words, without one."""
Context = Mapping[str, str]
"""The texts of all fields, for one that depends on another."""


@dataclass(frozen=True)
class FormField:
    """A field of a task in the form."""

    declared: Field
    choices: tuple[str, ...]
    """The only texts there are; the first is the default."""

    @property
    def name(self) -> str:
        """The field's name."""
        return self.declared.name

    @property
    def group(self) -> str:
        """The group in which it is shown."""
        return self.declared.group

    @property
    def hint(self) -> str:
        """What to write, on one line."""
        return self.declared.hint

    @property
    def option(self) -> str:
        """The option of `add`, without its dashes."""
        return self.declared.option

    @property
    def title(self) -> str:
        """Its label."""
        return self.declared.title

    @property
    def default(self) -> Any:
        """The value of an empty text."""
        return self.declared.default

    def read(self, text: str, texts: Context) -> Any:
        """Return the value of a text. Raises UsageError."""
        kind = self.declared.kind
        text = text if kind.keeps_blanks else text.strip()
        match self.name:
            case "argv":
                return text
            case "schedule":
                schedule_of(text, texts["name"])
                return text
            case "stdin":
                return text_or_file(text, self.option)
        if kind.is_many:
            return kind.parse_many(kind.split(text))
        return kind.parse(text, texts["timezone"] or "UTC")

    def write(self, value: Any, timezone: str) -> str:
        """Return the text of a value; a time is local to this zone."""
        if self.name == "argv":
            return WORDS if value else SHELL
        return self.declared.kind.format(value, timezone)

    def text_of(self, task: Definition) -> str:
        """Return the text of the task's value; empty for the default."""
        value = getattr(task, self.name)
        if value == self.default and not self.choices:
            return ""
        return self.write(value, task.timezone)


def shown(field: FormField, task: Definition) -> str:
    """Return the task's value in words, the default too."""
    return field.text_of(task) or placeholder(field) or "none"


def placeholder(field: FormField) -> str:
    """Return what an empty text means."""
    value = field.default
    return "" if value in (None, "", (), {}) else field.write(value, "UTC")


def text_or_file(text: str, what: str) -> str:
    """Return `TEXT`, or for `@FILE` what is in the file; a screen has no stdin to read. Raises UsageError."""
    if text.startswith("@") and not text.startswith("@@") and not Path(text[1:]).is_file():
        raise UsageError(f"{what}: {text[1:][:60]!r} is not a file; @@ begins a text that begins with @")
    return text_input.text_or_file(text, what)


def _form_field(field: Field) -> FormField:
    if field.name == "argv":
        return FormField(field, (SHELL, WORDS))
    choices = field.kind.choices
    default = field.kind.format(field.default) if choices else ""
    return FormField(field, tuple(sorted(choices, key=lambda choice: choice != default)))


FIELDS: Mapping[str, FormField] = MappingProxyType(
    {name: _form_field(field) for name, field in REGISTRY.items()}
)
