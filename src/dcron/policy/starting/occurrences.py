"""When a task runs: its occurrences, and the due time and expiry of a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition, Task
from dcron.schedule.calendars import Calendar, calendar_from_json
from dcron.schedule.effort import TooMuchEffort, affordable, is_short_of_time
from dcron.schedule.kinds import Schedule
from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.rules import Fold, Gap, Rules
from dcron.schedule.zones import zone

_SOON = timedelta(days=3650)
_ANSWERS, _DATES = 8, 100
"""How many times of one schedule, and dates of one set of rules, are cached."""
_STILL_NONE = timedelta(days=1)
"""How long a schedule without an occurrence counts as having none: a new search is expensive."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def schedule_of(task: Definition) -> Schedule:
    """Return the task's schedule. Raises ScheduleError."""
    return schedule_from(task.schedule, task.name)


def schedule_from(text: str, name: str) -> Schedule:
    """Return the schedule, parsed for the task of this name. Raises ScheduleError."""
    return _read_schedule(text, name if _has_hash(text) else "")


def next_occurrence(task: Definition, after: datetime) -> datetime | None:
    """Return the task's first occurrence strictly after `after`, or None; a calendar may still exclude it.

    An excluded occurrence is planned like any other, and skipped when its time has come. So it is on record,
    and an edit of a calendar moves no run. Raises ScheduleError or ZoneError.
    """
    return _next(task, after, _window(task))


def next_not_excluded(task: Definition, after: datetime) -> datetime | None:
    """Return the task's first occurrence strictly after `after` that no calendar excludes, or None."""
    return _next(task, after, rules_of(task))


def fires_soon(task: Definition, now: datetime) -> bool:
    """Return whether the task, with its calendars, runs within ten years. Raises ScheduleError."""
    found = next_not_excluded(task, now)
    return found is not None and found < now + _SOON


def has_ended(task: Definition, now: datetime) -> bool:
    """Return whether the task had occurrences, and none is left. Raises ScheduleError or ZoneError."""
    if not is_timed(task) or next_occurrence(task, now):
        return False
    return next_occurrence(task, _LONG_AGO) is not None


def rules_of(task: Definition) -> Rules:
    """Return what decides the task's occurrences besides its schedule: gap, fold, window and calendars."""
    if not isinstance(task, Task) or not (task.except_content or task.only_content):
        return _window(task)
    return replace(
        _window(task),
        except_on=_calendars(task.except_calendar, task.except_content),
        only_on=_calendars(task.only_calendar, task.only_content),
    )


def excluded_by(task: Task, occurrence: datetime) -> str | None:
    """Return why a calendar excludes the occurrence, naming the calendar; None when it may run."""
    if task.except_calendar is None and task.only_calendar is None:
        return None
    named = {task.except_calendar: task.except_content, task.only_calendar: task.only_content}
    for name, content in named.items():
        if name and content is None:
            return f"there is no calendar {name!r}"
    return _excluded_by(rules_of(task), occurrence.astimezone(zone(task.timezone)).date())


def _next(task: Definition, after: datetime, rules: Rules) -> datetime | None:
    key = task.name if _has_hash(task.schedule) else ""
    return _next_run(task.schedule, key, task.timezone, after, rules)


def _window(task: Definition) -> Rules:
    return _rules(task.gap, task.fold, task.not_before, task.not_after)


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


def _next_run(text: str, key: str, timezone: str, after: datetime, rules: Rules) -> datetime | None:
    """Return the next run, cached.

    A thousand tasks of one schedule come due in the same second, and a time that a transaction needs is
    computed before it.
    """
    known = _answers(text, key, timezone, rules)
    found = known.get(after)
    if found is None:
        found = affordable(lambda: known.put(after, _answer(text, key, timezone, after, rules)))
    if found.is_too_much:
        raise TooMuchEffort
    return found.instant


@dataclass(frozen=True, slots=True)
class _Answer:
    """The first occurrence after every time from `since` until that occurrence; or why there is none."""

    since: datetime
    instant: datetime | None
    is_too_much: bool = False
    """It takes too long to compute."""

    def holds(self, after: datetime) -> bool:
        """Return whether it is the answer for this time, too."""
        end = self.since + _STILL_NONE if self.instant is None else self.instant
        return self.since <= after < end


class _Answers:
    """The latest answers of one schedule. Threads may lose each other's, which are then computed again."""

    def __init__(self) -> None:
        self._known: tuple[_Answer, ...] = ()

    def get(self, after: datetime) -> _Answer | None:
        """Return the answer for this time, if it is known."""
        for answer in self._known:
            if answer.holds(after):
                return answer
        return None

    def put(self, after: datetime, answer: _Answer) -> _Answer:
        """Keep the answer, in place of the oldest."""
        self._known = (answer, *self._known[: _ANSWERS - 1])
        return answer


@lru_cache(maxsize=10_000)
def _answers(text: str, key: str, timezone: str, rules: Rules) -> _Answers:
    return _Answers()


def _answer(text: str, key: str, timezone: str, after: datetime, rules: Rules) -> _Answer:
    """Compute an answer. "It takes too long" counts as one, unless a transaction is short of time."""
    try:
        return _Answer(after, next_run(_read_schedule(text, key), zone(timezone), after, rules))
    except TooMuchEffort:
        if is_short_of_time():
            raise
        return _Answer(after, None, is_too_much=True)


@lru_cache(maxsize=1_000)
def _exclusions(rules: Rules) -> dict[date, str | type[TooMuchEffort] | None]:
    return {}


def _excluded_by(rules: Rules, day: date) -> str | None:
    """Return why the calendars exclude a date, cached for some dates."""
    known = _exclusions(rules)

    def find() -> str | type[TooMuchEffort] | None:
        if len(known) >= _DATES:
            known.clear()
        try:
            return known.setdefault(day, rules.excluded_by(day))
        except TooMuchEffort:
            if is_short_of_time():
                raise
            return known.setdefault(day, TooMuchEffort)

    found = known[day] if day in known else affordable(find)
    if found is TooMuchEffort:
        raise TooMuchEffort
    assert not isinstance(found, type)
    return found


def _has_hash(text: str) -> bool:
    """Return whether the times depend on the task's name; any other schedule is parsed once for all tasks."""
    return "H" in text or "~" in text


def due_at(task: Definition, occurrence: datetime) -> datetime:
    """Return when the occurrence may start: its time plus a share of the task's jitter.

    The share depends only on the task's name and the occurrence, so every node computes the same.
    """
    if not task.jitter:
        return occurrence
    share = fraction(f"{task.name} {occurrence.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}")
    return occurrence + timedelta(milliseconds=int(task.jitter * 1000 * share))


def expiry_of(task: Definition, due: datetime) -> datetime | None:
    """Return when it is too late to start a run that is due at `due`; None without a deadline."""
    return due + timedelta(seconds=task.deadline) if task.deadline else None


def fraction(seed: str) -> float:
    """Return a number from 0 to below 1: pseudo-random, and the same on every node."""
    from hashlib import sha256  # it loads OpenSSL, and few tasks have a jitter

    return int.from_bytes(sha256(seed.encode(errors="replace")).digest()[:6]) / 2**48


def is_timed(task: Definition) -> bool:
    """Return whether the clock decides when the task runs; it does not for `@reboot`."""
    return schedule_of(task).timed


def delay_of(task: Definition) -> timedelta | None:
    """Return how long after the end of one run the next is due; None when its schedule is no `@delay`."""
    seconds = schedule_of(task).delay
    return None if seconds is None else timedelta(seconds=seconds)


def sources_of(task: Definition) -> list[tuple[str, str]]:
    """Return what else starts the task: kind (event or task) and name of each."""
    schedule = schedule_of(task)
    events = [("event", schedule.event)] if schedule.event else []
    return events + [("task", name) for name in schedule.after]


def starts_with_node(task: Definition) -> bool:
    """Return whether the task runs when a node starts."""
    return schedule_of(task).reboot


def same_times(task: Definition, name: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a run planned under `name` from `spec` still has the time that its task would give."""
    same_name = name == task.name or not _has_hash(task.schedule)
    current = task.spec()
    return same_name and all(spec.get(field) == current.get(field) for field in TIMES_FIELDS)
