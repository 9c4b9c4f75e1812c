"""Read times that options give."""

import re
from datetime import datetime, timedelta
from typing import Any

from dcron.schedule.time_parser import parse_time
from dcron.values.quantities import parse_duration


def past_time(text: str, here: Any, now: datetime) -> datetime:
    """Return a past time, in the zone `here`: `2h` and `2h ago` count back from now. Raises UsageError.

    `yesterday`, with or without a time, is the day before the current one.
    """
    if re.fullmatch(r"\s*[0-9.wdhms]+(\s+ago)?\s*", text):
        return now - timedelta(seconds=parse_duration(text.strip().removesuffix("ago").strip()))
    if re.fullmatch(r"\s*\d{1,2}:\d{2}(:\d{2})?\s*", text):
        today = parse_time(f"today {text.strip()}", here, now)
        return today if today <= now else today - timedelta(days=1)
    if match := re.fullmatch(r"\s*yesterday\b(.*)", text, re.IGNORECASE | re.DOTALL):
        yesterday = now.astimezone(here).date() - timedelta(days=1)
        return parse_time(f"{yesterday} {match[1].strip()}".strip(), here, now)
    return parse_time(text, here, now, forms="a past one: 2h, today, yesterday 09:00 or '2026-11-20 09:00'")
