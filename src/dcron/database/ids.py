"""Run ids: the highest one issued, and how to skip ids.

A counter of the database issues each id once. It goes back only if the whole database does.
"""

from functools import cache

from sqlalchemy import ColumnElement, Connection, Integer, func, literal_column, select, text
from sqlalchemy.exc import DBAPIError

from dcron.database.replies import Reply

_SQLITE_ISSUED = "(SELECT seq FROM sqlite_sequence WHERE name = 'runs')"
_POSTGRES_ISSUED = "(SELECT last_value FROM runs_id_seq)"
_TIMELINE = select(func.substr(func.pg_walfile_name(func.pg_current_wal_lsn()), 1, 8))
_LOCK = 0x6463726F6E03
"""Advisory lock of transactions that skip ids."""


@cache
def issued(*, is_sqlite: bool) -> ColumnElement[int]:
    """Return the highest id issued so far, as an expression for a statement; NULL if there is none."""
    return literal_column(_SQLITE_ISSUED if is_sqlite else _POSTGRES_ISSUED, Integer())


def lock_postgres(connection: Connection) -> None:
    """Keep other transactions from skipping ids until this one ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def advance_sqlite(connection: Connection, to: int) -> None:
    """Make the next run of a SQLite file get an id above `to`."""
    values = {"to": to}
    counter = text("UPDATE sqlite_sequence SET seq = max(seq, :to) WHERE name = 'runs'")
    if not connection.execute(counter, values).rowcount:
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', :to)"), values)


def advance_postgres(connection: Connection, to: int) -> None:
    """Make the next run on Postgres get an id above `to`. The caller holds the lock; there is no rollback."""
    moved = text("SELECT setval('runs_id_seq', greatest(last_value, :to)) FROM runs_id_seq")
    connection.execute(moved, {"to": to})


def postgres_timeline(connection: Connection) -> str | None:
    """Return the server's timeline, which changes at each failover; None if it reports none."""
    Reply(connection, text("SAVEPOINT timeline"))
    timeline = Reply(connection, _TIMELINE)
    Reply(connection, text("RELEASE SAVEPOINT timeline"))
    try:
        found = timeline.rows()[0][0]
    except DBAPIError:  # not every service compatible with Postgres has it
        connection.execute(text("ROLLBACK TO SAVEPOINT timeline"))
        return None
    return found and str(found)
