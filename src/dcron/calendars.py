"""Calendars as people use them: a service beside the crontab's, shared by every face of dcron."""

from collections.abc import Iterator

from dcron.crontab import Crontab
from dcron.errors import NotFound, Refused
from dcron.model import StoredCalendar
from dcron.schedule import Calendar, calendar_from_json
from dcron.store import calendars
from dcron.validation import require_name

PAGE = 500
USERS_SHOWN = 5


class Calendars:
    """The calendars of a crontab. Every method is one transaction."""

    def __init__(self, crontab: Crontab) -> None:
        """Use the crontab's database, and act as whoever acts there."""
        self._database = crontab.database
        self._actor = crontab.actor

    def put(self, calendar: Calendar) -> bool:
        """Write the calendar, new or anew; whether it was there. Its tasks keep to it from now on.

        Raises UsageError for a name that cannot be one.
        """
        require_name(calendar.name)
        with self._database.write() as connection:
            now = self._database.now(connection)
            known = calendars.by_name(connection, calendar.name) is not None
            calendars.put(
                connection,
                StoredCalendar(
                    name=calendar.name, content=calendar.to_json(), changed_at=now, changed_by=self._actor
                ),
            )
            self._database.notify(connection)
        return known

    def get(self, name: str) -> tuple[Calendar, StoredCalendar]:
        """The calendar of this name, and who changed it when. Raises NotFound."""
        with self._database.read() as connection:
            stored = calendars.by_name(connection, name)
        if stored is None:
            raise NotFound(f"there is no calendar {name!r}; `dcron calendar list` shows what there is")
        return calendar_from_json(name, stored.content), stored

    def every(self) -> Iterator[StoredCalendar]:
        """All calendars, in the order of names, read a page at a time."""
        after = ""
        while True:
            with self._database.read() as connection:
                found = calendars.page(connection, after, PAGE)
            yield from found
            if len(found) < PAGE:
                return
            after = found[-1].name

    def users(self, name: str) -> list[str]:
        """The first tasks that speak of the calendar."""
        with self._database.read() as connection:
            return calendars.users(connection, name, USERS_SHOWN + 1)

    def remove(self, name: str) -> None:
        """Take the calendar out. Raises NotFound, or Refused while tasks speak of it."""
        with self._database.write() as connection:
            if using := calendars.users(connection, name, USERS_SHOWN + 1):
                shown = ", ".join(using[:USERS_SHOWN]) + (", …" if len(using) > USERS_SHOWN else "")
                raise Refused(f"calendar {name} is used by {shown}; change these tasks first")
            if not calendars.remove(connection, name):
                raise NotFound(f"there is no calendar {name!r}; `dcron calendar list` shows what there is")
