"""The database of one crontab: what both kinds have in common, and what each must answer."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    Executable,
    FromClause,
    Table,
    bindparam,
    event,
    select,
)
from sqlalchemy.exc import IntegrityError

from dcron.database.change_watch import ChangeWatch
from dcron.database.condition import FileCondition, ServerCondition
from dcron.database.failures import translate
from dcron.database.replies import Reply
from dcron.database.rows import Columns, Values
from dcron.database.server import Protection, Replication
from dcron.database.url import Address

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

PATIENCE = 10.0
"""Seconds to wait for a lock or a connection."""
_IS_NOTIFIED = "dcron_notified"
"""The note on a connection that its transaction has called `notify`."""


class Database(ABC):
    """The database of one shared crontab. It opens nothing before the first transaction."""

    is_sqlite: ClassVar[bool]
    """Whether this is a SQLite file (for migrations and diagnosis; other code must not ask)."""
    product: ClassVar[str]
    """Name of this kind of database, for people."""
    rest_factor: ClassVar[float]
    """How long background work pauses after a batch of writes, as a multiple of the batch's time."""
    issued: ClassVar[ColumnElement[int]]
    """The highest run id issued, as an expression for a statement; NULL if there is none."""
    _read_opening: ClassVar[tuple[str, ...]]
    """The statements with which a transaction begins that only reads."""
    _snapshot_opening: ClassVar[tuple[str, ...]]
    has_created_file = False
    """Whether this object has created the SQLite file that it has open."""
    is_pooled = False
    """Whether a pooler before Postgres may give each transaction another session."""

    def __init__(
        self,
        address: Address,
        *,
        clock: Callable[[], datetime] | None = None,
        patience: float = PATIENCE,
        strict: bool = False,
    ) -> None:
        """Take the parsed URL. `clock` replaces the database's clock in tests.

        With `strict`, opening a SQLite file that other accounts can change raises Refused.
        """
        self.address = address
        self.patience = patience
        """Seconds to wait for a lock or a connection."""
        self.transaction_limit = 0.0
        """Most seconds of a transaction that writes, on a Postgres server that can end one; 0 is no limit."""
        self._clock = clock
        self._strict = strict
        self._limits = threading.local()
        self.connections = 0
        """Connections made so far. After a new one, another server may answer."""
        self.has_written = False
        """Whether a transaction was committed that has kept what it wrote."""
        self.notified = 0
        """Committed transactions of this process that have called `notify`."""
        self.engine = self._make_engine()
        self.time = self._time() if clock is None else time_of(clock)
        """The time of the database's clock, as an expression for a statement."""
        event.listen(self.engine, "connect", self._count_connection)

    def _count_connection(self, *_: object) -> None:
        self.connections += 1

    @property
    def answers_at_once(self) -> bool:
        """Whether the answer to a statement costs no round trip."""
        return self.is_sqlite

    # -- transactions

    def read(self) -> AbstractContextManager[Connection]:
        """Open a connection that only reads. Raises DatabaseError.

        On SQLite all statements see one state. On Postgres each sees what was committed before it, so they
        need no transaction, and no round trips to begin and end one.
        """
        return self._transaction(*self._read_opening)

    def read_once(self) -> AbstractContextManager[Connection]:
        """Open a connection for one statement that reads; SQLite needs no transaction for it either."""
        return self._transaction()

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction whose statements all see the same state. Raises DatabaseError."""
        return self._transaction(*self._snapshot_opening)

    @contextmanager
    def write(self, *, starts: bool = False, keeps: bool = True) -> Iterator[Connection]:
        """Open a transaction that writes, committed at the end of the block. Raises DatabaseError.

        On SQLite it takes the write lock at once: a reader that becomes a writer half-way fails under load.
        On Postgres, BEGIN, settings and a reading of the clock share the round trip of the first statement.
        With `starts`, it records starts of runs, and no transaction that has called `lock_out_starts` is open
        at the same time. Without `keeps`, the caller rolls back what it has written.
        """
        with self._transaction(*self._write_opening(starts=starts)) as connection:
            yield connection
        self.has_written |= keeps

    @abstractmethod
    def _write_opening(self, *, starts: bool) -> tuple[str, ...]:
        """Return the statements with which a writing transaction begins."""

    @contextmanager
    def _transaction(self, *opening: str) -> Iterator[Connection]:
        """Open a transaction that begins with these statements."""
        driver: Any = None
        try:
            with self.engine.connect() as connection:
                driver = connection.connection.driver_connection
                self._prepare(driver)
                connection = connection.execution_options(dcron_opening=opening)
                connection.info.pop(_IS_NOTIFIED, None)
                with connection.begin():
                    yield connection
                self.notified += _IS_NOTIFIED in connection.info
        except IntegrityError:
            raise  # a constraint of the schema: the caller knows what it means
        except Exception as error:
            ours = translate(error, self.address, is_committing=getattr(driver, "is_committing", False))
            if ours is None:
                raise
            self._recover(error)
            raise ours from error

    @abstractmethod
    def _make_engine(self) -> Engine:
        """Return SQLAlchemy's engine for this address."""

    @abstractmethod
    def _prepare(self, driver: Any) -> None:
        """Prepare the driver's connection for a transaction. Raises DatabaseError."""

    @abstractmethod
    def _recover(self, error: Exception) -> None:
        """Do what is due after an error that is one of ours. Raises DatabaseError."""

    def send(
        self, connection: Connection, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> Reply:
        """Send a statement whose result is not needed at once: on Postgres together with the next one."""
        return Reply(connection, statement, parameters)

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        """Let this thread give up a connection to Postgres that does not answer for so many seconds.

        The other connections of the pool are then replaced before their next use, so a thread waits once.
        """
        self._limits.answer = seconds
        try:
            yield
        finally:
            del self._limits.answer

    def lift_limits(self, connection: Connection) -> None:  # noqa: B027
        """Let this transaction's statements take long and read whole tables, for a migration of many rows."""

    @abstractmethod
    def time_limit(self, connection: Connection, seconds: float) -> AbstractContextManager[None]:
        """Let no statement of this transaction take longer. Raises DatabaseError when one does.

        On SQLite the statements of the block have this time together.
        """

    def sibling(self, *, patience: float) -> Self:
        """Return the same database with connections and a patience of its own; the caller closes it."""
        return type(self)(self.address, clock=self._clock, patience=patience, strict=self._strict)

    def close_unused(self) -> None:  # noqa: B027 - a file has no connections that cost a server something
        """Close connections to a Postgres server that were not needed for a while."""

    def close(self) -> None:
        """Close all connections. The next transaction opens the file that is there then."""
        self.engine.dispose()

    # -- the clock

    @abstractmethod
    def _time(self) -> ColumnElement[datetime]:
        """Return the time of the database's clock, as an expression."""

    def now(self, connection: Connection) -> datetime:
        """Return the time of the database's clock, in UTC. A SQLite file uses this machine's clock.

        On Postgres it is at most 2 s of this machine's time after a reading of the server's clock.
        """
        return self.recent_now() or self.read_clock(connection)

    def recent_now(self) -> datetime | None:
        """Return the same without a statement; None if the server's clock was not read for a while."""
        return self._clock() if self._clock else self._recent_now()

    def read_clock(self, connection: Connection) -> datetime:
        """Read the database's clock now, for a comparison with another clock."""
        return self._clock() if self._clock else self._read_clock(connection)

    def note_clock(self, at: datetime) -> datetime:
        """Note a reading of the database's clock that has just arrived; return it."""
        return at

    @abstractmethod
    def _recent_now(self) -> datetime | None:
        """Return the time of the database's clock without a statement; None if it is not known."""

    @abstractmethod
    def _read_clock(self, connection: Connection) -> datetime:
        """Read the database's clock."""

    # -- statements

    @abstractmethod
    def rows(self, columns: Columns) -> FromClause:
        """Return a batch of values as a table to join, update or insert from, in one statement.

        The table depends only on the columns; `values` returns the statement's parameters.
        """

    @abstractmethod
    def values(self, columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
        """Return the parameters for a statement with `rows` of these columns."""

    @abstractmethod
    def insert(self, table: Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an INSERT that can say what happens with rows which a unique index already contains."""

    def insert_if_absent(self, table: Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an INSERT that skips rows which a unique index already contains."""
        return self.insert(table).on_conflict_do_nothing()

    # -- others: changes, locks (in a SQLite file a writer is alone, so there they do nothing), ids

    def notify(self, connection: Connection) -> None:
        """Wake the agents when this transaction commits: something is due now.

        It is only a hint: a SQLite watch sees the file change, and every agent polls.
        """
        connection.info[_IS_NOTIFIED] = True

    @abstractmethod
    def change_token(self, connection: Connection) -> object:
        """Return a value that changes when others commit. Compare tokens of the same connection only."""

    @abstractmethod
    def watch(self) -> ChangeWatch:
        """Return a watch for changes by others, with its own connection."""

    def lock_tables(self, connection: Connection, tables: Iterable[str]) -> None:  # noqa: B027
        """Keep all other transactions from these tables until this one ends."""

    def lock_dependencies(self, connection: Connection) -> None:  # noqa: B027
        """Let no other transaction change dependencies between tasks until this one ends.

        Call this before any row is locked: a transaction that waits here then holds nothing that others
        need, so there is no deadlock. Later statements see what the previous holder committed.
        """

    def lock_out_starts(self, connection: Connection) -> None:  # noqa: B027
        """Wait until no other transaction records starts; none does so until this one ends.

        Call it first. A process that was stopped in such a transaction holds the lock until the server ends
        its session, after the patience of that process.
        """

    def lock_channel(self, connection: Connection, channel: str) -> None:  # noqa: B027
        """Let no other transaction claim notifications of this channel until this one ends."""

    def lock_ids(self, connection: Connection) -> None:  # noqa: B027
        """Keep other transactions from skipping run ids until this one ends."""

    @abstractmethod
    def advance_ids(self, connection: Connection, to: int) -> None:
        """Skip all run ids up to `to`. The caller has locked the ids."""

    def issued_ids(self, connection: Connection) -> int:
        """Return the highest run id issued; 0 if there is none."""
        return connection.scalar(select(self.issued)) or 0

    # -- condition: what only one kind of database has is None for the other

    @abstractmethod
    def condition(self, connection: Connection) -> FileCondition | ServerCondition:
        """Return what an operator has to look after."""

    @abstractmethod
    def table_bytes(self, connection: Connection) -> dict[str, int]:
        """Return the size of each table with its indexes; of a SQLite file, its whole size as `*`."""

    def journal_mode(self, connection: Connection) -> str | None:
        """Return the journal mode of a SQLite file."""
        return None

    def damage(self, connection: Connection) -> str | None:
        """Read a whole SQLite file; return the first damage."""
        return None

    def give_back_pages(self, most: int) -> int:
        """Give free pages at the end of a SQLite file back to the file system, if they are many.

        Return how many, about `most`; 0 where nothing can shrink. Raises DatabaseError.
        """
        return 0

    def estimate_compaction(self) -> float | None:
        """Return about how many seconds `compact` takes; None where it is not possible."""
        return None

    def compact(self) -> int:
        """Rewrite the SQLite file without free pages; return by how many bytes it shrank.

        0 where that is not possible. Raises DatabaseError.
        """
        return 0

    def why_unsuitable(self, *, tries_locks: bool = True) -> str | None:
        """Return why dcron cannot keep its promises on this server; None if it can.

        The trial of the locks needs two connections at once. Raises DatabaseError.
        """
        return None

    @property
    def pooler(self) -> str | None:
        """How a pooler before Postgres assigns sessions: as the URL says, or `detected`."""
        return None

    def protection(self, connection: Connection) -> Protection | None:
        """Return how the connection to a Postgres server is protected."""
        return None

    def replication(self, connection: Connection) -> Replication | None:
        """Return how a Postgres server replicates commits."""
        return None

    def oldest_transaction(self, connection: Connection) -> float | None:
        """Return the age, in seconds, of the oldest transaction of others; 0 if there is none.

        Without the role pg_read_all_stats, Postgres shows those of the same role only.
        """
        return None

    def timeline(self, connection: Connection) -> str | None:
        """Return what changes when a Postgres standby takes over; None if nothing shows it."""
        return None

    def require_own_schema(self, connection: Connection) -> None:  # noqa: B027 - a file has no schemas
        """Raise DatabaseError if another role may create in dcron's own schema on a Postgres server."""


def time_of(clock: Callable[[], datetime]) -> ColumnElement[datetime]:
    """Return the time of this clock, at the moment of a statement, as an expression."""
    return bindparam("now", callable_=clock, type_=DateTime(timezone=True))
