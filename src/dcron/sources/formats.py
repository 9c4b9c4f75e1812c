"""The formats of a source, and how a file says which it has."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

Format = Literal["text", "json", "toml"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: Mapping[str, Format] = MappingProxyType(
    {".cron": "text", ".crontab": "text", ".json": "json", ".toml": "toml"}
)
"""The formats by the ends of file names. A directory's other files are not read."""
BYTE_ORDER_MARK = "\ufeff"
_FIRST_LINE = re.compile(r"(?:[ \t\r]*+(?:#[^\n]*+)?\n)*+[ \t\r]*+(?P<line>[^\n]*+)")
_JSON_ARRAY = re.compile(r"\[\s*+(?:[{\]]|$)")


def format_of(path: Path, text: str) -> Format:
    """Return the format of a file, by its name or else by its first line that is no comment."""
    by_suffix = SUFFIXES.get(path.suffix)
    if by_suffix is not None:
        return by_suffix
    match = _FIRST_LINE.match(text.removeprefix(BYTE_ORDER_MARK))
    line = match["line"] if match else ""
    if line.startswith("{") or _JSON_ARRAY.match(line):
        return "json"
    return "toml" if line.startswith("[") else "text"
