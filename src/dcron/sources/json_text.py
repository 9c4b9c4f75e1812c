"""Parse JSON, and find the lines of its keys: the parser of the standard library does not keep them."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dcron.errors import CrontabFileError
from dcron.sources.values import Place
from dcron.values.json_values import shown

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*"|[\[\]{},:\n]|[\w.+-]++')
_LOCATED = 4
"""The depth to which repeated keys are located."""


class JsonDocument:
    """A parsed JSON document."""

    def __init__(self, text: str, file: str) -> None:
        """Parse the text. Raises CrontabFileError, with the place of the first error."""
        self._text, self._file = text, file
        self._repeated: list[str] = []
        self._lines: dict[Path, int] = {}
        self._depth = 0
        self.value = self._parse()

    def line_of(self, *path: str | int) -> int:
        """Return the line of a key, or of an element of an array."""
        if len(path) > self._depth:
            self._depth = len(path)
            self._lines = dict(_places(self._text, self._depth))
        return self._lines.get(path, 1)

    def repeated_keys(self) -> Iterator[tuple[Place, str]]:
        """Yield a mistake for each key that an object has twice: parsers disagree on which one counts."""
        if not self._repeated:
            return
        seen: set[Path] = set()
        is_located = False
        for path, line in _places(self._text, _LOCATED):
            if path in seen:
                is_located = True
                yield Place(self._file, line), f"the key {shown(path[-1])} is there twice"
            seen.add(path)
        if not is_located:
            yield Place(self._file, 1), f"an object has the key {shown(self._repeated[0])} twice"

    def _parse(self) -> Any:
        try:
            return json.loads(self._text, object_pairs_hook=self._object, parse_int=_integer)
        except json.JSONDecodeError as error:
            raise self._not_json(error) from None
        except RecursionError:
            raise CrontabFileError(f"{self._file}: the values are nested too deeply") from None

    def _not_json(self, error: json.JSONDecodeError) -> CrontabFileError:
        line, column, message = error.lineno, error.colno, f"{error.msg[:1].lower()}{error.msg[1:]}"
        before, bracket = self._text[: error.pos].rstrip(), self._text[error.pos : error.pos + 1]
        if before.endswith(",") and bracket in ("}", "]"):
            # Python 3.13 reports the comma, earlier versions the bracket.
            comma = len(before) - 1
            line, column = before.count("\n") + 1, comma - before.rfind("\n")
            message = "illegal trailing comma before end of " + ("object" if bracket == "}" else "array")
        return CrontabFileError(f"{self._file}:{line}:{column}: this is not JSON: {message}")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            self._repeated += [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        return found


def _places(text: str, depth: int) -> Iterator[tuple[Path, int]]:
    """Yield the path and line of each key and array element down to a depth; the text is valid JSON."""
    path: list[str | int] = []
    line = 1
    is_key_next = False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        in_array = bool(path) and isinstance(path[-1], int)
        if mark == "\n":
            line += 1
        elif mark in "{[":
            if in_array and len(path) <= depth:
                yield tuple(path), line
            path.append("" if mark == "{" else 0)
            is_key_next = mark == "{"
        elif mark in "}]":
            path.pop()
        elif mark == ",":
            if in_array:
                path[-1] += 1  # type: ignore[operator]
            else:
                is_key_next = True
        elif mark != ":" and path and (in_array or is_key_next):
            if not in_array:
                path[-1] = json.loads(mark)
                is_key_next = False
            if len(path) <= depth:
                yield tuple(path), line


def _integer(text: str) -> int | float:
    # int() refuses thousands of digits, and takes quadratic time for them.
    return int(text) if len(text) < 100 else float(text)
