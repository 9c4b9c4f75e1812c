"""The registry of settings that all users of a crontab share. Their values are in the database."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dcron.archive import require_url
from dcron.errors import UsageError
from dcron.fields import FIELDS, Field, expectations, retention
from dcron.fields.channel_kinds import OUTPUT, channel_problem
from dcron.fields.collection_kinds import LABEL_KEY
from dcron.fields.kinds import Duration
from dcron.model import LONGEST_DURATION
from dcron.schedule.zones import zone
from dcron.values.similar import did_you_mean


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
    "alerts": "How long alerts are kept that are closed.",
    "notifications": "How long notifications are kept that were sent, or could not be sent.",
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
EXPECT = "expect."
"""The beginning of the names of settings that say what is expected of runs."""
_EXPECTED = {
    expectations.START: ("How long after its due time a run starts.", "10m"),
    expectations.RUNTIME: ("How long runs take, such as 2m..1h, or auto.", "none"),
    expectations.SUCCESS: ("How long ago a task succeeded last.", "none"),
}


def _expect_setting(name: str, about: str, unset: str) -> Setting:
    def read(value: Any) -> Any:
        if isinstance(value, str) and value != expectations.AUTO:
            return expectations.parse_value(name, value)
        expectations.require_value(name, value)
        return value

    def write(value: Any) -> str:
        return expectations.format_value(name, value)

    return Setting(f"{EXPECT}{name}", about, unset, read, write)


def _field_setting(name: str, about: str, unset: str, field: Field) -> Setting:
    """Return the setting that applies where a task has no value in this field."""

    def read(value: Any) -> Any:
        try:
            found = field.kind.read(value) if isinstance(value, str) else value
            if field.kind.is_many and not isinstance(found, list | tuple):
                raise UsageError(f"{value!r:.60} is not a list")
            field.kind.require(found)
            if field.name == "notify_on" and OUTPUT in found:
                raise UsageError(f"{OUTPUT} is for single tasks: dcron set NAME --notify-on {OUTPUT}")
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        return list(found) if field.kind.is_many else found

    return Setting(name, about, unset, read, lambda value: field.kind.write(value) or "")


def _duration_setting(name: str, about: str, default: str, kind: Duration) -> Setting:
    def read(value: Any) -> Any:
        try:
            return kind.require(kind.parse(value) if isinstance(value, str) else value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None

    return Setting(name, about, default, read, kind.format)


def _channel(value: Any) -> str:
    if problem := channel_problem(value):
        raise UsageError(f"notify.fallback: {problem}")
    return str(value)


NOTIFY = "notify."
"""The beginning of the names of settings that say when messages are sent."""
_NOTIFY = (
    _field_setting(
        f"{NOTIFY}default",
        "Channels of the messages about tasks that name none, and about the crontab.",
        "no messages",
        FIELDS["notify"],
    ),
    _field_setting(
        f"{NOTIFY}on",
        "What causes messages about tasks that do not say it.",
        "every kind of alert",
        FIELDS["notify_on"],
    ),
    _field_setting(
        f"{NOTIFY}after",
        "How many runs in a row have to fail before a task is failing.",
        "1",
        FIELDS["notify_after"],
    ),
    _duration_setting(
        f"{NOTIFY}again",
        "How often an open alert is repeated that is not acknowledged.",
        "24h",
        Duration(60, LONGEST_DURATION, "1m to a century, such as 24h, or none", may_be_none=True),
    ),
    _duration_setting(
        f"{NOTIFY}flapping",
        "How long a task is quiet before it counts as flapping no more.",
        "1h",
        Duration(60, 86_400, "1m to a day, such as 1h, or none", may_be_none=True),
    ),
    _duration_setting(
        f"{NOTIFY}pause",
        "Shortest time between two messages by one channel.",
        "1m",
        Duration(0, 86_400, "0s to a day, such as 1m"),
    ),
    Setting(
        f"{NOTIFY}fallback",
        "Channel that gets what another one could not send.",
        "none",
        _channel,
    ),
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
MOST_LABEL_KEYS = 10


def metric_label(key: str) -> str:
    """Return the name that Prometheus allows for a label of tasks: `label_a_b` for `a/b`."""
    return "label_" + re.sub(r"[^a-z0-9_]", "_", key)


def _label_keys(value: Any) -> list[str]:
    """Read typed or stored keys of labels."""
    keys = value.split(",") if isinstance(value, str) else value
    if not isinstance(keys, list) or not all(
        isinstance(key, str) and LABEL_KEY.fullmatch(key) for key in keys
    ):
        raise UsageError(f"monitor.labels: give keys of labels such as team,tier, not {str(value)[:60]!r}")
    if len(keys) > MOST_LABEL_KEYS:
        raise UsageError(
            f"monitor.labels: {len(keys)} keys are too many; at most {MOST_LABEL_KEYS} are allowed"
        )
    if len({metric_label(key) for key in keys}) < len(keys):
        raise UsageError("monitor.labels: two of the keys have the same name in Prometheus; leave one out")
    return keys


MONITOR_LABELS = Setting(
    "monitor.labels",
    "Labels of tasks that /cluster shows as dcron_task_info, such as team,tier.",
    "none",
    _label_keys,
    ",".join,
)
ALLOW, REFUSE = "allow", "refuse"
STOP, KEEP_RUNNING = "stop", "keep"


def _one_of(name: str, *words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise UsageError(f"{name}: give {' or '.join(words)}, not {str(value)[:60]!r}")
        return str(value)

    return read


OWNED_EDITS = Setting(
    "edits.owned",
    "Whether tasks that a source owns may be changed otherwise than by `dcron apply`: allow or refuse.",
    ALLOW,
    _one_of("edits.owned", ALLOW, REFUSE),
)
ON_DISCONNECT = Setting(
    "on-disconnect",
    "What becomes of commands while their node is cut off, of tasks that do not say it: stop or keep.",
    STOP,
    _one_of("on-disconnect", STOP, KEEP_RUNNING),
)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        each.name: each
        for each in (
            *(TIMEZONE, ARCHIVE_URL, MONITOR_TASKS, MONITOR_LABELS, OWNED_EDITS, ON_DISCONNECT),
            *(_keep_setting(*kept) for kept in _KEPT.items()),
            *(_expect_setting(name, *about) for name, about in _EXPECTED.items()),
            *_NOTIFY,
        )
    }
)


BY_LABELS = (
    *(f"{NOTIFY}{each}" for each in ("default", "on", "after")),
    *(f"{EXPECT}{name}" for name in _EXPECTED),
    *(f"{KEEP}{name}" for name in retention.OF_TASK),
    ON_DISCONNECT.name,
)
"""Settings that may differ for tasks with certain labels."""
LONGEST_NAME = 100
_WITH_LABELS = re.compile(r"(?P<name>[^\[\]]+)\[(?P<labels>[^\[\]]*)\]")


@lru_cache(maxsize=10_000)
def labels_of(name: str) -> tuple[str, Mapping[str, str]]:
    """Return the name without its labels, and the labels: those of `notify.default[team=shop]`.

    A name whose labels cannot be read is about no task, and returned as it is.
    """
    try:
        return _split(name)
    except UsageError:
        return name, {}


def _split(name: str) -> tuple[str, Mapping[str, str]]:
    found = _WITH_LABELS.fullmatch(name)
    if found is None:
        return name, {}
    labels = FIELDS["labels"].kind.parse_many([found["labels"]])
    FIELDS["labels"].kind.require(labels)
    return found["name"], labels


def _find_for_labels(name: str) -> Setting:
    """Return the setting of `NAME[LABELS]`; `notify` is short for `notify.default`. Raises UsageError."""
    try:
        general, labels = _split(name)
    except UsageError as error:
        raise UsageError(f"{name[:60]}: {error}") from None
    general = f"{NOTIFY}default" if general == NOTIFY[:-1] else general
    if general not in BY_LABELS:
        raise UsageError(f"{general[:60]}: labels are possible with {', '.join(BY_LABELS)}")
    full = f"{general}[{','.join(f'{key}={labels[key]}' for key in sorted(labels))}]"
    if len(full) > LONGEST_NAME:
        raise UsageError(f"{full}: a name of {len(full)} characters; at most {LONGEST_NAME} are allowed")
    return replace(SETTINGS[general], name=full, unset=f"as {general} says")


def find(name: str) -> Setting:
    """Return the setting of this name, which may have labels. Raises UsageError, with the nearest match."""
    if _WITH_LABELS.fullmatch(name):
        return _find_for_labels(name)
    if name not in SETTINGS:
        meant = did_you_mean(name, SETTINGS, f"the settings are {', '.join(SETTINGS)}", cutoff=0.4)
        raise UsageError(f"there is no setting {name[:60]!r}{meant}")
    return SETTINGS[name]
