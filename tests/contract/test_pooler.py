"""A pooler between dcron and Postgres is recognised, and nothing is kept in the sessions that it shares."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text

from dcron.database import SCHEMA, Database, is_transient, open_database
from dcron.errors import DatabaseError
from dcron.services.crontab import Crontab
from dcron.services.database_info import database_facts
from dcron.services.doctor import Doctor
from tests.support.proxy import Proxy


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """Gives its clients keys of its own, like every pooler."""
    with closing(open_database(postgres_url)) as database:
        socket = f"{database.address.url.query['host']}/.s.PGSQL.5432"
    with Proxy(socket, random.Random(0)) as proxy:
        proxy.hides_keys = True
        yield proxy


def used(database: Database) -> Database:
    """The database after more transactions than a statement needs to be prepared."""
    crontab = Crontab(database, "tester@here")
    for _ in range(8):
        assert crontab.nodes() == []
    return database


def session_of(database: Database) -> tuple[int, str]:
    """How many statements are prepared in the session, and the search path that it keeps."""
    with closing(database.engine.raw_connection()) as raw:
        driver: Any = raw.driver_connection
        [prepared] = driver.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        [path] = driver.execute("SHOW search_path").fetchone()
        return prepared, path


def test_a_direct_connection_keeps_its_search_path_and_its_statements(postgres_url: str) -> None:
    with closing(used(open_database(postgres_url))) as database:
        prepared, path = session_of(database)
        assert not database.is_pooled
        assert database.pooler is None
    assert prepared > 0
    assert path == SCHEMA


def test_behind_a_pooler_nothing_is_kept_in_a_session(proxy: Proxy, postgres_url: str) -> None:
    with closing(used(open_database(proxy.url(postgres_url)))) as database:
        assert session_of(database) == (0, '"$user", public')
        assert database.is_pooled
        assert database_facts(database).pooler == "detected"
        (found,) = [each for each in Doctor(database).examine() if each.code == "pooler"]
    assert "?pooler=session" in found.advice


@pytest.mark.parametrize("said", ["session", "none"])
def test_a_url_may_say_that_sessions_are_kept(proxy: Proxy, postgres_url: str, said: str) -> None:
    with closing(used(open_database(f"{proxy.url(postgres_url)}&pooler={said}"))) as database:
        prepared, path = session_of(database)
        assert not database.is_pooled
        assert "pooler" not in [each.code for each in Doctor(database).examine()]
    assert (prepared > 0, path) == (True, SCHEMA)


def test_a_url_may_say_that_sessions_are_shared(proxy: Proxy, postgres_url: str) -> None:
    proxy.hides_keys = False
    for said in ("pooler=transaction", "pgbouncer=true"):
        with closing(used(open_database(f"{proxy.url(postgres_url)}&{said}"))) as database:
            assert session_of(database) == (0, '"$user", public')
            assert database.pooler == "transaction"


def test_each_connection_decides_for_itself(proxy: Proxy, postgres_url: str) -> None:
    """After a failover the same address may be that of a server, or of a pooler."""
    with closing(open_database(proxy.url(postgres_url))) as database:
        used(database)
        assert database.is_pooled
        proxy.hides_keys = False
        database.close()
        used(database)
        assert not database.is_pooled


def test_after_a_lost_prepared_statement_none_is_used(proxy: Proxy, postgres_url: str) -> None:
    """The URL says that the pool keeps sessions, and it does not."""
    with closing(used(open_database(f"{proxy.url(postgres_url)}&pooler=session"))) as database:
        with pytest.raises(DatabaseError) as failure, database.read() as connection:
            connection.execute(text("EXECUTE gone"))
        assert is_transient(failure.value)
        used(database)
        assert database.is_pooled
        assert session_of(database)[0] == 0


def test_a_watch_behind_a_pooler_does_not_listen(proxy: Proxy, postgres_url: str) -> None:
    listening = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dcron watch'")
    stop = threading.Event()
    with closing(open_database(proxy.url(postgres_url))) as database, closing(database.watch()) as watch:
        watcher = threading.Thread(target=watch.wait, args=[stop])
        watcher.start()
        watcher.join(1.0)
        assert watcher.is_alive()
        with database.read() as connection:
            assert connection.scalar(listening) == 0
        stop.set()
        watcher.join(5)
        assert not watcher.is_alive()
