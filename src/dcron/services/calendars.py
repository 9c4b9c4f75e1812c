"""Read and change the calendars of a crontab."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dcron.errors import NotFound, UsageError
from dcron.fields.name_rules import NAME, NAME_RULE
from dcron.model import StoredCalendar
from dcron.schedule.calendars import Calendar, calendar_from_json
from dcron.schedule.effort import TooMuchEffort, affordable
from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone
from dcron.services import recorded_values
from dcron.services.name_prefix import ENOUGH, require_exact, unique_match
from dcron.services.service import Service
from dcron.store.tasks import calendars

PAGE = 500
MOST_USERS = 1_000_000
MOST_DATES = 10_000
MOST_RULES = 500
"""Most rules of one calendar: each occurrence of a task that names the calendar evaluates them."""
NO_NAME = "none"
"""The value of --except and --only that removes the calendar."""


class Calendars(Service):
    """The calendars of a crontab. Every method is one transaction."""

    def put(self, calendar: Calendar) -> bool:
        """Add or replace the calendar; return whether it existed. Its tasks use the new dates from now on.

        If it stays as it is, nothing is written. Raises UsageError for an invalid name, and for rules that
        take too long to evaluate.
        """
        require_reasonable(calendar)
        wanted = {"content": calendar.to_json()}
        with self.database.write() as connection:
            known = recorded_values.present(connection, "calendar", calendar.name)
            if known != wanted:
                recorded_values.change(connection, self, "calendar", calendar.name, wanted)
                self.database.notify(connection)
        return known is not None

    def read(self, name: str) -> Calendar:
        """Return the calendar of this name. Raises NotFound, or UsageError if it cannot be read."""
        return calendar_from_json(name, self.get(name).content)

    def get(self, name: str) -> StoredCalendar:
        """Return the calendar of this name as it is stored, with its last change. Raises NotFound."""
        with self.database.read() as connection:
            stored = calendars.by_name(connection, name)
        if stored is None:
            raise _missing(name)
        return stored

    def content(self, name: str) -> Mapping[str, Any] | None:
        """Return the entries of the calendar of this name; None if there is no such calendar."""
        with self.database.read() as connection:
            stored = calendars.by_name(connection, name)
        return stored.content if stored else None

    def find(self, beginning: str) -> str:
        """Return the name of this calendar, or of the only one whose name begins with this.

        Raises NotFound or UsageError.
        """
        _require_name(beginning)
        with self.database.read() as connection:
            name = unique_match(beginning, calendars.names_beginning(connection, beginning, ENOUGH))
        if name is None:
            raise _missing(beginning)
        return name

    def names(self, beginning: str, limit: int) -> list[str]:
        """Return the first names with this beginning, in order."""
        with self.database.read() as connection:
            return calendars.names_beginning(connection, beginning, limit)

    def whole(self, name: str) -> str:
        """Return the name if a calendar has it. Raises NotFound, as NotExact if names begin with it."""
        _require_name(name)
        with self.database.read() as connection:
            if require_exact("calendar", name, calendars.names_beginning(connection, name, ENOUGH)) is None:
                raise _missing(name)
        return name

    def every(self) -> Iterator[StoredCalendar]:
        """Return all calendars in the order of names, read a page at a time."""
        return self._by_name(calendars.page, PAGE)

    def users(self, name: str, limit: int | None = recorded_values.USERS_SHOWN + 1) -> list[str]:
        """Return the first tasks that use the calendar, in the order of names; all if `limit` is None."""
        with self.database.read() as connection:
            return calendars.users(connection, name, MOST_USERS if limit is None else limit)

    def remove(self, name: str) -> None:
        """Remove the calendar. Raises NotFound, or Refused while tasks use it."""
        with self.database.write() as connection:
            if recorded_values.change(connection, self, "calendar", name, None) is None:
                raise _missing(name)


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no calendar {name!r}; `dcron calendar list` shows what there is")


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"{name[:60]!r} cannot be a calendar's name: use {NAME_RULE}")


def require_reasonable(calendar: Calendar) -> None:
    """Raise UsageError for an invalid name, for too many entries, and for rules that name no date.

    A rule that names no date would be searched for four centuries on every lookup.
    """
    _require_name(calendar.name)
    if calendar.name == NO_NAME:
        raise UsageError(f"a calendar cannot be named {NO_NAME}: --except {NO_NAME} stands for no calendar")
    if len(calendar.dates) > MOST_DATES or len(calendar.recurring) > MOST_RULES:
        raise UsageError(
            f"calendar {calendar.name}: {len(calendar.dates):,} dates and {len(calendar.recurring):,} rules;"
            f" {MOST_DATES:,} and {MOST_RULES:,} are the most"
        )
    try:
        affordable(lambda: calendar.contains(datetime.now(UTC).date()))
    except TooMuchEffort:
        raise UsageError(
            f"calendar {calendar.name}: its rules take more than 0.1 s for each date: use a later"
            " DTSTART, a smaller COUNT, or dates instead of rules"
        ) from None
    for each in calendar.recurring:
        begin = datetime(each.start.year, each.start.month, each.start.day, tzinfo=UTC) - timedelta(seconds=1)
        rule = parse(f"DTSTART:{each.start:%Y%m%d} RRULE:{each.rule}")
        if next_run(rule, zone("UTC"), begin) is None:
            raise UsageError(f"calendar {calendar.name}: RRULE:{each.rule} names no date at all")
