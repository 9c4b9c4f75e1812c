"""Catch up: decide which missed occurrences still run, after downtime or while no node was free."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition
from dcron.policy.starting.occurrences import next_not_excluded, next_occurrence

INSTANT = timedelta(microseconds=1)

COUNT_LIMIT = 200
"""How many missed occurrences are counted one by one: a batch of tasks is locked meanwhile."""
MISSED_AFTER = 60.0
"""Seconds after which a task without catch-up counts an occurrence as missed: the default lease."""


@dataclass(frozen=True)
class MissedRange:
    """Occurrences whose time passed while no node could run them."""

    first: datetime
    last: datetime
    count: int
    counted: bool
    """False where there are more than `count`."""

    def __str__(self) -> str:
        number = f"{self.count:,}" if self.counted else f"more than {self.count:,}"
        if self.count == 1 and self.counted:
            return "1 occurrence"
        return f"{number} occurrences, {_stamp(self.first)} to {_stamp(self.last)}"


class CatchUp(NamedTuple):
    """Which occurrence a due scheduled run executes, what it leaves out, and what comes next."""

    runs_at: datetime | None
    """The occurrence that runs; None when it is too late for all of them."""
    missed: MissedRange | None
    successor: datetime | None
    backlog_until: datetime | None = None
    """Occurrences up to this time run one after the other."""


class Times(Protocol):
    """The occurrences of a task."""

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly after this time."""

    def next_allowed(self, after: datetime) -> datetime | None:
        """Return the same of those that no calendar excludes."""


class ScheduleTimes(NamedTuple):
    """The occurrences of a task by its schedule. Both methods raise ScheduleError or ZoneError."""

    task: Definition

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly after this time."""
        return next_occurrence(self.task, after)

    def next_allowed(self, after: datetime) -> datetime | None:
        """Return the same of those that no calendar excludes."""
        return next_not_excluded(self.task, after)


def catch_up(
    task: Definition,
    scheduled_for: datetime,
    now: datetime,
    backlog_until: datetime | None = None,
    times: Times | None = None,
) -> CatchUp:
    """Decide about a scheduled run whose time has come, however long ago.

    Occurrences up to `backlog_until` were kept waiting, and each of them runs. Of missed occurrences the task
    catches up with the last one, with all, or with none, as far back as its window reaches. The others are
    skipped together. `times` are those of its schedule by default. Raises ScheduleError or ZoneError.
    """
    times = times or ScheduleTimes(task)
    successor = times.next(scheduled_for)
    if backlog_until and scheduled_for <= backlog_until:
        return CatchUp(scheduled_for, None, successor, backlog_until)
    # Up to its jitter an occurrence is not late.
    horizon = now - timedelta(seconds=task.jitter or 0)
    oldest = _oldest(task, horizon)
    is_missed = successor is not None and successor <= horizon
    if not is_missed and not (oldest and scheduled_for < oldest):
        return CatchUp(scheduled_for, None, successor)
    choose = _catch_up_with_all if task.catch_up == "all" else _catch_up_with_last
    return choose(times, scheduled_for, oldest, horizon)


def _oldest(task: Definition, horizon: datetime) -> datetime | None:
    """Return the time before which occurrences are too old to catch up with; None for no bound."""
    window = MISSED_AFTER if task.catch_up == "skip" else task.catch_up_window
    return None if window is None else horizon - timedelta(seconds=window)


def _catch_up_with_all(
    times: Times, scheduled_for: datetime, oldest: datetime | None, horizon: datetime
) -> CatchUp:
    first: datetime | None = scheduled_for
    if oldest and scheduled_for < oldest:
        first = times.next(oldest - INSTANT)
    if first is None or first > horizon:
        return _catch_up_with_none(times, scheduled_for, horizon)
    return CatchUp(first, _between(times, scheduled_for, first), times.next(first), horizon)


def _catch_up_with_last(
    times: Times, scheduled_for: datetime, oldest: datetime | None, horizon: datetime
) -> CatchUp:
    last = _last_occurrence(scheduled_for, horizon, times.next)
    if oldest and last < oldest:
        return _catch_up_with_none(times, scheduled_for, horizon)
    runs_at = last
    wanted = times.next_allowed(max(scheduled_for, oldest or scheduled_for) - INSTANT)
    if wanted and wanted <= horizon:
        runs_at = _last_occurrence(wanted, horizon, times.next_allowed)
    missed = _between(times, scheduled_for, last)
    if runs_at != last and missed:
        first = times.next(scheduled_for) if runs_at == scheduled_for else scheduled_for
        missed = replace(missed, first=first or last, last=last)
    return CatchUp(runs_at, missed, times.next(horizon))


def _catch_up_with_none(times: Times, scheduled_for: datetime, horizon: datetime) -> CatchUp:
    missed = _between(times, scheduled_for, max(scheduled_for, horizon) + INSTANT)
    return CatchUp(None, missed, times.next(max(scheduled_for, horizon)))


def missed_between(task: Definition, first: datetime, end: datetime) -> MissedRange | None:
    """Return the occurrences from `first`, itself one, until before `end`; None where there is none."""
    return _between(ScheduleTimes(task), first, end)


def _between(times: Times, first: datetime, end: datetime) -> MissedRange | None:
    if first >= end:
        return None
    last, count = first, 1
    while count < COUNT_LIMIT:
        following = times.next(last)
        if following is None or following >= end:
            return MissedRange(first, last, count, counted=True)
        last, count = following, count + 1
    last = _last_occurrence(last, end - INSTANT, times.next)
    return MissedRange(first, last, count, counted=False)


def missed_as_planned(
    name: str, spec: Mapping[str, Any], first: datetime, end: datetime
) -> MissedRange | None:
    """Return the same for a run by the spec with which it was planned; None where that cannot be read."""
    try:
        times = {field: spec[field] for field in TIMES_FIELDS if field in spec}
        for field in ("not_before", "not_after"):
            if field in times:
                times[field] = datetime.fromisoformat(times[field])
        task = Definition(**{"name": name, "schedule": "", "timezone": "", "command": "", **times})
    except (TypeError, ValueError):  # written by hand
        return None
    try:
        return missed_between(task, first, end)
    except UsageError:
        return None


def _last_occurrence(
    known: datetime, now: datetime, following: Callable[[datetime], datetime | None]
) -> datetime:
    """Return the latest occurrence up to `now`; `known` is one. Looks back in doubling steps to be quick."""
    step = timedelta(seconds=1)
    while now - step > known:
        if (found := following(now - step)) and found <= now:
            known = found
            break
        step *= 2
    while (found := following(known)) and found <= now:
        known = found
    return known


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
