"""Read how much room the database takes."""

from sqlalchemy import Connection, text

_POSTGRES = text(
    "SELECT relname, pg_total_relation_size(oid) AS bytes FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname"
)


def of_sqlite(connection: Connection) -> dict[str, int]:
    """Return the size of the whole file, as `*`: that of a table takes reading all of it."""
    pages, size = (connection.scalar(text(f"PRAGMA {name}")) or 0 for name in ("page_count", "page_size"))
    return {"*": pages * size}


def of_postgres(connection: Connection) -> dict[str, int]:
    """Return the size of each table of the schema, with its indexes and long values."""
    return {row.relname: row.bytes for row in connection.execute(_POSTGRES)}
