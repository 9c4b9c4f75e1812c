"""Messages for a database that is away, locked, full, damaged or foreign; never a password."""

import errno
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dcron.database import Database, is_transient, open_database
from dcron.database.failures import translate
from dcron.database.url import parse_url
from dcron.errors import DatabaseError, DatabaseReplaced, ExitCode
from tests.support.patience import PATIENCE

SECRET = "s3cret"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dcron.db"


@pytest.fixture
def file(path: Path) -> Iterator[Database]:
    """A SQLite file with one table, and little patience."""
    database = open_database(f"sqlite:///{path}", patience=0.05)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE t (x TEXT)"))
    yield database
    database.close()


def failure_of(database: Database, statement: str = "SELECT 1", *, write: bool = False) -> DatabaseError:
    """How the database fails at this."""
    try:
        with (
            pytest.raises(DatabaseError) as failure,
            database.write() if write else database.read() as connection,
        ):
            connection.execute(text(statement))
    finally:
        database.close()
    assert failure.value.exit_code == ExitCode.DATABASE
    assert SECRET not in str(failure.value)
    return failure.value


def test_a_locked_file_is_worth_another_try(file: Database, path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    failure = failure_of(file, write=True)
    assert str(failure) == f"the database {path} is locked by another process; try again"
    assert is_transient(failure)
    holder.execute("ROLLBACK")
    holder.close()
    with file.write() as connection:
        connection.execute(text("INSERT INTO t VALUES ('now it works')"))


def test_a_full_disk_is_named(file: Database, path: Path) -> None:
    file.close()

    @event.listens_for(file.engine, "connect")
    def no_room(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 2")

    failure = failure_of(file, "INSERT INTO t VALUES (hex(zeroblob(100000)))", write=True)
    assert str(failure) == f"the database {path} cannot be written: the disk is full"
    assert is_transient(failure)


def test_a_file_that_may_only_be_read_is_named(file: Database, path: Path) -> None:
    file.close()

    @event.listens_for(file.engine, "connect")
    def no_writing(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    failure = failure_of(file, "INSERT INTO t VALUES ('x')", write=True)
    assert "cannot be written: the file or its directory is read-only" in str(failure)
    assert not is_transient(failure)


def test_a_damaged_file_is_named_with_what_may_help(file: Database, path: Path) -> None:
    with file.write() as connection:
        connection.execute(
            text("INSERT INTO t SELECT hex(randomblob(2000)) FROM (VALUES (1), (2), (3), (4), (5))")
        )
    file.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    failure = failure_of(file, "SELECT * FROM t")
    assert str(failure) == f"the database {path} is damaged; restore a backup, or see `sqlite3 FILE .recover`"
    assert not is_transient(failure)


def test_a_file_of_another_kind_is_named(path: Path) -> None:
    path.write_text("Dear diary, " * 100)
    failure = failure_of(open_database(f"sqlite:///{path}"), "SELECT * FROM t")
    assert str(failure) == f"the database {path} is not a SQLite database"
    assert not is_transient(failure)
    assert path.read_text().startswith("Dear diary")


def test_a_file_that_is_gone_is_waited_for_and_not_made_anew(file: Database, path: Path) -> None:
    aside = path.rename(path.with_name("aside.db"))
    for _ in range(2):  # with the connection that was open, and with a new one
        with pytest.raises(DatabaseError) as failure, file.write():
            pass
        assert str(failure.value) == f"cannot reach the database {path}: the file is no longer there"
        assert is_transient(failure.value)
        file.close()
    assert not path.exists()
    aside.rename(path)
    with file.write() as connection:
        connection.execute(text("INSERT INTO t VALUES ('it is back')"))


def test_a_file_that_was_replaced_is_refused_until_it_is_opened_anew(file: Database, path: Path) -> None:
    other = open_database(f"sqlite:///{path.with_name('other.db')}")
    with other.write() as connection:
        connection.execute(text("CREATE TABLE other (x TEXT)"))
    other.close()
    path.with_name("other.db").replace(path)
    for _ in range(2):
        with pytest.raises(DatabaseReplaced, match=f"{path} was replaced"), file.read():
            pass
    file.close()
    with file.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM other")).scalar() == 0


def test_a_file_that_goes_during_a_transaction_is_not_called_read_only(file: Database, path: Path) -> None:
    aside = path.with_name("aside.db")

    def insert_without_file(*, replaced: bool) -> None:
        with file.write() as connection:
            path.rename(aside)
            if replaced:
                path.touch()
            connection.execute(text("INSERT INTO t VALUES ('lost')"))

    with pytest.raises(DatabaseError, match="the file is no longer there") as gone:
        insert_without_file(replaced=False)
    assert is_transient(gone.value)
    aside.rename(path)
    with pytest.raises(DatabaseReplaced):
        insert_without_file(replaced=True)


def test_a_file_without_tables_is_named(path: Path) -> None:
    failure = failure_of(open_database(f"sqlite:///{path}"), "SELECT * FROM crontab")
    assert str(failure) == f"the database {path} has no dcron tables (no such table: crontab)"


def test_a_directory_in_the_files_place_is_named(path: Path) -> None:
    path.mkdir()
    failure = failure_of(open_database(f"sqlite:///{path}"))
    assert str(failure) == f"the database {path} cannot be opened: is a directory"


def test_another_account_s_file_is_named_with_its_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    path.touch()
    error = sqlite3.OperationalError("unable to open database file")
    with monkeypatch.context() as patch:  # the fixtures remove directories with os.open
        patch.setattr("dcron.database.failures.os.open", refuse)
        message = str(translate(error, parse_url(f"sqlite:///{path}")))
    assert message.endswith(
        f"cannot be opened: this account may not read and write it; it belongs to {path.owner()}"
    )


def test_a_broken_rule_of_the_schema_comes_through_as_it_is(file: Database) -> None:
    with file.write() as connection:
        connection.execute(text("CREATE UNIQUE INDEX u ON t (x)"))
    with pytest.raises(IntegrityError) as failure, file.write() as connection:
        connection.execute(text("INSERT INTO t VALUES ('a'), ('a')"))
    assert failure.value.__cause__ is not failure.value
    assert not is_transient(failure.value)


def test_a_failed_transaction_leaves_nothing(file: Database) -> None:
    with pytest.raises(ZeroDivisionError), file.write() as connection:
        print(connection.execute(text("INSERT INTO t VALUES ('x')")).rowcount // 0)
    with file.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar() == 0


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    failure = failure_of(open_database(f"postgresql://ann:{SECRET}@127.0.0.1:{port}/cron"))
    assert str(failure).startswith(f"cannot reach the database postgresql://ann:***@127.0.0.1:{port}/cron: ")
    assert is_transient(failure)


def test_an_unknown_host_is_named_without_the_password() -> None:
    failure = failure_of(open_database(f"postgresql://ann:{SECRET}@no-such-host.invalid/cron"))
    assert str(failure).startswith(
        "cannot reach the database postgresql://ann:***@no-such-host.invalid/cron: "
    )


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[Database]:
    """The server's own database, with little patience."""
    database = open_database(postgres_server, patience=0.05)
    yield database
    database.close()


def test_a_database_that_is_not_there_is_named(postgres_server: str) -> None:
    url = make_url(postgres_server).set(database="nowhere", password=SECRET)
    failure = failure_of(open_database(url.render_as_string(hide_password=False)))
    assert 'database "nowhere" does not exist' in str(failure)


def test_a_refused_role_is_named_without_its_password(postgres_server: str) -> None:
    url = make_url(postgres_server).set(username="nobody_here", password=SECRET)
    failure = failure_of(open_database(url.render_as_string(hide_password=False)))
    assert "nobody_here" in str(failure)


def test_another_session_s_lock_is_worth_another_try(postgres: Database, postgres_server: str) -> None:
    with psycopg.connect(postgres_server) as holder:
        holder.execute("CREATE TABLE public.held (x int)")
        holder.commit()
        holder.execute("LOCK TABLE public.held")
        failure = failure_of(postgres, "INSERT INTO public.held VALUES (1)", write=True)
        assert "lock timeout (55P03)" in str(failure)
        assert is_transient(failure)
        holder.execute("DROP TABLE public.held")


def test_a_server_that_ends_the_connection_is_worth_another_try(postgres: Database) -> None:
    failure = failure_of(postgres, "SELECT pg_terminate_backend(pg_backend_pid())")
    assert is_transient(failure)
    with postgres.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_a_standby_is_worth_another_try(postgres: Database) -> None:
    assert is_transient(failure_of(postgres, "SET TRANSACTION READ ONLY; CREATE TABLE nope (x int)"))


def test_a_missing_privilege_is_no_passing_trouble(postgres: Database) -> None:
    as_another_role = "CREATE ROLE dcron_poor; SET LOCAL ROLE dcron_poor; PERFORM * FROM pg_authid"
    failure = failure_of(postgres, f"DO $$ BEGIN {as_another_role}; END $$", write=True)
    assert "does not allow this: permission denied" in str(failure)
    assert not is_transient(failure)


def test_a_value_that_postgres_cannot_keep_is_no_passing_trouble(postgres: Database) -> None:
    with pytest.raises(DatabaseError) as failure, postgres.read() as connection:
        connection.execute(text("SELECT :x"), {"x": "a\0b"})
    assert not is_transient(failure.value)


def test_a_pool_without_connections_is_worth_another_try(postgres: Database) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres.engine, "connect", lambda: (_ for _ in ()).throw(PoolTimeout()))
        failure = failure_of(postgres)
    assert "gave no free connection in time" in str(failure)
    assert is_transient(failure)


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (psycopg.OperationalError("the connection is lost"), True),
        (psycopg.OperationalError("failed: FATAL:  sorry, too many clients already"), True),
        (psycopg.OperationalError('FATAL:  too many connections for role "cron"'), True),
        (psycopg.OperationalError("FATAL:  the database system is starting up"), True),
        (psycopg.OperationalError("failed to resolve host 'db': [Errno -2] Name or service not known"), True),
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "cron"'), False),
        (psycopg.OperationalError("fe_sendauth: no password supplied"), False),
        (psycopg.OperationalError('FATAL:  role "cron" does not exist'), False),
        (psycopg.OperationalError('FATAL:  database "cron" does not exist'), False),
        (psycopg.OperationalError('FATAL:  no pg_hba.conf entry for host "10.0.0.1"'), False),
        (psycopg.OperationalError('FATAL:  permission denied for database "cron"'), False),
        (psycopg.OperationalError("SSL error: certificate verify failed"), False),
        (psycopg.InterfaceError("the connection is closed"), True),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.errors.UndefinedTable(), False),
        (psycopg.DataError("NUL"), False),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("no such table: x"), False),
        (ConnectionResetError(), True),
        (PermissionError(), False),
        (DatabaseError("of our own"), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_only_what_passes_by_itself_is_tried_again(error: Exception | None, transient: bool) -> None:
    assert is_transient(error) is transient
    if isinstance(error, psycopg.Error | sqlite3.Error):
        assert is_transient(OperationalError("SELECT 1", {}, error)) is transient
        assert isinstance(OperationalError("SELECT 1", {}, error), DBAPIError)


def test_a_pooler_that_forgets_prepared_statements_is_served(postgres_server: str) -> None:
    database = open_database(f"{postgres_server}&pgbouncer=true")
    try:
        for _ in range(10):
            with database.read() as connection:
                connection.execute(text("SELECT :x"), {"x": 1})
                prepared = connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar()
        assert prepared == 0
    finally:
        database.close()


def test_a_write_is_noticed_by_every_watcher(empty_database_url: str, database: Database) -> None:
    watch, stop, seen = database.watch(), threading.Event(), threading.Event()
    with database.write() as connection:
        connection.execute(
            text("CREATE TABLE t (x INTEGER)" if database.is_sqlite else "CREATE TABLE public.t (x INTEGER)")
        )

    def look() -> None:
        while not stop.is_set():
            if watch.wait(stop):
                seen.set()
        watch.close()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(100):
            with database.write() as connection:
                connection.execute(
                    text(f"INSERT INTO {'t' if database.is_sqlite else 'public.t'} VALUES (1)")
                )
                database.notify(connection)
            if seen.wait(0.1):
                break
        assert seen.is_set()
    finally:
        stop.set()
        watcher.join(PATIENCE)


@pytest.mark.slow
@pytest.mark.skipif("DCRON_TEST_POSTGRES" in os.environ, reason="freezes a server of its own only")
def test_a_server_that_is_frozen_is_given_up(postgres_server: str) -> None:
    database = open_database(postgres_server, patience=0.2)
    with database.read() as connection:
        backend = connection.scalar(text("SELECT pg_backend_pid()"))
    assert isinstance(backend, int)
    began = time.monotonic()
    os.kill(backend, signal.SIGSTOP)
    try:
        with (
            pytest.raises(DatabaseError, match=r"no answer within 0.9 s") as failure,
            database.read() as held,
        ):
            held.execute(text("SELECT 1"))
        assert 0.8 < time.monotonic() - began < 20
        assert is_transient(failure.value)
        with database.read() as connection:  # over a connection of its own
            assert connection.scalar(text("SELECT 1")) == 1
    finally:
        os.kill(backend, signal.SIGCONT)
        database.close()


def test_a_slow_answer_is_waited_for(postgres_server: str) -> None:
    database = open_database(postgres_server, patience=0.2)
    with database.read() as connection:
        slowly = "SELECT count(*) FROM (SELECT pg_sleep(0.05) FROM generate_series(1, 8)) AS slow"
        assert connection.scalar(text(slowly)) == 8
    database.close()


@pytest.mark.parametrize(
    ("statement", "temporary"),
    [("SELECT 1/0", False), ("SELECT pg_terminate_backend(pg_backend_pid())", True)],
)
def test_a_postponed_statement_fails_like_others(postgres: Database, statement: str, temporary: bool) -> None:
    with pytest.raises(DatabaseError) as failure, postgres.write() as connection:
        postgres.send(connection, text(statement)).rows()
    assert is_transient(failure.value) is temporary
    with postgres.write() as connection:
        assert postgres.send(connection, text("SELECT 1")).rows() == [(1,)]
