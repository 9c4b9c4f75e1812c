"""The registry of settings that all users of a crontab share. Their values are in the database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from dcron.archive import require_url
from dcron.errors import UsageError
from dcron.fields import retention
from dcron.schedule import zone


@dataclass(frozen=True)
class Setting:
    """One setting."""

    name: str
    help: str
    unset: str
    """The default, in words."""
    read: Callable[[Any], Any]
    """Return the JSON value of a typed or stored value. Raises UsageError."""
    write: Callable[[Any], str] = str
    """Return the text that `config set` takes."""


def _zone_name(value: Any) -> str:
    return zone(value if isinstance(value, str) else repr(value)).key


TIMEZONE = Setting(
    "timezone",
    "Time zone of new tasks that name none.",
    "the config file's, else that of the machine where the task is added",
    _zone_name,
)
KEEP = "keep."
"""The beginning of the names of settings that say how long history is kept."""
_KEPT = {
    "runs": "How long runs are kept that succeeded, were skipped or were cancelled.",
    "bad": "How long failed and lost runs are kept.",
    "last": "How many started runs each task keeps, however old they are.",
    "output": "How long the output of succeeded runs is kept.",
    "bad-output": "How long the output of failed and lost runs is kept.",
    "dead": "How long dead letters are kept; later they are dismissed.",
    "events": "How long events are kept, and with them their keys.",
    "nodes": "How long nodes are kept that have ended.",
    "statistics": "How long daily statistics are kept.",
    "changes": "How long the audit log is kept.",
}


def _keep_setting(name: str, about: str) -> Setting:
    def read(value: Any) -> Any:
        if isinstance(value, str):
            return retention.parse_value(name, value)
        retention.require_value(name, value)
        return value

    def write(value: Any) -> str:
        return retention.format_value(name, value)

    return Setting(f"{KEEP}{name}", about, write(retention.DEFAULTS[name]), read, write)


def _archive_url(value: Any) -> str:
    return require_url(value if isinstance(value, str) else repr(value))


ARCHIVE_URL = Setting(
    "archive.url",
    "Where runs and their output are written before they are pruned: file:///DIRECTORY or s3://BUCKET/PREFIX.",
    "runs are pruned without an archive",
    _archive_url,
)
MOST_TASK_SERIES = 100_000


def _task_count(value: Any) -> int:
    """Read a typed or stored number of tasks."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text[:9]) > MOST_TASK_SERIES:
        raise UsageError(f"monitor.tasks: give 0 to {MOST_TASK_SERIES:,}, not {text[:60]!r}")
    return int(text)


MONITOR_TASKS = Setting(
    "monitor.tasks",
    "Most tasks with figures of their own in /cluster, the first by name.",
    "5000",
    _task_count,
)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        each.name: each
        for each in (TIMEZONE, ARCHIVE_URL, MONITOR_TASKS, *(_keep_setting(*kept) for kept in _KEPT.items()))
    }
)


def find(name: str) -> Setting:
    """Return the setting of this name. Raises UsageError, with the nearest match."""
    if name not in SETTINGS:
        near = get_close_matches(name[:60], SETTINGS, n=1, cutoff=0.4)
        meant = f"; did you mean {near[0]}?" if near else f"; the settings are {', '.join(SETTINGS)}"
        raise UsageError(f"there is no setting {name[:60]!r}{meant}")
    return SETTINGS[name]
