"""Write the command line that does the same as a form."""

import shlex
from collections.abc import Iterator, Mapping

from dcron.fields import BY_NAME, FIELDS, Field
from dcron.model import Definition
from dcron.tui.forms.checking import changed_fields
from dcron.tui.forms.fields import text_of, write

_PLACED = ("schedule", "command", "argv", "name", "timezone")


def add_line(task: Definition, *, named: bool = True) -> str:
    """Return the `dcron add` of a new task."""
    words = ["-n", task.name] if named else []
    words += ["-z", task.timezone]
    blank = Definition(name="", schedule="", timezone="", command="")
    for name in changed_fields(blank, task):
        if name not in _PLACED:
            words += _options(FIELDS[name], blank, task)
    return shlex.join(["dcron", "add", *words, task.schedule, *(task.argv or (task.command,))])


def set_line(before: Definition, after: Definition) -> str:
    """Return the `dcron set` for the difference, or `dcron edit` for words that run without a shell."""
    changed = changed_fields(before, after)
    if after.argv and {"command", "argv"} & set(changed):
        return shlex.join(["dcron", "edit", before.name])
    words = [word for name in changed if name != "argv" for word in _options(FIELDS[name], before, after)]
    return shlex.join(["dcron", "set", before.name, *words])


def _options(field: Field, before: Definition, after: Definition) -> Iterator[str]:
    """Return the options that change one field."""
    old, value = getattr(before, field.name), getattr(after, field.name)
    if field.name in BY_NAME:
        yield from _by_name(field, old, value)
    elif isinstance(value, bool):
        yield f"--{field.option}" if value else f"--no-{field.option}"
    elif field.kind.is_many and value:
        for each in value:
            yield from (f"--{field.option}", str(each))
    elif value == field.default and field.name not in _PLACED:
        yield from ("--clear", field.option)
    else:
        text = text_of(field, after) or write(field, value, after.timezone)
        yield from (f"--{field.option}={text}",) if text.startswith("-") else (f"--{field.option}", text)


def _by_name(field: Field, old: Mapping[str, object], value: Mapping[str, object]) -> Iterator[str]:
    option = "-e" if field.name == "env" else f"--{field.option}"
    for name in value:
        if name not in old or old[name] != value[name]:
            pair = f"{name}={value[name]}" if field.name == "env" else write(field, {name: value[name]}, "")
            yield from (option, pair)
    for name in old:
        if name not in value:
            yield from ("--clear", f"{field.option}.{name}")
