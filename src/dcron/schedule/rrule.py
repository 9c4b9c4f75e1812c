"""Parse iCalendar's RRULE and DTSTART (RFC 5545), strictly."""

import re
from datetime import UTC, datetime, time

from dcron.errors import ScheduleError
from dcron.schedule.cron_expression import read_cron
from dcron.schedule.croniter_walk import LAST_LOCAL_TIME
from dcron.schedule.recurrence import (
    FIRST,
    FREQUENCIES,
    MONTHLY,
    WEEKDAYS,
    WEEKLY,
    YEARLY,
    Recurrence,
)

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
"""Negative numbers count from the end. Zero is for hours, minutes and seconds only."""

_WITHIN_A_DAY = {"SECONDLY": (0, 60, "s"), "MINUTELY": (1, 60, "m"), "HOURLY": (2, 24, "h")}
"""Frequencies that are refused: the field of a cron expression with seconds, its size, and its unit."""
_CRON_PARTS = ("BYSECOND", "BYMINUTE", "BYHOUR", "BYMONTHDAY", "BYMONTH", "BYDAY")
"""The parts that are fields of a cron expression, in their order."""

_KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)

_CRON_DAYS = dict(zip(WEEKDAYS, ("mon", "tue", "wed", "thu", "fri", "sat", "sun"), strict=True))

_FIRST_YEAR = 1600
"""Calendars keep birthdays without a year as of 1604."""
_MOST = 10_000
"""Largest COUNT and INTERVAL."""


def read_recurrence(text: str, column: int = 1) -> Recurrence:
    """Parse `RRULE:FREQ=…`, optionally after `DTSTART:20270101T090000` and a blank. Raises ScheduleError."""
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
    if parts.get("FREQ") in _WITHIN_A_DAY:
        instead = None if start else _cron_instead(parts)
        instead = repr(instead) if instead else "a cron expression, as in '*/10 9-17 * * *'"
        raise ScheduleError(f"FREQ={parts['FREQ']} is more often than daily; as a schedule, write {instead}")
    frequency = _one_of("FREQ", parts.get("FREQ", ""), FREQUENCIES)
    last_local_time, until = _until(parts["UNTIL"]) if "UNTIL" in parts else (None, None)
    recurrence = Recurrence(
        text,
        frequency,
        _positive("INTERVAL", parts.get("INTERVAL", "1")),
        FIRST if start is None else _start(start),
        _positive("COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        last_local_time,
        until,
        _one_of("WKST", parts.get("WKST", "MO"), WEEKDAYS),
        {name: _list(name, parts[name]) for name in _RANGES if name in parts},
        _by_day(parts["BYDAY"]) if "BYDAY" in parts else (),
    )
    _check(recurrence, start)
    return recurrence


def _cron_instead(parts: dict[str, str]) -> str | None:
    """Return the schedule that means the same as a rule more often than daily, or None."""
    field, size, unit = _WITHIN_A_DAY[parts["FREQ"]]
    interval = _positive("INTERVAL", parts.get("INTERVAL", "1"))
    if interval > 1 and parts.keys() == {"FREQ", "INTERVAL"} and size % interval:
        return f"@every {interval}{unit}"
    fields = [parts.get(name, "0" if place < field else "*") for place, name in enumerate(_CRON_PARTS)]
    if interval > 1:
        if size % interval or fields[field] != "*":
            return None
        fields[field] = f"*/{interval}"
    fields[-1] = ",".join(_CRON_DAYS.get(day, day) for day in fields[-1].split(","))
    text = " ".join(fields[fields[0] == "0" :])
    try:
        is_either = read_cron(text, 1, "").either_day
    except ScheduleError:
        return None
    is_same = parts.keys() <= {"FREQ", "INTERVAL", "WKST", *_CRON_PARTS} and not is_either
    return text if is_same else None


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
    """Return UNTIL as the last local time, or as the last instant if it ends in Z. A date includes its
    day.
    """
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
    """Parse `20270101T090000` or `20270101` as a local time."""
    match = re.fullmatch(r"([0-9]{8})(?:T([0-9]{6}))?", value.upper())
    try:
        if match is None:
            raise ValueError(value)
        stamp = datetime.strptime(match[1] + (match[2] or "000000"), "%Y%m%d%H%M%S")  # noqa: DTZ007
    except ValueError:
        raise ScheduleError(f"{name} is written 20270101T090000, not {value!r}") from None
    if not _FIRST_YEAR <= stamp.year < LAST_LOCAL_TIME.year:
        raise ScheduleError(
            f"{name} must lie in the years {_FIRST_YEAR} to {LAST_LOCAL_TIME.year - 1}, not {stamp.year}"
        )
    return stamp


def _check(rule: Recurrence, start: str | None) -> None:
    """Raise ScheduleError for what RFC 5545 forbids or what has no meaning here."""
    if rule.count is not None and start is None:
        raise ScheduleError("COUNT needs something to count from; put DTSTART:20270101T090000 before RRULE:")
    if rule.count is not None and (rule.last_local_time or rule.until):
        raise ScheduleError("COUNT and UNTIL exclude each other")
    if "BYWEEKNO" in rule.numbers and rule.frequency != YEARLY:
        raise ScheduleError("BYWEEKNO is for FREQ=YEARLY")
    if "BYYEARDAY" in rule.numbers and rule.frequency != YEARLY:
        raise ScheduleError("BYYEARDAY is not for FREQ=MONTHLY, WEEKLY or DAILY")
    if "BYMONTHDAY" in rule.numbers and rule.frequency == WEEKLY:
        raise ScheduleError("BYMONTHDAY is not for FREQ=WEEKLY")
    if "BYSETPOS" in rule.numbers and len(rule.numbers) == 1 and not rule.weekdays:
        raise ScheduleError("BYSETPOS picks from what another BY… part names")
    counted = any(nth for _, nth in rule.weekdays)
    if any(abs(nth) > 5 for _, nth in rule.weekdays) and (
        rule.frequency == MONTHLY or "BYMONTH" in rule.numbers
    ):
        raise ScheduleError(
            "BYDAY counts to 5, or back to -5, within a month; no month has more of a weekday"
        )
    if counted and (rule.frequency > MONTHLY or "BYWEEKNO" in rule.numbers):
        raise ScheduleError("BYDAY with a number is for FREQ=MONTHLY and YEARLY, without BYWEEKNO")
