"""Column types that behave alike on both databases: times, JSON, texts, numbers, ids and names.

Times are `timestamptz` on Postgres and UTC text (`2027-03-28 01:00:00.000000`) on SQLite.

SQLite keeps any value in any column. A value read from a column always has the column's type: one row that
was written by hand must not fail the rows around it.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Float, Integer, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from dcron.values.unreadable import Unreadable, UnreadableTime


class Instant(TypeDecorator[datetime]):
    """A time: aware and in UTC in Python, whatever the database stores.

    A stored value that is no time is read as `UnreadableTime`: it must not fail the rows around it.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times: they are ambiguous."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value and value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        """Return the reader of a stored time, alike for both databases."""
        return _read_time


def _read_time(value: Any) -> datetime | None:
    """Read what the driver returns: a time from Postgres, a text in UTC from SQLite."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return UnreadableTime.of(value)


Kind = type[dict[str, Any]] | type[list[Any]]


class Json(TypeDecorator[Any]):
    """A JSON object, or list, as text: readable, and writable by hand, on both databases."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Kind = dict, of: type[str] | type[float] | None = None) -> None:
        """Require the type `kind` of the outermost value, and `of` of each value in it: a text, or a finite
        number; None allows anything.
        """
        super().__init__()
        self.kind = kind
        self.of = of
        self._empty = "{}" if kind is dict else "[]"

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode; None stays NULL. Replace what is not UTF-8: it could not be written."""
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Decode."""
        return self.decode(value)

    def decode(self, value: Any) -> Any:
        """Return the value of a stored text: `Unreadable` if it is of another kind, None for NULL."""
        if value is None:
            return None
        if value == self._empty:  # most are empty, and a claim reads several of each task
            return self.kind()
        try:
            found = json.loads(value, parse_constant=_refuse)
            if isinstance(found, self.kind) and _holds(found, self.of):
                return found
        except (ValueError, TypeError, OverflowError, RecursionError):
            pass
        return Unreadable(value)


def _refuse(constant: str) -> None:
    """Refuse NaN and infinities: NaN compares with nothing, so a queue would never get past it."""
    raise ValueError(f"{constant} is not a number")


def _holds(found: dict[str, Any] | list[Any], of: type[str] | type[float] | None) -> bool:
    values = found.values() if isinstance(found, dict) else found
    if of is None:
        return True
    if of is str:
        return all(type(value) is str for value in values)
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)


class _SqliteText(TypeDecorator[str]):
    """Read a blob in a text column as text."""

    impl = Text
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], str | None]:
        """Return the reader of one column."""
        return _read_text


def _read_text(value: Any) -> str | None:
    if type(value) is str or value is None:
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class _SqliteInteger(TypeDecorator[int]):
    """An integer column. SQLite may store another value: read it as a whole number if possible, else as 0."""

    impl = Integer
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], int | None]:
        """Return the reader of one column."""
        return _read_integer


class _SqliteBigInteger(_SqliteInteger):
    impl = BigInteger
    cache_ok = True


def _read_integer(value: Any) -> int | None:
    if type(value) is int or value is None:
        return value
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


class Number(TypeDecorator[float]):
    """A finite number; any other stored value is read as NULL."""

    impl = Float
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], float | None]:
        """Return the reader of one column."""
        return _read_number


def _read_number(value: Any) -> float | None:
    if value is None:
        return None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


class Code(TypeDecorator[StrEnum]):
    """A member of an enumeration; any other stored value is read as NULL."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        """Take the enumeration."""
        super().__init__()
        self.kind = kind

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:
        """Return the member; None for a value that an agent of a later version, or a person, wrote."""
        try:
            return self.kind(value)
        except ValueError:
            return None


class Login(FunctionElement[str]):
    """The account that writes, as the server knows it: Postgres' session user; of a file, this process's."""

    type = Text()
    inherit_cache = True


@compiles(Login, "postgresql")
def _session_user(element: Login, compiler: SQLCompiler, **options: Any) -> str:
    return "SESSION_USER"


@compiles(Login, "sqlite")
def _account(element: Login, compiler: SQLCompiler, **options: Any) -> str:
    from dcron.config.files import account_name

    return compiler.render_literal_value(account_name(), Text())


# SQLite makes a growing, never re-used id only from INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

# Names compare by their bytes, so that prefixes and pages mean the same on both databases.
Name = Text(collation="C").with_variant(_SqliteText(), "sqlite")

Words = Text().with_variant(_SqliteText(), "sqlite")
Whole = Integer().with_variant(_SqliteInteger(), "sqlite")
BigWhole = BigInteger().with_variant(_SqliteBigInteger(), "sqlite")

# A UTC day as text, `2026-11-22`: it compares like the date, and a hostile value is a text like any other.
Day = Name


class DayOf(FunctionElement[str]):
    """The UTC day of a time, as a `Day`."""

    type = Text()
    inherit_cache = True


@compiles(DayOf, "postgresql")
def _postgres_day(element: DayOf, compiler: SQLCompiler, **options: Any) -> str:
    (time,) = element.clauses
    return f"to_char({compiler.process(time, **options)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


@compiles(DayOf, "sqlite")
def _sqlite_day(element: DayOf, compiler: SQLCompiler, **options: Any) -> str:
    (time,) = element.clauses
    return f"substr({compiler.process(time, **options)}, 1, 10)"
