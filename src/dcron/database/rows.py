"""A batch of values as a table inside one statement: one JSON parameter that the database takes apart.

On Postgres this is as quick as `unnest` over arrays, which the driver writes slowly, and both are far quicker
than a statement for each row.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import FromClause, Text, cast, column, func, literal, select, type_coerce
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.types import TypeEngine

Columns = Mapping[str, tuple[TypeEngine[Any], Sequence[Any]]]
Rows = FromClause


def postgres_rows(columns: Columns) -> Rows:
    """`json_to_recordset`: objects, and a type for each of their keys."""
    names = tuple(columns)
    records = [dict(zip(names, row, strict=True)) for row in zip(*_values(columns), strict=True)]
    fields = [column(name, kind) for name, (kind, _) in columns.items()]
    batch = func.json_to_recordset(cast(literal(_encode(records, str), Text()), JSON()))
    return batch.table_valued(*fields, name="batch").render_derived(with_types=True)


def sqlite_rows(columns: Columns) -> Rows:
    """`json_each`: a list of lists."""
    records = list(zip(*_values(columns), strict=True))
    each = func.json_each(_encode(records, _as_kept)).table_valued("value", name="each")
    fields = [
        type_coerce(func.json_extract(each.c.value, f"$[{position}]"), kind).label(name)
        for position, (name, (kind, _)) in enumerate(columns.items())
    ]
    return select(*fields).subquery("batch")


def _values(columns: Columns) -> list[Sequence[Any]]:
    return [values for _, values in columns.values()]


def _encode(records: Sequence[Any], moment: Callable[[datetime], str]) -> str:
    """One JSON text; `moment` writes the times in it."""
    return json.dumps(records, ensure_ascii=False, separators=(",", ":"), default=moment)


def _as_kept(moment: datetime) -> str:
    """As SQLite keeps times, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
