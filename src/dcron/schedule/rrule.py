"""iCalendar recurrence rules (RFC 5545) on the local clock, enumerated by dateutil.

A rule is counted from `DTSTART:` before it, else from 1970-01-01T00:00, a Thursday: like everything in a
schedule it must mean the same on every node and at any time.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any

from dcron.errors import ScheduleError
from dcron.schedule.changes import DAY
from dcron.schedule.faces import LAST_FACE

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
"""In dateutil's order: its constants are these positions."""
_YEARLY, _MONTHLY, _WEEKLY, _DAILY, _HOURLY, _MINUTELY, _SECONDLY = range(7)

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_RANGES = {
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
}
"""Below zero counts from the end; zero itself is only for the clock."""

_KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)

_DAY_PARTS = ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
_TIME_PARTS = ("BYHOUR", "BYMINUTE", "BYSECOND")

_FIRST = datetime(1970, 1, 1)  # noqa: DTZ001 a face
_KEPT = 1_000
"""Faces that a walk remembers before it begins anew."""
_MOST = 10_000
"""Of COUNT, and of INTERVAL."""


@dataclass(frozen=True)
class Recurrence:
    """One rule; its faces are fixed times, like `0 9 * * *`."""

    text: str
    frequency: int
    """A position in FREQUENCIES."""
    interval: int = 1
    start: datetime = _FIRST
    """The face it is counted from."""
    count: int | None = None
    last_face: datetime | None = None
    """UNTIL on the local clock."""
    until: datetime | None = None
    """UNTIL in UTC."""
    week_start: int = 0
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """The BY… parts but BYDAY."""
    weekdays: tuple[tuple[int, int], ...] = ()
    """BYDAY: (0, -1) is the last Monday, (0, 0) every Monday."""

    def next_face(self, face: datetime) -> datetime | None:
        """The first face of the rule after this one; None when the rule has ended."""
        found = self._counted(face) if self.count is not None else self._walk.next_face(face)
        if found is None or found >= LAST_FACE or (self.last_face is not None and found > self.last_face):
            return None
        return found

    def _counted(self, face: datetime) -> datetime | None:
        position = bisect_right(self._all, face)
        return self._all[position] if position < len(self._all) else None

    @cached_property
    def _all(self) -> list[datetime]:
        """Every face of a rule with COUNT."""
        return list(islice(self._faces_from(self.start), self.count))

    @cached_property
    def _walk(self) -> "_Walk":
        return _Walk(self)

    def faces_after(self, face: datetime) -> Iterator[datetime]:
        """The faces after this one, without regard to COUNT and UNTIL."""
        faces = self._faces_from(self._aligned(max(face, self.start)))
        return (found for found in faces if found > face and found >= self.start)

    def _faces_from(self, start: datetime) -> Iterator[datetime]:
        """The faces from a place on that is in phase with the interval.

        dateutil gives up on a rule only in the year 9999, which takes minutes from here. The calendar
        repeats every 400 years, so it is asked in the last such cycle instead.
        """
        years = (9949 - start.year) // 400 * 400
        try:
            for found in self._dateutil_rule(start.replace(year=start.year + years)):
                yield found.replace(year=found.year - years)
        except ValueError:  # INTERVAL and the BY… parts exclude each other: the rule names nothing
            return

    def _dateutil_rule(self, start: datetime) -> Iterator[datetime]:
        from dateutil.rrule import rrule, weekday  # type: ignore[import-untyped]

        numbers, weekdays = self.days_in_effect()
        numbers |= self.times_in_effect()
        parts: dict[str, Any] = {name.lower(): values for name, values in numbers.items()}
        if "BYSETPOS" in self.numbers:
            parts["bysetpos"] = self.numbers["BYSETPOS"]
        if weekdays:
            parts["byweekday"] = [weekday(day, nth or None) for day, nth in weekdays]
        return iter(
            rrule(self.frequency, dtstart=start, interval=self.interval, wkst=self.week_start, **parts)
        )

    def days_in_effect(self) -> tuple[dict[str, tuple[int, ...]], tuple[tuple[int, int], ...]]:
        """The parts that name days, with what the rule leaves to its start: numbers by name, and BYDAY."""
        numbers = {name: values for name, values in self.numbers.items() if name in _DAY_PARTS}
        if self._names_days or self.frequency > _WEEKLY:
            return numbers, self.weekdays
        if self.frequency == _WEEKLY:
            return numbers, ((self.start.weekday(), 0),)
        numbers["BYMONTHDAY"] = (self.start.day,)
        if self.frequency == _YEARLY:
            numbers.setdefault("BYMONTH", (self.start.month,))
        return numbers, ()

    def times_in_effect(self) -> dict[str, tuple[int, ...]]:
        """BYHOUR, BYMINUTE and BYSECOND, with what the rule leaves to its start."""
        from_start = (self.start.hour, self.start.minute, self.start.second)
        return {
            name: self.numbers.get(name, (value,))
            for name, unit, value in zip(
                _TIME_PARTS, (_HOURLY, _MINUTELY, _SECONDLY), from_start, strict=True
            )
            if name in self.numbers or self.frequency < unit
        }

    @property
    def has_own_start(self) -> bool:
        """Whether it is counted from a DTSTART of its own."""
        return self.start != _FIRST

    @property
    def _names_days(self) -> bool:
        return bool(self.weekdays) or any(
            name in self.numbers for name in ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
        )

    def _aligned(self, face: datetime) -> datetime:
        """The beginning of the last period up to `face` that the interval counts."""
        if self.frequency == _YEARLY:
            return datetime(face.year - (face.year - self.start.year) % self.interval, 1, 1)  # noqa: DTZ001
        if self.frequency == _MONTHLY:
            months = _months(face) - (_months(face) - _months(self.start)) % self.interval
            return datetime(months // 12, months % 12 + 1, 1)  # noqa: DTZ001
        unit = _UNITS[self.frequency]
        origin = self._period_start()
        return origin + (face - origin) // (unit * self.interval) * (unit * self.interval)

    def _period_start(self) -> datetime:
        """The beginning of the week, day, hour, minute or second that holds the start."""
        start = self.start.replace(microsecond=0)
        if self.frequency == _WEEKLY:
            start -= (start.weekday() - self.week_start) % 7 * DAY
        since_midnight = start - start.replace(hour=0, minute=0, second=0)
        return start - since_midnight % min(_UNITS[self.frequency], DAY)


_UNITS = {
    _WEEKLY: 7 * DAY,
    _DAILY: DAY,
    _HOURLY: timedelta(hours=1),
    _MINUTELY: timedelta(minutes=1),
    _SECONDLY: timedelta(seconds=1),
}


def _months(face: datetime) -> int:
    return face.year * 12 + face.month - 1


class _Walk:
    """Steps through a rule without beginning anew for every face."""

    def __init__(self, rule: Recurrence) -> None:
        self._rule = rule
        self._lock = Lock()
        self._begin(rule.start)

    def _begin(self, face: datetime) -> None:
        self._from = face
        self._found: list[datetime] = []
        self._rest = self._rule.faces_after(face)

    def next_face(self, face: datetime) -> datetime | None:
        """The first face after this one; cheap when the faces asked for go forward."""
        with self._lock:
            if not self._covers(face):
                self._begin(face)
            return self._step_past(face)

    def _covers(self, face: datetime) -> bool:
        """Whether the faces found so far, and the next one, hold the answer."""
        reached = self._found[-1] if self._found else self._from
        return self._from <= face <= reached and len(self._found) < _KEPT

    def _step_past(self, face: datetime) -> datetime | None:
        while not self._found or self._found[-1] <= face:
            found = next(self._rest, None)
            if found is None:
                self._begin(face)  # a generator that has ended says nothing more
                return None
            self._found.append(found)
        return self._found[bisect_right(self._found, face)]


def read_recurrence(text: str, column: int = 1) -> Recurrence:
    """Read `RRULE:FREQ=…`, with `DTSTART:20270101T090000` and a blank before it if wanted."""
    match = re.fullmatch(r"(?:DTSTART:(?P<start>\S*)\s+)?RRULE:(?P<rule>\S+)", text, re.IGNORECASE)
    if match is None:
        raise ScheduleError(
            "a recurrence is written RRULE:FREQ=…;…, if need be after DTSTART:20270101T090000 "
            f"(column {column})"
        )
    try:
        return _rule(text, match["rule"].upper(), match["start"])
    except ScheduleError as error:
        raise ScheduleError(f"RRULE: {error}") from None


def _rule(text: str, rule: str, start: str | None) -> Recurrence:
    parts = _split(rule)
    frequency = _one_of("FREQ", parts.get("FREQ", ""), FREQUENCIES)
    last_face, until = _until(parts["UNTIL"]) if "UNTIL" in parts else (None, None)
    recurrence = Recurrence(
        text,
        frequency,
        _positive("INTERVAL", parts.get("INTERVAL", "1")),
        _FIRST if start is None else _start(start),
        _positive("COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        last_face,
        until,
        _one_of("WKST", parts.get("WKST", "MO"), WEEKDAYS),
        {name: _list(name, parts[name]) for name in _RANGES if name in parts},
        _by_day(parts["BYDAY"]) if "BYDAY" in parts else (),
    )
    _check(recurrence, start)
    return recurrence


def _split(rule: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in rule.rstrip(";").split(";"):
        name, _, value = part.partition("=")
        if name not in _KNOWN:
            raise ScheduleError(f"{name or part!r} is not a part of a rule; there are {', '.join(_KNOWN)}")
        if name in parts:
            raise ScheduleError(f"{name} is given twice")
        parts[name] = value
    return parts


def _one_of(name: str, value: str, known: tuple[str, ...]) -> int:
    if value not in known:
        raise ScheduleError(f"{name} must be one of {', '.join(known)}" + (f", not {value}" if value else ""))
    return known.index(value)


def _positive(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value) or not 1 <= int(value) <= _MOST:
        raise ScheduleError(f"{name} is a number from 1 to {_MOST}, not {value!r}")
    return int(value)


def _list(name: str, value: str) -> tuple[int, ...]:
    return tuple(_number(name, term) for term in value.split(","))


def _number(name: str, term: str) -> int:
    low, high = _RANGES[name]
    signs = "[+-]?" if low < 0 else ""
    if (
        not re.fullmatch(signs + "[0-9]{1,3}", term)
        or not low <= int(term) <= high
        or (low and int(term) == 0)
    ):
        minus = f", or -1 to {low} from the end" if low < 0 else ""
        raise ScheduleError(f"{name} takes {max(low, 1) if low else 0} to {high}{minus}, not {term!r}")
    return int(term)


def _by_day(value: str) -> tuple[tuple[int, int], ...]:
    weekdays = []
    for term in value.split(","):
        match = re.fullmatch(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", term)
        nth = int(match[1] or 0) if match else 0
        if match is None or not -53 <= nth <= 53 or (match[1] and nth == 0):
            raise ScheduleError(f"BYDAY takes MO to SU, also as 2MO (second) or -1FR (last), not {term!r}")
        weekdays.append((WEEKDAYS.index(match[2]), nth))
    return tuple(weekdays)


def _until(value: str) -> tuple[datetime | None, datetime | None]:
    """UNTIL as the last face, or as the last instant if it ends in Z. A date is meant with all its day."""
    if value.endswith("Z"):
        return None, _stamp("UNTIL", value[:-1]).replace(tzinfo=UTC)
    if len(value) == 8:
        return datetime.combine(_stamp("UNTIL", value).date(), time(23, 59, 59)), None
    return _stamp("UNTIL", value), None


def _start(value: str) -> datetime:
    if value.upper().endswith("Z"):
        raise ScheduleError("DTSTART is on the clock of the task's zone; write it without Z")
    return _stamp("DTSTART", value)


def _stamp(name: str, value: str) -> datetime:
    """`20270101T090000` or `20270101` as a face."""
    match = re.fullmatch(r"([0-9]{8})(?:T([0-9]{6}))?", value.upper())
    try:
        if match is None:
            raise ValueError(value)
        stamp = datetime.strptime(match[1] + (match[2] or "000000"), "%Y%m%d%H%M%S")  # noqa: DTZ007
        if not 1800 <= stamp.year < LAST_FACE.year:
            raise ValueError(value)
    except ValueError:
        raise ScheduleError(f"{name} is written 20270101T090000, not {value!r}") from None
    return stamp


def _check(rule: Recurrence, start: str | None) -> None:
    """What RFC 5545 forbids, and what has no meaning here."""
    if rule.count is not None and start is None:
        raise ScheduleError("COUNT needs something to count from; put DTSTART:20270101T090000 before RRULE:")
    if rule.count is not None and (rule.last_face or rule.until):
        raise ScheduleError("COUNT and UNTIL exclude each other")
    if "BYWEEKNO" in rule.numbers and rule.frequency != _YEARLY:
        raise ScheduleError("BYWEEKNO is for FREQ=YEARLY")
    if "BYYEARDAY" in rule.numbers and rule.frequency in (_MONTHLY, _WEEKLY, _DAILY):
        raise ScheduleError("BYYEARDAY is not for FREQ=MONTHLY, WEEKLY or DAILY")
    if "BYMONTHDAY" in rule.numbers and rule.frequency == _WEEKLY:
        raise ScheduleError("BYMONTHDAY is not for FREQ=WEEKLY")
    if "BYSETPOS" in rule.numbers and rule.frequency > _DAILY:
        raise ScheduleError("BYSETPOS is not for FREQ=HOURLY, MINUTELY or SECONDLY")
    if "BYSETPOS" in rule.numbers and len(rule.numbers) == 1 and not rule.weekdays:
        raise ScheduleError("BYSETPOS picks from what another BY… part names")
    counted = any(nth for _, nth in rule.weekdays)
    if counted and (rule.frequency > _MONTHLY or "BYWEEKNO" in rule.numbers):
        raise ScheduleError("BYDAY with a number is for FREQ=MONTHLY and YEARLY, without BYWEEKNO")
