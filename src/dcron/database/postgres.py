"""A crontab in a Postgres database: its connections, and its answers to what Database asks."""

import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    FromClause,
    Integer,
    Table,
    create_engine,
    event,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from dcron.database import condition, connecting, rows, suitability
from dcron.database.change_watch import WAKE_CHANNEL, PostgresWatch
from dcron.database.condition import ServerCondition
from dcron.database.database import Database
from dcron.database.failures import is_lost_prepared, says
from dcron.database.pipelining import PipelinedConnection, PipelinedCursor
from dcron.database.pool import SIZE_IF_FAR, FrugalPool
from dcron.database.replies import Reply, postpone
from dcron.database.rows import Columns, Values
from dcron.database.server import Protection, Replication
from dcron.database.server_clock import ServerClock

_SECOND_CONNECTION = 10.0
"""Seconds to wait for a second connection to the server."""
_LOCK_TABLES_TIMEOUT = 60.0
"""Seconds to wait until no other transaction uses the tables."""
_LOCK_IS_TAKEN = ("55P03", "40P01")
_NO_TIMELINE = ("42883", "42501", "0A000", "55000")
"""Not every server has these functions, or lets the role call them; a standby refuses."""

# Advisory locks; migrations use another number.
_DEPENDENCIES_LOCK = 0x6463726F6E02
"""Of transactions that change dependencies."""
_IDS_LOCK = 0x6463726F6E03
"""Of transactions that skip ids."""
_STARTS_LOCK = 0x6463726F6E04
"""Shared by transactions while they record starts."""
_CHANNELS_LOCK = 0x64637204
"""The first half of the locks of channels, which have two of 32 bits."""

# Concurrency limits are counted after locking: each statement must see all commits before it.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_PLANS_OFF = ("sort", "bitmapscan", "hashjoin", "mergejoin", "seqscan")
# Settings of one transaction, not of the session: a pooler may give the session to another client.
_GUARDS = (
    "SELECT set_config('lock_timeout', '{lock}ms', true),"
    " set_config('statement_timeout', '{statement}ms', true),"
    " set_config('idle_in_transaction_session_timeout', '{lock}ms', true),"
    " set_config('synchronous_commit', 'on', true),"
    # Each of our statements follows an index. With fresh statistics the planner knows that; after 20,000 runs
    # became due at once it had none, and sorted them all for each claim (21 ms instead of 0.2 ms). While it
    # knew of no run with an owner, it read the whole table to record each batch of ends.
    + "".join(f" set_config('enable_{plan}', 'off', true)," for plan in _PLANS_OFF)
    + "{limit}{lock_starts} clock_timestamp()"  # the last one: the lock may take a while
)
# From Postgres 17 on. The limit of an idle transaction does not cover one whose client falls silent after it
# has sent a part of a pipeline: without this one, such a transaction keeps its locks for hours.
_TRANSACTION_LIMIT = (
    " CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL"
    " THEN set_config('transaction_timeout', '{milliseconds}ms', true) END,"
)
_OLDEST_TRANSACTION = text(
    "SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
_TABLE_BYTES = text(
    "SELECT relname, pg_total_relation_size(oid) AS bytes FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname"
)
_TIMELINE = select(func.substr(func.pg_walfile_name(func.pg_current_wal_lsn()), 1, 8))
_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")
_NOTIFY = text("SELECT pg_notify(:channel, '')")


class PostgresDatabase(Database):
    """A server, perhaps far away: what can share a round trip does."""

    is_sqlite = False
    product = "PostgreSQL"
    rest_factor = 3.0
    issued = literal_column("(SELECT last_value FROM runs_id_seq)", Integer())
    _read_opening = ()
    _snapshot_opening = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    _pooler: str | None

    def _count_connection(self, *_: object) -> None:
        super()._count_connection()
        self._server_clock.forget()

    def close_unused(self) -> None:
        assert isinstance(self.engine.pool, FrugalPool)
        self.engine.pool.close_unused()

    def _write_opening(self, *, starts: bool) -> tuple[str, ...]:
        milliseconds = int(self.patience * 1000)
        shared = f" pg_advisory_xact_lock_shared({_STARTS_LOCK})," if starts else ""
        most = int(self.transaction_limit * 1000)
        limit = _TRANSACTION_LIMIT.format(milliseconds=most) if most else ""
        locks = {"lock": milliseconds, "lock_starts": shared}
        return _BEGIN, _GUARDS.format(statement=3 * milliseconds, limit=limit, **locks)

    def _prepare(self, driver: Any) -> None:
        driver.answer = self._answer

    def _recover(self, error: Exception) -> None:
        if is_lost_prepared(error):
            self._pooler = "transaction"  # it shares sessions, whatever its keys or the URL say
            self.engine.dispose()

    @property
    def _answer(self) -> float:
        """Seconds to wait for the answer to a statement: more than the server's own limit."""
        return float(getattr(self._limits, "answer", 4.5 * self.patience))

    def _make_engine(self) -> Engine:
        self._pooler = self.address.pooler
        self.is_pooled = self._pooler == "transaction"
        self._server_clock = ServerClock()
        options = connecting.parameters(self.address)
        registry.register("postgresql.dcron", __name__, "PostgresDialect")
        engine = create_engine(
            self.address.url.set(drivername="postgresql+dcron", query={}),
            connect_args=options,
            isolation_level="AUTOCOMMIT",  # transactions begin and end in PipelinedConnection
            use_native_hstore=False,
            poolclass=FrugalPool,
            pool_size=SIZE_IF_FAR,
            pool_timeout=self.patience,
        )

        @event.listens_for(engine, "do_connect")
        def connect(
            _: object, __: object, arguments: list[Any], given: dict[str, Any]
        ) -> PipelinedConnection:
            if self._answer < connecting.TIMEOUT:
                given = given | {"connect_timeout": str(math.ceil(self._answer))}
            connection = connecting.connect(*arguments, **given, pooler=self._pooler)
            self.is_pooled = connection.shares_session
            return connection

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            opening = list(connection.get_execution_options().get("dcron_opening", ()))
            driver = _driver(connection)
            if driver.shares_session:
                opening[:1] = [*(opening[:1] or [_BEGIN]), connecting.pin_for_transaction()]
            if opening:
                driver.begin(opening, self._note_reply)

        event.listen(engine, "do_execute", postpone)
        return engine

    def _note_reply(self, cursor: PipelinedCursor) -> None:
        row = cursor.fetchone() if cursor.description else None
        if row and isinstance(row[-1], datetime):
            self._server_clock.read(row[-1])

    def lift_limits(self, connection: Connection) -> None:
        limit = _TRANSACTION_LIMIT.format(milliseconds=0)
        connection.execute(text(f"SELECT{limit} set_config('statement_timeout', '0', true)"))
        for plan in _PLANS_OFF:
            connection.execute(text(f"SELECT set_config('enable_{plan}', 'on', true)"))
        _driver(connection).answer = math.inf

    @contextmanager
    def time_limit(self, connection: Connection, seconds: float) -> Iterator[None]:
        limit = text("SELECT set_config('statement_timeout', :limit, true)")
        connection.execute(limit, {"limit": f"{int(seconds * 1000)}ms"})
        yield

    def _time(self) -> ColumnElement[datetime]:
        return func.clock_timestamp(type_=DateTime(timezone=True))

    def _recent_now(self) -> datetime | None:
        return self._server_clock.now()

    def _read_clock(self, connection: Connection) -> datetime:
        return self._server_clock.read(connection.scalar(text("SELECT clock_timestamp()")))

    def note_clock(self, at: datetime) -> datetime:
        return at if self._clock else self._server_clock.read(at)

    def rows(self, columns: Columns) -> FromClause:
        return rows.of_postgres(columns)

    def values(self, columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
        return rows.for_postgres(columns, batch)

    def insert(self, table: Table) -> postgresql.Insert:
        return _insert(table)

    def insert_if_absent(self, table: Table) -> postgresql.Insert:
        return _insert_if_absent(table)

    def notify(self, connection: Connection) -> None:
        super().notify(connection)
        self.send(connection, _NOTIFY, {"channel": WAKE_CHANNEL})

    def change_token(self, connection: Connection) -> object:
        # Not the log's position: it moves before the commit is visible.
        return connection.scalar(text("SELECT CAST(pg_current_snapshot() AS text)"))

    def watch(self) -> PostgresWatch:
        return PostgresWatch(self.address)

    def lock_tables(self, connection: Connection, tables: Iterable[str]) -> None:
        """Keep all other transactions from these tables until this one ends.

        It waits without holding any of them: agents lock tables in other orders, and in a deadlock Postgres
        would end one of the two.
        """
        lock = text(f"LOCK TABLE {', '.join(sorted(tables))} IN ACCESS EXCLUSIVE MODE NOWAIT")
        give_up = time.monotonic() + _LOCK_TABLES_TIMEOUT
        while True:
            try:
                with connection.begin_nested():
                    connection.execute(lock)
                return
            except DBAPIError as error:
                if not says(error, *_LOCK_IS_TAKEN) or time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.01, 0.1))

    def lock_dependencies(self, connection: Connection) -> None:
        self.send(connection, _LOCK, {"lock": _DEPENDENCIES_LOCK})

    def lock_out_starts(self, connection: Connection) -> None:
        wait = f"{int(2500 * self.patience)}ms"
        lock = "SELECT set_config('lock_timeout', :wait, true), pg_advisory_xact_lock(:lock)"
        connection.execute(text(lock), {"wait": wait, "lock": _STARTS_LOCK})

    def lock_channel(self, connection: Connection, channel: str) -> None:
        lock = text("SELECT pg_advisory_xact_lock(:space, hashtext(:channel))")
        self.send(connection, lock, {"space": _CHANNELS_LOCK, "channel": channel})

    def lock_ids(self, connection: Connection) -> None:
        connection.execute(_LOCK, {"lock": _IDS_LOCK})

    def advance_ids(self, connection: Connection, to: int) -> None:
        """Make the next run get an id above `to`. A rollback does not take that back."""
        moved = text("SELECT setval('runs_id_seq', greatest(last_value, :to)) FROM runs_id_seq")
        connection.execute(moved, {"to": to})

    def timeline(self, connection: Connection) -> str | None:
        """Return the server's timeline, which changes at each failover; None if it reports none."""
        Reply(connection, text("SAVEPOINT timeline"))
        timeline = Reply(connection, _TIMELINE)
        Reply(connection, text("RELEASE SAVEPOINT timeline"))
        try:
            found = timeline.rows()[0][0]
        except DBAPIError as error:
            if not says(error, *_NO_TIMELINE):
                raise
            connection.execute(text("ROLLBACK TO SAVEPOINT timeline"))
            return None
        return found and str(found)

    def condition(self, connection: Connection) -> ServerCondition:
        return condition.of_server(connection)

    def table_bytes(self, connection: Connection) -> dict[str, int]:
        """Return the size of each table of the schema, with its indexes and long values."""
        return {row.relname: row.bytes for row in connection.execute(_TABLE_BYTES)}

    def why_unsuitable(self, *, tries_locks: bool = True) -> str | None:
        with self.read_once() as connection:
            problem = suitability.version_problem(connection)
        if problem or not tries_locks:
            return problem
        # A pool of one connection would never give the second.
        with self.answering_within(_SECOND_CONNECTION), self.write() as first, self.write() as second:
            return suitability.lock_problem(first, second)

    @property
    def pooler(self) -> str | None:
        return self.address.pooler or ("detected" if self.is_pooled else None)

    def protection(self, connection: Connection) -> Protection:
        return connecting.protection(connection)

    def require_own_schema(self, connection: Connection) -> None:
        connection.exec_driver_sql(connecting.pin_for_transaction())

    def replication(self, connection: Connection) -> Replication:
        names, commit = (
            str(connection.scalar(text(f"SHOW {name}")) or "")
            for name in ("synchronous_standby_names", "synchronous_commit")
        )
        return Replication(names, commit)

    def oldest_transaction(self, connection: Connection) -> float:
        return float(connection.scalar(_OLDEST_TRANSACTION) or 0.0)


class PostgresDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect, without the four queries that it sends on the first connection.

    The server reports most of the answers to the driver when it accepts the connection.
    """

    supports_statement_cache = True

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Return the level of every transaction that names no other."""
        return "READ COMMITTED"

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return divmod(_driver(connection).info.server_version, 10_000)

    def _get_default_schema_name(self, connection: Connection) -> str:
        """Return no name: the search path decides, and only the reflection of foreign keys asks."""
        return ""

    def _set_backslash_escapes(self, connection: Connection) -> None:
        standard = _driver(connection).info.parameter_status("standard_conforming_strings")
        self._backslash_escapes = standard == "off"


_insert = cache(postgresql.insert)


@cache
def _insert_if_absent(table: Table) -> postgresql.Insert:
    return postgresql.insert(table).on_conflict_do_nothing()


def _driver(connection: Connection) -> PipelinedConnection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, PipelinedConnection)
    return driver
