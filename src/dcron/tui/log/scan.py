"""Going through the whole log once, for a filter and a search at the same time."""

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dcron.tui.log.index import Dropped, Index
from dcron.tui.log.lines import shown
from dcron.tui.log.walking import RawLine

SLICE = 0.04
"""Seconds of one step: between two of them the reader does what is asked of it."""


@dataclass(frozen=True)
class Needle:
    """A text to find; capitals count when it has any."""

    text: str
    folds: bool = field(init=False)
    _bytes: bytes | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folds", self.text == self.text.lower())
        plain = self.text.isascii() and " " not in self.text
        object.__setattr__(self, "_bytes", self.text.encode() if plain else None)

    def is_in(self, raw: RawLine) -> bool:
        """Whether the line has it, as it is shown."""
        if self._bytes is not None and b"\x1b" not in raw.data:
            data = raw.data.lower() if self.folds else raw.data
            if self._bytes not in data:  # far cheaper than to make a line inert that nobody will see
                return False
        return any(True for text in shown(raw) for _ in self.spans(text))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it is in a text that is shown."""
        folded = text.lower() if self.folds else text
        if len(folded) != len(text):  # a few letters grow when they are folded
            folded = text
        at = folded.find(self.text)
        while at >= 0:
            yield at, at + len(self.text)
            at = folded.find(self.text, at + len(self.text))


class Scan:
    """The lines that a filter leaves, and among these the ones that a search finds."""

    def __init__(self, wanted: Needle | None, sought: Needle | None) -> None:
        """Begin at the first line; None is any line, and no search."""
        self.wanted = wanted
        self.sought = sought
        self.rows = array("q")
        """The lines left by the filter; empty without one."""
        self.hits = array("q")
        """What the search found: numbers of lines, or of the filter's rows."""
        self.scanned = 0
        """How many lines have been looked at."""
        self._walk: Iterator[RawLine] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.wanted or self.sought)

    def step(self, walk: Callable[[int], Iterator[RawLine]], until: int) -> bool:
        """Look at more lines, of `until` in all, for a short time; whether any were looked at."""
        if self.scanned >= until:
            return False
        deadline = time.monotonic() + SLICE
        self._walk = self._walk or walk(self.scanned)
        for raw in self._walk:
            if raw.number >= until:
                break
            self._look(raw)
            if time.monotonic() > deadline:
                return True
        self._walk = None
        self.scanned = until
        return True

    def _look(self, raw: RawLine) -> None:
        self.scanned = raw.number + 1
        if self.wanted and not self.wanted.is_in(raw):
            return
        if self.wanted:
            self.rows.append(raw.number)
        if self.sought and self.sought.is_in(raw):
            self.hits.append(len(self.rows) - 1 if self.wanted else raw.number)

    def count(self, index: Index) -> int:
        """How many rows there are to show."""
        return len(self.rows) if self.wanted else index.lines

    def row_of(self, line: int) -> int:
        """The row that shows this line, or the first one after it."""
        return bisect_left(self.rows, line) if self.wanted else line

    def drop(self, dropped: Dropped) -> Dropped:
        """Follow lines that have moved up; what this means for the rows."""
        self._walk = None
        self.scanned = dropped.moved(self.scanned)
        if not self.wanted:
            self.hits = _moved(self.hits, dropped)
            return dropped
        rows = Dropped(self.row_of(dropped.first), self.row_of(dropped.last), 0)
        self.rows = _moved(self.rows, dropped)
        self.hits = _moved(self.hits, rows)
        return rows


def _moved(lines: "array[int]", dropped: Dropped) -> "array[int]":
    first, last = bisect_left(lines, dropped.first), bisect_left(lines, dropped.last)
    return lines[:first] + array("q", (line - dropped.by for line in lines[last:]))
