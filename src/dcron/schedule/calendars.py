"""Calendars: sets of local dates on which tasks do not run, or on which alone they run."""

import re
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any

from dcron.errors import ScheduleError, UsageError
from dcron.schedule.effort import spend
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rrule import read_recurrence
from dcron.schedule.transitions import DAY, SECOND

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS = {name: number for names in (WEEKDAYS, _LONG_WEEKDAYS) for number, name in enumerate(names)}
_PARTS = ("dates", "annual", "weekdays", "recurring")
"""The keys of a calendar's JSON."""
_LONGEST_FILE = 2_000_000
_LONGEST_EVENT = 3_660
"""In days."""
_CALL = 5
"""Steps (see `effort`) of one call."""
_MOST_DAYS = 1_000_000
"""Of all events of a file together: a small file can name very many."""


@dataclass(frozen=True)
class Recurring:
    """Dates that recur: those of a rule, each with the following days that belong to it."""

    rule: str
    """Without the leading `RRULE:`."""
    start: datetime = datetime(1970, 1, 1)  # noqa: DTZ001 a local time
    days: int = 1
    exceptions: frozenset[date] = frozenset()
    """Dates on which the rule would begin but does not."""

    @cached_property
    def _recurrence(self) -> Recurrence:
        return read_recurrence(f"DTSTART:{self.start:%Y%m%dT%H%M%S} RRULE:{self.rule}")

    def __post_init__(self) -> None:
        """Raise ScheduleError for an invalid rule now, not on the first call."""
        _ = self._recurrence

    def contains(self, day: date) -> bool:
        """Return whether the date is one of them."""
        return self.next_date(day) == day

    def next_date(self, day: date) -> date | None:
        """Return the first of them from this date on; None if there is none."""
        day = max(day, self.start.date())
        begin = datetime.combine(day, time()) - (self.days - 1) * DAY - SECOND
        while (local_time := self._recurrence.next_local_time(begin)) is not None:
            if local_time.date() not in self.exceptions:
                return max(local_time.date(), day)
            begin = datetime.combine(local_time.date(), time(23, 59, 59))
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
        """Return whether the date is in the calendar."""
        spend(_CALL)
        return (
            day in self.dates
            or (day.month, day.day) in self.annual
            or day.weekday() in self.weekdays
            or any(rule.contains(day) for rule in self.recurring)
        )

    def next_date(self, day: date) -> date | None:
        """Return the first date of the calendar from this one on; None if there is none."""
        spend(_CALL + 4 * len(self.annual))
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
        """Return everything except the name as JSON values, in a fixed order."""
        return {
            "dates": [day.isoformat() for day in sorted(self.dates)],
            "annual": [f"{month:02}-{day:02}" for month, day in sorted(self.annual)],
            "weekdays": [WEEKDAYS[day] for day in sorted(self.weekdays)],
            "recurring": [
                {
                    "rule": each.rule,
                    "start": each.start.isoformat().removesuffix("T00:00:00"),
                    "days": each.days,
                    "exceptions": [day.isoformat() for day in sorted(each.exceptions)],
                }
                for each in self.recurring
            ],
        }


def _anniversaries(annual: Iterable[tuple[int, int]], day: date) -> Iterator[date]:
    """Yield the annual dates of nine years, from this date on: 29 February may be eight years away."""
    for year in range(day.year, day.year + 9):
        for month, number in annual:
            if ((month, number) != (2, 29) or isleap(year)) and date(year, month, number) >= day:
                yield date(year, month, number)


def calendar_from_json(name: str, value: Mapping[str, Any]) -> Calendar:
    """Return the calendar that `to_json` wrote.

    Raises: UsageError for anything else, such as JSON written by hand or by a version that accepted more.
    """
    if not is_calendar_json(value):
        raise UsageError(f"calendar {name} cannot be read: it is not what `dcron calendar add` writes")
    lines = [*value.get("dates", ()), *value.get("annual", ()), *value.get("weekdays", ())]
    try:
        recurring = tuple(map(_recurring, value.get("recurring", ())))
    except ScheduleError as error:
        raise ScheduleError(f"calendar {name}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise UsageError(f"calendar {name} cannot be read: {error}") from None
    found = parse_calendar(name, lines)
    return replace(found, recurring=found.recurring + recurring)


def is_calendar_json(value: Mapping[str, Any]) -> bool:
    """Return whether this has the shape of `to_json`'s result. Parts may be missing, but not all."""
    parts = [value.get(part, []) for part in _PARTS]
    if not value.keys() & set(_PARTS) or not all(isinstance(part, list) for part in parts):
        return False
    *texts, recurring = parts
    return all(_are_texts(part) for part in texts) and all(map(_is_recurring, recurring))


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_recurring(value: Any) -> bool:
    if not isinstance(value, dict) or not _are_texts([value.get("rule"), value.get("start")]):
        return False
    days = value.get("days")
    return type(days) is int and 1 <= days <= _LONGEST_EVENT and _are_texts(value.get("exceptions"))


def _recurring(value: Mapping[str, Any]) -> Recurring:
    exceptions = frozenset(map(date.fromisoformat, value["exceptions"]))
    return Recurring(value["rule"], datetime.fromisoformat(value["start"]), value["days"], exceptions)


def parse_calendar(name: str, lines: Iterable[str]) -> Calendar:
    """Parse a calendar with one entry per line: `2027-12-25`, `12-25`, `sat` or `RRULE:FREQ=…`.

    A rule may have a `DTSTART:20270101` and a blank before it. `#` begins a comment. Raises UsageError.
    """
    dates, annual, weekdays, recurring = set(), set(), set(), []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if text.upper().startswith(("RRULE:", "DTSTART")):
            recurring.append(_rule_line(name, number, text.upper()))
        elif text.lower() in _WEEKDAYS:
            weekdays.add(_WEEKDAYS[text.lower()])
        elif re.fullmatch(r"[0-9]{2}-[0-9]{2}", text):
            annual.add(_month_and_day(name, number, text))
        else:
            dates.add(_date(name, number, text))
    return Calendar(name, frozenset(dates), frozenset(annual), frozenset(weekdays), tuple(recurring))


def _rule_line(name: str, number: int, text: str) -> Recurring:
    try:
        rule = read_recurrence(text)
        if rule.until is not None:
            raise ScheduleError("RRULE: the dates of a calendar are local; write UNTIL without Z")
        return Recurring(text.partition("RRULE:")[2], rule.start)
    except ScheduleError as error:
        raise UsageError(f"calendar {name}, line {number}: {error}") from None


def _month_and_day(name: str, number: int, text: str) -> tuple[int, int]:
    day = _date(name, number, text, year="2000-")  # a leap year: 02-29 is a date
    return day.month, day.day


def _date(name: str, number: int, text: str, year: str = "") -> date:
    try:
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", year + text):
            raise ValueError(text)
        return date.fromisoformat(year + text)
    except ValueError:
        raise UsageError(
            f"calendar {name}, line {number}: {text[:40]!r} is not a date; "
            "write 2027-12-25, 12-25 for every year, sat, or RRULE:FREQ=…"
        ) from None


def calendar_from_ics(name: str, text: str) -> Calendar:
    """Return the dates that the events of an iCalendar file (RFC 5545) touch, in the file's own local times.

    Cancelled events are ignored. A moved occurrence counts on its new date only, and of an event with
    several versions only the latest counts. Raises UsageError.
    """
    from icalendar import Calendar as File

    if len(text) > _LONGEST_FILE:
        raise UsageError(f"calendar {name}: the file is longer than {_LONGEST_FILE // 1_000_000} MB")
    try:
        files = File.from_ical(text, multiple=True)
        if not files:
            raise ValueError("it is empty")
        return _from_events(name, _latest([event for file in files for event in file.walk("VEVENT")]))
    except ScheduleError as error:
        raise UsageError(f"calendar {name}: {error}") from None
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, OverflowError) as error:
        raise UsageError(f"calendar {name} is not an iCalendar file that can be read: {error}") from None


def _latest(events: list[Any]) -> list[Any]:
    """Return the events without a later version. A change of one occurrence is an event by itself."""
    latest: dict[Any, tuple[int, bytes]] = {}
    for event in events:
        latest[_identity(event)] = max(_version(event), latest.get(_identity(event), (0, b"")))
    return [event for event in events if _version(event) == latest[_identity(event)]]


def _identity(event: Any) -> Any:
    occurrence = event["RECURRENCE-ID"].to_ical() if "RECURRENCE-ID" in event else None
    return (str(event["UID"]), occurrence) if "UID" in event else id(event)


def _version(event: Any) -> tuple[int, bytes]:
    """Return what versions are compared by. Events that are equal in it are not versions of one event."""
    return int(event.get("SEQUENCE", 0)), event["DTSTAMP"].to_ical() if "DTSTAMP" in event else b""


def _from_events(name: str, events: list[Any]) -> Calendar:
    dates: set[date] = set()
    recurring: list[Recurring] = []
    moved = _moved_occurrences(name, events)
    touched = 0
    for event in events:
        if str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        start, end = _bounds(event)
        excluded = _values(event, "EXDATE")
        if "RECURRENCE-ID" not in event:
            excluded = excluded + moved.get(str(event.get("UID")), [])
        exceptions = frozenset(_local_time(each, start).date() for each in excluded)
        first, days = _span(start, end, start)
        spans = [_span(*_period(each, end - start), start) for each in _values(event, "RDATE")]
        if "RRULE" in event:
            rules = event["RRULE"] if isinstance(event["RRULE"], list) else [event["RRULE"]]
            recurring += [Recurring(_rule_text(rule, start), first, days, exceptions) for rule in rules]
        else:
            spans.append((first, days))
        touched += sum(days for _, days in spans)
        if touched > _MOST_DAYS:
            raise ScheduleError(f"its events touch more than {_MOST_DAYS:,} days")
        dates.update(
            local_time.date() + DAY * number
            for local_time, days in spans
            if local_time.date() not in exceptions
            for number in range(days)
        )
    return Calendar(name, frozenset(dates), recurring=tuple(recurring))


def _moved_occurrences(name: str, events: list[Any]) -> dict[str, list[Any]]:
    """Return the original times of moved occurrences by the UID of their event. Raises UsageError."""
    moved: dict[str, list[Any]] = {}
    for event in events:
        if "RECURRENCE-ID" in event:
            if "RANGE" in event["RECURRENCE-ID"].params:
                raise UsageError(
                    f"calendar {name}: {event.get('UID')} moves an occurrence and all after it "
                    "(RANGE=THISANDFUTURE), which is not supported; make it two events"
                )
            moved.setdefault(str(event.get("UID")), []).append(event["RECURRENCE-ID"].dt)
    return moved


def _bounds(event: Any) -> tuple[Any, Any]:
    """Return when an event begins and ends, as the file has it."""
    start = event["DTSTART"].dt
    if "DTEND" in event:
        return start, event["DTEND"].dt
    return start, start + event["DURATION"].dt if "DURATION" in event else start


def _period(value: Any, length: timedelta) -> tuple[Any, Any]:
    """Return when an RDATE begins and ends: a period says how long it is."""
    if not isinstance(value, tuple):
        return value, value + length
    start, end = value
    return start, start + end if isinstance(end, timedelta) else end


def _span(start: Any, end: Any, clock: date | datetime) -> tuple[datetime, int]:
    """Return the local time at which it begins, and how many dates it touches."""
    first, last = _local_time(start, clock), _local_time(end, clock)
    if last > first:
        last -= SECOND  # an event that ends at midnight, or has whole days, does not touch its last date
    days = max((last.date() - first.date()).days, 0) + 1
    if days > _LONGEST_EVENT:
        raise ScheduleError(
            f"an event from {first:%Y-%m-%d} on lasts {days:,} days; {_LONGEST_EVENT:,} are the most"
        )
    return first, days


def _local_time(value: Any, clock: date | datetime) -> datetime:
    """Return the local time on the clock of the event's start: a time in UTC may have another date there."""
    at: date = value[0] if isinstance(value, tuple) else value  # the start of a period
    if not isinstance(at, datetime):
        return datetime.combine(at, time())
    if at.tzinfo is not None and isinstance(clock, datetime) and clock.tzinfo is not None:
        at = at.astimezone(clock.tzinfo)
    return at.replace(tzinfo=None)


def _values(event: Any, name: str) -> list[Any]:
    """Return the times of an EXDATE or RDATE property, which may occur several times."""
    value = event.get(name, [])
    lists = value if isinstance(value, list) else [value]
    return [each.dt for times in lists for each in times.dts]


def _rule_text(rule: Any, start: date | datetime) -> str:
    """Return the rule with its UNTIL on the clock of the event's start; a date for an event of whole days."""
    text: str = rule.to_ical().decode().upper()
    if "UNTIL" not in rule:
        return text
    [until] = rule["UNTIL"]
    whole_days = not (isinstance(start, datetime) and isinstance(until, datetime))
    last = (
        f"{_local_time(until, start):%Y%m%d}" if whole_days else f"{_local_time(until, start):%Y%m%dT%H%M%S}"
    )
    return re.sub("UNTIL=[^;]+", f"UNTIL={last}", text)
