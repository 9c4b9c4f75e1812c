"""Parse TOML, and find the lines of its keys: the parser of the standard library does not keep them."""

import re
import tomllib
from typing import Any

from dcron.errors import CrontabFileError

Path = tuple[str, ...]
MOST_PARTS = 8
"""Parts of a dotted key. The parser takes quadratic time for thousands of them."""
_STRING_OR_COMMENT = re.compile(
    r'''
    """(?:[^"\\]++|\\.|"(?!""))*"{3,5}+ | \'\'\'(?:[^']++|'(?!''))*'{3,5}+
    | "(?:[^"\\\n]++|\\.)*" | '[^'\n]*+' | \#[^\n]*+
    ''',
    re.DOTALL | re.VERBOSE,
)
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*"|'[^'\n]*+')"""
_DOTTED = rf"[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*[ \t]*+"
_HEADER_OR_KEY = re.compile(rf"[ \t]*+(?:\[{{1,2}}(?P<header>{_DOTTED})\]|(?P<key>{_DOTTED})=)")
_PARTS = re.compile(_PART)
_LONG_KEY = re.compile(rf"""(?<![A-Za-z0-9_"-])(?:(?:[A-Za-z0-9_-]++|"")[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


class TomlDocument:
    """A parsed TOML document."""

    def __init__(self, text: str, file: str) -> None:
        """Parse the text. Raises CrontabFileError, which describes the first error."""
        self._lines = _lines(text, file)
        self.value = _parse(text, file)

    def line_of(self, *path: str | int) -> int:
        """Return the line of a key; of one inside an inline table, that of the table's key."""
        parts = tuple(map(str, path))
        known = (self._lines.get(parts[:length]) for length in range(len(parts), 0, -1))
        return next(filter(None, known), 1)


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # the message says where, in words that Python may change
        message = str(error)
        raise CrontabFileError(f"{file}: this is not TOML: {message[:1].lower()}{message[1:]}") from None
    except ValueError:  # a number of thousands of digits, a date such as 2027-02-31
        raise CrontabFileError(f"{file}: this is not TOML: a number or date is not valid") from None
    except RecursionError:
        raise CrontabFileError(f"{file}: the values are nested too deeply") from None


def _lines(text: str, file: str) -> dict[Path, int]:
    """Return the line on which each table or key is first named."""
    if long := _LONG_KEY.search(shown := _STRING_OR_COMMENT.sub(_emptied, text)):
        number = shown.count("\n", 0, long.start()) + 1
        raise CrontabFileError(f"{file}:{number}: a key has more than {MOST_PARTS} parts")
    found: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(_STRING_OR_COMMENT.sub(_masked, text).split("\n"), 1):
        match = _HEADER_OR_KEY.match(line)
        if match is None:
            continue
        parts = tuple(_unquoted(part) for part in _PARTS.findall(match["header"] or match["key"]))
        if match["header"]:
            table = ()
        path = (*table, *parts)
        for length in range(len(table) + 1, len(path) + 1):
            found.setdefault(path[:length], number)
        if match["header"]:
            table = path
    return found


def _emptied(token: re.Match[str]) -> str:
    """Return an empty string with as many lines as this one; drop comments."""
    return "" if token[0].startswith("#") else '""' + "\n" * token[0].count("\n")


def _masked(token: re.Match[str]) -> str:
    """Return a string of several lines empty, so that none of them is taken for a key; drop comments."""
    return _emptied(token) if "\n" in token[0] or token[0].startswith("#") else token[0]


def _unquoted(part: str) -> str:
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        return str(tomllib.loads(f"key = {part}")["key"]) if "\\" in part else part[1:-1]
    return part
