"""The owner of a directory of journals."""

import fcntl
import os
from pathlib import Path

import pytest

from dcron.warden.journal import OUT, JournalWriter
from dcron.warden.spool import Spool, SpoolBusyError, abandoned


def write(spool: Spool, run_id: int, *, size: int = 10) -> int:
    writer = JournalWriter(spool.journal_path(run_id), head=100, tail=100)
    for _ in range(size):
        writer.write(OUT, 0.0, b"x" * 50)
    writer.close()
    return writer.segment


def test_a_spool_that_is_open_is_not_abandoned(tmp_path: Path) -> None:
    with Spool.make(tmp_path, "web-1-0000000a") as spool:
        write(spool, 1)
        assert abandoned(tmp_path) == []
    (left,) = abandoned(tmp_path)
    with left:
        assert (left.node_id, left.runs()) == ("web-1-0000000a", [1])


def test_a_spool_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.warden.spool._ADOPTION", 0.05)
    with (
        Spool.make(tmp_path, "web-1-0000000a"),
        pytest.raises(SpoolBusyError, match="belongs to a living agent"),
    ):
        Spool.make(tmp_path, "web-1-0000000a")
    Spool.make(tmp_path, "web-1-0000000a").close()


def test_the_lock_lives_as_long_as_any_copy_of_it(tmp_path: Path) -> None:
    """The agent's ends with the agent; the warden's copy goes on."""
    spool = Spool.make(tmp_path, "web-1-0000000a")
    copy = os.dup(spool.lock_fd)
    spool.close()
    assert abandoned(tmp_path) == []
    os.close(copy)
    (left,) = abandoned(tmp_path)
    left.close()


def test_an_abandoned_spool_is_adopted_once(tmp_path: Path) -> None:
    Spool.make(tmp_path, "web-1-0000000a").close()
    (ours,) = abandoned(tmp_path)
    assert abandoned(tmp_path) == []
    ours.remove()
    assert abandoned(tmp_path) == []
    assert not (tmp_path / "web-1-0000000a").exists()


def test_a_node_can_come_back_to_its_spool(tmp_path: Path) -> None:
    with Spool.make(tmp_path, "web-1-0000000a") as spool:
        write(spool, 1)
    with Spool.make(tmp_path, "web-1-0000000a") as spool:
        assert spool.runs() == [1]


def test_a_node_whose_directory_was_removed_meanwhile_makes_it_anew(tmp_path: Path) -> None:
    first = Spool.make(tmp_path, "web-1-0000000a")
    first.remove()
    with Spool.make(tmp_path, "web-1-0000000a") as second:
        assert second.path.is_dir()
        assert abandoned(tmp_path) == []


def test_a_lock_on_a_removed_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adopter removes the directory between our opening of the lock and our locking it."""
    adopter = Spool.make(tmp_path, "web-1-0000000a")

    def remove_first(fd: int, how: int) -> None:
        monkeypatch.undo()
        adopter.remove()
        fcntl.flock(fd, how)

    monkeypatch.setattr("dcron.warden.spool.fcntl.flock", remove_first)
    with Spool.make(tmp_path, "web-1-0000000a") as spool:
        assert spool.path.is_dir()
        assert abandoned(tmp_path) == []


@pytest.mark.parametrize("known", [True, False])
def test_forgetting_deletes_every_segment_and_nothing_else(tmp_path: Path, *, known: bool) -> None:
    with Spool.make(tmp_path, "web-1-0000000a") as spool:
        for size in (0, 1, 2, 3, 5, 20):
            last = write(spool, 7, size=size)
            write(spool, 70)
            spool.forget(7, last if known else None)
            assert spool.runs() == [70]
            spool.forget(70)


def test_what_is_no_spool_is_never_touched(tmp_path: Path) -> None:
    """The directory may hold much else."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "lock").touch()
    (tmp_path / "a file").touch()
    assert abandoned(tmp_path) == []
    spool = Spool.make(tmp_path, "web-1-0000000a")
    write(spool, 1)
    (spool.path / "notes").touch()
    spool.remove()
    assert [path.name for path in spool.path.iterdir()] == ["notes"]
    assert abandoned(tmp_path) == []


@pytest.mark.parametrize("how", ["owner", "group", "all", "link"])
def test_a_directory_that_others_can_change_is_reported_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "web-1-0000000a"
    Spool.make(tmp_path, path.name).close()
    if how == "owner":
        monkeypatch.setattr("dcron.warden.spool.os.geteuid", lambda: path.stat().st_uid + 1)
    elif how == "link":
        path.rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
        path.symlink_to(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    else:
        path.chmod(0o770 if how == "group" else 0o707)
    (tmp_path / "no spool").mkdir(mode=0o777)
    (tmp_path / "no spool").chmod(0o777)
    foreign: list[Path] = []
    assert abandoned(tmp_path, foreign.append) == []
    assert foreign == [path]


def test_without_a_spool_nothing_is_abandoned(tmp_path: Path) -> None:
    assert abandoned(tmp_path / "none") == []


@pytest.mark.parametrize("node_id", ["", ".", "..", "../web", "a/b", "web 1", "-web", "a" * 200])
def test_a_node_id_must_be_a_plain_name(tmp_path: Path, node_id: str) -> None:
    with pytest.raises(ValueError, match="cannot name a directory"):
        Spool.make(tmp_path, node_id)
