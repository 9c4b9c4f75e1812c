"""Messages survive the socket in whatever pieces they come."""

import random

import pytest

from dcron.warden.protocol import (
    MAX_LINE,
    Identity,
    LineReader,
    Message,
    MessageTooLongError,
    StartRequest,
    encode,
    read_start,
    start_message,
)

START = StartRequest(
    run_id=1,
    argv=("sh", "-c", "echo \udce9\n\t\u2028é"),
    env={"A": "\udcff", "B": ""},
    cwd="/tmp/ä",
    identity=Identity(1, 2, (2, 3)),
    stdin=bytes(range(256)),
    timeout=1.5,
    grace=10.0,
    umask=0o22,
    limits={"mem": 1 << 33, "core": 0},
    fault=None,
)
BARE = START._replace(identity=None, stdin=None, timeout=None, cwd=None, fault="no")


@pytest.mark.parametrize("start", [START, BARE, START._replace(stdin=b"")])
def test_a_start_comes_over_unchanged(start: StartRequest) -> None:
    (message,) = LineReader().feed(encode(start_message(start)))
    assert read_start(message) == start


def test_a_message_is_one_line_of_ascii() -> None:
    line = encode(start_message(START))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


def test_messages_are_put_together_from_any_pieces() -> None:
    messages = [{"n": number, "text": "x" * (number % 37)} for number in range(200)]
    stream = b"".join(encode(message) for message in messages)
    for seed in range(20):
        chance = random.Random(seed)
        lines, rest = LineReader(), stream
        heard: list[Message] = []
        while rest:
            size = chance.choice((1, 2, 7, 100, 5000))
            heard += lines.feed(rest[:size])
            rest = rest[size:]
        assert heard == messages


def test_a_message_has_a_largest_size() -> None:
    with pytest.raises(MessageTooLongError, match="16,777,216 are allowed"):
        encode({"text": "x" * MAX_LINE})
    lines = LineReader()
    assert list(lines.feed(b"x" * MAX_LINE)) == []
    with pytest.raises(MessageTooLongError):
        list(lines.feed(b"x"))
