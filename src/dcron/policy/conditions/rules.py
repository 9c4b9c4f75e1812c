"""Decide when something is wrong, and who is notified of it: expectations, rules and thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from dcron.errors import UsageError
from dcron.fields import FIELDS, expectations
from dcron.fields.expectations import AUTO, RUNTIME, START, SUCCESS, Bounds
from dcron.fields.kinds import NONE
from dcron.model import AlertKind, Definition
from dcron.policy.conditions.thresholds import START_WITHIN
from dcron.policy.statistics import percentile
from dcron.settings.labels import for_labels

AGAIN = 86_400.0
"""Seconds until an open alert is repeated."""
FEWEST_LEARNED = 10
SHORTEST_LIMIT = 60.0
"""Seconds: what takes less is never too long by a learned runtime."""
FLAPS = 3
"""How often an alert of a task is opened within `Rules.flapping` until the task counts as flapping."""
FLAPPING_FOR = 3600.0
"""Seconds within which these openings count, and without another one after which a task is quiet again."""
EVENT_PREFIX = "dcron."
"""The beginning of the names of events that dcron itself sends."""
CLOSED_BY_END = (AlertKind.LATE,)
CLOSED_BY_CANCEL = (AlertKind.TOO_LONG,)
CLOSED_BY_SUCCESS = (AlertKind.FAILING, AlertKind.STALE, AlertKind.MISSED)
CLOSED_BY_GOOD_TIME = (AlertKind.TOO_LONG, AlertKind.TOO_SHORT)
"""What a success closes that took neither too long nor too short."""


@dataclass(frozen=True)
class Rules:
    """What one task expects and notifies, by its own fields and by the settings."""

    channels: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset(AlertKind)
    """What causes messages."""
    after: int = 1
    """Failed runs in a row that count as failing."""
    again: float | None = AGAIN
    """Seconds until a reminder; None: there are none."""
    start: float | None = START_WITHIN
    runtime: str | None = None
    """A text such as `2m..1h`, or `auto`."""
    success: float | None = None
    flapping: float | None = FLAPPING_FOR
    """Seconds within which `FLAPS` alerts count as flapping; None: they never do."""

    def channels_for(self, kind: str, facts: Mapping[str, Any] = MappingProxyType({})) -> tuple[str, ...]:
        """Return the channels that get messages about alerts of this kind.

        An alert `flapping` is sent instead of those of the kind that its facts name.
        """
        instead_of = facts.get("kind") if kind == AlertKind.FLAPPING else None
        return self.channels if kind in self.kinds or instead_of in self.kinds else ()

    def remind_at(self, now: datetime) -> datetime | None:
        """Return when an alert that is notified now is repeated."""
        return now + timedelta(seconds=self.again) if self.channels and self.again else None


def rules_of(settings: Mapping[str, Any], task: Definition | None = None) -> Rules:
    """Return the rules of a task, or those of the crontab itself. Ignore values that are not valid.

    Settings for the task's labels replace the general ones.
    """
    settings = for_labels(settings, task.labels) if task else settings
    own_channels = _valid("notify", task.notify) if task else None
    channels = own_channels or _valid("notify", settings.get("notify.default")) or ()
    kinds = (task and _valid("notify_on", task.notify_on)) or _valid("notify_on", settings.get("notify.on"))
    after = (task and _valid("notify_after", task.notify_after)) or _valid(
        "notify_after", settings.get("notify.after")
    )
    expected = {
        name: (task.expect if task else {}).get(name, settings.get(f"expect.{name}"))
        for name in expectations.NAMES
    }
    again, flapping = settings.get("notify.again", AGAIN), settings.get("notify.flapping", FLAPPING_FOR)
    return Rules(
        channels=() if NONE in channels else tuple(channels),
        kinds=frozenset(kinds or AlertKind),
        after=after or 1,
        again=again if again is None or _is_seconds(again) else AGAIN,
        start=_seconds(START, expected[START], START_WITHIN),
        runtime=_runtime(expected[RUNTIME]),
        success=_seconds(SUCCESS, expected[SUCCESS], None),
        flapping=flapping if flapping is None or _is_seconds(flapping) else FLAPPING_FOR,
    )


def _valid(name: str, value: Any) -> Any:
    """Return the value of a field; None if it is missing or not valid."""
    if value is None or (FIELDS[name].kind.is_many and not isinstance(value, list | tuple)):
        return None
    try:
        return None if FIELDS[name].kind.problem(value) else value
    except TypeError:
        return None


def _seconds(name: str, value: Any, default: float | None) -> float | None:
    if value == NONE:
        return None
    try:
        expectations.require_value(name, value)
    except UsageError:
        return default
    return float(value)


def _runtime(value: Any) -> str | None:
    try:
        expectations.require_value(RUNTIME, value)
    except UsageError:
        return None
    return None if value == NONE else str(value)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e10


def bounds_of(runtime: str | None, learned: Bounds = (None, None)) -> Bounds:
    """Return the shortest and longest expected runtime in seconds; `learned` is used for `auto`."""
    if runtime is None:
        return None, None
    return learned if runtime == AUTO else expectations.runtime_bounds(runtime)


def learned_bounds(seconds: Sequence[float]) -> Bounds:
    """Return a third of the 1st and three times the 99th percentile of sorted runtimes, if enough."""
    if len(seconds) < FEWEST_LEARNED:
        return None, None
    return percentile(seconds, 0.01) / 3, max(3 * percentile(seconds, 0.99), SHORTEST_LIMIT)


def event_name(kind: str) -> str:
    """Return the name of the event that is sent when an alert of this kind is opened."""
    return f"{EVENT_PREFIX}{kind}"


def is_flapping(kind: str, opened: int, flapping_kind: str | None) -> bool:
    """Return whether an alert is one of many.

    `opened` is how often its kind was opened lately, this time included. `flapping_kind` is the kind of the
    task's open alert `flapping`, if it has one.
    """
    return opened >= FLAPS or flapping_kind == kind


def task_subject(task_id: int) -> str:
    """Return the subject of alerts about this task."""
    return f"task:{task_id}"
