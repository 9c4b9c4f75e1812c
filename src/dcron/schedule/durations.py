"""Times as people type them: `2027-01-01 09:00`, `tomorrow 09:00`, `+1h`."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import UsageError
from dcron.quantities import parse_duration
from dcron.schedule.transitions import DAY, EARLIEST, LATEST, clock

_LONG_TEXT = 64


def parse_time(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The instant, in UTC, that a person means by this text; the zone counts where none is written.

    `2027-01-01T09:00` (with an offset or Z, or without), `2027-01-01 09:00`, a date alone (midnight),
    `09:00` (the next such time), `today` or `tomorrow` with or without a time, `now`, `+1h`, `in 1h`.
    A time that the clock leaves out is the end of the gap, one that comes twice the first of both.
    """
    return resolve(parse_local_time(text, zone, now), zone)


def resolve(at: datetime, zone: ZoneInfo) -> datetime:
    """The instant, in UTC, of what `parse_face` gave."""
    return clock(zone).instant(at) if at.tzinfo is None else at


def parse_local_time(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The same, but naive where it is a time on the zone's clock, which need not exist and may come twice."""
    words = text.strip()
    if words.lower() == "now":
        return now.astimezone(UTC)
    at = _relative(words, now) or _clock_time(words, zone, now) or parse_timestamp(words)
    if at is None:
        raise UsageError(
            f"{_short(text)} is not a time; write 2027-01-01T09:00, 09:00, tomorrow 09:00 or +1h"
        )
    if not EARLIEST <= resolve(at, zone) <= LATEST:
        raise UsageError(f"{_short(text)} is too far away")
    return at if at.tzinfo is None else at.astimezone(UTC)


def _relative(words: str, now: datetime) -> datetime | None:
    """`+1h` or `in 1h`."""
    match = re.fullmatch(r"(?:\+|in\s+)(.*)", words, re.IGNORECASE | re.DOTALL)
    if match is None:
        return None
    return now.astimezone(UTC) + timedelta(seconds=parse_duration(match[1]))


def _clock_time(words: str, zone: ZoneInfo, now: datetime) -> datetime | None:
    """`09:00`, `today 09:00`, `tomorrow`: from the date that the zone has now."""
    match = re.fullmatch(r"(?:(today|tomorrow)\b\s*)?(\d{1,2}:\d{2}(?::\d{2})?)?", words.lower(), re.ASCII)
    if match is None or not words:
        return None
    day, at = match[1], _time_of_day(match[2] or "00:00", words)
    here = clock(zone)
    today = here.local_time(now).date()
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
    """`2027-01-01T09:00`, aware if an offset is written and naive if not; None if it is none of this.

    A date or time that does not exist, such as 2027-02-30, is a UsageError.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(text.upper())
        # Far from the ends, so that it may be turned into any zone.
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
