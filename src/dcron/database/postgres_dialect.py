"""SQLAlchemy's dialect for Postgres, without the four queries that it sends on the first connection.

The server reports most of the answers to the driver when it accepts the connection.
"""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg


class PostgresDialect(PGDialect_psycopg):
    """Takes what it must know about the server from the driver."""

    supports_statement_cache = True

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Return the level of every transaction that names no other."""
        return "READ COMMITTED"

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        version: int = _driver(connection).info.server_version
        return divmod(version, 10_000)

    def _get_default_schema_name(self, connection: Connection) -> str:
        """Return no name: the search path decides, and only the reflection of foreign keys asks."""
        return ""

    def _set_backslash_escapes(self, connection: Connection) -> None:
        standard = _driver(connection).info.parameter_status("standard_conforming_strings")
        self._backslash_escapes = standard == "off"


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
