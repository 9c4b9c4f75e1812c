"""Collect what is wrong with a file, line by line, and report it in one error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dcron.crontabfile.size_limits import MAX_PROBLEMS
from dcron.errors import CrontabFileError
from dcron.model import Definition

SHOWN = 40


class BadLine(Exception):  # noqa: N818 - caught within the package, never seen outside
    """What is wrong with the current line (or another, if given), and the column, from 1."""

    def __init__(self, column: int, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.message = message
        self.line = line


class BadFile(CrontabFileError):  # noqa: N818 - a name like those of the other errors
    """All that is wrong with a file: one line of the message for each problem, with its line and column."""

    def __init__(
        self,
        source: str,
        found: Sequence[tuple[int, int, str]],
        rest: str = "",
        readable: Mapping[int, Definition] | None = None,
    ) -> None:
        """Report these problems. `readable` are the tasks of the other lines, by line."""
        lines = [f"{source}:{line}:{column}: {message}" for line, column, message in found]
        super().__init__("\n".join([*lines, rest] if rest else lines))
        self.found = found
        self.rest = rest
        self.readable = readable or {}


class Enough(Exception):  # noqa: N818 - ends the reading, is no error of its own
    """The file has too many problems to go on reading."""


@dataclass
class Problems:
    """The problems of one file."""

    source: str
    found: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, line: int, column: int, message: str) -> None:
        """Add a problem. Raises Enough when there are too many."""
        self.found.append((line, column, message))
        if len(self.found) >= MAX_PROBLEMS:
            raise Enough

    def raise_any(self, readable: Mapping[int, Definition]) -> None:
        """Raise BadFile if there are any; `readable` are the tasks of the other lines, by line."""
        if not self.found:
            return
        rest = ""
        if len(self.found) >= MAX_PROBLEMS:
            rest = f"{self.source}: more than {MAX_PROBLEMS:,} bad lines; the rest was not read"
        raise BadFile(self.source, sorted(self.found), rest, readable)


def shown(text: str) -> str:
    """Return text from the file, quoted and short enough for a message."""
    return f'"{text}"' if len(text) <= SHOWN else f'"{text[:SHOWN]}…"'
