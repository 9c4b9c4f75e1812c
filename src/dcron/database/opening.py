"""Open the database that a URL names."""

from collections.abc import Callable
from datetime import datetime

from dcron.database.database import PATIENCE, Database
from dcron.database.sqlite import SqliteDatabase
from dcron.database.url import parse_url


def open_database(
    url: str,
    *,
    clock: Callable[[], datetime] | None = None,
    patience: float = PATIENCE,
    strict: bool = False,
) -> Database:
    """Return the database of a URL as people type it; nothing is opened yet. For the options see Database.

    Raises UsageError for an invalid URL.
    """
    address = parse_url(url)
    if address.path:
        return SqliteDatabase(address, clock=clock, patience=patience, strict=strict)
    # With it psycopg is imported, half of the start-up time: not for a SQLite file.
    from dcron.database.postgres import PostgresDatabase

    return PostgresDatabase(address, clock=clock, patience=patience, strict=strict)
