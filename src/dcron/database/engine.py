"""Connections, transactions and the database's clock, for SQLite and Postgres."""

import math
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    Executable,
    FromClause,
    Table,
    bindparam,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects import registry
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dcron.database import condition, files, ids, notify, rows, sizes
from dcron.database.change_watch import ChangeWatch, PostgresWatch, SqliteWatch
from dcron.database.condition import FileCondition, ServerCondition
from dcron.database.failures import database_error, is_transient
from dcron.database.pool import SIZE_IF_FAR, FrugalPool
from dcron.database.replies import Reply, postpone
from dcron.database.rows import Columns, Values
from dcron.database.server import Protection, Replication
from dcron.database.server_clock import ServerClock
from dcron.database.url import Address, parse_url
from dcron.errors import DatabaseReplaced

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

    from dcron.database.pipelining import PipelinedConnection, PipelinedCursor

PATIENCE = 10.0
"""Seconds to wait for a lock or a connection."""

_SQLITE_STEPS = 10_000
"""Steps of SQLite between two looks at the time: less than a millisecond."""
_OLDEST_TRANSACTION = (
    "SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
_LOCK_TABLES_TIMEOUT = 60.0
"""Seconds to wait until no other transaction uses the tables."""
_STARTS_LOCK = 0x6463726F6E04
"""Advisory lock that transactions share while they record starts."""
_DEPENDENCIES_LOCK = 0x6463726F6E02
_CHANNELS_LOCK = 0x64637204
"""The first half of the advisory locks of channels, which have two of 32 bits."""
"""Advisory lock of transactions that change dependencies; migrations use another number."""

# Concurrency limits are counted after locking: each statement must see all commits before it.
_POSTGRES_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_PLANS_OFF = ("sort", "bitmapscan", "hashjoin", "mergejoin", "seqscan")
# Settings of one transaction, not of the session: a pooler may give the session to another client.
_POSTGRES_GUARDS = (
    "SELECT set_config('lock_timeout', '{lock}ms', true),"
    " set_config('statement_timeout', '{statement}ms', true),"
    " set_config('idle_in_transaction_session_timeout', '{lock}ms', true),"
    " set_config('synchronous_commit', 'on', true),"
    # Each of our statements follows an index. With fresh statistics the planner knows that; after 20,000 runs
    # became due at once it had none, and sorted them all for each claim (21 ms instead of 0.2 ms). While it
    # knew of no run with an owner, it read the whole table to record each batch of ends.
    + "".join(f" set_config('enable_{plan}', 'off', true)," for plan in _PLANS_OFF)
    + "{lock_starts} clock_timestamp()"  # the last one: the lock may take a while
)


class Database:
    """The database of one shared crontab. It opens nothing before the first transaction.

    If a SQLite file does not exist, it is created once. From then on this object accepts that file only,
    until `close`: a transaction fails while the file is missing or another file is in its place.
    """

    def __init__(
        self,
        url: str | Address,
        *,
        clock: Callable[[], datetime] | None = None,
        patience: float = PATIENCE,
        strict: bool = False,
    ) -> None:
        """Take a URL as people type it. `clock` replaces the database's clock in tests.

        With `strict`, opening a SQLite file that other accounts can change raises Refused. Raises
        UsageError for an invalid URL.
        """
        self.address = parse_url(url) if isinstance(url, str) else url
        self._clock = clock
        self._patience = patience
        self._strict = strict
        self._file: tuple[int, int] | None = None
        self._was_open = False
        self.has_created_file = False
        """Whether this object has created the SQLite file that it has open."""
        self._server_clock = ServerClock()
        self.connections = 0
        """Connections made so far. After a new one, another server may answer."""
        self.has_written = False
        """Whether a transaction was committed that has kept what it wrote."""
        self.notified = 0
        """Committed transactions of this process that have called `notify`."""
        self.engine = self._make_engine()
        self.time = self._time()
        """The time of the database's clock, as an expression for a statement."""

        @event.listens_for(self.engine, "connect")
        def count(*_: object) -> None:
            self.connections += 1
            self._server_clock.forget()

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a SQLite file (for migrations and diagnosis; other code must not ask)."""
        return self.address.path is not None

    @property
    def answers_at_once(self) -> bool:
        """Whether the answer to a statement costs no round trip."""
        return self.is_sqlite

    @property
    def product(self) -> str:
        """Name of this kind of database, for people."""
        return "SQLite" if self.is_sqlite else "PostgreSQL"

    def journal_mode(self, connection: Connection) -> str | None:
        """Return the journal mode of a SQLite file; None for Postgres."""
        return connection.scalar(text("PRAGMA journal_mode")) if self.is_sqlite else None

    def protection(self, connection: Connection) -> Protection | None:
        """Return how the connection to a Postgres server is protected; None for SQLite."""
        if self.is_sqlite:
            return None
        from dcron.database import connecting

        return connecting.protection(connection)

    def replication(self, connection: Connection) -> Replication | None:
        """Return how a Postgres server replicates commits; None for SQLite."""
        if self.is_sqlite:
            return None
        names, commit = (
            str(connection.scalar(text(f"SHOW {name}")) or "")
            for name in ("synchronous_standby_names", "synchronous_commit")
        )
        return Replication(names, commit)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that only reads. Raises DatabaseError.

        On SQLite all statements see one state. On Postgres each sees what was committed before it, so they
        need no transaction, and no round trips to begin and end one.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def read_once(self) -> Iterator[Connection]:
        """Open a connection for one statement that reads; SQLite needs no transaction for it either."""
        with self._transaction(None) as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a read-only transaction whose statements all see the same state. Raises DatabaseError."""
        # A reader of SQLite sees one state anyway.
        with self._transaction("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield connection

    @contextmanager
    def write(self, *, starts: bool = False, keeps: bool = True) -> Iterator[Connection]:
        """Open a transaction that writes, committed at the end of the block. Raises DatabaseError.

        On SQLite it takes the write lock at once: a reader that becomes a writer half-way fails under load.
        On Postgres, BEGIN, settings and a reading of the clock share the round trip of the first statement.
        With `starts`, it records starts of runs, and no transaction that has called `lock_out_starts` is open
        at the same time. Without `keeps`, the caller rolls back what it has written.
        """
        guards = self._guards(lock_starts=starts)
        with self._transaction("BEGIN IMMEDIATE", _POSTGRES_BEGIN, guards) as connection:
            yield connection
        self.has_written |= keeps

    def send(
        self, connection: Connection, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> Reply:
        """Send a statement whose result is not needed at once: on Postgres together with the next one."""
        return Reply(connection, statement, parameters)

    def now(self, connection: Connection) -> datetime:
        """Return the time of the database's clock, in UTC. A SQLite file uses this machine's clock.

        On Postgres it is at most 2 s of this machine's time after a reading of the server's clock.
        """
        return self.recent_now() or self.read_clock(connection)

    def recent_now(self) -> datetime | None:
        """Return the same without a statement; None if the server's clock was not read for a while."""
        if self._clock:
            return self._clock()
        return datetime.now(UTC) if self.is_sqlite else self._server_clock.now()

    def note_clock(self, at: datetime) -> datetime:
        """Note a reading of the database's clock that has just arrived; return it."""
        return at if self._clock or self.is_sqlite else self._server_clock.read(at)

    def read_clock(self, connection: Connection) -> datetime:
        """Read the database's clock now, for a comparison with another clock."""
        if self._clock or self.is_sqlite:
            return self.now(connection)
        return self._server_clock.read(connection.scalar(text("SELECT clock_timestamp()")))

    def rows(self, columns: Columns) -> FromClause:
        """Return a batch of values as a table to join, update or insert from, in one statement.

        The table depends only on the columns; `values` returns the statement's parameters.
        """
        return rows.of_sqlite(columns) if self.is_sqlite else rows.of_postgres(columns)

    def values(self, columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
        """Return the parameters for a statement with `rows` of these columns."""
        return rows.for_sqlite(columns, batch) if self.is_sqlite else rows.for_postgres(columns, batch)

    def insert_if_absent(self, table: Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an INSERT that skips rows which a unique index already contains."""
        return rows.sqlite_insert(table) if self.is_sqlite else rows.postgres_insert(table)

    def insert(self, table: Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an INSERT that can say what happens with rows which a unique index already contains."""
        return rows.sqlite_plain_insert(table) if self.is_sqlite else rows.postgres_plain_insert(table)

    def notify(self, connection: Connection) -> None:
        """Wake the agents when this transaction commits: something is due now.

        It is only a hint: a SQLite watch sees the file change, and every agent polls.
        """
        notify.notify(connection, None if self.is_sqlite else self.send)

    def lift_limits(self, connection: Connection) -> None:
        """Let this transaction's statements take long and read whole tables, for a migration of many rows."""
        if not self.is_sqlite:
            connection.execute(text("SELECT set_config('statement_timeout', '0', true)"))
            for plan in _PLANS_OFF:
                connection.execute(text(f"SELECT set_config('enable_{plan}', 'on', true)"))
            _driver(connection).answer = math.inf

    @contextmanager
    def time_limit(self, connection: Connection, seconds: float) -> Iterator[None]:
        """Let no statement of this transaction take longer. Raises DatabaseError when one does.

        On SQLite the statements of the block have this time together.
        """
        if self.is_sqlite:
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            give_up = time.monotonic() + seconds
            driver.set_progress_handler(lambda: time.monotonic() > give_up, _SQLITE_STEPS)
            try:
                yield
            finally:
                driver.set_progress_handler(None, 0)
        else:
            limit = text("SELECT set_config('statement_timeout', :limit, true)")
            connection.execute(limit, {"limit": f"{int(seconds * 1000)}ms"})
            yield

    def sibling(self, *, patience: float) -> "Database":
        """Return the same database with connections and a patience of its own; the caller closes it."""
        return Database(self.address, clock=self._clock, patience=patience, strict=self._strict)

    @property
    def patience(self) -> float:
        """Seconds to wait for a lock or a connection."""
        return self._patience

    def table_bytes(self, connection: Connection) -> dict[str, int]:
        """Return the size of each table with its indexes; of a SQLite file, its whole size as `*`."""
        return sizes.of_sqlite(connection) if self.is_sqlite else sizes.of_postgres(connection)

    def oldest_transaction(self, connection: Connection) -> float | None:
        """Return the age, in seconds, of the oldest transaction of others; 0 if there is none.

        None on SQLite. Without the role pg_read_all_stats, Postgres shows those of the same role only.
        """
        if self.is_sqlite:
            return None
        return float(connection.scalar(text(_OLDEST_TRANSACTION)) or 0.0)

    def server_condition(self, connection: Connection) -> ServerCondition:
        """Return the condition of a Postgres server."""
        return condition.of_server(connection)

    def file_condition(self, connection: Connection) -> FileCondition:
        """Return the condition of a SQLite file."""
        assert self.address.path
        return condition.of_file(connection, self.address.path)

    def damage(self, connection: Connection) -> str | None:
        """Read a whole SQLite file; return the first damage. None for Postgres."""
        return condition.damage_of_file(connection) if self.is_sqlite else None

    def lock_tables(self, connection: Connection, tables: Iterable[str]) -> None:
        """Keep all other transactions from these tables until this one ends.

        It waits without holding any of them: agents lock tables in other orders, and in a deadlock Postgres
        would end one of the two.
        """
        if self.is_sqlite:
            return
        lock = text(f"LOCK TABLE {', '.join(sorted(tables))} IN ACCESS EXCLUSIVE MODE NOWAIT")
        give_up = time.monotonic() + _LOCK_TABLES_TIMEOUT
        while True:
            try:
                with connection.begin_nested():
                    connection.execute(lock)
                return
            except DBAPIError as error:
                if not is_transient(error) or time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.01, 0.1))

    def lock_dependencies(self, connection: Connection) -> None:
        """Let no other transaction change dependencies between tasks until this one ends.

        Call this before any row is locked: a transaction that waits here then holds nothing that others
        need, so there is no deadlock. Later statements see what the previous holder committed. On SQLite a
        writer is alone anyway.
        """
        if not self.is_sqlite:
            self.send(connection, text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _DEPENDENCIES_LOCK})

    def lock_out_starts(self, connection: Connection) -> None:
        """Wait until no other transaction records starts; none does so until this one ends.

        Call it first. A process that was stopped in such a transaction holds the lock until the server ends
        its session, after the patience of that process. On SQLite a writer is alone anyway.
        """
        if not self.is_sqlite:
            wait = f"{int(2500 * self._patience)}ms"
            lock = "SELECT set_config('lock_timeout', :wait, true), pg_advisory_xact_lock(:lock)"
            connection.execute(text(lock), {"wait": wait, "lock": _STARTS_LOCK})

    def lock_channel(self, connection: Connection, channel: str) -> None:
        """Let no other transaction claim notifications of this channel until this one ends.

        On SQLite a writer is alone anyway.
        """
        if not self.is_sqlite:
            lock = text("SELECT pg_advisory_xact_lock(:space, hashtext(:channel))")
            self.send(connection, lock, {"space": _CHANNELS_LOCK, "channel": channel})

    def issued_ids(self, connection: Connection) -> int:
        """Return the highest run id issued; 0 if there is none."""
        return connection.scalar(select(self.issued)) or 0

    @property
    def issued(self) -> ColumnElement[int]:
        """The same as an expression for a statement; NULL if there is none."""
        return ids.issued(is_sqlite=self.is_sqlite)

    def lock_ids(self, connection: Connection) -> None:
        """Keep other transactions from skipping run ids until this one ends."""
        if not self.is_sqlite:
            ids.lock_postgres(connection)

    def advance_ids(self, connection: Connection, to: int) -> None:
        """Skip all run ids up to `to`. The caller has locked the ids."""
        advance = ids.advance_sqlite if self.is_sqlite else ids.advance_postgres
        advance(connection, to)

    def timeline(self, connection: Connection) -> str | None:
        """Return what changes when a Postgres standby takes over; None if nothing shows it."""
        return None if self.is_sqlite else ids.postgres_timeline(connection)

    def change_token(self, connection: Connection) -> object:
        """Return a value that changes when others commit. Compare tokens of the same connection only."""
        # Not the log's position on Postgres: it moves before the commit is visible.
        query = "PRAGMA data_version" if self.is_sqlite else "SELECT CAST(pg_current_snapshot() AS text)"
        return connection.scalar(text(query))

    def watch(self) -> ChangeWatch:
        """Return a watch for changes by others, with its own connection."""
        if self.address.path:
            return SqliteWatch(self.address.path)
        return PostgresWatch(self.address, notify.WAKE_CHANNEL)

    @property
    def rest_factor(self) -> float:
        """How long background work pauses after a batch of writes, as a multiple of the batch's time.

        A SQLite file has one writer at a time.
        """
        return 10.0 if self.is_sqlite else 3.0

    def give_back_pages(self, most: int) -> int:
        """Give free pages at the end of a SQLite file back to the file system, if they are many.

        Return how many, about `most`; 0 for Postgres, or a file that cannot shrink. Raises DatabaseError.
        """
        if not self.is_sqlite:
            return 0
        with self.read() as connection:
            if not files.has_many_free_pages(_file_connection(connection)):
                return 0
        with self._transaction("SELECT 1") as connection:
            return files.give_back_pages(_file_connection(connection), most)

    def estimate_compaction(self) -> float | None:
        """Return about how many seconds `compact` takes; None for Postgres."""
        return files.estimate_compaction(self.address.path) if self.address.path else None

    def compact(self) -> int:
        """Rewrite the SQLite file without free pages; return by how many bytes it shrank.

        Raises DatabaseError.
        """
        path = self.address.path
        assert path
        before = path.stat().st_size
        with self._transaction("SELECT 1") as connection:
            files.compact(_file_connection(connection))
        return before - path.stat().st_size

    def close_unused(self) -> None:
        """Close connections to a Postgres server that were not needed for a while."""
        if isinstance(self.engine.pool, FrugalPool):
            self.engine.pool.close_unused()

    def close(self) -> None:
        """Close all connections. The next transaction opens the file that is there then."""
        self.engine.dispose()
        self._file, self.has_created_file = None, False

    @contextmanager
    def _transaction(self, on_sqlite: str | None, *on_postgres: str) -> Iterator[Connection]:
        """Open a transaction that begins with these statements."""
        opening = tuple(filter(None, (on_sqlite,))) if self.is_sqlite else on_postgres
        try:
            with self.engine.connect() as connection:
                self._require_same_file()
                connection = connection.execution_options(dcron_opening=opening)
                notify.forget(connection)
                with connection.begin():
                    yield connection
                self.notified += notify.is_sent(connection)
        except IntegrityError:
            raise  # a constraint of the schema: the caller knows what it means
        except (DBAPIError, PoolTimeout, OSError) as error:
            self._require_same_file()  # for SQLite, a file that was moved away is read-only
            raise database_error(error, self.address) from error

    def _find_file(self, path: Path) -> None:
        """Check the file, and create it the first time, before a connection opens it."""
        if self._file is None:
            if self._strict:
                files.require_trust(path)
            if not self._was_open:
                self.has_created_file = files.prepare(path, forced=self.address.forced)
            self._file = files.identity(path)
            self._was_open = True
        else:
            self._require_same_file()

    def _require_same_file(self) -> None:
        """Raise DatabaseReplaced if another file is at the path; DatabaseError if there is none."""
        path = self.address.path
        if path and files.identity(path) != self._file:
            raise DatabaseReplaced(f"the database {path} was replaced: another file is in its place")

    def _guards(self, *, lock_starts: bool) -> str:
        milliseconds = int(self._patience * 1000)
        shared = f" pg_advisory_xact_lock_shared({_STARTS_LOCK})," if lock_starts else ""
        return _POSTGRES_GUARDS.format(lock=milliseconds, statement=3 * milliseconds, lock_starts=shared)

    def _time(self) -> ColumnElement[datetime]:
        if self.is_sqlite or self._clock:
            clock = self._clock or (lambda: datetime.now(UTC))
            return bindparam("now", callable_=clock, type_=DateTime(timezone=True))
        return func.clock_timestamp(type_=DateTime(timezone=True))

    def _make_engine(self) -> Engine:
        if self.address.path:
            return self._make_sqlite_engine()
        from dcron.database import connecting
        from dcron.database.pipelining import PipelinedConnection

        options = connecting.parameters(self.address)
        shares_sessions = self.address.transaction_pooling
        if shares_sessions:
            options["prepare_threshold"] = None
        open_connection = PipelinedConnection.connect if shares_sessions else connecting.connect
        registry.register("postgresql.dcron", "dcron.database.postgres_dialect", "PostgresDialect")
        url = self.address.url.set(drivername="postgresql+dcron", query={})
        engine = create_engine(
            url,
            connect_args=options,
            isolation_level="AUTOCOMMIT",  # transactions begin and end in PipelinedConnection
            use_native_hstore=False,
            poolclass=FrugalPool,
            pool_size=SIZE_IF_FAR,
            pool_timeout=self._patience,
        )

        @event.listens_for(engine, "do_connect")
        def connect(
            _: object, __: object, arguments: list[Any], given: dict[str, Any]
        ) -> PipelinedConnection:
            connection = open_connection(*arguments, **given)
            connection.answer = 4.5 * self._patience
            return connection

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            opening = list(connection.get_execution_options().get("dcron_opening", ()))
            if shares_sessions:
                opening[:1] = [
                    *(opening[:1] or [_POSTGRES_BEGIN]),
                    connecting.pin_schema(for_transaction=True),
                ]
            if opening:
                _driver(connection).begin(opening, self._note_clock)

        event.listen(engine, "do_execute", postpone)
        return engine

    def _note_clock(self, cursor: "PipelinedCursor") -> None:
        row = cursor.fetchone() if cursor.description else None
        if row and isinstance(row[-1], datetime):
            self._server_clock.read(row[-1])

    def _make_sqlite_engine(self) -> Engine:
        path = self.address.path
        assert path
        registry.register("sqlite.dcron", "dcron.database.sqlite_dialect", "SqliteDialect")
        url = self.address.url.set(drivername="sqlite+dcron")
        engine = create_engine(url, connect_args={"timeout": self._patience}, pool_timeout=self._patience)

        @event.listens_for(engine, "do_connect")
        def find_file(_: object, __: object, arguments: list[Any], options: dict[str, Any]) -> None:
            self._find_file(path)
            # mode=rw: SQLite must not create a file if this one vanishes now.
            arguments[:], options["uri"] = [f"{path.as_uri()}?mode=rw"], True

        @event.listens_for(engine, "connect")
        def set_up(connection: DBAPIConnection, _: object) -> None:
            assert isinstance(connection, sqlite3.Connection)
            files.set_up(connection, is_new=self.has_created_file)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # The driver's own BEGIN would be late and deferred.
            for statement in connection.get_execution_options().get("dcron_opening", ("BEGIN",)):
                connection.exec_driver_sql(statement)

        event.listen(engine, "do_execute", postpone)
        return engine


def _file_connection(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _driver(connection: Connection) -> "PipelinedConnection":
    from dcron.database.pipelining import PipelinedConnection

    driver = connection.connection.driver_connection
    assert isinstance(driver, PipelinedConnection)
    return driver
