"""The messages between agent and warden: JSON lines over a socket pair, many per write.

Agent to warden: `start`, `kill`, `deadline`, `stop`. Warden to agent: `ready`, `alive`, `started`,
`output`, `finished`. The JSON is ASCII, so arguments and environments that are not UTF-8 survive as
surrogates; standard input is base64.
"""

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MAX_LINE = 16 << 20
"""Most bytes of one message. A job is one message, including its standard input."""

Message = dict[str, Any]

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LONGEST = 1e9
"""Most seconds of a timeout or a grace: thirty years, far below what a timer can hold."""
_LONGEST_VALUE = 100
"""Most characters of a wrong value in an error message."""
_MOST_ID = (1 << 32) - 2
"""Largest user or group id; the next number means "leave it unchanged"."""


class MessageTooLongError(ValueError):
    """A message exceeds MAX_LINE bytes."""


class Identity(NamedTuple):
    """The user and groups of a command. They are set together, or it would keep root's groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class StartRequest(NamedTuple):
    """A command as the warden gets it, with all names resolved (see `client.Job`)."""

    run_id: int
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    identity: Identity | None
    stdin: bytes | None
    timeout: float | None
    grace: float
    umask: int
    limits: dict[str, int]
    fault: str | None
    """Why it cannot be started at all. Reported like any other failure to start."""
    at_home: bool = False
    """Whether `cwd` is the user's home. If that is missing, the command runs in / with a warning."""
    keeps: bool = False
    """Whether it goes on when the deadline passes."""
    start_by: float | None = None
    """When it is too late to begin it (`linux.boottime` seconds)."""


def encode(message: Message) -> bytes:
    """Return the message as one line. Raises MessageTooLongError."""
    line = _ENCODER.encode(message).encode("ascii") + b"\n"
    if len(line) > MAX_LINE:
        raise MessageTooLongError(f"{len(line):,} bytes in one message, {MAX_LINE:,} are allowed")
    return line


def start_message(start: StartRequest) -> Message:
    """Return the message that requests this start."""
    fields = start._asdict()
    if start.stdin is not None:
        fields["stdin"] = b2a_base64(start.stdin, newline=False).decode("ascii")
    return {"do": "start", **fields}


def read_start(message: Message) -> StartRequest:
    """Return the start that `start_message` wrote.

    An invalid field becomes the start's fault, which fails that run only. Raises ValueError if even the run
    id is invalid.
    """
    run_id: Any = message.get("run_id")
    if not _is_integer(run_id, 0, 1 << 63):
        raise ValueError(f"a start of run {run_id!r}")
    try:
        return _checked_start(message)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        return faulty_start(run_id, f"cannot be started: {error}")


def faulty_start(run_id: int, fault: str) -> StartRequest:
    """Return a start that only fails."""
    return StartRequest(
        run_id=run_id,
        argv=(),
        env={},
        cwd=None,
        identity=None,
        stdin=None,
        timeout=None,
        grace=0.0,
        umask=0o022,
        limits={},
        fault=fault,
    )


def _checked_start(message: Message) -> StartRequest:
    fields = {name: message[name] for name in StartRequest._fields}
    for name, is_right in _CHECKS.items():
        if not is_right(fields[name]):
            raise ValueError(f"{name} cannot be {_shortened(fields[name])}")
    fields["argv"] = tuple(fields["argv"])
    if fields["stdin"] is not None:
        fields["stdin"] = a2b_base64(fields["stdin"])
    if fields["identity"] is not None:
        uid, gid, groups = fields["identity"]
        fields["identity"] = Identity(uid, gid, tuple(groups))
    return StartRequest(**fields)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _is_integer(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= _LONGEST  # type: ignore[operator]  # false for NaN


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_map(value: object, of: type) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and type(v) is of for k, v in value.items())


def _is_identity(value: object) -> bool:
    if not (isinstance(value, list | tuple) and len(value) == len(Identity._fields)):
        return False
    uid, gid, groups = value
    numbers = [uid, gid, *groups] if isinstance(groups, list | tuple) else [None]
    return all(_is_integer(each, 0, _MOST_ID) for each in numbers)


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_CHECKS: dict[str, Callable[[object], bool]] = {
    "argv": _are_texts,
    "env": lambda value: _is_map(value, str),
    "cwd": _or_none(_is_text),
    "identity": _or_none(_is_identity),
    "stdin": _or_none(_is_text),
    "timeout": _or_none(_is_seconds),
    "grace": _is_seconds,
    "umask": lambda value: _is_integer(value, 0, 0o777),
    "limits": lambda value: _is_map(value, int),
    "fault": _or_none(_is_text),
    "at_home": lambda value: isinstance(value, bool),
    "keeps": lambda value: isinstance(value, bool),
    "start_by": _or_none(_is_seconds),
}


class LineReader:
    """Assembles messages from the pieces that a stream socket delivers."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete with `data`. Raises MessageTooLongError."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > MAX_LINE:
                raise MessageTooLongError(f"a message above {MAX_LINE:,} bytes")
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            yield json.loads(line)
