"""Which line is in which chunk: known from a few numbers a chunk, without reading what it holds.

A line ends at a line end, or where the other stream or a gap cuts in. It counts to the chunk in which
it ends. Lines are numbered from 0 through all that is kept; a gap takes one number.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

OUT, ERR, GAP = 0, 1, 2
STREAMS = ("out", "err", "gap")


class Dropped(NamedTuple):
    """Lines that are gone: from `first` on, `last` left out, of which `kept` lines (the gap) remain."""

    first: int
    last: int
    kept: int

    @property
    def by(self) -> int:
        """How far the lines behind have moved up."""
        return self.last - self.first - self.kept

    def moved(self, line: int) -> int:
        """Where a line is now; one that is gone has become the gap."""
        return line - self.by if line >= self.last else min(line, self.first)


class Index:
    """The chunks of one run, of both streams or of one; 34 bytes for each."""

    def __init__(self, *, marks_gaps: bool) -> None:
        """`marks_gaps`: whether bytes that are missing between two chunks take a line."""
        self._marks_gaps = marks_gaps
        self.offsets = array("q")
        self.sizes = array("q")
        self.newlines = array("q")
        self._totals = array("q")
        self.kinds = bytearray()
        self._open = bytearray()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> int:
        """The byte behind the last one known."""
        return self.offsets[-1] + self.sizes[-1] if self.offsets else 0

    @property
    def lines(self) -> int:
        """How many lines there are, one that has not ended included."""
        return self._totals[-1] if self._totals else 0

    @property
    def whole_lines(self) -> int:
        """How many lines there are that nothing will be added to."""
        return self.lines - (self._open[-1] if self._open else 0)

    def start(self, entry: int) -> int:
        """The line that the chunk ends first."""
        return self._totals[entry - 1] if entry else 0

    def add(self, kind: int, offset: int, size: int, newlines: int, *, is_open: bool) -> None:
        """Append a chunk; `is_open` when its last line has no end."""
        if self._marks_gaps and offset > self.end:
            self._append(GAP, self.end, offset - self.end, 1, is_open=False)
        self._append(kind, offset, size, newlines, is_open=is_open)
        if self.continues(len(self) - 1):
            self._shift(len(self) - 2, 1)

    def continues(self, entry: int) -> bool:
        """Whether the chunk begins within a line that the one before it began."""
        before = entry - 1
        return (
            0 < entry < len(self)
            and bool(self._open[before])
            and self.kinds[before] == self.kinds[entry]
            and self.offsets[before] + self.sizes[before] == self.offsets[entry]
        )

    def chunk_of(self, line: int) -> int:
        """The chunk in which the line begins; the number of chunks when there is no such line."""
        entry = bisect_right(self._totals, line)
        if entry < len(self) and line == self.start(entry):
            while self.continues(entry):
                entry -= 1
                if self.newlines[entry]:
                    break
        return entry

    def same_line(self, line: int, other: "Index") -> int:
        """The number in `other` of a line here, or of the first one there that comes after it."""
        entry = bisect_right(self._totals, line)
        if entry >= len(self):
            return other.lines
        there = bisect_left(other.offsets, self.offsets[entry])
        if there >= len(other):
            return other.lines
        within = line - self.start(entry) if other.offsets[there] == self.offsets[entry] else 0
        return other.start(there) + within

    def drop(self, first_byte: int, end_byte: int) -> Dropped | None:
        """Forget the chunks that begin in these bytes; a gap stands for them. None when there are none."""
        first, last = bisect_left(self.offsets, first_byte), bisect_left(self.offsets, end_byte)
        if first and self.kinds[first - 1] == GAP:
            first -= 1
        if first == last or (last == first + 1 and self.kinds[first] == GAP):
            return None
        begin, gone = self.offsets[first], self.start(last)
        line = self.start(first) + self.continues(first)
        missing = end_byte - begin
        marks = int(self._marks_gaps)
        dropped = Dropped(line, gone, marks)
        if first:
            self._totals[first - 1] = line
        self._shift(last, dropped.by)
        for column, mark in (
            (self.offsets, begin),
            (self.sizes, missing),
            (self.newlines, 1),
            (self._totals, line + 1),
        ):
            column[first:last] = array("q", [mark] * marks)
        self.kinds[first:last] = bytes([GAP] * marks)
        self._open[first:last] = bytes(marks)
        return dropped

    def _append(self, kind: int, offset: int, size: int, newlines: int, *, is_open: bool) -> None:
        newlines = max(0, newlines)
        total = self.lines + newlines + is_open
        self.offsets.append(offset)
        self.sizes.append(size)
        self.newlines.append(newlines)
        self._totals.append(total)
        self.kinds.append(kind)
        self._open.append(is_open)

    def _shift(self, entry: int, by: int) -> None:
        for at in range(entry, len(self)):
            self._totals[at] -= by
