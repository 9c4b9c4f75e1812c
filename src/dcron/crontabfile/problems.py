"""What is wrong with a file, gathered line by line and told all at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dcron.crontabfile.size_limits import MAX_PROBLEMS
from dcron.errors import CrontabFileError

SHOWN = 40


class BadLine(Exception):  # noqa: N818 - caught within the package, never seen outside
    """What is wrong with the line being read (or another, if given), and the column (from 1) where it is."""

    def __init__(self, column: int, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.message = message
        self.line = line


class BadFile(CrontabFileError):  # noqa: N818 - as people say it
    """All that is wrong with a file, by line and column, a line of the message each."""

    def __init__(self, source: str, found: Sequence[tuple[int, int, str]], rest: str = "") -> None:
        told = [f"{source}:{line}:{column}: {message}" for line, column, message in found]
        super().__init__("\n".join([*told, rest] if rest else told))
        self.found = found


class Enough(Exception):  # noqa: N818 - ends the reading, is no error of its own
    """Reading on would tell nobody anything more."""


@dataclass
class Problems:
    """The bad lines of one file."""

    source: str
    found: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, line: int, column: int, message: str) -> None:
        """Note one; gives up on a file that is nothing but bad lines."""
        self.found.append((line, column, message))
        if len(self.found) >= MAX_PROBLEMS:
            raise Enough

    def raise_any(self) -> None:
        """Refuse the file if anything is wrong with it."""
        if not self.found:
            return
        rest = ""
        if len(self.found) >= MAX_PROBLEMS:
            rest = f"{self.source}: more than {MAX_PROBLEMS:,} bad lines; the rest was not read"
        raise BadFile(self.source, sorted(self.found), rest)


def shown(text: str) -> str:
    """Text from the file, quoted and short enough for a message."""
    return f'"{text}"' if len(text) <= SHOWN else f'"{text[:SHOWN]}…"'
