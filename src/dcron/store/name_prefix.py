"""Names by their beginnings, as people type them."""

from sqlalchemy import Column, Connection, select

from dcron.schema import calendars, crontab

TASKS: Column[str] = crontab.c.name
CALENDARS: Column[str] = calendars.c.name


def beginning(connection: Connection, names: Column[str], prefix: str, limit: int) -> list[str]:
    """The first of the names that begin with `prefix`, in order."""
    query = select(names).where(names >= prefix, names < prefix + "\U0010ffff")
    return list(connection.scalars(query.order_by(names).limit(limit)))
