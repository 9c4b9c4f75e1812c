"""What a source contains: tasks, and notices for its author, each with its place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dcron.crontabfile.lint import CRONTAB_LINE
from dcron.errors import CrontabFileError, UsageError
from dcron.model import Definition

MAX_MISTAKES = 1_000
"""A source with more is probably none. The rest is not reported."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in a source: a file, and a line from 1 on; 0 is the file as a whole, or a directory."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `file:line`, as compilers and editors write it."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class SourceTask:
    """A task of a source."""

    definition: Definition
    place: Place
    was: str | None = None
    """Its earlier name, if the file says that it was renamed."""


@dataclass(frozen=True)
class SourceNotice:
    """A warning to the author of a source."""

    place: Place
    message: str
    task: str | None = None
    code: str = CRONTAB_LINE


@dataclass(frozen=True)
class SourceText:
    """The contents of a source, in the order of its files."""

    tasks: tuple[SourceTask, ...]
    notices: tuple[SourceNotice, ...] = ()
    files: tuple[str, ...] = ()
    """The files that were read, as messages name them."""


@dataclass
class Mistakes:
    """All that is wrong with a source."""

    _found: list[tuple[str, int, str]] = field(default_factory=list)
    """File, line and text; the line is 0 where a file as a whole is wrong."""

    def add(self, place: Place, message: str) -> None:
        """Add a mistake."""
        self._found.append((place.file, place.line, f"{place}: {message}"))

    def add_error(self, file: str, error: UsageError) -> None:
        """Add the mistakes of an error whose message names their places."""
        self._found += [(file, 0, text) for text in str(error).split("\n")]

    def raise_any(self, files: Sequence[str]) -> None:
        """Raise CrontabFileError with all mistakes, one on each line, in the order of these files."""
        if not self._found:
            return
        order = {file: number for number, file in enumerate(files)}
        in_order = sorted(self._found, key=lambda mistake: (order.get(mistake[0], -1), mistake[1]))
        shown = [text for _, _, text in in_order[:MAX_MISTAKES]]
        if len(in_order) > len(shown):
            shown.append(f"more than {MAX_MISTAKES:,} mistakes; the others are not shown")
        raise CrontabFileError("\n".join(shown))
