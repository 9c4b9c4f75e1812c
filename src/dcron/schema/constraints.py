"""Constraints and indexes for both databases."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Column, Index, Table, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import DDLCompiler

from dcron.schema.types import Instant

_CONDITION = "condition"


def one_of(column: str, values: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"


def check_on(name: str, sqltext: str, database: str) -> CheckConstraint:
    """Return a check that only one database has, or has in its own words."""
    rule = CheckConstraint(sqltext, name=name)
    return rule.ddl_if(dialect=database)


def of_types(**columns: str) -> str:
    """Return checks of the types of stored values: SQLite would keep any value in any column."""
    return " AND ".join(f"typeof({column}) IN ({kinds})" for column, kinds in columns.items())


def readable_time(column: str) -> str:
    """Return a check that a text is a time in UTC as dcron writes it, or NULL: texts are compared."""
    return (
        f"datetime(substr({column}, 1, 19)) IS substr({column}, 1, 19)"
        f" AND substr({column}, 20, 1) IN ('', '.') AND ltrim(substr({column}, 21), '0123456789') = ''"
    )


FIRST_TIME, LAST_TIME = "0001-01-03 00:00:00+00", "9999-12-30 00:00:00+00"
"""What Python can hold, less two days for zones. Postgres has infinities and later years."""


def limit_times(table: Table) -> None:
    """Refuse times in Postgres that no program could read: one would fail the whole query."""
    for column in list(table.columns):
        if isinstance(column.type, Instant):
            within = f"{column.name} BETWEEN '{FIRST_TIME}' AND '{LAST_TIME}'"
            table.append_constraint(check_on(f"{table.name}_{column.name}_range", within, "postgresql"))


def limit_times_at_once(table: Table) -> None:
    """Refuse the same times with one check. A migration that adds a column of times has to replace it.

    Postgres reads the text of each check for each statement that writes to the table: ten checks took a tenth
    of the server's time for a run that is claimed alone.
    """
    times = ", ".join(column.name for column in table.columns if isinstance(column.type, Instant))
    within = f"LEAST({times}) >= '{FIRST_TIME}' AND GREATEST({times}) <= '{LAST_TIME}'"
    table.append_constraint(check_on(f"{table.name}_times_range", within, "postgresql"))


def within(column: str, least: int, most: float) -> CheckConstraint:
    """Return a check of a number's bounds. It refuses texts and blobs, which SQLite sorts above numbers."""
    return CheckConstraint(f"{column} BETWEEN {least} AND {most}", name=f"crontab_{column}")


def one_word(table: str, column: str) -> Iterator[CheckConstraint]:
    """Yield the checks that a text is a single word, as names of tasks are."""
    yield check_on(f"{table}_{column}", f"{column} ~ '^[A-Za-z0-9._-]{{1,100}}$'", "postgresql")
    letters = f"{column} NOT GLOB '*[^A-Za-z0-9._-]*' AND instr({column}, char(0)) = 0"
    length = f"length({column}) BETWEEN 1 AND 100"
    yield check_on(f"{table}_{column}", f"typeof({column}) = 'text' AND {letters} AND {length}", "sqlite")


def one_day(table: str) -> Iterator[CheckConstraint]:
    """Yield the checks that the column `day` is a date such as 2026-11-22."""
    yield check_on(f"{table}_day", r"day ~ '^\d{4}-\d{2}-\d{2}$'", "postgresql")
    yield check_on(f"{table}_day", "typeof(day) = 'text' AND date(day) IS day", "sqlite")


def partial_index(name: str, *columns: Column[Any], where: str, unique: bool = False) -> Index:
    """Return an index of the rows that meet a condition.

    The condition is not an option of the two dialects: SQLAlchemy loads the drivers of both to check one.
    """
    return Index(name, *columns, unique=unique, info={_CONDITION: text(where)})


@compiles(CreateIndex)
def _create_index(create: CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    statement: str = compiler.visit_create_index(create, **options)  # type: ignore[no-untyped-call]
    condition = create.element.info.get(_CONDITION)
    if condition is None:
        return statement
    return f"{statement} WHERE {compiler.sql_compiler.process(condition)}"


def one_line(name: str, *columns: str) -> Iterator[CheckConstraint]:
    """Yield the checks that texts have no control characters except tabs: none adds a line to a file."""
    signs = "char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127)"
    lite = "({0} NOT GLOB '*[' || " + signs + " || ']*' AND instr({0}, char(0)) = 0)"
    rules = {"postgresql": r"{0} !~ '[\x01-\x08\x0a-\x1f\x7f]'", "sqlite": lite}
    for database, rule in rules.items():
        yield check_on(name, " AND ".join(rule.format(column) for column in columns), database)
