"""From chunks to lines: reads a stretch of the output, a few chunks at a time, and cuts it into lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from dcron.store.output import Chunk
from dcron.tui.log.index import GAP, Index

LINE_BYTES = 64 * 1024
"""What is kept of a line to be shown: enough for its cells, and no megabyte in memory."""
READ_BYTES, READ_CHUNKS = 1024 * 1024, 1_000
"""Of one query."""

Fetch = Callable[[int, int, int], Sequence[Chunk]]
"""Reads the chunks that begin from a byte on, up to another, so many at most."""


class RawLine(NamedTuple):
    """A line as the command wrote it. What a carriage return overwrote in a long line is left out."""

    number: int
    kind: int
    at: datetime | None
    """When the line ended; None for a gap."""
    data: bytes
    more: int
    """How many bytes follow that were not kept; for a gap, how many there were."""


class _Open:
    """A line that has not ended."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._more = 0
        self._returned = False
        self.at: datetime | None = None

    def __bool__(self) -> bool:
        return self.at is not None

    def extend(self, piece: bytes, at: datetime) -> None:
        self.at = at
        text = piece.rstrip(b"\r")
        if self._returned and text:
            self._begin()
        self._returned = self._returned or len(text) < len(piece)
        text, overwritten, last = text.rpartition(b"\r")
        if overwritten:
            self._begin()
            self._returned = piece.endswith(b"\r")
        room = max(0, self._limit - len(self._data))
        self._data += last[:room]
        self._more += max(0, len(last) - room)

    def _begin(self) -> None:
        self._data.clear()
        self._more, self._returned = 0, False

    def take(self, number: int, kind: int) -> RawLine:
        line = RawLine(number, kind, self.at, bytes(self._data), self._more)
        self._begin()
        self.at = None
        return line


def walk(index: Index, fetch: Fetch, first: int, limit: int) -> Iterator[RawLine]:
    """The lines from number `first` on, the last perhaps unfinished; of each, `limit` bytes at most.

    What was dropped since the index was made is passed over.
    """
    unfinished = _Open(limit)
    entry = index.chunk_of(first)
    while entry < len(index):
        group = _group_end(index, entry)
        chunks = _chunks(index, fetch, entry, group)
        for at in range(entry, group):
            yield from (line for line in _cut(index, at, chunks, unfinished, limit) if line.number >= first)
        entry = group


def _group_end(index: Index, first: int) -> int:
    size, entry = 0, first
    while entry < min(len(index), first + READ_CHUNKS) and (entry == first or size < READ_BYTES):
        size += 0 if index.kinds[entry] == GAP else index.sizes[entry]
        entry += 1
    return entry


def _chunks(index: Index, fetch: Fetch, first: int, last: int) -> Mapping[int, Chunk]:
    end = index.offsets[last - 1] + 1
    return {chunk.byte_offset: chunk for chunk in fetch(index.offsets[first], end, last - first)}


def _cut(
    index: Index, entry: int, chunks: Mapping[int, Chunk], unfinished: _Open, limit: int
) -> Iterator[RawLine]:
    number, kind = index.start(entry), index.kinds[entry]
    if kind == GAP:
        yield RawLine(number, GAP, None, b"", index.sizes[entry])
        return
    chunk = chunks.get(index.offsets[entry])
    if chunk is None:
        unfinished.take(number, kind)
        return
    *whole, rest = chunk.data.split(b"\n")
    for piece in whole:
        if unfinished or len(piece) > limit:
            unfinished.extend(piece, chunk.at)
            yield unfinished.take(number, kind)
        else:
            yield RawLine(number, kind, chunk.at, piece, 0)
        number += 1
    if rest:
        unfinished.extend(rest, chunk.at)
    if unfinished and not index.continues(entry + 1):
        yield unfinished.take(number, kind)
