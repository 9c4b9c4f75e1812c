"""The output of one run in memory, cut into lines.

A line ends at a line end, or where the other stream or a gap begins. Missing bytes are a line of kind GAP.
A line is identified by the byte of the run's output at which it begins: this stays the same when lines before
it are dropped. Lines are numbered from 0 through all that is kept.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from dcron.store.output import HEAD_BYTES, Chunk
from dcron.tui.log.lines import ERR, GAP, LINE_BYTES, OUT, STREAMS, LogLine, RawLine, log_line

CACHED_LINES = 2_000


class LogText:
    """The chunks of a run that are kept, at most about 10 MiB, and the beginnings of their lines."""

    def __init__(self) -> None:
        self.starts = array("q")
        """For each line the byte at which it begins."""
        self.kinds = bytearray()
        """For each line OUT, ERR or GAP."""
        self.end = 0
        """The byte after the last one."""
        self._chunks: list[Chunk] = []
        self._offsets = array("q")
        self._is_open = False
        """Whether the last line has no line end yet."""
        self._cache: dict[tuple[int, int, bool], LogLine] = {}

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def err(self) -> int:
        """Number of lines of stderr."""
        return self.kinds.count(ERR)

    @property
    def out(self) -> int:
        """Number of lines of stdout."""
        return self.kinds.count(OUT)

    @property
    def complete_lines(self) -> int:
        """Number of lines that cannot grow any more."""
        return len(self) - self._is_open

    def append(self, chunk: Chunk) -> None:
        """Add a chunk at the end. A chunk that is there already is ignored."""
        if not chunk.data or chunk.byte_offset < self.end:
            return
        if chunk.byte_offset > self.end:
            self._add_lines([self.end], GAP)
            self._is_open = False
        kind = ERR if chunk.stream == STREAMS[ERR] else OUT
        continues = self._is_open and self.kinds[-1] == kind
        *whole, rest = chunk.data.split(b"\n")
        begins = list(accumulate((len(line) + 1 for line in whole), initial=chunk.byte_offset))
        self._add_lines(begins[continues : len(begins) - (not rest)], kind)
        self._is_open = bool(rest)
        self._chunks.append(chunk)
        self._offsets.append(chunk.byte_offset)
        self.end = chunk.end

    def drop_middle(self, kept: int) -> tuple[int, int] | None:
        """Drop the chunks between the head and the byte `kept`; return the first and last byte of the gap."""
        first, last = bisect_left(self._offsets, HEAD_BYTES), bisect_left(self._offsets, kept)
        if first == last:
            return None
        begin, line, after = self._offsets[first], self.line_at(self._offsets[first]), self.line_at(kept)
        if line and self.kinds[line - 1] == GAP:
            line -= 1
            begin = self.starts[line]
        starts, kinds = [begin], [GAP]
        if after == len(self) or self.starts[after] != kept:  # the line there began in the gap
            starts.append(kept)
            kinds.append(ERR if self._chunks[last].stream == STREAMS[ERR] else OUT)
        self.starts[line:after] = array("q", starts)
        self.kinds[line:after] = bytes(kinds)
        del self._chunks[first:last], self._offsets[first:last]
        self._cache.clear()
        return begin, kept

    def line_at(self, start: int) -> int:
        """Return the number of the line that begins at this byte, or of the next one."""
        return bisect_left(self.starts, start)

    def stop(self, number: int) -> int:
        """Return the byte after a line."""
        return self.starts[number + 1] if number + 1 < len(self) else self.end

    def data(self, start: int, stop: int) -> bytes:
        """Return these bytes; missing ones are left out."""
        first = max(0, bisect_right(self._offsets, start) - 1)
        chunk = self._chunks[first]
        if stop <= chunk.end:
            return chunk.data[start - chunk.byte_offset : stop - chunk.byte_offset]
        last = bisect_left(self._offsets, stop)
        return b"".join(
            each.data[max(0, start - each.byte_offset) : max(0, stop - each.byte_offset)]
            for each in self._chunks[first:last]
        )

    def raw(self, number: int, limit: int = LINE_BYTES) -> RawLine:
        """Return a line as the command wrote it, of at most `limit` bytes."""
        start, stop, kind = self.starts[number], self.stop(number), self.kinds[number]
        if kind == GAP:
            return RawLine(kind, None, b"", stop - start)
        data = self.data(start, stop).removesuffix(b"\n")
        if len(data) > limit:  # keep what the last carriage return has not overwritten
            data = data.rstrip(b"\r").rpartition(b"\r")[2]
        at = self._chunks[bisect_right(self._offsets, stop - 1) - 1].at
        return RawLine(kind, at, data[:limit], max(0, len(data) - limit))

    def line(self, start: int, *, colours: bool) -> LogLine:
        """Return the inert line that begins at this byte."""
        number = self.line_at(start)
        key = start, self.stop(number), colours
        if key not in self._cache:
            if len(self._cache) >= CACHED_LINES:
                self._cache.clear()
            self._cache[key] = log_line(self.raw(number), number, colours=colours)
        return self._cache[key]

    def _add_lines(self, starts: list[int], kind: int) -> None:
        self.starts.extend(starts)
        self.kinds.extend(bytes([kind]) * len(starts))
