"""Write definitions as crontab text, JSON or TOML, which `read` reads back as the same definitions.

JSON and TOML leave out what is the default. Characters on which a terminal would act are escaped.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dcron import crontabfile
from dcron.crontabfile.directive import UNPRINTABLE
from dcron.fields import FIELDS, Field
from dcron.model import REQUIRED_FIELDS, Definition
from dcron.sources.formats import Format
from dcron.values.json_values import number

TOML_HEADER = "# A crontab written by dcron.\n"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPED = re.compile(f'["\\\\]|{UNPRINTABLE.pattern}')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r"}


def write(
    definitions: Sequence[Definition], format: Format, *, system: bool = False, stopped: Collection[str] = ()
) -> str:
    """Return the tasks in this order, in a format that `read` knows.

    With `system`, each line of a crontab names its account, as in /etc/cron.d. A crontab has the tasks with
    the names `stopped` in comments.
    """
    match format:
        case "json":
            return _json(definitions)
        case "toml":
            return "\n".join([TOML_HEADER, *map(_toml, definitions)])
    return crontabfile.write(definitions, system=system, stopped=stopped)


def _json(definitions: Iterable[Definition]) -> str:
    tasks = [
        {field.key: field.kind.to_json(getattr(task, field.name)) for field in _given(task)}
        for task in definitions
    ]
    text = json.dumps({"tasks": tasks}, indent=2, ensure_ascii=False)
    return UNPRINTABLE.sub(lambda sign: sign[0] if sign[0] == "\n" else f"\\u{ord(sign[0]):04x}", text) + "\n"


def _given(task: Definition) -> list[Field]:
    """Return the fields that a task needs in a file, in their order."""
    return [field for field in FIELDS.values() if field.name in REQUIRED_FIELDS or field.is_given(task)]


def _toml(task: Definition) -> str:
    lines = [
        f"{field.key} = {_long(field.kind.to_toml(getattr(task, field.name)))}\n"
        for field in _given(task)
        if field.name != "name"
    ]
    return f"[task.{_key(task.name)}]\n" + "".join(lines)


def _long(value: Any) -> str:
    """Return a value that may have several lines."""
    if not isinstance(value, str) or "\n" not in value:
        return _value(value)
    lines = [_ESCAPED.sub(_escape, line) for line in value.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return repr(number(value))
    return f'"{_ESCAPED.sub(_escape, str(value))}"'


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else f'"{_ESCAPED.sub(_escape, name)}"'


def _escape(sign: re.Match[str]) -> str:
    if "\ud800" <= sign[0] <= "\udfff":  # half of a character, which TOML cannot express
        return "\N{REPLACEMENT CHARACTER}"
    return _ESCAPES.get(sign[0], f"\\u{ord(sign[0]):04x}")
