"""A run's output and result on disk: the warden writes them, the agent, or a later one, reads them.

The journal of run 42 is `42.0` (the head, bounded), then `42.1`, `42.2` … of which the last two are kept. A
segment is a sequence of frames, each `crc32, kind, payload length, offset, time` and its payload. The
offset counts the bytes of both streams together, including dropped ones, so a gap shows how much is
missing. A segment with a successor ends with a NEXT frame; the last frame of a journal is its result. An
incomplete frame, left by a crash or a full disk, does not match its checksum and is ignored.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH108, PTH119, PTH208

import json
import os
import re
import stat
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple, Self, get_args
from zlib import crc32

HEAD = 5 << 20
"""Bytes on disk of the first segment."""
TAIL = 5 << 20
"""Bytes on disk of each of the two last segments."""
PAYLOAD = 64 << 10
"""Most bytes in one frame: the size of a pipe."""

Stream = Literal["out", "err"]
Reason = Literal["timeout", "cancelled", "lease", "agent gone", "guard gone", "stopped", "spawn failed"]

OUT, ERR, _NEXT, _RESULT = 1, 2, 3, 4
_STREAMS: dict[int, Stream] = {OUT: "out", ERR: "err"}

_CRC = struct.Struct("<I")
_HEADER = struct.Struct("<BIQd")
_PREFIX = _CRC.size + _HEADER.size
_MESSAGE_LIMIT = 4096
_NUMBER = re.compile("[0-9]{1,18}")
_MAY_BE_NONE = ("exit_code", "signal", "reason", "message", "started_at", "max_rss")
_MOST = 1 << 62
"""No count in a journal is larger."""
_LAST_TIME = 253402300800.0
"""The year 10000 in epoch seconds: Python's calendar ends before it."""


class Frame(NamedTuple):
    """A piece of output, as it was read from the command."""

    stream: Stream
    offset: int
    """Position of its first byte in the output of both streams together."""
    time: float
    """UTC epoch seconds."""
    data: bytes


class Result(NamedTuple):
    """The result of a run. Times are UTC epoch seconds."""

    run_id: int
    node_id: str
    exit_code: int | None
    """None if a signal ended it or it never ran; 126 or 127, like a shell's, if it could not be started."""
    signal: int | None
    reason: Reason | None
    """Why it was killed or not started; None if it ended by itself."""
    message: str | None
    """More that a person should know."""
    started_at: float | None
    """None if it was never started."""
    finished_at: float
    cpu: float
    """CPU seconds of its leader and of the children that the leader waited for."""
    max_rss: int | None
    """Bytes, of the largest single process; None if the warden's own size (15 MB) hides it."""
    total_bytes: int
    """Bytes of output, including dropped ones."""
    last_segment: int
    """Number of the journal's last segment."""


class JournalError(Exception):
    """A journal that no warden wrote. What was read before the error is valid."""


def read_result(text: bytes | str) -> Result:
    """Return the result that was written from `Result._asdict`, ignoring fields of newer versions.

    Raises: JournalError if a field is missing or has the wrong type.
    """
    try:
        fields = json.loads(text)
        known = {name: fields[name] for name in Result._fields}
        wrong = [name for name, value in known.items() if not _fits(name, value)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalError(f"its result cannot be read: {error!r}") from error
    if wrong:
        raise JournalError(f"its result has no usable {', '.join(wrong)}")
    return Result(**known)


def _fits(name: str, value: object) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    if name in ("node_id", "reason", "message"):
        return _is_plain(value) and (name != "reason" or value in get_args(Reason))
    if name in ("started_at", "finished_at"):
        return _is_number(value) and _is_time(float(value))  # type: ignore[arg-type]
    return _is_number(value) and 0 <= value < _MOST  # type: ignore[operator]


def _is_plain(value: object) -> bool:
    """Return whether it is a text that every database takes."""
    return (
        isinstance(value, str)
        and "\0" not in value
        and not any("\ud800" <= each <= "\udfff" for each in value)
    )


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_time(seconds: float) -> bool:
    return 0 <= seconds < _LAST_TIME


class JournalWriter:
    """Appends to a run's journal. Never fails: output that the disk does not take is dropped."""

    def __init__(self, path: str, head: int, tail: int) -> None:
        """Write to `path` + `.0` and so on. A file is made when there is something to write."""
        self.total_bytes = 0
        self.segment = 0
        self.error: OSError | None = None
        """The last error of writing output."""
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
    """Follows a run's journal while it is written, or reads a complete one."""

    def __init__(self, path: str, after: int = 0) -> None:
        """Read `path` + `.0` and so on, without output before the absolute byte `after`."""
        self.result: Result | None = None
        """Set once everything before it was read."""
        self._path = path
        self._after = after
        self._segment = 0
        self._position = 0
        self._fd = -1

    def read(self, max_bytes: int = 1 << 20) -> list[Frame]:
        """Return new output, about `max_bytes` of it; empty if there is none.

        Dropped output is skipped: the frame after a gap has an offset beyond the end of the previous one.
        Raises JournalError for content that no warden writes, and OSError.
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
        """Add the output in `data` to `frames`; return whether there was a complete frame."""
        before = self._segment, self._position
        for kind, offset, time, payload in _whole_frames(data):
            self._position += _PREFIX + len(payload)
            if kind == _RESULT:
                self.result = self._own(read_result(payload))
            elif kind == _NEXT:
                self._move_to(self._segment + 1)
            elif kind not in _STREAMS or offset > _MOST or not _is_time(time):
                raise JournalError("it has a piece of output that no warden writes")
            elif offset + len(payload) > self._after:
                known = max(0, self._after - offset)
                frames.append(Frame(_STREAMS[kind], offset + known, time, payload[known:]))
        return (self._segment, self._position) != before

    def _own(self, result: Result) -> Result:
        run_id = os.path.basename(self._path)
        if str(result.run_id) != run_id:
            raise JournalError(f"its result is that of run {result.run_id}")
        return result

    def _move_to(self, segment: int) -> None:
        self.close()
        self._segment = segment
        self._position = 0

    def _open(self) -> bool:
        """Return whether there is a segment to read. Skip segments that were dropped before we read them."""
        if self._fd >= 0:
            return True
        try:
            self._fd = _open_file(f"{self._path}.{self._segment}")
        except FileNotFoundError:
            later = [number for number in segments(self._path) if number > self._segment]
            if self._segment == 0 or not later:
                return False
            self._segment = min(later)
            return self._open()
        return True


def _open_file(path: str) -> int:
    """Open a regular file. Any other kind might block the reader or lead elsewhere."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise JournalError("it is not a regular file")
    return fd


def segments(path: str) -> list[int]:
    """Return the numbers of the existing segments of the journal at `path`."""
    directory, _, run_id = path.rpartition("/")
    names = (name.partition(".") for name in os.listdir(directory))
    return sorted(int(number) for run, _, number in names if run == run_id and _NUMBER.fullmatch(number))


def _whole_frames(data: bytes) -> Iterator[tuple[int, int, float, bytes]]:
    """Yield kind, offset, time and payload of the frames in `data`, up to the first incomplete one."""
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
