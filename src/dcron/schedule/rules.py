"""How a task wants its schedule read: clock changes, window and calendars."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from dcron.schedule.calendars import Calendar
from dcron.schedule.transitions import DAY

Gap = Literal["after", "skip"]
"""A face that the clock leaves out: run when the gap ends, or not at all."""
Fold = Literal["first", "both"]
"""A face that the clock shows twice: run the first time, or both times."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The options of a task that bear on its instants."""

    gap: Gap = "after"
    fold: Fold = "first"
    not_before: datetime | None = None
    """Occurrences before this instant do not run."""
    not_after: datetime | None = None
    """Occurrences after this instant do not run; one exactly then still does."""
    except_on: tuple[Calendar, ...] = ()
    """Occurrences whose local date is in one of these do not run."""
    only_on: tuple[Calendar, ...] = ()
    """If there are any: occurrences whose local date is in none of these do not run."""

    @property
    def has_calendars(self) -> bool:
        """Whether the local date can decide against an occurrence."""
        return bool(self.except_on or self.only_on)

    def excluded_by(self, day: date) -> str | None:
        """Why nothing runs on this local date, naming the calendar; None when it runs."""
        for calendar in self.except_on:
            if calendar.contains(day):
                return f"on calendar {calendar.name}"
        if self.only_on and not any(calendar.contains(day) for calendar in self.only_on):
            return "not on calendar " + " or ".join(calendar.name for calendar in self.only_on)
        return None

    def next_date(self, day: date, last: date) -> date | None:
        """The first date after this one on which something may run; None when there is none up to `last`."""
        while day < last:
            day += DAY
            if self.only_on:
                days = (calendar.next_date(day) for calendar in self.only_on)
                day = min(filter(None, days), default=last + DAY)
            if day <= last and not any(calendar.contains(day) for calendar in self.except_on):
                return day
        return None


DEFAULT = Rules()
