"""Filter the lines of a log, and search them."""

import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dcron.store.output import HEAD_BYTES, TAIL_BYTES
from dcron.tui.log.lines import ERR, GAP, RawLine, shown
from dcron.tui.log.text import LogText

SLICE_SECONDS = 0.03
"""Length of one step; the screen draws between two steps."""
BLOCK_BYTES = 256 * 1024
WHOLE_LINE = HEAD_BYTES + TAIL_BYTES
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
    """The lines that a filter leaves, and those of them that contain the searched text."""

    def __init__(self, text: LogText, criteria: Criteria) -> None:
        """Nothing is searched yet."""
        self._text = text
        self.criteria = criteria
        self.hits = array("q")
        """The beginnings of the lines with the searched text, in order."""
        self._rows = array("q")
        self._next = 0
        """The beginning of the first line that was not searched."""

    @property
    def rows(self) -> Sequence[int]:
        """The beginnings of the shown lines, in order."""
        return self._rows if self.criteria.filters else self._text.starts

    def has_passed(self, start: int) -> bool:
        """Return whether the line that begins at this byte was searched."""
        return self._is_idle or start < self._next

    def is_done(self, lines: int) -> bool:
        """Return whether this many lines were searched."""
        return self._is_idle or self._text.line_at(self._next) >= lines

    def step(self, lines: int) -> None:
        """Search the first `lines` lines, for a short time."""
        deadline = time.monotonic() + SLICE_SECONDS
        number = self._text.line_at(self._next)
        while not self._is_idle and number < lines and time.monotonic() < deadline:
            number = self._search_block(number, lines)
            self._next = self._text.starts[number] if number < len(self._text) else self._text.end

    def drop(self, begin: int, end: int) -> None:
        """Forget the lines that begin in these bytes."""
        for column in (self._rows, self.hits):
            del column[bisect_left(column, begin) : bisect_left(column, end)]

    @property
    def _is_idle(self) -> bool:
        return not (self.criteria.filters or self.criteria.sought)

    def _search_block(self, first: int, lines: int) -> int:
        """Search some lines from number `first` on; return the number of the line after them."""
        text, criteria = self._text, self.criteria
        last = max(first + 1, bisect_left(text.starts, text.starts[first] + BLOCK_BYTES, first, lines))
        gap = text.kinds.find(GAP, first, last)
        if gap == first:
            return first + 1
        last = last if gap < 0 else gap
        found: Sequence[int] = range(first, last)
        if criteria.err_only:
            found = [number for number in found if text.kinds[number] == ERR]
        if criteria.filter:
            found = self._matches(criteria.filter, found)
        if criteria.filters:
            self._rows.extend(text.starts[number] for number in found)
        if criteria.sought:
            found = self._matches(criteria.sought, found)
            self.hits.extend(text.starts[number] for number in found)
        return last

    def _matches(self, needle: Needle, numbers: Sequence[int]) -> list[int]:
        """Return those of the neighbouring lines that contain the needle."""
        text = self._text
        if not numbers:
            return []
        begin, end = text.starts[numbers[0]], text.stop(numbers[-1])
        data = text.data(begin, end)
        if _SPECIAL.search(data):
            return [number for number in numbers if needle.is_in(text.raw(number, WHOLE_LINE))]
        if needle.folds:
            data = data.lower()
        allowed = None if isinstance(numbers, range) else set(numbers)
        found, at = [], data.find(needle.encoded)
        while at >= 0:
            number = bisect_right(text.starts, begin + at) - 1
            stop = text.stop(number) - begin
            at += 1
            if at - 1 + len(needle.encoded) <= stop:
                at = stop
                if allowed is None or number in allowed:
                    found.append(number)
            at = data.find(needle.encoded, at)
        return found
