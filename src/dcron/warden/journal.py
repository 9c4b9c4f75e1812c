"""A run's output and result on disk: written by the warden, read by the agent, perhaps by a later one.

The journal of run 42 is `42.0` (the head, bounded), then `42.1`, `42.2` … of which the last two are kept. A
segment is a sequence of frames, each `crc32, kind, payload length, offset, time` and its payload. The offset
counts the bytes of both streams together, dropped ones included, so a gap says how much is missing. A segment
that has a successor ends with a NEXT frame; the last frame of a journal is its result. What a crash or a full
disk leaves of an unfinished frame does not match its checksum, and is no frame.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH108, PTH208

import json
import os
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple, Self
from zlib import crc32

HEAD = 5 << 20
"""Bytes on disk of the first segment."""
TAIL = 5 << 20
"""Bytes on disk of each of the two last segments."""
PAYLOAD = 64 << 10
"""Most bytes in one frame: what a pipe holds."""

Stream = Literal["out", "err"]
Reason = Literal["timeout", "cancelled", "lease", "agent gone", "guard gone", "stopped", "spawn failed"]

OUT, ERR, _NEXT, _RESULT = 1, 2, 3, 4
_STREAMS: dict[int, Stream] = {OUT: "out", ERR: "err"}

_CRC = struct.Struct("<I")
_HEADER = struct.Struct("<BIQd")
_PREFIX = _CRC.size + _HEADER.size
_MESSAGE_LIMIT = 4096


class Frame(NamedTuple):
    """A piece of output, as it was read from the command."""

    stream: Stream
    offset: int
    """Of its first byte, in the output of both streams together."""
    time: float
    """UTC epoch seconds."""
    data: bytes


class Result(NamedTuple):
    """What became of a run. Times are UTC epoch seconds."""

    run_id: int
    node_id: str
    exit_code: int | None
    """None when a signal ended it or it never ran; 126 or 127, like a shell's, if it could not be started."""
    signal: int | None
    reason: Reason | None
    """Why it was ended, or not started; None when it ended by itself."""
    message: str | None
    """What a person should know besides."""
    started_at: float | None
    """None when it was never started."""
    finished_at: float
    cpu: float
    """Seconds of its leader and of what that waited for."""
    max_rss: int | None
    """Bytes, of the largest single process; None if the warden's own (15 MB) hides it."""
    total_bytes: int
    """Of output, dropped bytes included."""
    last_segment: int
    """Number of the journal's last segment."""


class JournalWriter:
    """Appends to a run's journal. Never fails: what the disk does not take is dropped, and leaves a gap."""

    def __init__(self, path: str, head: int, tail: int) -> None:
        """Write to `path` + `.0` and so on; no file is made before there is something to write."""
        self.total_bytes = 0
        self.segment = 0
        self.error: OSError | None = None
        """The last failure to write output."""
        self._path = path
        self._head = head
        self._tail = tail
        self._fd = -1
        self._size = 0

    def write(self, kind: int, time: float, data: bytes) -> None:
        """Append output of the stream OUT or ERR, at most PAYLOAD bytes."""
        limit = self._tail if self.segment else self._head
        try:
            if self._size and self._size + _PREFIX + len(data) > limit:
                self._begin_next_segment(time)
            self._append(kind, time, data)
        except OSError as error:
            self.error = error
        self.total_bytes += len(data)

    def finish(self, result: Result) -> bool:
        """Append the result and close the journal; return whether the disk took it."""
        message = result.message and result.message[:_MESSAGE_LIMIT]
        fields = result._replace(message=message)._asdict()
        try:
            self._append(_RESULT, result.finished_at, json.dumps(fields).encode())
        except OSError:
            return False
        finally:
            self.close()
        return True

    def close(self) -> None:
        """Close the current segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin_next_segment(self, time: float) -> None:
        # NEXT comes first: a reader relies on it, so with no room for it there is no new segment either.
        self._append(_NEXT, time, b"")
        self.close()
        self.segment += 1
        self._size = 0
        if self.segment > 2:
            os.unlink(f"{self._path}.{self.segment - 2}")

    def _append(self, kind: int, time: float, data: bytes) -> None:
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(f"{self._path}.{self.segment}", flags, 0o600)
        header = _HEADER.pack(kind, len(data), self.total_bytes, time)
        crc = _CRC.pack(crc32(data, crc32(header)))
        written = os.writev(self._fd, (crc, header, data))
        if written != _PREFIX + len(data):
            os.ftruncate(self._fd, self._size)  # a full disk takes half a frame; nothing may follow that
            raise OSError("only a part was written")
        self._size += written


class JournalReader:
    """Follows a run's journal while it is written, or reads one that is complete."""

    def __init__(self, path: str, after: int = 0) -> None:
        """Read `path` + `.0` and so on; output before the absolute byte `after` is left out."""
        self.result: Result | None = None
        """Set once everything before it was read."""
        self._path = path
        self._after = after
        self._segment = 0
        self._position = 0
        self._fd = -1

    def read(self, max_bytes: int = 1 << 20) -> list[Frame]:
        """Return what was written since, about `max_bytes` of it; empty when there is nothing new.

        Dropped output is skipped: the frame after a gap has an offset beyond the end of the one before.
        """
        frames: list[Frame] = []
        while not frames and self.result is None and self._open():
            data = os.pread(self._fd, max(max_bytes, _PREFIX + PAYLOAD), self._position)
            if not self._take(data, frames):
                break
        return frames

    def close(self) -> None:
        """Close the open segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, data: bytes, frames: list[Frame]) -> bool:
        """Add the output in `data` to `frames`; return whether there was any whole frame."""
        before = self._segment, self._position
        for kind, offset, time, payload in _whole_frames(data):
            self._position += _PREFIX + len(payload)
            if kind == _RESULT:
                self.result = Result(**json.loads(payload))
            elif kind == _NEXT:
                self._move_to(self._segment + 1)
            elif offset + len(payload) > self._after:
                known = max(0, self._after - offset)
                frames.append(Frame(_STREAMS[kind], offset + known, time, payload[known:]))
        return (self._segment, self._position) != before

    def _move_to(self, segment: int) -> None:
        self.close()
        self._segment = segment
        self._position = 0

    def _open(self) -> bool:
        """Return whether there is a segment to read, skipping those that were dropped before we came."""
        if self._fd >= 0:
            return True
        try:
            self._fd = os.open(f"{self._path}.{self._segment}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            later = [number for number in segments(self._path) if number > self._segment]
            if self._segment == 0 or not later:
                return False
            self._segment = min(later)
            return self._open()
        return True


def segments(path: str) -> list[int]:
    """Return the numbers of the segments that exist of the journal at `path`."""
    directory, _, run_id = path.rpartition("/")
    names = (name.partition(".") for name in os.listdir(directory))
    return sorted(int(number) for run, _, number in names if run == run_id and number.isdigit())


def _whole_frames(data: bytes) -> Iterator[tuple[int, int, float, bytes]]:
    """Yield kind, offset, time and payload of the frames in `data`, up to the first that is not whole."""
    position = 0
    while position + _PREFIX <= len(data):
        (crc,) = _CRC.unpack_from(data, position)
        header = data[position + _CRC.size : position + _PREFIX]
        kind, length, offset, time = _HEADER.unpack(header)
        position += _PREFIX
        payload = data[position : position + length]
        if len(payload) < length or crc32(payload, crc32(header)) != crc:
            return
        position += length
        yield kind, offset, time, payload
