"""A watch wakes an agent soon after another process has committed, and costs little while nothing happens."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from dcron.database import Database, change_watch, open_database
from tests.support.patience import PATIENCE, until

QUIET = 0.7
"""Seconds after which a woken watch is asleep again, and less than `_STOP_INTERVAL` twice."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{tmp_path / 'dcron.db'}")
    with database.write() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    yield database
    database.close()


@contextmanager
def watched(database: Database) -> Iterator[list[float]]:
    """Yield the times at which a watch in a thread wakes up."""
    watch, stop, woken = database.watch(), threading.Event(), list[float]()

    def keep_watching() -> None:
        while not stop.is_set():
            if watch.wait(stop):
                woken.append(time.monotonic())
        watch.close()

    thread = threading.Thread(target=keep_watching)
    thread.start()
    try:
        yield woken
    finally:
        stop.set()
        thread.join(PATIENCE)


def insert(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))


def has_no_events(*_: object) -> None:
    raise OSError("too many watches")


@pytest.mark.slow
@pytest.mark.parametrize("reports", [True, False])
def test_each_commit_wakes_the_watch(file: Database, reports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the kernel allows no watch."""
    if not reports:
        monkeypatch.setattr(change_watch, "FileEvents", has_no_events)
    with watched(file) as woken:
        until(lambda: len(woken) == 1)  # what came before is unknown
        time.sleep(QUIET)
        insert(file)
        until(lambda: len(woken) == 2)
        time.sleep(QUIET)
        insert(file)
        until(lambda: len(woken) == 3)


def test_other_files_of_the_directory_wake_nothing(file: Database, tmp_path: Path) -> None:
    with watched(file) as woken:
        until(lambda: len(woken) == 1)
        for _ in range(10):
            (tmp_path / "other").write_text("x")
            time.sleep(QUIET / 10)
        assert len(woken) == 1


def test_a_linked_file_is_watched_where_it_is(file: Database, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "dcron.db")
    linked = open_database(f"sqlite:///{link}")
    with watched(linked) as woken:
        until(lambda: len(woken) == 1)
        insert(file)
        until(lambda: len(woken) == 2)
    linked.close()
