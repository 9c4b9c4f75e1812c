"""Parse times as people type them: `2027-01-01 09:00`, `tomorrow 09:00`, `+1h`."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import UsageError
from dcron.schedule.transitions import DAY, EARLIEST, LATEST, clock
from dcron.values.quantities import is_duration, parse_duration

_LONG_TEXT = 64
FORMS = "2027-01-01T09:00, 09:00, tomorrow 09:00, mon 09:00 or +1h"
"""Examples of times, for the message about a text that is none."""


def parse_time(text: str, zone: ZoneInfo, now: datetime, forms: str = FORMS) -> datetime:
    """Return the instant, in UTC, that a typed time means; `zone` applies where the text has no offset.

    The text may be `2027-01-01T09:00` (with an offset or Z, or without), `2027-01-01 09:00`, a date alone
    (midnight), `09:00` (the next such time), `today` or `tomorrow` with or without a time, `mon 09:00` or
    `next monday` (not today), `now`, `+1h`, `in 1h` or `1h`. A time in a gap means the end of the gap; a time
    in a fold means its first pass. `forms` are the examples that the error about another text gives.

    Raises: UsageError.
    """
    return resolve(parse_local_time(text, zone, now, forms), zone)


def resolve(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant, in UTC, of a result of `parse_local_time`."""
    return clock(zone).instant(at) if at.tzinfo is None else at


def parse_local_time(text: str, zone: ZoneInfo, now: datetime, forms: str = FORMS) -> datetime:
    """Parse like `parse_time`, but return a local time (naive) if the text gives one.

    A local time need not exist and may come twice. Raises UsageError.
    """
    words = text.strip()
    if words.lower() == "now":
        return now.astimezone(UTC)
    at = _relative(words, now) or _clock_time(words, zone, now) or parse_timestamp(words)
    if at is None:
        raise UsageError(f"{_short(text)} is not a time; write {forms}")
    if not EARLIEST <= resolve(at, zone) <= LATEST:
        raise UsageError(f"{_short(text)} is too far away")
    return at if at.tzinfo is None else at.astimezone(UTC)


def _relative(words: str, now: datetime) -> datetime | None:
    """Parse `+1h`, `in 1h` or `1h`."""
    match = re.fullmatch(r"(?:\+|in\s+)(.*)", words, re.IGNORECASE | re.DOTALL)
    if match is None and not is_duration(words):
        return None
    return now.astimezone(UTC) + timedelta(seconds=parse_duration(match[1] if match else words))


_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_AND_TIME = re.compile(
    r"(?:(today|tomorrow)\b\s*|(next\s+)?(mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?)\b\s*)?(\d{1,2}:\d{2}(?::\d{2})?)?",
    re.ASCII,
)


def _clock_time(words: str, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Parse `09:00`, `today 09:00`, `tomorrow` or `mon 09:00`, from the zone's current date on."""
    match = _DAY_AND_TIME.fullmatch(words.lower())
    if match is None or not words:
        return None
    day, at = match[1], _time_of_day(match[4] or "00:00", words)
    here = clock(zone)
    today = here.local_time(now).date()
    if match[3] is not None:
        ahead = (_WEEKDAYS.index(match[3][:3]) - today.weekday()) % len(_WEEKDAYS)
        local_time = datetime.combine(today + DAY * ahead, at)
        is_past = here.instant(local_time) <= now or (match[2] is not None and not ahead)
        return local_time + DAY * len(_WEEKDAYS) if is_past else local_time
    if day is not None:
        return datetime.combine(today + DAY * (day == "tomorrow"), at)
    local_time = datetime.combine(today, at)
    return local_time if here.instant(local_time) > now else local_time + DAY


def _time_of_day(text: str, words: str) -> time:
    try:
        return time.fromisoformat(text.rjust(5, "0") if text.count(":") == 1 else text.rjust(8, "0"))
    except ValueError:
        raise UsageError(f"{_short(words)}: there is no {text} on the clock; it ends at 23:59") from None


_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?P<offset>Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_timestamp(text: str) -> datetime | None:
    """Parse `2027-01-01T09:00`; the result is aware if the text has an offset. None if it has another form.

    Raises: UsageError for a date or time that does not exist, such as 2027-02-30.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(text.upper())
        # Not near the ends of the calendar, so that it can be converted to any zone.
        if not EARLIEST.date() <= at.date() < LATEST.date():
            raise UsageError(f"{_short(text)} is too far away")
    except ValueError:
        raise UsageError(f"{_short(text)} does not exist: {_what_is_wrong(match)}") from None
    return at


def _what_is_wrong(match: re.Match[str]) -> str:
    try:
        date.fromisoformat(match["date"])
    except ValueError as error:
        return str(error)
    return f"{match['time']}{match['offset'] or ''} is not a time of day"


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONG_TEXT else text[:_LONG_TEXT] + "…")
