"""Insert or update rows that are identified by their names."""

from typing import Any

from sqlalchemy import Connection, Table, insert, update
from sqlalchemy.exc import IntegrityError


def put(connection: Connection, table: Table, name: str, values: dict[str, Any]) -> None:
    """Update the row of this name, or insert it. The second of two concurrent inserts becomes an update."""
    change = update(table).where(table.c.name == name).values(values)
    if connection.execute(change).rowcount:
        return
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(name=name, **values))
    except IntegrityError:  # another transaction has inserted it meanwhile
        connection.execute(change)
