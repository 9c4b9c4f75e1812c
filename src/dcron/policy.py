"""What should happen, decided on values alone: no database, no clock. Agent and service both ask here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from dcron.errors import UsageError
from dcron.model import Definition, Task
from dcron.schedule import Schedule, next_run, parse, zone

COUNT_LIMIT = 200
"""How many passed-over occurrences are counted one by one: a batch of lines is locked meanwhile."""


def schedule_of(text: str, name: str) -> Schedule:
    """The schedule as read for the task of this name. Raises ScheduleError."""
    return _read_schedule(text, name if _has_hash(text) else "")


def next_occurrence(line: Definition, after: datetime) -> datetime | None:
    """The line's first occurrence strictly after `after`, or None. Raises ScheduleError or ZoneError."""
    return _next_run(line.schedule, line.name if _has_hash(line.schedule) else "", line.timezone, after)


@lru_cache(maxsize=10_000)
def _read_schedule(text: str, key: str) -> Schedule:
    return parse(text, name=key)


@lru_cache(maxsize=10_000)
def _next_run(text: str, key: str, timezone: str, after: datetime) -> datetime | None:
    """Remembered, because a thousand lines of one schedule come due in the same second."""
    return next_run(_read_schedule(text, key), zone(timezone), after)


def _has_hash(text: str) -> bool:
    """Whether the times follow from the task's name; of any other schedule one reading serves all."""
    return "H" in text or "~" in text


def is_timed(line: Definition) -> bool:
    """Whether the line's runs follow from the clock, as those of `@reboot` do not."""
    return schedule_of(line.schedule, line.name).timed


def starts_with_node(line: Definition) -> bool:
    """Whether the line runs when a node starts."""
    return schedule_of(line.schedule, line.name).reboot


def same_times(line: Definition, name: str, spec: Mapping[str, Any]) -> bool:
    """Whether a run planned under `name` from `spec` still stands where the line would have it."""
    same_name = name == line.name or not _has_hash(line.schedule)
    return same_name and (spec.get("schedule"), spec.get("timezone")) == (line.schedule, line.timezone)


@dataclass(frozen=True)
class PassedOver:
    """Occurrences that came and went while nobody could run them."""

    first: datetime
    last: datetime
    count: int
    counted: bool
    """False when there were more than were counted."""

    def __str__(self) -> str:
        number = f"{self.count:,}" if self.counted else f"more than {self.count:,}"
        if self.count == 1 and self.counted:
            return "1 occurrence"
        return f"{number} occurrences, {_stamp(self.first)} to {_stamp(self.last)}"


@dataclass(frozen=True)
class CatchUp:
    """Which occurrence a due turn runs, what it passes over, and what comes next."""

    run_for: datetime
    passed_over: PassedOver | None
    successor: datetime | None


def catch_up(line: Definition, scheduled_for: datetime, now: datetime) -> CatchUp:
    """After downtime only the last missed occurrence runs; the earlier ones are passed over together.

    Raises ScheduleError or ZoneError.
    """
    successor = next_occurrence(line, scheduled_for)
    if successor is None or successor > now:
        return CatchUp(scheduled_for, None, successor)
    last = _last_occurrence(line, successor, now)
    passed_over = passed_over_between(line, scheduled_for, last)
    return CatchUp(last, passed_over, next_occurrence(line, now))


def passed_over_between(line: Definition, first: datetime, end: datetime) -> PassedOver | None:
    """The occurrences from `first`, itself one, until before `end`."""
    if first >= end:
        return None
    last, count = first, 1
    while count < COUNT_LIMIT:
        following = next_occurrence(line, last)
        if following is None or following >= end:
            return PassedOver(first, last, count, counted=True)
        last, count = following, count + 1
    return PassedOver(
        first, _last_occurrence(line, last, end - timedelta(microseconds=1)), count, counted=False
    )


def passed_over_as_planned(
    name: str, spec: Mapping[str, Any], first: datetime, end: datetime
) -> PassedOver | None:
    """The same for a turn as it was planned, whatever its line says by now; None when nobody can tell."""
    line = Definition(
        name=name, schedule=spec.get("schedule", ""), timezone=spec.get("timezone", ""), command=""
    )
    try:
        return passed_over_between(line, first, end)
    except UsageError:
        return None


def _last_occurrence(line: Definition, known: datetime, now: datetime) -> datetime:
    """The latest occurrence up to `now`; `known` is one. Looks back in doubling steps, so it is quick."""
    step = timedelta(seconds=1)
    while now - step > known:
        if (found := next_occurrence(line, now - step)) and found <= now:
            known = found
            break
        step *= 2
    while (following := next_occurrence(line, known)) and following <= now:
        known = following
    return known


def refuse_to_start(task: Task, alive: int) -> str | None:
    """Why a due run of the task is skipped although its time has come; None lets it start."""
    if task.max_running is not None and alive >= task.max_running:
        runs = "the previous run is" if alive == 1 else f"{alive} runs are"
        return f"overlap: {runs} still alive"
    return None


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
