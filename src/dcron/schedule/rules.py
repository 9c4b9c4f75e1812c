"""How a task's options change its schedule: gap and fold rule, window, calendars."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from dcron.schedule.calendars import Calendar
from dcron.schedule.transitions import DAY

Gap = Literal["after", "skip"]
"""A local time that the clock leaves out: run it when the gap ends, or never."""
Fold = Literal["first", "both"]
"""A local time that the clock shows twice: run it in the first pass, or in both."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The options of a task that affect its occurrences."""

    gap: Gap = "after"
    fold: Fold = "first"
    not_before: datetime | None = None
    """Occurrences before this instant do not run."""
    not_after: datetime | None = None
    """Occurrences after this instant do not run; one exactly at it does."""
    except_on: tuple[Calendar, ...] = ()
    """Occurrences whose local date is in any of these do not run."""
    only_on: tuple[Calendar, ...] = ()
    """If not empty, occurrences whose local date is in none of these do not run."""

    @property
    def has_calendars(self) -> bool:
        """Whether any calendar restricts the local dates."""
        return bool(self.except_on or self.only_on)

    def excluded_by(self, day: date) -> str | None:
        """Return why nothing runs on this local date, naming the calendar; None if it runs."""
        for calendar in self.except_on:
            if calendar.contains(day):
                return f"on calendar {calendar.name}"
        if self.only_on and not any(calendar.contains(day) for calendar in self.only_on):
            return "not on calendar " + " or ".join(calendar.name for calendar in self.only_on)
        return None

    def next_date(self, day: date, last: date) -> date | None:
        """Return the first later date on which something may run, up to `last`; None if there is none."""
        while day < last:
            day += DAY
            if self.only_on:
                days = (calendar.next_date(day) for calendar in self.only_on)
                day = min(filter(None, days), default=last + DAY)
            if day <= last and not any(calendar.contains(day) for calendar in self.except_on):
                return day
        return None


DEFAULT = Rules()
