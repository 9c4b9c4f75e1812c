"""Read times that options give."""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def past_time(text: str, here: Any, now: datetime) -> datetime:
    """A time that is past, in the zone `here`: `2h` and `2h ago` count back from now."""
    from dcron.quantities import parse_duration
    from dcron.schedule import parse_time

    if re.fullmatch(r"\s*[0-9.wdhms]+(\s+ago)?\s*", text):
        return now - timedelta(seconds=parse_duration(text.strip().removesuffix("ago").strip()))
    if re.fullmatch(r"\s*\d{1,2}:\d{2}(:\d{2})?\s*", text):
        moment = parse_time(f"today {text.strip()}", here, now)
        return moment if moment <= now else moment - timedelta(days=1)
    return parse_time(text, here, now)
