"""The output of one run in memory, and where its lines begin.

A line ends at a line end, or where the other stream or a gap begins. Missing bytes are a line of kind GAP.
A line is identified by the byte of the run's output at which it begins: this stays the same when lines before
it are dropped. Lines are numbered from 0 through all that is kept.
"""

from array import array
from bisect import bisect_left, bisect_right
from datetime import datetime
from functools import lru_cache
from itertools import accumulate

from dcron.tui.log.lines import ERR, GAP, LINE_BYTES, OUT, STREAMS, LogLine, RawLine, log_line
from dcron.values.lists import Chunk

CACHED_LINES = 2_000


def line_starts(data: bytes, begin: int) -> "array[int]":
    """Return the bytes at which the lines of this data begin, if the data itself begins at `begin`."""
    ends = accumulate(map((1).__add__, map(len, data.split(b"\n"))), initial=begin)
    starts = array("Q", ends)
    del starts[-2 if data.endswith(b"\n") else -1 :]
    return starts


class LogText:
    """The bytes of a run that are kept, at most about 10 MiB."""

    def __init__(self) -> None:
        self.starts = array("Q")
        """The bytes of the output at which the lines begin."""
        self.end = 0
        """The byte of the output after the last one."""
        self._data = bytearray()
        """The bytes that are kept."""
        self._kinds = bytearray()
        """The kind of each line."""
        self._counts = [0, 0]
        """Number of lines of OUT and ERR."""
        self._chunks = array("Q")
        """The bytes of the output at which the chunks begin."""
        self._times: list[datetime] = []
        """The time of each chunk."""
        self._pieces = [(0, 0)]
        """Bytes of the output with which a stretch without a gap begins, and their places in the data."""
        self._shown = lru_cache(CACHED_LINES)(self._make_line)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def complete_end(self) -> int:
        """The byte after the last line that cannot grow any more."""
        return self.starts[-1] if self._is_open else self.end

    @property
    def _is_open(self) -> bool:
        """Whether the last line has no line end yet."""
        return bool(self._data) and not self._data.endswith(b"\n")

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
            self.starts.append(self.end)
            self._kinds.append(GAP)
            self._pieces.append((chunk.byte_offset, len(self._data)))
        kind = ERR if chunk.stream == STREAMS[ERR] else OUT
        continues = self._is_open and self._kinds[-1] == kind
        starts = line_starts(chunk.data, chunk.byte_offset)[continues:]
        self.starts.extend(starts)
        self._kinds.extend(bytes([kind]) * len(starts))
        self._counts[kind] += len(starts)
        self._chunks.append(chunk.byte_offset)
        self._times.append(chunk.at)
        self._data += chunk.data
        self.end = chunk.end

    def drop_middle(self, head: int, kept: int) -> tuple[int, int] | None:
        """Drop the chunks that begin from the byte `head` on and before `kept`.

        Return the first byte of the gap and the one after it; None if there was nothing to drop.
        """
        first, last = bisect_left(self._chunks, head), bisect_left(self._chunks, kept)
        if not first < last < len(self._chunks):
            return None
        begin, end = self._chunks[first], self._chunks[last]
        line, rest = bisect_left(self.starts, begin), bisect_left(self.starts, end)
        if line and self._kinds[line - 1] == GAP:
            line -= 1
            begin = self.starts[line]
        is_cut = rest == len(self) or self.starts[rest] != end
        kinds = bytes([GAP, self._kinds[rest - 1]])[: 1 + is_cut]
        for kind in (OUT, ERR):
            self._counts[kind] += kinds.count(kind) - self._kinds[line:rest].count(kind)
        place, after = self._place(begin), self._place(end)
        self.starts[line:rest] = array("Q", (begin, end))[: 1 + is_cut]
        self._kinds[line:rest] = kinds
        del self._data[place:after], self._chunks[first:last], self._times[first:last]
        before = [each for each in self._pieces if each[0] < begin or each == (0, 0)]
        later = [(each, at - after + place) for each, at in self._pieces if each > end]
        self._pieces = [*before, (end, place), *later]
        return begin, end

    def at(self, start: int) -> int:
        """Return the number of the line that begins at this byte, or of the next one."""
        return bisect_left(self.starts, start)

    def stop(self, number: int) -> int:
        """Return the byte after a line."""
        return self.starts[number + 1] if number + 1 < len(self) else self.end

    def stretch(self, first: int, last: int) -> tuple[int, int]:
        """Return the kind of the line `first`, and the number before `last` at which another kind begins."""
        kinds = self._kinds[first:last]
        return kinds[0], last - len(kinds.lstrip(kinds[:1]))

    def data(self, start: int, stop: int) -> bytes:
        """Return these bytes; missing ones are left out."""
        return bytes(self._data[self._place(start) : self._place(stop)])

    def raw(self, number: int, limit: int = LINE_BYTES) -> RawLine:
        """Return a line as the command wrote it, of at most `limit` bytes."""
        start, stop, kind = self.starts[number], self.stop(number), self._kinds[number]
        if kind == GAP:
            return RawLine(kind, None, b"", stop - start)
        data = self.data(start, stop).removesuffix(b"\n")
        if len(data) > limit:  # keep what the last carriage return has not overwritten
            data = data.rstrip(b"\r").rpartition(b"\r")[2]
        at = self._times[bisect_right(self._chunks, stop - 1) - 1]
        return RawLine(kind, at, data[:limit], max(0, len(data) - limit))

    def line(self, start: int, *, colours: bool) -> LogLine:
        """Return the inert line that begins at this byte."""
        number = self.at(start)
        return self._shown(number, start, self.stop(number), colours)

    def _make_line(self, number: int, _start: int, _stop: int, colours: bool) -> LogLine:
        """Return the line; its first and last byte say whether a kept answer is still right."""
        return log_line(self.raw(number), number, colours=colours)

    def _place(self, byte: int) -> int:
        """Return the place of a byte of the output in the data."""
        begin, place = self._pieces[bisect_right(self._pieces, byte, key=lambda piece: piece[0]) - 1]
        return place + byte - begin
