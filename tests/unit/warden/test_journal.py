"""The journal's format: complete records are read, incomplete ones are not."""

import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from dcron.warden.journal import ERR, OUT, PAYLOAD, Frame, JournalReader, JournalWriter, Result, segments


def result(**changes: object) -> Result:
    values = dict.fromkeys(Result._fields) | {
        "run_id": 7,
        "node_id": "web-1-0000000a",
        "exit_code": 0,
        "started_at": 100.5,
        "finished_at": 101.25,
        "cpu": 0.5,
        "total_bytes": 0,
        "last_segment": 0,
    }
    return Result(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the journal of run 7 lies."""
    return f"{tmp_path}/7"


@pytest.fixture
def writer(path: str) -> Iterator[JournalWriter]:
    """Return a writer with segments of 1,000 bytes."""
    writer = JournalWriter(path, head=1000, tail=1000)
    yield writer
    writer.close()


@pytest.fixture
def reader(path: str) -> Iterator[JournalReader]:
    """Return a reader of the same journal."""
    with JournalReader(path) as reader:
        yield reader


def read_all(reader: JournalReader) -> list[Frame]:
    frames: list[Frame] = []
    while more := reader.read():
        frames += more
    return frames


def test_no_file_is_made_before_a_write(writer: JournalWriter, reader: JournalReader, path: str) -> None:
    assert (segments(path), reader.read(), reader.result) == ([], [], None)
    writer.finish(result())
    assert (segments(path), reader.read(), reader.result) == ([0], [], result())


def test_frames_come_back_as_they_were_written(writer: JournalWriter, reader: JournalReader) -> None:
    writer.write(OUT, 1.5, b"one\n")
    writer.write(ERR, 2.5, bytes(range(256)))
    writer.finish(result(total_bytes=writer.total_bytes))
    assert reader.read() == [Frame("out", 0, 1.5, b"one\n"), Frame("err", 4, 2.5, bytes(range(256)))]
    assert reader.result == result(total_bytes=260)


def test_a_reader_follows_what_is_written(writer: JournalWriter, reader: JournalReader) -> None:
    for number in range(100):
        writer.write(OUT, 0.0, b"%02d" % number)
        assert reader.read() == [Frame("out", 2 * number, 0.0, b"%02d" % number)]
        assert (reader.read(), reader.result) == ([], None)
    writer.finish(result())
    assert (reader.read(), reader.result) == ([], result())


def test_the_head_and_two_segments_are_kept(writer: JournalWriter, reader: JournalReader, path: str) -> None:
    for number in range(1000):
        writer.write(OUT, 0.0, b"%05d" % number)
        assert sum(Path(f"{path}.{each}").stat().st_size for each in segments(path)) <= 3100
    writer.finish(result(last_segment=writer.segment))
    assert segments(path) == [0, writer.segment - 1, writer.segment]
    frames = read_all(reader)
    assert all(frame.data == b"%05d" % (frame.offset // 5) for frame in frames)
    offsets = [frame.offset for frame in frames]
    steps = [after - before for before, after in pairwise(offsets)]
    assert (offsets[0], offsets[-1]) == (0, 4995)
    assert [step for step in steps if step != 5] == [5000 - 5 * (len(frames) - 1)]
    assert reader.result == result(last_segment=writer.segment)


def test_a_reader_that_is_overtaken_keeps_what_it_has_open(
    writer: JournalWriter, reader: JournalReader, path: str
) -> None:
    """A segment deleted under a reader's hands is still read to its end; then it goes on behind the gap."""
    while writer.segment < 1:
        writer.write(OUT, 0.0, b"x" * 100)
    read_all(reader)
    begin = writer.total_bytes
    while writer.segment < 5:
        writer.write(OUT, 0.0, b"y" * 100)
    assert segments(path) == [0, 4, 5]
    frames = read_all(reader)
    assert frames[0].offset == begin
    whole = [frame.offset for frame in frames]
    assert whole == sorted(whole)
    assert frames[-1].offset + 100 == writer.total_bytes
    assert len(frames) < (writer.total_bytes - begin) // 100


@pytest.mark.parametrize("after", [0, 1, 3, 4, 5, 8, 100])
def test_a_reader_can_start_at_any_byte(writer: JournalWriter, path: str, after: int) -> None:
    for word in (b"four", b"five5", b""):
        writer.write(OUT, 0.0, word)
    writer.finish(result())
    with JournalReader(path, after) as reader:
        frames = read_all(reader)
        assert reader.result == result()
    assert b"".join(frame.data for frame in frames) == b"fourfive5"[after:]
    assert not frames or frames[0].offset == after


def test_a_small_appetite_changes_nothing(path: str) -> None:
    writer = JournalWriter(path, head=1 << 20, tail=1 << 20)
    for _ in range(10):
        writer.write(OUT, 0.0, os.urandom(PAYLOAD))
    writer.finish(result())
    with JournalReader(path) as one, JournalReader(path) as other:
        pieces: list[Frame] = []
        while more := one.read(1):
            assert len(more) == 1
            pieces += more
        assert pieces == read_all(other)
        assert len(pieces) == 10
        assert one.result == other.result == result()


def test_a_torn_frame_is_no_frame(writer: JournalWriter, path: str) -> None:
    """Whatever a crash leaves of the last frame: no byte of it is believed."""
    writer.write(OUT, 0.0, b"whole")
    whole = Path(f"{path}.0").stat().st_size
    writer.write(OUT, 0.0, b"torn")
    writer.close()
    data = Path(f"{path}.0").read_bytes()
    for length in range(whole, len(data)):
        Path(f"{path}.0").write_bytes(data[:length])
        with JournalReader(path) as reader:
            assert [frame.data for frame in read_all(reader)] == [b"whole"]
            assert reader.result is None


def test_a_frame_of_zeros_or_of_noise_is_no_frame(writer: JournalWriter, path: str) -> None:
    """A power failure leaves blocks that were never written."""
    writer.write(OUT, 0.0, b"whole")
    writer.close()
    data = Path(f"{path}.0").read_bytes()
    noise = random.Random(1)
    for junk in (bytes(5000), noise.randbytes(5000), data[:-1] + b"?"):
        Path(f"{path}.0").write_bytes(data + junk)
        with JournalReader(path) as reader:
            assert [frame.data for frame in read_all(reader)] == [b"whole"]
            assert reader.result is None


def test_a_frame_that_is_being_written_is_read_later(writer: JournalWriter, path: str) -> None:
    writer.write(OUT, 0.0, b"one")
    writer.write(OUT, 0.0, b"two")
    writer.close()
    data = Path(f"{path}.0").read_bytes()
    Path(f"{path}.0").write_bytes(data[:-1])
    with JournalReader(path) as reader:
        assert [frame.data for frame in reader.read()] == [b"one"]
        assert reader.read() == []
        with Path(f"{path}.0").open("ab") as file:
            file.write(data[-1:])
        assert [frame.data for frame in reader.read()] == [b"two"]


class Disk:
    """Takes a given number of bytes, then is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._writev = os.writev
        monkeypatch.setattr("dcron.warden.journal.os.writev", self.writev)

    def writev(self, fd: int, buffers: tuple[bytes, ...]) -> int:
        data = b"".join(buffers)[: self.room]
        if not data:
            raise OSError(28, "No space left on device")
        self.room -= len(data)
        return self._writev(fd, (data,))


@pytest.mark.parametrize("room", [0, 10, 30, 31, 60])
def test_a_full_disk_makes_a_gap_and_leaves_no_half_frame(
    writer: JournalWriter, reader: JournalReader, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    writer.write(OUT, 0.0, b"before")
    disk = Disk(monkeypatch, room)
    for _ in range(4):
        writer.write(OUT, 0.0, b"during")
    assert writer.error is not None
    disk.room = 10_000
    writer.write(OUT, 0.0, b"after")
    assert writer.finish(result(total_bytes=writer.total_bytes))
    frames = read_all(reader)
    assert all(frame.data == b"during" for frame in frames[1:-1])
    assert (frames[0].data, frames[-1].data, frames[-1].offset) == (b"before", b"after", 30)
    assert len(frames) == 2 + room // 31  # a frame of six bytes takes 31
    assert reader.result == result(total_bytes=35)


def test_a_disk_that_is_full_between_segments_loses_no_later_output(
    writer: JournalWriter, reader: JournalReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 1000)
    for _ in range(50):
        writer.write(OUT, 0.0, b"x" * 75)
    disk.room = 10_000
    writer.write(OUT, 0.0, b"after")
    writer.finish(result())
    frames = read_all(reader)
    assert len(frames) == 11
    assert (frames[-1].data, frames[-1].offset) == (b"after", 50 * 75)
    assert reader.result == result()


def test_a_result_without_room_is_said_to_be_lost(
    writer: JournalWriter, reader: JournalReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(OUT, 0.0, b"before")
    Disk(monkeypatch, 20)
    assert not writer.finish(result())
    assert [frame.data for frame in read_all(reader)] == [b"before"]
    assert reader.result is None


def test_a_directory_that_is_gone_fails_nothing(tmp_path: Path) -> None:
    writer = JournalWriter(f"{tmp_path}/gone/7", head=1000, tail=1000)
    writer.write(OUT, 0.0, b"lost")
    assert isinstance(writer.error, FileNotFoundError)
    assert (writer.total_bytes, writer.finish(result())) == (4, False)


def test_a_long_message_is_cut(writer: JournalWriter, reader: JournalReader) -> None:
    writer.finish(result(message="x" * 100_000))
    assert reader.read() == []
    assert reader.result is not None
    assert reader.result.message == "x" * 4096


def test_the_journals_of_other_runs_are_not_ours(tmp_path: Path) -> None:
    for name in ("7.0", "7.12", "70.1", "17.3", "7.part", "lock", "7"):
        (tmp_path / name).touch()
    assert segments(f"{tmp_path}/7") == [0, 12]
