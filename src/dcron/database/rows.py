"""A batch of values as a table inside one statement: one JSON parameter that the database takes apart.

On Postgres this is as quick as `unnest` over arrays, which the driver writes slowly, and both are far quicker
than a statement for each row.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    select,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.types import TypeEngine

Values = dict[str, Any]
"""The parameters of a statement."""

_PARAMETER = "batch"


class Columns:
    """The columns of a batch of values, known before its values: the statement around it is made once."""

    def __init__(self, **kinds: TypeEngine[Any]) -> None:
        """The type of each column, by its name."""
        self.kinds = kinds


@cache
def of_postgres(columns: Columns) -> FromClause:
    """`json_to_recordset`: objects, and a type for each of their keys."""
    fields = [column(name, kind) for name, kind in columns.kinds.items()]
    records = func.json_to_recordset(cast(bindparam(_PARAMETER, type_=Text()), JSON()))
    return records.table_valued(*fields, name="batch").render_derived(with_types=True)


def for_postgres(columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
    """The parameter for `of_postgres`."""
    return _encoded([dict(zip(columns.kinds, row, strict=True)) for row in batch], str)


@cache
def of_sqlite(columns: Columns) -> FromClause:
    """`json_each`: a list of lists."""
    each = func.json_each(bindparam(_PARAMETER, type_=Text())).table_valued("value", name="each")
    fields = [
        type_coerce(func.json_extract(each.c.value, f"$[{position}]"), kind).label(name)
        for position, (name, kind) in enumerate(columns.kinds.items())
    ]
    return select(*fields).subquery("batch")


def for_sqlite(columns: Columns, batch: Iterable[Sequence[Any]]) -> Values:
    """The parameter for `of_sqlite`."""
    return _encoded([list(row) for row in batch], _as_kept)


def beside_id(batch: FromClause) -> dict[str, ColumnElement[Any]]:
    """What an UPDATE sets from a batch of rows that are found by their ids."""
    return {column.key: column for column in batch.c if column.key != "id"}


def _encoded(records: Sequence[Any], moment: Callable[[datetime], str]) -> Values:
    """One JSON text; `moment` writes the times in it."""
    return {_PARAMETER: json.dumps(records, ensure_ascii=False, separators=(",", ":"), default=moment)}


def _as_kept(moment: datetime) -> str:
    """As SQLite keeps times, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


@cache
def postgres_insert(table: Table) -> postgresql.Insert:
    """An INSERT that leaves out rows which a unique index already has."""
    return postgresql.insert(table).on_conflict_do_nothing()


@cache
def sqlite_insert(table: Table) -> sqlite.Insert:
    """The same on SQLite."""
    return sqlite.insert(table).on_conflict_do_nothing()


def locked(query: Select[Any]) -> Select[Any]:
    """The query, locking the rows it returns and passing over rows that others hold.

    On SQLite it stays as it is: a writing transaction has the file to itself.
    """
    return query.with_for_update(skip_locked=True, key_share=True)
