"""The output of one run in memory, and where its lines begin.

A line ends at a line end, or where the other stream or a gap begins. Missing bytes are a line of kind GAP.
A line is identified by the byte of the run's output at which it begins: this stays the same when lines before
it are dropped. Lines are numbered from 0 through all that is kept.

Counting the lines of a chunk is fast; finding where each of them begins is slow, and is done for the chunks
in sight only.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, count
from operator import add

from dcron.store.output import HEAD_BYTES, Chunk
from dcron.tui.log.lines import ERR, GAP, LINE_BYTES, OUT, STREAMS, LogLine, RawLine, log_line

CACHED_LINES = 2_000
CACHED_BLOCKS = 16


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """A chunk of the output, or a gap."""

    kind: int
    begin: int
    end: int
    at: datetime | None
    data: bytes
    """Empty for a gap."""
    continues: bool
    """Whether the first line began in the block before."""
    lines: int = field(init=False)
    """Number of lines that begin in the block."""

    def __post_init__(self) -> None:
        ends = self.data.count(b"\n") + (self.is_open or self.kind == GAP)
        object.__setattr__(self, "lines", ends - self.continues)

    @property
    def is_open(self) -> bool:
        """Whether the last line has no line end yet."""
        return self.kind != GAP and not self.data.endswith(b"\n")

    def starts(self) -> Sequence[int]:
        """Return the bytes at which these lines begin."""
        found = [self.begin] if self.kind == GAP else line_starts(self.data, self.begin)
        return array("q", found[self.continues :])


def line_starts(data: bytes, begin: int) -> list[int]:
    """Return the bytes at which the lines of this data begin, if the data itself begins at `begin`."""
    *whole, rest = data.split(b"\n")
    found = list(map(add, accumulate(map(len, whole), initial=begin), count()))
    return found if rest else found[:-1]


class LogText:
    """The chunks of a run that are kept, at most about 10 MiB."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._begins = array("q")
        self._firsts = array("q")
        """For each block the number of the first line that begins in it."""
        self._counts = [0, 0, 0]
        """Number of lines of OUT, ERR and GAP."""
        self._starts = lru_cache(CACHED_BLOCKS)(Block.starts)
        self._cache: dict[tuple[int, int, bool], LogLine] = {}

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def end(self) -> int:
        """The byte after the last one."""
        return self._blocks[-1].end if self._blocks else 0

    @property
    def complete_end(self) -> int:
        """The byte after the last line that cannot grow any more."""
        is_open = self._blocks and self._blocks[-1].is_open
        return self.start(len(self) - 1) if is_open else self.end

    @property
    def err(self) -> int:
        """Number of lines of stderr."""
        return self._counts[ERR]

    @property
    def out(self) -> int:
        """Number of lines of stdout."""
        return self._counts[OUT]

    def append(self, chunk: Chunk) -> None:
        """Add a chunk at the end. A chunk that is there already is ignored."""
        if not chunk.data or chunk.byte_offset < self.end:
            return
        if chunk.byte_offset > self.end:
            self._add(Block(GAP, self.end, chunk.byte_offset, None, b"", continues=False))
        kind = ERR if chunk.stream == STREAMS[ERR] else OUT
        last = self._blocks[-1] if self._blocks else None
        continues = last is not None and last.kind == kind and last.is_open
        self._add(Block(kind, chunk.byte_offset, chunk.end, chunk.at, chunk.data, continues))

    def drop_middle(self, kept: int) -> tuple[int, int] | None:
        """Drop the chunks between the head and the byte `kept`; return the first and last byte of the gap."""
        first, last = bisect_left(self._begins, HEAD_BYTES), bisect_left(self._begins, kept)
        if all(block.kind == GAP for block in self._blocks[first:last]):
            return None
        if first and self._blocks[first - 1].kind == GAP:
            first -= 1
        gap = Block(GAP, self._begins[first], kept, None, b"", continues=False)
        rest = [replace(block, continues=False) for block in self._blocks[last : last + 1]]
        blocks = [*self._blocks[:first], gap, *rest, *self._blocks[last + 1 :]]
        self._blocks, self._begins, self._firsts, self._counts = [], array("q"), array("q"), [0, 0, 0]
        self._cache.clear()
        for block in blocks:
            self._add(block)
        return gap.begin, kept

    def at(self, start: int) -> int:
        """Return the number of the line that begins at this byte, or of the next one."""
        index = bisect_right(self._begins, start) - 1
        if index < 0:
            return 0
        return self._firsts[index] + bisect_left(self._starts(self._blocks[index]), start)

    def start(self, number: int) -> int:
        """Return the byte at which a line begins."""
        index = self._block_of(number)
        return self._starts(self._blocks[index])[number - self._firsts[index]]

    def stop(self, number: int) -> int:
        """Return the byte after a line."""
        return self.start(number + 1) if number + 1 < len(self) else self.end

    def stretch(self, start: int, size: int) -> tuple[int, int]:
        """Return the kind of the line that begins at this byte, and the end of lines of the same kind.

        They are whole lines without a gap between them, of about `size` bytes together.
        """
        first = bisect_right(self._begins, start) - 1
        kind, end = self._blocks[first].kind, self._blocks[first].end
        for index in range(first + 1, len(self._blocks)):
            block = self._blocks[index]
            if block.kind != kind or (end - start >= size and not block.continues):
                break
            if end - start >= size and (line_end := block.data.find(b"\n")) >= 0:
                return kind, block.begin + line_end + 1
            end = block.end
        return kind, end

    def data(self, start: int, stop: int) -> bytes:
        """Return these bytes; missing ones are left out."""
        first = max(0, bisect_right(self._begins, start) - 1)
        last = bisect_left(self._begins, stop)
        return b"".join(
            each.data[max(0, start - each.begin) : max(0, stop - each.begin)]
            for each in self._blocks[first:last]
        )

    def raw(self, number: int, limit: int = LINE_BYTES) -> RawLine:
        """Return a line as the command wrote it, of at most `limit` bytes."""
        start, stop, kind = self.start(number), self.stop(number), self._blocks[self._block_of(number)].kind
        if kind == GAP:
            return RawLine(kind, None, b"", stop - start)
        data = self.data(start, stop).removesuffix(b"\n")
        if len(data) > limit:  # keep what the last carriage return has not overwritten
            data = data.rstrip(b"\r").rpartition(b"\r")[2]
        at = self._blocks[bisect_right(self._begins, stop - 1) - 1].at
        return RawLine(kind, at, data[:limit], max(0, len(data) - limit))

    def line(self, start: int, *, colours: bool) -> LogLine:
        """Return the inert line that begins at this byte."""
        number = self.at(start)
        key = start, self.stop(number), colours
        if key not in self._cache:
            if len(self._cache) >= CACHED_LINES:
                self._cache.clear()
            self._cache[key] = log_line(self.raw(number), number, colours=colours)
        return self._cache[key]

    def _add(self, block: Block) -> None:
        self._blocks.append(block)
        self._begins.append(block.begin)
        self._firsts.append(len(self))
        self._counts[block.kind] += block.lines

    def _block_of(self, number: int) -> int:
        """Return the index of the block in which a line begins."""
        return bisect_right(self._firsts, number) - 1
