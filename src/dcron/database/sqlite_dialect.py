"""SQLAlchemy's dialect for SQLite, without the query that it sends on the first connection."""

from typing import Any

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


class SqliteDialect(SQLiteDialect_pysqlite):
    """Knows the isolation level instead of asking for it."""

    supports_statement_cache = True

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Return the level of every transaction of ours."""
        return "SERIALIZABLE"
