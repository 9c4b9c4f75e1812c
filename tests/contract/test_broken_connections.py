"""A connection that breaks after any message gives an error of ours, and the next transaction works."""

import ast
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

import dcron
from dcron.database import Database, open_database
from dcron.errors import DatabaseError, OutcomeUnknown, Unreachable
from tests.support.databases import new_database
from tests.support.proxy import Break, Proxy

SOURCES = Path(dcron.__file__).parent


@pytest.fixture
def direct(postgres_server: str, tmp_path: Path) -> Iterator[Database]:
    """A database with one table, without a proxy before it."""
    with new_database(postgres_server, tmp_path) as url, closing(open_database(url)) as database:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE public.t (x int)"))
        yield database


@pytest.fixture
def proxy(direct: Database) -> Iterator[Proxy]:
    host = direct.address.url.query["host"]
    with Proxy(f"{host}/.s.PGSQL.5432", random.Random(0)) as proxy:
        yield proxy


def through(proxy: Proxy, direct: Database, patience: float = 2.0) -> Database:
    """The same database behind the proxy."""
    url = direct.address.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return open_database(proxy.url(url), patience=patience)


def insert(database: Database, number: int) -> None:
    """Write one row as the loops of an agent do: with a savepoint, answers that come later, and COMMIT."""
    with database.write() as connection:
        database.timeline(connection)
        reply = database.send(connection, text("SELECT :x + 1"), {"x": number})
        with connection.begin_nested():
            connection.execute(text("INSERT INTO public.t VALUES (:x)"), {"x": number})
        assert reply.rows() == [(number + 1,)]
        database.send(connection, text("SELECT 1"))


def rows(database: Database) -> list[int]:
    with database.read() as connection:
        return sorted(connection.scalars(text("SELECT x FROM public.t")))


def break_each(
    proxy: Proxy,
    direct: Database,
    how: Sequence[str],
    numbers: Sequence[int],
    *,
    of_server: bool,
    patience: float = 2.0,
) -> set[type]:
    """Break a connection after each of these messages, in each of these ways in turn; return the errors."""
    raised: set[type] = set()
    certain: list[int] = []
    for number in numbers:
        with closing(through(proxy, direct, patience)) as database:
            proxy.breaking = Break(number, how[number % len(how)], of_server)
            try:
                insert(database, number)
                certain.append(number)
                database.close()  # the connection would break later
            except OutcomeUnknown:
                raised.add(OutcomeUnknown)
            except Unreachable:
                raised.add(Unreachable)
                assert number not in rows(direct)
            proxy.breaking = None
            insert(database, 1000 + number)
            certain.append(1000 + number)
    assert set(certain) <= set(rows(direct))
    assert len(rows(direct)) == len(set(rows(direct)))
    return raised


MESSAGES = range(1, 81)


@pytest.mark.parametrize("of_server", [False, True])
def test_a_connection_that_breaks_after_any_message_is_named_and_replaced(
    proxy: Proxy, direct: Database, of_server: bool
) -> None:
    raised = break_each(proxy, direct, ["reset", "close"], MESSAGES, of_server=of_server)
    assert raised == {Unreachable, OutcomeUnknown}
    assert proxy.broken > 30


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("of_server", [False, True])
def test_a_connection_that_becomes_silent_after_any_message_is_given_up(
    proxy: Proxy, direct: Database, of_server: bool
) -> None:
    numbers = MESSAGES[::6]
    raised = break_each(proxy, direct, ["silence"], numbers, of_server=of_server, patience=0.5)
    assert Unreachable in raised


def test_a_commit_whose_answer_is_lost_is_called_unknown(proxy: Proxy, direct: Database) -> None:
    with closing(through(proxy, direct)) as database:
        insert(database, 1)
        proxy.swallows = 1.0
        with pytest.raises(OutcomeUnknown, match="whether it took effect is unknown"):
            insert(database, 2)
        proxy.swallows = 0.0
        insert(database, 3)
    assert rows(direct) == [1, 2, 3]


def test_an_error_that_the_server_answers_is_not_unknown(proxy: Proxy, direct: Database) -> None:
    with closing(through(proxy, direct)) as database:
        with pytest.raises(DatabaseError) as failure, database.write() as connection:
            database.send(connection, text("SELECT 1/0"))
        assert not isinstance(failure.value, Unreachable)
        insert(database, 1)


def test_a_statement_after_a_swallowed_error_is_an_error_of_ours(direct: Database) -> None:
    end = text("SELECT pg_terminate_backend(pg_backend_pid())")

    def swallow() -> None:
        with direct.write() as connection:
            with suppress(Exception):
                connection.execute(end)
            connection.execute(text("SELECT 1"))

    with pytest.raises(Unreachable):
        swallow()


def test_a_thread_in_a_hurry_waits_no_longer_than_it_says(proxy: Proxy, direct: Database) -> None:
    url = proxy.url(direct.address.url.set(drivername="postgresql").render_as_string(hide_password=False))
    with closing(open_database(url, patience=1000)) as database:
        insert(database, 1)
        proxy.held = True
        with (
            database.answering_within(0.3),
            pytest.raises(Unreachable, match=r"no answer within 0\.3 s"),
            database.read() as connection,
        ):
            connection.execute(text("SELECT 1"))
        proxy.cut()
        proxy.held = False
        insert(database, 2)


_DRIVERS = re.compile("DBAPIError|SQLAlchemyError|psycopg|sqlite3|OperationalError|InterfaceError")


def driver_errors_caught() -> Iterator[tuple[Path, str]]:
    """Each place that catches an error of a driver, with the code of the handler."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and node.type:
                caught = ast.unparse(node.type)
                if any(
                    name in caught
                    for name in ("DBAPIError", "SQLAlchemyError", "psycopg", "OperationalError")
                ):
                    yield path.relative_to(SOURCES), ast.unparse(node)


def test_code_that_catches_a_driver_s_error_asks_what_it_says() -> None:
    """A statement on a broken connection raises something else, which ends the agent."""
    for path, handler in driver_errors_caught():
        assert path.parts[0] == "database", path
        if path.name not in ("files.py", "change_watch.py"):  # SQLite; a hint that may fail in any way
            assert "says(" in handler, f"{path}: {handler}"
            assert "raise" in handler, f"{path}: {handler}"
