"""The options of a `#dcron:` directive: the task fields by their keys, and words that are no fields."""

from collections.abc import Collection
from typing import Any

from dcron.crontabfile.directive import Word
from dcron.crontabfile.problems import BadLine, shown
from dcron.errors import UsageError
from dcron.fields import BY_DIRECTIVE, FIELDS, Field
from dcron.model import DEFINITION_FIELDS
from dcron.values.similar import similar

UNSET = "unset"
SYSTEM = "system"
WAS = "was"
"""The earlier name of a task, in files that are applied."""
PLACED = {"name", "schedule", "timezone", "command", "argv", "env", "stdin", "shell", "describe", "user"}
"""Fields that a crontab line, an assignment or a comment can say too; the writer decides on each of them."""
_LAST = ("cwd", "shell", "env", "stdin", "argv", "command", "describe")
"""Fields whose values can be long: they come last in a directive."""
ORDER = (*(name for name in DEFINITION_FIELDS if name not in _LAST), *_LAST)
"""The fields in the order of a written directive."""


class FromCommand:
    """The value of the word `argv` alone: the words to execute are those of the command."""


FROM_COMMAND = FromCommand()


def read_option(word: Word) -> Any:
    """Return the value of one word of a directive. Raises BadLine."""
    field = BY_DIRECTIVE.get("name" if word.key == WAS else word.key)
    if field is None:
        known = [*BY_DIRECTIVE, UNSET, SYSTEM, WAS]
        raise BadLine(word.column, f"there is no option {shown(word.key)}{suggestion(word.key, known)}")
    if field.name == "argv" and word.value is None:
        return FROM_COMMAND
    try:
        return field.kind.read(word.value)
    except UsageError as error:
        value = "" if word.value is None else f"={shown(word.value)}"
        raise BadLine(word.value_column, f"{word.key}{value}: {error}") from None


def write_option(field: Field, value: Any) -> str | None:
    """Return the value as a directive has it; None for a word without a value."""
    return None if isinstance(value, FromCommand) else field.kind.write(value)


def suggestion(key: str, known: Collection[str]) -> str:
    """Return `; did you mean …?` for an unknown key, or nothing if no known one is like it."""
    option = key.replace("_", "-").lower()
    names = [
        name for field in FIELDS.values() if field.option == option for name in (field.directive, field.key)
    ]
    near = [*filter(known.__contains__, names), *similar(option.replace("-", "_"), known)]
    return f"; did you mean {near[0]}?" if near else ""
