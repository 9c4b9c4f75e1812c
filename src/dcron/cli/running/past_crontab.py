"""The crontab as it was at a time, for `list`, `view`, `export` and `preview` with --at."""

import re
from datetime import datetime

from dcron import services
from dcron.cli.output import console
from dcron.cli.output.times import past_time
from dcron.cli.running.context import own_zone
from dcron.errors import UsageError
from dcron.schedule.zones import zone


def read_past(crontab: "services.crontab.Crontab", time: str) -> "services.history.PastCrontab":
    """Return the crontab at this past time. Say so if the history does not reach back so far.

    Raises UsageError for a time to come.
    """
    now, here = crontab.now(), zone(own_zone())
    at = _as_recorded(time, now) or past_time(time, here, now)
    if at > now:
        raise UsageError(f"--at {time!r} is in the future; `dcron preview` shows what will run")
    past = services.history.History(crontab).crontab_at(at)
    if not past.is_complete:
        begins = past.begins_at
        since = f"begins at {begins.astimezone(here):%Y-%m-%d %H:%M:%S}" if begins else "is empty"
        console.note(f"the history {since}: what was removed or changed before is unknown")
    return past


def _as_recorded(time: str, now: datetime) -> datetime | None:
    """Return a time as `dcron history --json` and the audit log have it; None for other texts.

    One in whole seconds means the end of this second: the changes within it are part of the answer.
    """
    from datetime import datetime, timedelta

    if not re.fullmatch(r"[0-9-]{10}T[0-9:]{8}(\.[0-9]{1,6})?Z", time):
        return None
    at = datetime.fromisoformat(time)
    is_cut = "." not in time and at <= now
    return min(at + timedelta(microseconds=999_999), now) if is_cut else at
