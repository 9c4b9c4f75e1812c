"""What agent and warden say to each other: JSON lines over one socket pair, many to a write.

Agent to warden: `start`, `kill`, `deadline`, `stop`. Warden to agent: `ready`, `alive`, `started`, `output`,
`finished`. JSON is ASCII here, so arguments and environments that are not UTF-8 survive as surrogates, and
standard input travels as base64.
"""

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_LINE = 16 << 20
"""Bytes of one message. A job is one message, its standard input included."""

Message = dict[str, Any]

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class MessageTooLongError(ValueError):
    """A message above MAX_LINE bytes."""


class Identity(NamedTuple):
    """Whom a command runs as. The groups are set together with the user, or it would keep root's."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class Start(NamedTuple):
    """A command as the warden is told of it: all names already resolved (see `client.Job`)."""

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
    """Why it cannot be started at all; reported like any other failure to start."""


def encode(message: Message) -> bytes:
    """Return the message as one line."""
    line = _ENCODER.encode(message).encode("ascii") + b"\n"
    if len(line) > MAX_LINE:
        raise MessageTooLongError(f"{len(line):,} bytes in one message, {MAX_LINE:,} are allowed")
    return line


def start_message(start: Start) -> Message:
    """Return the message that asks for this start."""
    fields = start._asdict()
    if start.stdin is not None:
        fields["stdin"] = b2a_base64(start.stdin, newline=False).decode("ascii")
    return {"do": "start", **fields}


def read_start(message: Message) -> Start:
    """Return the start that `start_message` wrote."""
    fields = {name: message[name] for name in Start._fields}
    fields["argv"] = tuple(fields["argv"])
    if fields["stdin"] is not None:
        fields["stdin"] = a2b_base64(fields["stdin"])
    if fields["identity"] is not None:
        uid, gid, groups = fields["identity"]
        fields["identity"] = Identity(uid, gid, tuple(groups))
    return Start(**fields)


class Lines:
    """Puts messages together from whatever pieces a stream socket hands over."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete with `data`."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > MAX_LINE:
                raise MessageTooLongError(f"a message above {MAX_LINE:,} bytes")
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            yield json.loads(line)
