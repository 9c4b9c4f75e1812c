"""Decode rows column by column: a value that many rows share is decoded once.

A claim reads 65 columns of a hundred runs, and most of them hold defaults. It took longer to decode them
value by value than to find them.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from sqlalchemy import Dialect, Executable
from sqlalchemy.sql.selectable import ReturnsRows

_Reader = Callable[[Any], Any]


def decode(statement: Executable, dialect: Dialect, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the driver's rows as named tuples, with the values that the statement's types give.

    Equal values of a column are one object: do not change it.
    """
    if not rows:
        return []
    if not isinstance(statement, ReturnsRows):  # a text that names no types: the driver's values are right
        return list(rows)
    named, readers = _columns(statement, dialect)
    columns = zip(zip(*rows, strict=True), readers, strict=True)
    decoded = (_read(column, reader) if reader else column for column, reader in columns)
    return [*map(named, zip(*decoded, strict=True))]


def _read(column: Sequence[Any], reader: _Reader) -> Iterable[Any]:
    if column.count(column[0]) == len(column):  # most columns hold their default in all rows
        return repeat(reader(column[0]), len(column))
    known = {value: reader(value) for value in set(column)}
    return map(known.__getitem__, column)


@lru_cache(maxsize=100)
def _columns(statement: ReturnsRows, dialect: Dialect) -> tuple[_Reader, list[_Reader | None]]:
    """Return what makes a named tuple of the statement's columns, and what decodes each column.

    None stands for a column whose values are right as the driver returns them.
    """
    columns = list(statement.exported_columns)
    kinds = (column.type.dialect_impl(dialect) for column in columns)
    named = namedtuple("Row", [column.key for column in columns], rename=True)  # type: ignore[misc]
    return named._make, [kind.result_processor(dialect, None) for kind in kinds]
