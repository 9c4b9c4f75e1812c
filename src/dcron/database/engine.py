"""Connections, transactions and the database's clock, for SQLite and Postgres alike."""

import math
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Table,
    create_engine,
    event,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dcron.database import connecting, files, ids, rows
from dcron.database.connecting import Protection
from dcron.database.failures import explain_failure, is_transient
from dcron.database.patience import PatientConnection
from dcron.database.rows import Columns, Values
from dcron.database.url import parse_url
from dcron.database.watch import ChangeWatch, PostgresWatch, SqliteWatch
from dcron.errors import DatabaseReplaced

PATIENCE = 10.0
"""Seconds to wait for a lock or a connection before giving up."""

_UNUSED_WITHIN = 60.0
"""Seconds to wait for a moment in which no other transaction uses the tables."""
WAKE_CHANNEL = "dcron_wake"
_ORDER_LOCK = 0x6463726F6E02
"""The number by which those who change the order of tasks know each other; migrations have another."""

# Settings of one transaction, not of the session: a pooler may give the next one to somebody else.
_POSTGRES_GUARDS = text(
    "SELECT set_config('lock_timeout', :lock, true), set_config('statement_timeout', :statement, true),"
    " set_config('idle_in_transaction_session_timeout', :idle, true),"
    " set_config('synchronous_commit', 'on', true),"
    # Every statement of ours follows an index. Fresh statistics would tell the planner so; after 20,000 runs
    # became due at once there are none, and it sorted them all for each claim (21 ms against 0.2 ms).
    " set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
)


class Replication(NamedTuple):
    """How a Postgres server replicates what is committed."""

    standby_names: str
    """Empty where no commit waits for a standby."""
    commit: str
    """The server's `synchronous_commit`. dcron's own transactions that write set it to `on`."""

    @property
    def is_synchronous(self) -> bool:
        """Whether what dcron commits is on a standby before it is acknowledged."""
        return bool(self.standby_names)


class Database:
    """One shared crontab's database. Cheap to make: nothing is opened before the first transaction.

    A SQLite file is made where there is none, once. From then on this is that file's alone: a transaction
    fails while the file is away, and once another stands in its place, until `close`.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], datetime] | None = None,
        patience: float = PATIENCE,
        strict: bool = False,
    ) -> None:
        """Take a URL as people type it; `clock` stands in for the database's clock in tests.

        `strict`: to open a SQLite file that other accounts can change raises Refused. Raises UsageError for a
        URL that cannot be read.
        """
        self.address = parse_url(url)
        self._clock = clock
        self._patience = patience
        self._strict = strict
        self._file: tuple[int, int] | None = None
        self._was_open = False
        self.connections = 0
        """Connections made so far: after one more, it may be another server that answers."""
        self.engine = self._make_engine()

        @event.listens_for(self.engine, "connect")
        def count(*_: object) -> None:
            self.connections += 1

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a SQLite file (for the migrations and the doctor; nothing else should ask)."""
        return self.address.path is not None

    @property
    def product(self) -> str:
        """What people call this kind of database."""
        return "SQLite" if self.is_sqlite else "PostgreSQL"

    def journal_mode(self, connection: Connection) -> str | None:
        """How a SQLite file is journaled; None for Postgres."""
        return connection.scalar(text("PRAGMA journal_mode")) if self.is_sqlite else None

    def protection(self, connection: Connection) -> Protection | None:
        """Return how the connection to a Postgres server is protected; None for SQLite."""
        return None if self.is_sqlite else connecting.protection(connection)

    def replication(self, connection: Connection) -> Replication | None:
        """Return what a Postgres server says of synchronous replication; None for SQLite."""
        if self.is_sqlite:
            return None
        names, commit = (
            str(connection.scalar(text(f"SHOW {name}")) or "")
            for name in ("synchronous_standby_names", "synchronous_commit")
        )
        return Replication(names, commit)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, ended as soon as the block is left. Raises DatabaseError."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that only reads, and whose statements all see one state. Raises DatabaseError."""
        with self._transaction("BEGIN") as connection:
            if not self.is_sqlite:  # there a reader sees one state anyway
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes, committed at the end of the block. Raises DatabaseError.

        On SQLite it takes the write lock at once: a reader that turns writer half-way fails under load.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if not self.is_sqlite:
                connection.execute(_POSTGRES_GUARDS, self._guards())
            yield connection

    def now(self, connection: Connection) -> datetime:
        """What the database's clock says at this moment, in UTC. A SQLite file has its machine's clock."""
        if self._clock:
            return self._clock()
        if self.is_sqlite:
            return datetime.now(UTC)
        moment: datetime = connection.scalar(text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)

    def rows(self, columns: Columns) -> FromClause:
        """A table of values to join, update or insert from: one statement for a whole batch.

        It is the same for the same columns, and has what `values` makes the statement's parameters.
        """
        return rows.of_sqlite(columns) if self.is_sqlite else rows.of_postgres(columns)

    def values(self, columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
        """The parameters of a statement with `rows` of these columns; the batch has a value for each."""
        return rows.for_sqlite(columns, batch) if self.is_sqlite else rows.for_postgres(columns, batch)

    def insert_if_absent(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """An INSERT that leaves out rows which a unique index already has."""
        return rows.sqlite_insert(table) if self.is_sqlite else rows.postgres_insert(table)

    def notify(self, connection: Connection) -> None:
        """Tell the agents, when this transaction commits, that something is due now.

        Only a hint: SQLite's readers see the file change, and every agent looks by itself now and then.
        """
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": WAKE_CHANNEL})

    def take_time(self, connection: Connection) -> None:
        """Lift the limits on how long a statement of this transaction may take: an upgrade of many rows."""
        if not self.is_sqlite:
            connection.execute(text("SELECT set_config('statement_timeout', '0', true)"))
            driver = connection.connection.driver_connection
            assert isinstance(driver, PatientConnection)
            driver.answer = math.inf

    def lock_tables(self, connection: Connection, tables: Iterable[str]) -> None:
        """Keep every other transaction from these tables until this one ends.

        It waits without holding any of them: agents lock them in other orders, and one of two that wait for
        each other would be ended.
        """
        if self.is_sqlite:
            return
        lock = text(f"LOCK TABLE {', '.join(sorted(tables))} IN ACCESS EXCLUSIVE MODE NOWAIT")
        give_up = time.monotonic() + _UNUSED_WITHIN
        while True:
            try:
                with connection.begin_nested():
                    connection.execute(lock)
                return
            except DBAPIError as error:
                if not is_transient(error) or time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.01, 0.1))

    def lock_order(self, connection: Connection) -> None:
        """Let nobody else change what comes after what until this transaction ends.

        To be taken before any row is locked: whoever waits here then holds nothing that the one in front, or
        an agent that is in its way, may want, so nobody waits in a circle. What is read afterwards is what
        the one in front has committed. SQLite's writers are alone anyway.
        """
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ORDER_LOCK})

    def issued_ids(self, connection: Connection) -> int:
        """Return the highest id of a run that was given out."""
        return connection.scalar(select(self.issued)) or 0

    @property
    def issued(self) -> ColumnElement[int]:
        """The same as part of a statement; NULL where there is none."""
        return ids.issued(is_sqlite=self.is_sqlite)

    def lock_ids(self, connection: Connection) -> None:
        """Let no other transaction move the ids of runs on until this one ends."""
        if not self.is_sqlite:
            ids.lock_postgres(connection)

    def advance_ids(self, connection: Connection, to: int) -> None:
        """Give out no id of a run up to `to` any more. The caller has locked the ids."""
        advance = ids.advance_sqlite if self.is_sqlite else ids.advance_postgres
        advance(connection, to)

    def timeline(self, connection: Connection) -> str | None:
        """Return what changes when a Postgres standby takes over; None where nothing shows it."""
        return None if self.is_sqlite else ids.postgres_timeline(connection)

    def change_token(self, connection: Connection) -> object:
        """What differs once others have committed something: compare tokens of one connection only."""
        # Not the log's position on Postgres: it moves before what was committed can be seen.
        query = "PRAGMA data_version" if self.is_sqlite else "SELECT CAST(pg_current_snapshot() AS text)"
        return connection.scalar(text(query))

    def watch(self) -> ChangeWatch:
        """A watch for changes that others make; it has its own connection."""
        if self.address.path:
            return SqliteWatch(self.address.path)
        return PostgresWatch(self.address, WAKE_CHANNEL)

    def close(self) -> None:
        """Give the connections back. The next transaction opens what is there by then."""
        self.engine.dispose()
        self._file = None

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        try:
            with self.engine.connect() as connection:
                self._require_same_file()
                connection = connection.execution_options(dcron_begin=begin)
                with connection.begin():
                    yield connection
        except IntegrityError:
            raise  # a broken rule of the schema: the caller knows what it means
        except (DBAPIError, PoolTimeout, OSError) as error:
            self._require_same_file()  # SQLite calls a file that was moved away read-only
            raise explain_failure(error, self.address) from error

    def _find_file(self, path: Path) -> None:
        """To be done before each connection opens it."""
        if self._file is None:
            if self._strict:
                files.require_trust(path)
            if not self._was_open:
                files.prepare(path, forced=self.address.forced)
            self._file = files.identity(path)
            self._was_open = True
        else:
            self._require_same_file()

    def _require_same_file(self) -> None:
        """Raise DatabaseError when the SQLite file that is open is not, or no longer, at its path."""
        path = self.address.path
        if path and files.identity(path) != self._file:
            raise DatabaseReplaced(f"the database {path} was replaced: another file is in its place")

    def _guards(self) -> dict[str, str]:
        patience = f"{int(self._patience * 1000)}ms"
        return {"lock": patience, "statement": f"{int(self._patience * 3000)}ms", "idle": patience}

    def _make_engine(self) -> Engine:
        if self.address.path:
            return self._make_sqlite_engine()
        options = connecting.parameters(self.address)
        shares_sessions = self.address.transaction_pooling
        if shares_sessions:
            options["prepare_threshold"] = None
        open_connection = PatientConnection.connect if shares_sessions else connecting.connect
        url = self.address.url.set(query={})
        engine = create_engine(
            url,
            connect_args=options,
            # Limits are counted after the lock, so each statement has to see what is committed by then.
            isolation_level="READ COMMITTED",
            pool_size=4,
            pool_timeout=self._patience,
        )

        @event.listens_for(engine, "do_connect")
        def connect(_: object, __: object, arguments: list[Any], given: dict[str, Any]) -> PatientConnection:
            connection = open_connection(*arguments, **given)
            connection.answer = 4.5 * self._patience
            return connection

        if shares_sessions:

            @event.listens_for(engine, "begin")
            def pin_schema(connection: Connection) -> None:
                connection.exec_driver_sql(connecting.pin_schema(for_transaction=True))

        return engine

    def _make_sqlite_engine(self) -> Engine:
        path = self.address.path
        assert path
        engine = create_engine(
            self.address.url, connect_args={"timeout": self._patience}, pool_timeout=self._patience
        )

        @event.listens_for(engine, "do_connect")
        def find_file(_: object, __: object, arguments: list[Any], options: dict[str, Any]) -> None:
            self._find_file(path)
            # SQLite itself makes no file, should this one go away just now.
            arguments[:], options["uri"] = [f"{path.as_uri()}?mode=rw"], True

        @event.listens_for(engine, "connect")
        def set_up(connection: DBAPIConnection, _: object) -> None:
            assert isinstance(connection, sqlite3.Connection)
            files.set_up(connection)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # The driver's own BEGIN would come late and deferred.
            connection.exec_driver_sql(connection.get_execution_options().get("dcron_begin", "BEGIN"))

        return engine
