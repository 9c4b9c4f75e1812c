"""What stands in columns: times, JSON, ids and names, alike on both databases.

Times are `timestamptz` on Postgres and UTC text (`2027-03-28 01:00:00.000000`) on SQLite.
"""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from dcron.validation import Unreadable


class Instant(TypeDecorator[datetime]):
    """A moment: aware and in UTC in Python, whatever the database makes of it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times: they have no meaning here."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """SQLite gives a time back without its zone; it is always UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """A JSON object, or list, as text: readable, and writable by hand, on both databases."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[dict[str, Any]] | type[list[Any]] = dict) -> None:
        """Take what the outermost value has to be."""
        super().__init__()
        self.kind = kind
        self._empty = "{}" if kind is dict else "[]"

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode; None stays NULL, and what is no UTF-8 is replaced, for it could not be written."""
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Decode; NULL stays None, and a slip of somebody's hand must not fail the rows around it."""
        if value is None:
            return None
        if value == self._empty:  # most are, and a claim reads several of each line
            return self.kind()
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return Unreadable(value)
        return found if isinstance(found, self.kind) else Unreadable(value)


class Login(FunctionElement[str]):
    """Who writes, as the server knows it: Postgres' session user; for a file, the account of this process."""

    type = Text()
    inherit_cache = True


@compiles(Login, "postgresql")
def _session_user(element: Login, compiler: SQLCompiler, **options: Any) -> str:
    return "SESSION_USER"


@compiles(Login, "sqlite")
def _account(element: Login, compiler: SQLCompiler, **options: Any) -> str:
    from dcron.config import account_name

    return compiler.render_literal_value(account_name(), Text())


# SQLite makes a growing, never re-used id only from INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

# Names compare by their bytes everywhere, so that prefixes and pages mean the same on both databases.
Name = Text(collation="C").with_variant(Text(), "sqlite")
