"""The crontab as it was at a time, for `list`, `view`, `export` and `preview` with --at."""

import re
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import own_zone
from dcron.cli.times import past_time
from dcron.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from dcron.services.crontab import Crontab
    from dcron.services.history import PastCrontab


def read_past(crontab: "Crontab", time: str) -> "PastCrontab":
    """Return the crontab at this past time. Say so if the history does not reach back so far.

    Raises UsageError for a time to come.
    """
    from dcron.schedule import zone
    from dcron.services.history import History

    now, here = crontab.now(), zone(own_zone())
    at = _as_recorded(time) or past_time(time, here, now)
    if at > now:
        raise UsageError(f"--at {time!r} is in the future; `dcron preview` shows what will run")
    past = History(crontab).crontab_at(at)
    if not past.is_complete:
        begins = past.begins_at
        since = f"begins at {begins.astimezone(here):%Y-%m-%d %H:%M:%S}" if begins else "is empty"
        console.note(f"the history {since}: what was removed or changed before is unknown")
    return past


def _as_recorded(time: str) -> "datetime | None":
    """Return a time as `dcron history --json` has it, with parts of a second; None for other texts."""
    from datetime import datetime

    return datetime.fromisoformat(time) if re.fullmatch(r"[0-9-]{10}T[0-9:]{8}\.[0-9]{1,6}Z", time) else None
