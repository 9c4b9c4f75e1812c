"""Calendars: sets of local dates on which tasks do not run, or on which alone they run."""

import re
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import cached_property
from typing import Any

from dcron.errors import UsageError
from dcron.schedule.changes import DAY, SECOND
from dcron.schedule.rrule import Recurrence, read_recurrence

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONGEST_FILE = 2_000_000


@dataclass(frozen=True)
class Recurring:
    """Dates that come again: those of a rule, each with the days after it that belong to it."""

    rule: str
    """Without its `RRULE:`."""
    start: date = date(1970, 1, 1)
    days: int = 1
    exceptions: frozenset[date] = frozenset()
    """Dates at which the rule would begin and does not."""

    @cached_property
    def _recurrence(self) -> Recurrence:
        return read_recurrence(f"DTSTART:{self.start:%Y%m%d} RRULE:{self.rule}")

    def __post_init__(self) -> None:
        """A rule that cannot be read is a ScheduleError now, not at the first question."""
        _ = self._recurrence

    def contains(self, day: date) -> bool:
        """Whether the date is one of them."""
        return self.next_date(day) == day

    def next_date(self, day: date) -> date | None:
        """The first of them from this date on; None when there is none."""
        begin = datetime.combine(day, time()) - (self.days - 1) * DAY - SECOND
        while (face := self._recurrence.next_face(begin)) is not None:
            if face.date() not in self.exceptions:
                return max(face.date(), day)
            begin = datetime.combine(face.date(), time(23, 59, 59))
        return None


@dataclass(frozen=True)
class Calendar:
    """A named set of local dates."""

    name: str
    dates: frozenset[date] = frozenset()
    annual: frozenset[tuple[int, int]] = frozenset()
    """(month, day) of every year."""
    weekdays: frozenset[int] = frozenset()
    """0 is Monday."""
    recurring: tuple[Recurring, ...] = field(default=())

    def contains(self, day: date) -> bool:
        """Whether the date is in the calendar."""
        return (
            day in self.dates
            or (day.month, day.day) in self.annual
            or day.weekday() in self.weekdays
            or any(rule.contains(day) for rule in self.recurring)
        )

    def next_date(self, day: date) -> date | None:
        """The first date of the calendar from this one on; None when there is none."""
        found = [*self._sorted_dates[bisect_left(self._sorted_dates, day) :][:1]]
        found += [
            day + number * DAY for number in range(7) if (day + number * DAY).weekday() in self.weekdays
        ]
        found += _anniversaries(self.annual, day)
        found += filter(None, (rule.next_date(day) for rule in self.recurring))
        return min(found, default=None)

    @cached_property
    def _sorted_dates(self) -> list[date]:
        return sorted(self.dates)

    def to_json(self) -> dict[str, Any]:
        """Everything but the name, as values that JSON has, in a fixed order."""
        return {
            "dates": [day.isoformat() for day in sorted(self.dates)],
            "annual": [f"{month:02}-{day:02}" for month, day in sorted(self.annual)],
            "weekdays": [WEEKDAYS[day] for day in sorted(self.weekdays)],
            "recurring": [
                {
                    "rule": each.rule,
                    "start": each.start.isoformat(),
                    "days": each.days,
                    "exceptions": [day.isoformat() for day in sorted(each.exceptions)],
                }
                for each in self.recurring
            ],
        }


def _anniversaries(annual: Iterable[tuple[int, int]], day: date) -> Iterator[date]:
    """Each in the years from this date on; 29 February may be eight years away."""
    for year in range(day.year, day.year + 9):
        for month, number in annual:
            if ((month, number) != (2, 29) or isleap(year)) and date(year, month, number) >= day:
                yield date(year, month, number)


def calendar_from_json(name: str, value: Mapping[str, Any]) -> Calendar:
    """What to_json() has written."""
    lines = [*value.get("dates", ()), *value.get("annual", ()), *value.get("weekdays", ())]
    recurring = tuple(
        Recurring(
            each["rule"],
            date.fromisoformat(each["start"]),
            each["days"],
            frozenset(map(date.fromisoformat, each["exceptions"])),
        )
        for each in value.get("recurring", ())
    )
    return _with(parse_calendar(name, lines), recurring)


def _with(calendar: Calendar, recurring: tuple[Recurring, ...]) -> Calendar:
    return Calendar(
        calendar.name, calendar.dates, calendar.annual, calendar.weekdays, calendar.recurring + recurring
    )


def parse_calendar(name: str, lines: Iterable[str]) -> Calendar:
    """A calendar written line by line: `2027-12-25`, `12-25`, `sat` or `RRULE:FREQ=…`; # begins a comment."""
    dates, annual, weekdays, recurring = set(), set(), set(), []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if text.upper().startswith("RRULE:"):
            recurring.append(Recurring(text[len("RRULE:") :].upper()))
        elif text.lower()[:3] in WEEKDAYS and text.isalpha():
            weekdays.add(WEEKDAYS.index(text.lower()[:3]))
        elif re.fullmatch(r"[0-9]{2}-[0-9]{2}", text):
            annual.add(_month_and_day(name, number, text))
        else:
            dates.add(_date(name, number, text))
    return Calendar(name, frozenset(dates), frozenset(annual), frozenset(weekdays), tuple(recurring))


def _month_and_day(name: str, number: int, text: str) -> tuple[int, int]:
    day = _date(name, number, f"2000-{text}")  # a leap year: 02-29 is a date
    return day.month, day.day


def _date(name: str, number: int, text: str) -> date:
    try:
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            raise ValueError(text)
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"calendar {name}, line {number}: {text[:40]!r} is not a date; "
            "write 2027-12-25, 12-25 for every year, sat, or RRULE:FREQ=…"
        ) from None


def calendar_from_ics(name: str, text: str) -> Calendar:
    """The dates that the events of an iCalendar file touch, on the file's own local clocks.

    Cancelled events are left out; a moved occurrence counts on its new date only.
    """
    from icalendar import Calendar as File

    if len(text) > _LONGEST_FILE:
        raise UsageError(f"calendar {name}: the file is longer than {_LONGEST_FILE // 1_000_000} MB")
    try:
        files = File.from_ical(text, multiple=True)
        if not files:
            raise ValueError("it is empty")
        return _from_events(name, [event for file in files for event in file.walk("VEVENT")])
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise UsageError(f"calendar {name} is not an iCalendar file that can be read: {error}") from None


def _from_events(name: str, events: list[Any]) -> Calendar:
    dates: set[date] = set()
    recurring: list[Recurring] = []
    moved = {
        (str(event.get("UID")), _day(event["RECURRENCE-ID"].dt))
        for event in events
        if "RECURRENCE-ID" in event
    }
    for event in events:
        if str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        first, days = _span(event)
        starts = {first} if "RRULE" not in event else set()
        starts.update(_days_of(event, "RDATE"))
        dates.update(start + DAY * number for start in starts for number in range(days))
        if "RRULE" in event:
            gone = {day for uid, day in moved if uid == str(event.get("UID"))}
            exceptions = frozenset(_days_of(event, "EXDATE") | gone)
            rules = event["RRULE"] if isinstance(event["RRULE"], list) else [event["RRULE"]]
            recurring += [Recurring(_rule_text(rule), first, days, exceptions) for rule in rules]
    return Calendar(name, frozenset(dates), recurring=tuple(recurring))


def _span(event: Any) -> tuple[date, int]:
    """An event's first date, and how many dates it touches."""
    start = event["DTSTART"].dt
    if "DTEND" in event:
        end = event["DTEND"].dt
    elif "DURATION" in event:
        end = start + event["DURATION"].dt
    else:
        end = start
    last = _day(end)
    ends_at_midnight = not isinstance(end, datetime) or end.time() == time()
    if ends_at_midnight and last > _day(start):
        last -= DAY
    return _day(start), min((last - _day(start)).days + 1, 366)


def _days_of(event: Any, name: str) -> set[date]:
    """The dates of an EXDATE or RDATE property, which may stand several times."""
    value = event.get(name, [])
    lists = value if isinstance(value, list) else [value]
    return {_day(each.dt) for dates in lists for each in dates.dts}


def _day(value: date | datetime | tuple[Any, ...]) -> date:
    moment: date = value[0] if isinstance(value, tuple) else value  # of a period, its start
    return moment.date() if isinstance(moment, datetime) else moment


def _rule_text(rule: Any) -> str:
    """The rule by dates: a last moment in UTC counts with its date."""
    text: str = rule.to_ical().decode().upper()
    return re.sub(r"(UNTIL=\d{8})T\d{6}Z?", r"\1", text)
