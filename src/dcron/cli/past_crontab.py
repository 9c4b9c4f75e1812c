"""The crontab as it was at a time, for `list`, `view`, `export` and `preview` with --at."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import own_zone
from dcron.cli.times import past_time
from dcron.errors import UsageError

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.services.history import PastCrontab


def read_past(crontab: "Crontab", time: str) -> "PastCrontab":
    """Return the crontab at this past time. Say so if the history does not reach back so far.

    Raises UsageError for a time to come.
    """
    from dcron.schedule import zone
    from dcron.services.history import History

    now, here = crontab.now(), zone(own_zone())
    at = past_time(time, here, now)
    if at > now:
        raise UsageError(f"--at {time!r} is in the future; `dcron preview` shows what will run")
    past = History(crontab).crontab_at(at)
    if not past.is_complete:
        begins = past.begins_at
        since = f"begins at {begins.astimezone(here):%Y-%m-%d %H:%M:%S}" if begins else "is empty"
        console.note(f"the history {since}: what was removed or changed before is unknown")
    return past
