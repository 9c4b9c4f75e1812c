"""Remove the value of an environment variable from what is kept of tasks: runs, changes, messages."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, Text, bindparam, select, type_coerce, update

from dcron.schema.tables import alerts, changes, notifications, runs

PAGE = 500
"""Rows read in one transaction."""
FIRST = -(1 << 62)
"""The id after which the first page begins."""
PLACES: Sequence[tuple[str, Table, Sequence[str]]] = (
    ("runs", runs, ("spec",)),
    ("changes", changes, ("before", "after")),
    ("messages", notifications, ("facts",)),
    ("alerts", alerts, ("facts",)),
)
"""Words for the tables, and their columns of JSON in which a task or its environment may be."""


def scrub_page(
    connection: Connection, table: Table, columns: Sequence[str], variable: str, after: int
) -> tuple[int, int | None]:
    """Remove the variable from the next rows; return how many had it, and the last id if more may follow."""
    texts = [type_coerce(table.c[name], Text).label(name) for name in columns]
    query = select(table.c.id, *texts).where(table.c.id > after).order_by(table.c.id).limit(PAGE)
    rows = connection.execute(query).all()
    scrubbed: set[int] = set()
    for name in columns:
        found = [
            {"key": row.id, "old": old, "new": new}
            for row in rows
            if isinstance(old := getattr(row, name), str) and (new := without(old, variable)) != old
        ]
        if found:
            column = type_coerce(table.c[name], Text)
            statement = update(table).where(
                table.c.id == bindparam("key"), column == bindparam("old", type_=Text)
            )
            connection.execute(statement.values({name: bindparam("new", type_=Text)}), found)
            scrubbed.update(each["key"] for each in found)
    return len(scrubbed), rows[-1].id if len(rows) == PAGE else None


def without(text: str, variable: str) -> str:
    """Return the JSON without this variable in any object named `env`. What is no JSON stays as it is."""
    if f'"{variable}"' not in text and "\\u" not in text:
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not _remove(document, variable):
        return text
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _remove(value: Any, variable: str) -> int:
    """Remove the variable below this value; return how often it was there."""
    if isinstance(value, list):
        return sum(_remove(each, variable) for each in value)
    if not isinstance(value, dict):
        return 0
    env = value.get("env")
    had = isinstance(env, dict) and env.pop(variable, None) is not None
    return had + sum(_remove(each, variable) for each in value.values())
