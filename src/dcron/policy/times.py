"""When a line runs: its occurrences, and what has to do with a run's time."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition, Task
from dcron.schedule import Calendar, Fold, Gap, Rules, Schedule, calendar_from_json, next_run, parse, zone

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def schedule_of(text: str, name: str) -> Schedule:
    """The schedule as read for the task of this name. Raises ScheduleError."""
    return _read_schedule(text, name if _has_hash(text) else "")


def next_occurrence(line: Definition, after: datetime) -> datetime | None:
    """The line's first occurrence strictly after `after`, or None; a calendar may yet exclude it.

    An excluded occurrence is a turn like any other, which is skipped when its time has come: so it is on
    record, and a calendar that is edited needs no turn moved. Raises ScheduleError or ZoneError.
    """
    return _next(line, after, _window(line))


def next_wanted(line: Definition, after: datetime) -> datetime | None:
    """The line's first occurrence strictly after `after` that no calendar excludes, or None."""
    return _next(line, after, rules_of(line))


def has_ended(line: Definition, now: datetime) -> bool:
    """Return whether the line had occurrences, and none is left. Raises ScheduleError or ZoneError."""
    if not is_timed(line) or next_occurrence(line, now):
        return False
    return next_occurrence(line, _LONG_AGO) is not None


def rules_of(line: Definition) -> Rules:
    """All that bears on the line's occurrences: clock changes, window, the calendars a Task brings along."""
    if not isinstance(line, Task) or not (line.except_content or line.only_content):
        return _window(line)
    return replace(
        _window(line),
        except_on=_calendars(line.except_calendar, line.except_content),
        only_on=_calendars(line.only_calendar, line.only_content),
    )


def excluded_by(task: Task, occurrence: datetime) -> str | None:
    """The calendar that excludes the occurrence, as a reason; None when it may run."""
    named = {task.except_calendar: task.except_content, task.only_calendar: task.only_content}
    if named.keys() == {None}:
        return None
    for name, content in named.items():
        if name and content is None:
            return f"there is no calendar {name!r}"
    return rules_of(task).excluded_by(occurrence.astimezone(zone(task.timezone)).date())


def _next(line: Definition, after: datetime, rules: Rules) -> datetime | None:
    key = line.name if _has_hash(line.schedule) else ""
    return _next_run(line.schedule, key, line.timezone, after, rules)


def _window(line: Definition) -> Rules:
    return _rules(line.gap, line.fold, line.not_before, line.not_after)


def _calendars(name: str | None, content: str | None) -> tuple[Calendar, ...]:
    return (_calendar(name, content),) if name and content else ()


@lru_cache(maxsize=1_000)
def _rules(gap: Gap, fold: Fold, not_before: datetime | None, not_after: datetime | None) -> Rules:
    return Rules(gap=gap, fold=fold, not_before=not_before, not_after=not_after)


@lru_cache(maxsize=100)
def _calendar(name: str, content: str) -> Calendar:
    try:
        value = json.loads(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"calendar {name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"calendar {name} cannot be read: it is not a JSON object")
    return calendar_from_json(name, value)


@lru_cache(maxsize=10_000)
def _read_schedule(text: str, key: str) -> Schedule:
    return parse(text, name=key)


@lru_cache(maxsize=10_000)
def _next_run(text: str, key: str, timezone: str, after: datetime, rules: Rules) -> datetime | None:
    """Remembered, because a thousand lines of one schedule come due in the same second."""
    return next_run(_read_schedule(text, key), zone(timezone), after, rules)


def _has_hash(text: str) -> bool:
    """Whether the times follow from the task's name; of any other schedule one reading serves all."""
    return "H" in text or "~" in text


def due_at(line: Definition, occurrence: datetime) -> datetime:
    """When the occurrence may start: later than its time by its share of the line's jitter.

    The share follows from the task's name and the occurrence, so every node computes the same.
    """
    if not line.jitter:
        return occurrence
    share = fraction(f"{line.name} {occurrence.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}")
    return occurrence + timedelta(milliseconds=int(line.jitter * 1000 * share))


def too_late_after(line: Definition, due: datetime) -> datetime | None:
    """When a run that is due then may not be started any more; None when it is never too late."""
    return due + timedelta(seconds=line.deadline) if line.deadline else None


def fraction(seed: str) -> float:
    """A number from 0 to below 1 that looks like chance and is the same everywhere."""
    return int.from_bytes(sha256(seed.encode(errors="replace")).digest()[:6]) / 2**48


def is_timed(line: Definition) -> bool:
    """Whether the line's runs follow from the clock, as those of `@reboot` do not."""
    return schedule_of(line.schedule, line.name).timed


def delay_of(line: Definition) -> timedelta | None:
    """How long after the end of one run the next is due; None when its schedule is no `@delay`."""
    seconds = schedule_of(line.schedule, line.name).delay
    return None if seconds is None else timedelta(seconds=seconds)


def sources_of(line: Definition) -> list[tuple[str, str]]:
    """What else makes the line run: kind (event or task) and name of each."""
    schedule = schedule_of(line.schedule, line.name)
    events = [("event", schedule.event)] if schedule.event else []
    return events + [("task", name) for name in schedule.after]


def starts_with_node(line: Definition) -> bool:
    """Whether the line runs when a node starts."""
    return schedule_of(line.schedule, line.name).reboot


def same_times(line: Definition, name: str, spec: Mapping[str, Any]) -> bool:
    """Whether a run planned under `name` from `spec` still stands where the line would have it."""
    same_name = name == line.name or not _has_hash(line.schedule)
    wanted = line.spec()
    return same_name and all(spec.get(field) == wanted.get(field) for field in TIMES_FIELDS)
