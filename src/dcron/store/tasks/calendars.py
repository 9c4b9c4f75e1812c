"""Read and write calendars: named sets of dates for `--except` and `--only`."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, Text, delete, insert, select, type_coerce, union, update

from dcron.model import StoredCalendar
from dcron.schedule.calendars import is_calendar_json
from dcron.schema.tables import calendars, crontab
from dcron.store.selectors import begins_with
from dcron.values.unreadable import Unreadable

COLUMNS = [calendars.c[name] for name in StoredCalendar.__dataclass_fields__]


def _from(row: Row[Any]) -> StoredCalendar:
    content = row.content if is_calendar_json(row.content) else Unreadable(row.content)
    return StoredCalendar(**{**row._mapping, "content": content})


def by_name(connection: Connection, name: str) -> StoredCalendar | None:
    """Return the calendar of this name."""
    row = connection.execute(select(*COLUMNS).where(calendars.c.name == name)).first()
    return _from(row) if row else None


def contents(connection: Connection, names: Collection[str]) -> dict[str, str]:
    """Return the contents of the calendars of these names as text, by name, as tasks have them."""
    content = type_coerce(calendars.c.content, Text())
    rows = connection.execute(select(calendars.c.name, content).where(calendars.c.name.in_(names)))
    return {row[0]: row[1] for row in rows}


def page(connection: Connection, after: str, limit: int) -> list[StoredCalendar]:
    """Return the calendars that follow the name `after`, in the order of names."""
    query = select(*COLUMNS).where(calendars.c.name > after).order_by(calendars.c.name).limit(limit)
    return [_from(row) for row in connection.execute(query)]


def names_beginning(connection: Connection, prefix: str, limit: int) -> list[str]:
    """Return the first names of calendars that begin with `prefix`, in order."""
    query = select(calendars.c.name).where(begins_with(calendars.c.name, prefix))
    return list(connection.scalars(query.order_by(calendars.c.name).limit(limit)))


def put(connection: Connection, calendar: StoredCalendar) -> None:
    """Insert the calendar, or replace the one of its name."""
    values = {name: getattr(calendar, name) for name in StoredCalendar.__dataclass_fields__}
    setting = update(calendars).where(calendars.c.name == calendar.name).values(values)
    if not connection.execute(setting).rowcount:
        connection.execute(insert(calendars).values(values))


def remove(connection: Connection, name: str) -> bool:
    """Delete the calendar. Return whether it existed."""
    return connection.execute(delete(calendars).where(calendars.c.name == name)).rowcount == 1


def users(connection: Connection, name: str, limit: int) -> list[str]:
    """Return the names of tasks that use the calendar."""
    using = [
        select(crontab.c.name).where(column == name)
        for column in (crontab.c.except_calendar, crontab.c.only_calendar)
    ]
    return list(connection.scalars(union(*using).order_by("name").limit(limit)))
