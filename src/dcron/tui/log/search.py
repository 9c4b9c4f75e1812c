"""Filter the lines of a log, and search them."""

import re
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dcron.tui.log.lines import ERR, GAP, OUT, RawLine, shown
from dcron.tui.log.text import LogText, line_starts

SLICE_SECONDS = 0.03
"""Length of one step; the screen draws between two steps."""
BLOCK_BYTES = 256 * 1024
"""Bytes that are searched at once, about."""
_SPECIAL = re.compile(rb"[^\n\x20-\x7e]")
"""Bytes that are not shown as they are."""


@dataclass(frozen=True)
class Needle:
    """A text to find; case matters if the text has capitals."""

    text: str
    folds: bool = field(init=False)
    encoded: bytes = field(init=False)
    """The text as bytes."""
    _is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folds", self.text == self.text.lower())
        object.__setattr__(self, "encoded", self.text.encode())
        object.__setattr__(self, "_is_plain", self.text.isascii() and " " not in self.text)

    def is_in(self, raw: RawLine) -> bool:
        """Return whether the line contains it as it is shown."""
        data = raw.data.lower() if self.folds else raw.data
        if self._is_plain and b"\x1b" not in data and self.encoded not in data:
            return False  # much faster than to make the line inert
        return any(True for text in shown(raw) for _ in self.spans(text))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where it is in a shown text."""
        folded = text.lower() if self.folds else text
        if len(folded) != len(text):  # a few letters grow when they are folded
            folded = text
        at = folded.find(self.text)
        while at >= 0:
            yield at, at + len(self.text)
            at = folded.find(self.text, at + len(self.text))


@dataclass(frozen=True)
class Criteria:
    """Which lines to show, and which text to search among them."""

    err_only: bool = False
    filter: Needle | None = None
    sought: Needle | None = None

    @property
    def filters(self) -> bool:
        """Whether lines are left out."""
        return self.err_only or self.filter is not None


ALL = Criteria()


class Rows(Protocol):
    """Lines in order, by the bytes at which they begin."""

    def __len__(self) -> int:
        """Return the number of lines."""

    def start(self, number: int, /) -> int:
        """Return the byte at which a line begins."""

    def at(self, start: int, /) -> int:
        """Return the number of the line that begins at this byte, or of the next one."""


class Matches:
    """Lines that were found, in order, by the bytes at which they begin."""

    def __init__(self) -> None:
        self._starts = array("q")

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, number: int) -> int:
        """Return the byte at which a line begins."""
        return self._starts[number]

    def at(self, start: int) -> int:
        """Return the number of the line that begins at this byte, or of the next one."""
        return bisect_left(self._starts, start)

    def add(self, starts: Sequence[int]) -> None:
        """Add lines at the end."""
        self._starts.extend(starts)

    def drop(self, begin: int, end: int) -> None:
        """Forget the lines that begin in these bytes."""
        del self._starts[self.at(begin) : self.at(end)]


class Search:
    """The lines that a filter leaves, and those of them that contain the searched text."""

    def __init__(self, text: LogText, criteria: Criteria) -> None:
        """Nothing is searched yet."""
        self._text = text
        self.criteria = criteria
        self.hits = Matches()
        """The lines with the searched text."""
        self._rows = Matches()
        self._next = 0
        """The beginning of the first line that was not searched."""

    @property
    def rows(self) -> Rows:
        """The shown lines."""
        return self._rows if self.criteria.filters else self._text

    def has_passed(self, start: int) -> bool:
        """Return whether the line that begins at this byte was searched."""
        return self._is_idle or start < self._next

    def is_done(self, end: int) -> bool:
        """Return whether all lines before this byte were searched."""
        return self._is_idle or self._next >= end

    def step(self, end: int) -> None:
        """Search the lines before the byte `end`, for a short time."""
        deadline = time.monotonic() + SLICE_SECONDS
        while not self.is_done(end) and time.monotonic() < deadline:
            kind, stop = self._text.stretch(self._next, BLOCK_BYTES)
            stop = min(stop, end)
            self._search(kind, self._next, stop)
            self._next = stop

    def drop(self, begin: int, end: int) -> None:
        """Forget the lines that begin in these bytes."""
        for found in (self._rows, self.hits):
            found.drop(begin, end)

    @property
    def _is_idle(self) -> bool:
        return not (self.criteria.filters or self.criteria.sought)

    def _search(self, kind: int, begin: int, end: int) -> None:
        """Search lines of the same kind."""
        criteria = self.criteria
        if kind == GAP or (criteria.err_only and kind != ERR):
            return
        data = self._text.data(begin, end)
        rows: Sequence[int] = ()
        if criteria.filters:
            needle = criteria.filter
            rows = _matches(needle, data, begin) if needle else line_starts(data, begin)
            self._rows.add(rows)
        if criteria.sought:
            hits = _matches(criteria.sought, data, begin)
            if criteria.filter:
                hits = sorted(set(rows).intersection(hits))
            self.hits.add(hits)


def _matches(needle: Needle, data: bytes, begin: int) -> Sequence[int]:
    """Return the beginnings of the lines that contain the needle, if the data begins at the byte `begin`."""
    if _SPECIAL.search(data):
        lines = zip(line_starts(data, begin), data.split(b"\n"), strict=False)  # no line after the last end
        return [start for start, line in lines if needle.is_in(RawLine(OUT, None, line, 0))]
    if needle.folds:
        data = data.lower()
    found, at = [], data.find(needle.encoded)
    while at >= 0:
        found.append(begin + data.rfind(b"\n", 0, at) + 1)
        line_end = data.find(b"\n", at)
        at = data.find(needle.encoded, line_end) if line_end >= 0 else -1
    return found
