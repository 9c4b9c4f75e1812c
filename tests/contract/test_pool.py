"""A process keeps few connections to Postgres, and a lease never waits for them."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from dcron.database import Database, pool
from tests.support.cli import until
from tests.support.databases import new_database

COUNT = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")


@pytest.fixture
def database(postgres_server: str, tmp_path: Path) -> Iterator[Database]:
    with new_database(postgres_server, tmp_path) as url, closing(Database(url)) as database:
        yield database


def work(database: Database, seconds: float) -> None:
    with database.write() as connection:
        connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})


def count(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(COUNT) or 0


def test_a_short_wait_saves_a_connection(database: Database) -> None:
    assert count(database) == 1
    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            list(threads.map(lambda _: count(database), range(2)))
    assert count(database) == 1


def test_two_that_work_at_once_have_a_connection_each(database: Database) -> None:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: work(database, 0.1), range(6)))
    until(lambda: count(database) == pool.SIZE)


def test_who_waits_for_long_gets_a_connection_of_its_own(database: Database) -> None:
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(work, database, 3) for _ in range(2)]
        time.sleep(0.5)
        began = time.monotonic()
        assert count(database) == pool.SIZE + 1
        assert time.monotonic() - began < 2, "a heartbeat does not wait for what the others wait for"
        assert not any(each.done() for each in both)
    until(lambda: count(database) == pool.SIZE)


def test_an_unused_connection_is_closed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [threading.Thread(target=work, args=(database, 0.5)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close_unused()
    assert count(database) == 2, "it may be needed again soon"
    monkeypatch.setattr(pool, "_UNUSED", 0.0)
    database.close_unused()
    until(lambda: count(database) == 1)
