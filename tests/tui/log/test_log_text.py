"""Lines are found and cut right wherever the chunks begin and end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.tui.log import search
from dcron.tui.log.lines import ERR, GAP, STREAMS, RawLine
from dcron.tui.log.search import Criteria, Needle, Search
from dcron.tui.log.text import LogText
from dcron.values.lists import Chunk
from tests.support.stage import NOON

Said = list[tuple[str, bytes, int]]
"""What was written to which stream, and how many bytes were lost before."""
DATA = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"x\n", b"\n\n"]), min_size=1, max_size=6)
SAID = st.lists(
    st.tuples(st.sampled_from(["out", "err"]), DATA.map(b"".join), st.sampled_from([0, 0, 0, 7])), max_size=12
)


def chunks_of(said: Said) -> list[Chunk]:
    chunks: list[Chunk] = []
    end = 0
    for number, (stream, data, lost) in enumerate(said):
        chunks.append(Chunk(1, end + lost, stream, NOON + timedelta(seconds=number), data))
        end = chunks[-1].end
    return chunks


def text_of(chunks: list[Chunk]) -> LogText:
    text = LogText()
    for chunk in chunks:
        text.append(chunk)
    return text


def lines_of(text: LogText, limit: int = 100) -> list[RawLine]:
    return [text.raw(number, limit) for number in range(len(text))]


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
def test_every_line_has_its_text(said: Said) -> None:
    text, expected = text_of(chunks_of(said)), plain(said)
    assert [(STREAMS[line.kind], last_segment(line.data)) for line in lines_of(text)] == [
        (stream, last_segment(data)) for stream, data in expected
    ]
    assert (text.out, text.err) == tuple(sum(each[0] == name for each in expected) for name in ("out", "err"))


@given(SAID)
def test_a_line_ended_when_its_last_byte_came(said: Said) -> None:
    text = text_of(chunks_of(said))
    for number, line in enumerate(lines_of(text)):
        before = [chunk.at for chunk in chunks_of(said) if chunk.byte_offset < text.stop(number)]
        assert line.at == (None if line.kind == GAP else before[-1])


@given(SAID)
def test_chunks_that_are_there_already_are_ignored(said: Said) -> None:
    chunks = chunks_of(said)
    text = text_of(chunks)
    before = lines_of(text)
    for chunk in chunks:
        text.append(chunk)
    assert lines_of(text) == before


@given(SAID, st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_a_dropped_middle_leaves_one_line(said: Said, first: int, size: int, earlier: int) -> None:
    """The text is then as if only the rest had come, also if less was dropped before."""
    chunks = chunks_of(said)
    kept = [chunk.byte_offset for chunk in chunks if chunk.byte_offset >= first + size]
    if not kept:
        return
    text = text_of(chunks)
    text.drop_middle(first, min(first + earlier, kept[0]))
    text.drop_middle(first, kept[0])
    fresh = text_of([chunk for chunk in chunks if not first <= chunk.byte_offset < kept[0]])
    assert lines_of(text) == lines_of(fresh)
    assert list(text.starts) == list(fresh.starts)
    assert (text.out, text.err, text.end) == (fresh.out, fresh.err, fresh.end)
    assert text.complete_end == fresh.complete_end


TEXTS = st.sampled_from(["a", "c", "bc", "x", "C", "\r"])


@given(SAID, TEXTS, st.none() | TEXTS, st.booleans(), st.integers(1, 20))
def test_a_search_finds_the_same_as_a_look_at_each_line(
    said: Said, sought: str, kept: str | None, err_only: bool, block: int
) -> None:
    text = text_of(chunks_of(said))
    criteria = Criteria(err_only, Needle(kept) if kept else None, Needle(sought))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_BYTES", block)
        found = Search(text, criteria)
        while not found.is_done(text.end):
            found.step(text.end)
    starts, lines = text.starts, lines_of(text)
    numbers = [n for n, line in enumerate(lines) if not err_only or line.kind == ERR]
    if kept:
        numbers = [n for n in numbers if lines[n].kind != GAP and Needle(kept).is_in(lines[n])]
    assert list(found.rows) == [starts[number] for number in numbers]
    hits = [number for number in numbers if lines[number].kind != GAP and Needle(sought).is_in(lines[number])]
    assert list(found.hits) == [starts[number] for number in hits]


def test_of_a_very_long_line_only_the_start_is_kept() -> None:
    text = text_of(chunks_of([("out", b"x" * 90, 0), ("out", b"y" * 90, 0), ("out", b"z\n", 0)]))
    assert [(line.data, line.more) for line in lines_of(text)] == [(b"x" * 90 + b"y" * 10, 81)]


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
    text = text_of(chunks_of([("out", piece, 0) for piece in pieces]))
    assert [(last_segment(line.data), line.more) for line in lines_of(text)] == [(b"done", 0)]
