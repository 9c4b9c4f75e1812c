"""Compile each statement once for all databases of a test session: each test opens new ones."""

from typing import Any

from sqlalchemy import Engine

from dcron.database import Database
from dcron.database.postgres import PostgresDatabase, PostgresDialect
from dcron.database.sqlite import SqliteDatabase, SqliteDialect

_first: dict[type, Engine] = {}


def install() -> None:
    """Let all engines of one kind share their compiled statements, found by dialect and statement."""
    for dialect in (SqliteDialect, PostgresDialect):
        dialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]
        dialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    for kind in (SqliteDatabase, PostgresDatabase):
        kind._make_engine = _sharing(kind._make_engine)  # type: ignore[method-assign]


def _sharing(make: Any) -> Any:
    def make_engine(self: Database) -> Engine:
        engine: Engine = make(self)
        first = _first.setdefault(type(engine.dialect), engine)
        engine._compiled_cache = first._compiled_cache
        return engine

    return make_engine
