"""Filter the lines of a log, and search them."""

import re
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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


class Search:
    """The lines that a filter leaves, and those of them that contain the searched text.

    Both are lists of the bytes at which the lines begin.
    """

    def __init__(self, text: LogText, criteria: Criteria) -> None:
        """Nothing is searched yet."""
        self._text = text
        self.criteria = criteria
        self.rows = array("Q") if criteria.filters else text.starts
        """The shown lines."""
        self.hits = array("Q")
        """The lines with the searched text."""
        self._next = 0
        """The beginning of the first line that was not searched."""

    def is_done(self, end: int) -> bool:
        """Return whether all lines that begin before this byte were searched."""
        return self._next >= end or not (self.criteria.filters or self.criteria.sought)

    def step(self, end: int) -> None:
        """Search the lines before the byte `end`, for a short time."""
        deadline, text = time.monotonic() + SLICE_SECONDS, self._text
        while not self.is_done(end) and time.monotonic() < deadline:
            first, last = text.at(self._next), text.at(min(self._next + BLOCK_BYTES, end))
            kind, last = text.stretch(first, max(first + 1, last))
            self._next = text.stop(last - 1)
            self._search(kind, text.starts[first], self._next)

    def drop(self, begin: int, end: int) -> None:
        """Forget the lines that begin in these bytes."""
        if begin < self._next < end:
            self._next = end
        for found in (self.hits, *([self.rows] if self.criteria.filters else [])):
            del found[bisect_left(found, begin) : bisect_left(found, end)]

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
            self.rows.extend(rows)
        if criteria.sought:
            hits = _matches(criteria.sought, data, begin)
            self.hits.extend(sorted(set(rows).intersection(hits)) if criteria.filter else hits)


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
