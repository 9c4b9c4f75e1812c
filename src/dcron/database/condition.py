"""Read the condition of a database: what an operator has to look after. Nothing here changes it."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from dcron.database import files

_SERVER = text(
    "SELECT pg_is_in_recovery() AS is_standby, current_setting('max_connections')::int"
    " - current_setting('superuser_reserved_connections')::int AS most_connections,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,"
    " (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS oldest_id,"
    " current_setting('autovacuum') = 'on' AS autovacuum,"
    " current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AS is_durable"
)
_TABLES = text(
    "SELECT relname AS name, n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables"
    " WHERE schemaname = current_schema() ORDER BY relname"
)


@dataclass(frozen=True)
class TableRows:
    """The rows of a Postgres table, as its statistics count them."""

    name: str
    live: int
    dead: int


@dataclass(frozen=True)
class ServerCondition:
    """The condition of a Postgres server."""

    is_standby: bool
    most_connections: int
    """For all roles that are not superusers."""
    connections: int
    oldest_id: int
    """Age of the oldest transaction id, in transactions: at 2 billion the server stops."""
    autovacuum: bool
    is_durable: bool
    """Whether a commit survives a power cut: `fsync` and `full_page_writes` are on."""
    tables: tuple[TableRows, ...]


@dataclass(frozen=True)
class FileCondition:
    """The condition of a SQLite file."""

    path: Path
    size: int
    """Bytes."""
    free: int
    """Free bytes of its file system, for this account."""
    file_system: str
    """Its type; empty if unknown."""
    is_networked: bool
    """Whether that is a network file system, whose locks cannot be trusted."""
    journal: str
    wal_is_safe: bool
    """Whether this machine's SQLite has the fix for the corruption bug of the write-ahead log."""
    library: str
    """The version of this machine's SQLite."""
    others: str | None
    """How other accounts can change the file; None if they cannot."""


def of_server(connection: Connection) -> ServerCondition:
    """Read the condition of a Postgres server, in two statements."""
    facts = connection.execute(_SERVER).one()._asdict()
    tables = tuple(TableRows(**row._asdict()) for row in connection.execute(_TABLES))
    return ServerCondition(**facts, tables=tables)


def of_file(connection: Connection, path: Path) -> FileCondition:
    """Read the condition of a SQLite file."""
    kind = files.file_system(path)
    return FileCondition(
        path,
        path.stat().st_size,
        shutil.disk_usage(path.parent).free,
        kind,
        kind in files.NETWORK_FILE_SYSTEMS,
        str(connection.scalar(text("PRAGMA journal_mode"))),
        files.wal_is_safe(),
        sqlite3.sqlite_version,
        files.problem_with(path),
    )
