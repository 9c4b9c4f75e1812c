"""The time somebody means who asks why."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from dcron.schedule import parse_time, zone
from dcron.services.why.stretch import Span

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


def read_when(text: str, timezone: str, now: datetime) -> datetime | Span:
    """The time somebody means: a bare clock time is today's, a date without one is all of that day."""
    here = zone(timezone)
    words = _with_date(text.split(), here, now)
    first = parse_time(" ".join(words), here, now)
    if len(words) == 1 and _DATE.fullmatch(words[0]):
        following = datetime.fromisoformat(words[0]).date() + timedelta(days=1)
        return Span(first, parse_time(following.isoformat(), here, now))
    return first


def _with_date(words: Sequence[str], here: tzinfo, now: datetime) -> list[str]:
    """`yesterday 9:00` as `2027-06-01 09:00`."""
    words = [f"0{word}" if word[1:2] == ":" else word for word in words]
    if words and _CLOCK.fullmatch(words[0]):
        words = ["today", *words]
    if not words or words[0].lower() not in _DAYS:
        return words
    day = now.astimezone(here).date() + timedelta(days=_DAYS[words[0].lower()])
    return [day.isoformat(), *words[1:]]
