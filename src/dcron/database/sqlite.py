"""A crontab in a SQLite file: its connections, and its answers to what Database asks."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Integer,
    Table,
    event,
    literal_column,
    text,
)
from sqlalchemy import create_engine as sqlalchemy_engine
from sqlalchemy.dialects import registry, sqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import DBAPIConnection

from dcron.database import condition, files, rows
from dcron.database.change_watch import SqliteWatch
from dcron.database.condition import FileCondition
from dcron.database.database import Database, time_of
from dcron.database.replies import postpone
from dcron.database.rows import Columns, Values
from dcron.errors import DatabaseReplaced

_STEPS = 10_000
"""Steps of SQLite between two looks at the time: less than a millisecond."""


class SqliteDatabase(Database):
    """A file. A writing transaction has it to itself, so most locks are not needed.

    If the file does not exist, it is created once. From then on this object accepts that file only, until
    `close`: a transaction fails while the file is missing or another file is in its place.
    """

    is_sqlite = True
    product = "SQLite"
    rest_factor = 10.0  # it has one writer at a time
    issued = literal_column("(SELECT seq FROM sqlite_sequence WHERE name = 'runs')", Integer())
    _read_opening = ("BEGIN",)
    _snapshot_opening = ("BEGIN",)  # a reader sees one state anyway
    _file: tuple[int, int] | None = None
    _was_open = False

    @property
    def path(self) -> Path:
        """The file."""
        assert self.address.path
        return self.address.path

    def close(self) -> None:
        super().close()
        self._file, self.has_created_file = None, False

    def _write_opening(self, *, starts: bool) -> tuple[str, ...]:
        return ("BEGIN IMMEDIATE",)

    def _prepare(self, driver: Any) -> None:
        self._require_same_file()

    def _recover(self, error: Exception) -> None:
        self._require_same_file()  # a file that was moved away is read-only

    def _find_file(self) -> None:
        """Check the file, and create it the first time, before a connection opens it."""
        if self._file is None:
            if self._strict:
                files.require_trust(self.path)
            if not self._was_open:
                self.has_created_file = files.prepare(self.path, forced=self.address.forced)
            self._file = files.identity(self.path)
            self._was_open = True
        else:
            self._require_same_file()

    def _require_same_file(self) -> None:
        """Raise DatabaseReplaced if another file is at the path; DatabaseError if there is none."""
        if files.identity(self.path) != self._file:
            raise DatabaseReplaced(f"the database {self.path} was replaced: another file is in its place")

    def _make_engine(self) -> Engine:
        registry.register("sqlite.dcron", __name__, "SqliteDialect")
        url = self.address.url.set(drivername="sqlite+dcron")
        engine = sqlalchemy_engine(url, connect_args={"timeout": self.patience}, pool_timeout=self.patience)

        @event.listens_for(engine, "do_connect")
        def find_file(_: object, __: object, arguments: list[Any], options: dict[str, Any]) -> None:
            self._find_file()
            # mode=rw: SQLite must not create a file if this one vanishes now.
            arguments[:], options["uri"] = [f"{self.path.as_uri()}?mode=rw"], True

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

    @contextmanager
    def time_limit(self, connection: Connection, seconds: float) -> Iterator[None]:
        give_up = time.monotonic() + seconds
        _driver(connection).set_progress_handler(lambda: time.monotonic() > give_up, _STEPS)
        try:
            yield
        finally:
            _driver(connection).set_progress_handler(None, 0)

    def _time(self) -> ColumnElement[datetime]:
        return time_of(lambda: datetime.now(UTC))

    def _recent_now(self) -> datetime:
        return datetime.now(UTC)

    def _read_clock(self, connection: Connection) -> datetime:
        return datetime.now(UTC)

    def rows(self, columns: Columns) -> FromClause:
        return rows.of_sqlite(columns)

    def values(self, columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
        return rows.for_sqlite(columns, batch)

    def insert(self, table: Table) -> sqlite.Insert:
        return _insert(table)

    def insert_if_absent(self, table: Table) -> sqlite.Insert:
        return _insert_if_absent(table)

    def change_token(self, connection: Connection) -> object:
        return connection.scalar(text("PRAGMA data_version"))

    def watch(self) -> SqliteWatch:
        return SqliteWatch(self.path)

    def advance_ids(self, connection: Connection, to: int) -> None:
        """Make the next run get an id above `to`."""
        values = {"to": to}
        counter = text("UPDATE sqlite_sequence SET seq = max(seq, :to) WHERE name = 'runs'")
        if not connection.execute(counter, values).rowcount:
            connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', :to)"), values)

    def condition(self, connection: Connection) -> FileCondition:
        return condition.of_file(connection, self.path)

    def table_bytes(self, connection: Connection) -> dict[str, int]:
        """Return the size of the whole file, as `*`: that of a table takes reading all of it."""
        pages, size = (connection.scalar(text(f"PRAGMA {name}")) or 0 for name in ("page_count", "page_size"))
        return {"*": pages * size}

    def journal_mode(self, connection: Connection) -> str | None:
        return str(connection.scalar(text("PRAGMA journal_mode")))

    def damage(self, connection: Connection) -> str | None:
        """Read the whole file; return the first damage, or None. It takes about a second for each GB."""
        found = str(connection.scalar(text("PRAGMA quick_check(1)")))
        return None if found == "ok" else found

    def give_back_pages(self, most: int) -> int:
        with self.read() as connection:
            if not files.has_many_free_pages(_driver(connection)):
                return 0
        with self._transaction("SELECT 1") as connection:
            return files.give_back_pages(_driver(connection), most)

    def estimate_compaction(self) -> float:
        return files.estimate_compaction(self.path)

    def compact(self) -> int:
        before = self.path.stat().st_size
        with self._transaction("SELECT 1") as connection:
            files.compact(_driver(connection))
        return before - self.path.stat().st_size


class SqliteDialect(SQLiteDialect_pysqlite):
    """SQLAlchemy's dialect, which knows the isolation level instead of asking for it."""

    supports_statement_cache = True

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Return the level of every transaction of ours."""
        return "SERIALIZABLE"


_insert = cache(sqlite.insert)


@cache
def _insert_if_absent(table: Table) -> sqlite.Insert:
    return sqlite.insert(table).on_conflict_do_nothing()


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
