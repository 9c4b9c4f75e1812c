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
_JSON = re.compile(r"\s*+(?:\{|\[\s*+[{\]])")
_TABLE = re.compile(r"^[ \t]*+\[[^\]\n]*+\]", re.MULTILINE)
"""The first line of a table of TOML. No line of a crontab begins with a bracket."""


def format_of(path: Path, text: str) -> Format:
    """Return the format of a file, by its name or else by its contents."""
    by_suffix = SUFFIXES.get(path.suffix)
    if by_suffix is not None:
        return by_suffix
    if _JSON.match(text):
        return "json"
    return "toml" if _TABLE.search(text) else "text"
