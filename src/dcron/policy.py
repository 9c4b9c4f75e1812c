"""What should happen, decided on values alone: no database, no clock. Agent and service both ask here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition, Task
from dcron.schedule import Calendar, Rules, Schedule, calendar_from_json, next_run, parse, zone

_INSTANT = timedelta(microseconds=1)

COUNT_LIMIT = 200
"""How many passed-over occurrences are counted one by one: a batch of lines is locked meanwhile."""


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
    return Rules(gap=line.gap, fold=line.fold, not_before=line.not_before, not_after=line.not_after)


def _calendars(name: str | None, content: str | None) -> tuple[Calendar, ...]:
    return (_calendar(name, content),) if name and content else ()


@lru_cache(maxsize=100)
def _calendar(name: str, content: str) -> Calendar:
    return calendar_from_json(name, json.loads(content))


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


def is_timed(line: Definition) -> bool:
    """Whether the line's runs follow from the clock, as those of `@reboot` do not."""
    return schedule_of(line.schedule, line.name).timed


def starts_with_node(line: Definition) -> bool:
    """Whether the line runs when a node starts."""
    return schedule_of(line.schedule, line.name).reboot


def same_times(line: Definition, name: str, spec: Mapping[str, Any]) -> bool:
    """Whether a run planned under `name` from `spec` still stands where the line would have it."""
    same_name = name == line.name or not _has_hash(line.schedule)
    wanted = line.spec()
    return same_name and all(spec.get(field) == wanted.get(field) for field in TIMES_FIELDS)


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
    """After downtime the last missed occurrence that is wanted runs; the others are passed over together.

    Raises ScheduleError or ZoneError.
    """
    successor = next_occurrence(line, scheduled_for)
    if successor is None or successor > now:
        return CatchUp(scheduled_for, None, successor)
    last = _last_occurrence(successor, now, partial(next_occurrence, line))
    run_for = last
    first_wanted = next_wanted(line, scheduled_for - _INSTANT)
    if first_wanted and first_wanted <= now:
        run_for = _last_occurrence(first_wanted, now, partial(next_wanted, line))
    passed_over = passed_over_between(line, scheduled_for, last)
    if run_for != last and passed_over:
        passed_over = replace(passed_over, last=last)
    return CatchUp(run_for, passed_over, next_occurrence(line, now))


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
    last = _last_occurrence(last, end - _INSTANT, partial(next_occurrence, line))
    return PassedOver(first, last, count, counted=False)


def passed_over_as_planned(
    name: str, spec: Mapping[str, Any], first: datetime, end: datetime
) -> PassedOver | None:
    """The same for a turn as it was planned, whatever its line says by now; None when nobody can tell."""
    try:
        times = {field: spec[field] for field in TIMES_FIELDS if field in spec}
        for field in ("not_before", "not_after"):
            if field in times:
                times[field] = datetime.fromisoformat(times[field])
        line = Definition(**{"name": name, "schedule": "", "timezone": "", "command": "", **times})
    except (TypeError, ValueError):  # written by hand
        return None
    try:
        return passed_over_between(line, first, end)
    except UsageError:
        return None


def _last_occurrence(
    known: datetime, now: datetime, following: Callable[[datetime], datetime | None]
) -> datetime:
    """The latest occurrence up to `now`; `known` is one. Looks back in doubling steps, so it is quick."""
    step = timedelta(seconds=1)
    while now - step > known:
        if (found := following(now - step)) and found <= now:
            known = found
            break
        step *= 2
    while (found := following(known)) and found <= now:
        known = found
    return known


def refuse_to_start(task: Task, alive: int) -> str | None:
    """Why a due run of the task is skipped although its time has come; None lets it start."""
    if task.max_running is not None and alive >= task.max_running:
        runs = "the previous run is" if alive == 1 else f"{alive} runs are"
        return f"overlap: {runs} still alive"
    return None


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
