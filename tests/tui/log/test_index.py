"""Lines are found and cut right wherever the chunks begin and end."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.store.output import Chunk
from dcron.tui.log.index import ERR, GAP, OUT, STREAMS, Index
from dcron.tui.log.walking import RawLine, walk
from tests.support.stage import NOON

Said = list[tuple[str, bytes, int]]
"""What was written to which stream, and how many bytes were lost before."""
DATA = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"x\n", b"\n\n"]), min_size=1, max_size=6)
SAID = st.lists(
    st.tuples(st.sampled_from(["out", "err"]), DATA.map(b"".join), st.sampled_from([0, 0, 0, 7])), max_size=12
)


class Log:
    """Chunks in memory, and the indexes of them."""

    def __init__(self, said: Said) -> None:
        self.chunks: list[Chunk] = []
        self.all, self.err = Index(marks_gaps=True), Index(marks_gaps=False)
        end = 0
        for number, (stream, data, lost) in enumerate(said):
            self.chunks.append(Chunk(1, end + lost, stream, NOON + timedelta(seconds=number), data))
            end = self.chunks[-1].end
            for index in (self.all, self.err) if stream == "err" else (self.all,):
                kind = ERR if stream == "err" else OUT
                is_open = not data.endswith(b"\n")
                index.add(kind, end - len(data), len(data), data.count(b"\n"), is_open=is_open)

    def lines(self, index: Index, first: int = 0, limit: int = 100) -> list[RawLine]:
        def fetch(start: int, end: int, count: int) -> Sequence[Chunk]:
            known = [chunk for chunk in self.chunks if index is not self.err or chunk.stream == "err"]
            return [chunk for chunk in known if start <= chunk.byte_offset < end][:count]

        return list(walk(index, fetch, first, limit))


def plain(said: Said) -> list[tuple[str, bytes]]:
    """The lines, found without cleverness: one byte after the other."""
    lines: list[tuple[str, bytes]] = []
    now: tuple[str, bytes] | None = None
    for stream, data, lost in said:
        if now and (lost or now[0] != stream):
            lines.append(now)
            now = None
        if lost:
            lines.append(("gap", b""))
        for byte in data:
            now = now or (stream, b"")
            if byte == ord("\n"):
                lines.append(now)
                now = None
            else:
                now = now[0], now[1] + bytes([byte])
    return [*lines, now] if now else lines


def last_segment(data: bytes) -> bytes:
    """What stays of a line on a terminal that goes back to its beginning."""
    return data.rstrip(b"\r").rpartition(b"\r")[2]


@given(SAID)
def test_every_line_has_its_number_and_its_text(said: Said) -> None:
    log, expected = Log(said), plain(said)
    found = log.lines(log.all)
    assert [line.number for line in found] == list(range(len(expected))) == list(range(log.all.lines))
    assert [(STREAMS[line.kind], last_segment(line.data)) for line in found] == [
        (stream, last_segment(data)) for stream, data in expected
    ]


@given(SAID, st.data())
def test_reading_may_begin_at_any_line(said: Said, data: st.DataObject) -> None:
    log = Log(said)
    first = data.draw(st.integers(0, log.all.lines))
    assert log.lines(log.all, first) == log.lines(log.all)[first:]


@given(SAID)
def test_the_lines_of_stderr_are_those_of_the_whole_log(said: Said) -> None:
    log = Log(said)
    both = log.lines(log.all)
    errors = log.lines(log.err)
    assert [line.data for line in errors] == [line.data for line in both if line.kind == ERR]
    numbers = [log.err.same_line(line.number, log.all) for line in errors]
    assert numbers == [line.number for line in both if line.kind == ERR]
    assert [log.all.same_line(number, log.err) for number in numbers] == list(range(log.err.lines))


@given(SAID, st.integers(0, 30), st.integers(0, 30))
def test_what_was_dropped_leaves_one_line_that_tells_it(said: Said, first: int, size: int) -> None:
    """The index is then as if the rest alone had been seen."""
    log = Log(said)
    kept = [chunk.byte_offset for chunk in log.chunks if chunk.byte_offset >= first + size]
    if not kept:
        return
    before = log.lines(log.all)
    dropped = [log.all.drop(first, kept[0]), log.err.drop(first, kept[0])][0]
    log.chunks = [chunk for chunk in log.chunks if not first <= chunk.byte_offset < kept[0]]
    fresh, fresh_err = Index(marks_gaps=True), Index(marks_gaps=False)
    for chunk in log.chunks:
        for index in (fresh, fresh_err) if chunk.stream == "err" else (fresh,):
            is_open = not chunk.data.endswith(b"\n")
            kind = ERR if chunk.stream == "err" else OUT
            index.add(kind, chunk.byte_offset, len(chunk.data), chunk.data.count(b"\n"), is_open=is_open)
    assert log.lines(log.all) == log.lines(fresh)
    assert (log.all.lines, log.err.lines) == (fresh.lines, fresh_err.lines)
    errors, log.err = log.lines(log.err), fresh_err
    assert errors == log.lines(log.err)
    if dropped:
        assert len(before) - dropped.by == log.all.lines


def test_of_a_very_long_line_only_the_beginning_is_kept() -> None:
    log = Log([("out", b"x" * 90, 0), ("out", b"y" * 90, 0), ("out", b"z\n", 0)])
    assert [(line.data, line.more) for line in log.lines(log.all, limit=100)] == [(b"x" * 90 + b"y" * 10, 81)]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"10%\r", b"20%\r", b"done\n"],
        [b"10%", b"\r20%", b"\rdone", b"\r", b"\r\n"],
        [b"x" * 90, b"x" * 90 + b"\r", b"done\n"],
        [b"x" * 90, b"x" * 90, b"\rdone\n"],
    ],
)
def test_progress_that_overwrites_itself_across_chunks_ends_as_its_last_state(pieces: list[bytes]) -> None:
    log = Log([("out", piece, 0) for piece in pieces])
    assert [(last_segment(line.data), line.more) for line in log.lines(log.all)] == [(b"done", 0)]


def test_a_chunk_that_went_meanwhile_is_passed_over() -> None:
    log = Log([("out", b"a\n", 0), ("out", b"b\n", 0), ("out", b"c\n", 0)])
    del log.chunks[1]
    assert [(line.number, line.data) for line in log.lines(log.all)] == [(0, b"a"), (2, b"c")]
    assert GAP not in [line.kind for line in log.lines(log.all)]
