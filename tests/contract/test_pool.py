"""A process keeps few connections to Postgres, and a lease never waits for them."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import text

from dcron import migrations
from dcron.database import Database, open_database, pool
from dcron.errors import DatabaseError
from dcron.model import RunState
from dcron.services.crontab import Crontab
from dcron.values.lists import RunFilter
from tests.support.cli import DCRON
from tests.support.databases import new_database
from tests.support.patience import until
from tests.support.stage import definition

COUNT = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")

ASLEEP = text(COUNT.text + " AND wait_event = 'PgSleep'")
TAKE = text("SELECT pg_advisory_xact_lock(77)")
WAKE = text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event = 'PgSleep'"
)


@pytest.fixture
def database(postgres_server: str, tmp_path: Path) -> Iterator[Database]:
    with new_database(postgres_server, tmp_path) as url, closing(open_database(url)) as database:
        yield database


def work(database: Database, seconds: float) -> None:
    with database.write() as connection:
        connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})


def take(database: Database) -> float:
    """Return the seconds that it took to get the lock."""
    began = time.monotonic()
    with database.write() as connection:
        connection.execute(TAKE)
    return time.monotonic() - began


def count_asleep(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(ASLEEP) or 0


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
        both = [threads.submit(work, database, 60) for _ in range(2)]
        with closing(open_database(database.address.url.render_as_string(hide_password=False))) as other:
            until(lambda: count_asleep(other) == pool.SIZE)
            assert count(database) == pool.SIZE + 1 + 1
            assert not any(each.done() for each in both), "a heartbeat waits for nothing that others wait for"
            with other.write() as connection:
                connection.execute(WAKE)
        assert all(each.exception() for each in both)
    until(lambda: count(database) == pool.SIZE)


@pytest.mark.slow
def test_a_third_connection_to_a_far_server_is_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_FAR", 0.0)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: work(database, 2), range(3)))
    assert count(database) == pool.SIZE_IF_FAR


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


@pytest.mark.slow
def test_an_agent_has_two_connections_when_idle_and_three_at_work(database: Database, tmp_path: Path) -> None:
    migrations.prepare(database)
    url = database.address.url.render_as_string(hide_password=False)
    words = [str(DCRON), "agent", "--db", url, "--name", "web-1", "--lease", "10s", "--slots", "4"]
    environment = {**os.environ, "DCRON_SPOOL": str(tmp_path / "spool")}
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as agent:
        try:
            # Ours, one that listens, and one for its statements.
            until(lambda: usual(database, seconds=3) == 1 + 2)
            service = Crontab(database, "ann@desk")
            for number in range(20):
                service.add(definition(f"task-{number}", "@every 1s"))
            until(lambda: service.runs(RunFilter(states=[RunState.SUCCEEDED]), limit=1))
            assert usual(database, seconds=5) <= 1 + 3
        finally:
            agent.terminate()


def usual(database: Database, seconds: float) -> float:
    """Return the median of the number of connections, our own included."""
    deadline = time.monotonic() + seconds
    found = []
    while time.monotonic() < deadline:
        found.append(count(database))
        time.sleep(0.05)
    return median(found)


def test_a_transaction_that_falls_silent_within_a_pipeline_gives_up_its_locks(database: Database) -> None:
    with database.read() as connection:
        if not connection.scalar(text("SELECT current_setting('transaction_timeout', true)")):
            pytest.skip("this server cannot end a transaction")
    database.transaction_limit = 1.0
    with (
        closing(database.sibling(patience=5.0)) as other,
        suppress(DatabaseError),
        database.write() as connection,
    ):
        connection.execute(text("SELECT 1"))
        server = connection.connection.driver_connection.pgconn  # type: ignore[union-attr]
        server.enter_pipeline_mode()
        server.send_query_params(TAKE.text.encode(), None)
        server.send_flush_request()
        server.flush()
        time.sleep(0.5)
        with ThreadPoolExecutor(1) as thread:
            taken = thread.submit(take, other)
        server.finish()
    assert taken.result() < 5.0
