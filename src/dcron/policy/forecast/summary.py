"""Summarize a simulated load: by the hour, by the task, and the times in which nothing starts."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from statistics import median

from dcron.model import LATE_AFTER, SkipCode
from dcron.policy.forecast.load import Load, LoadTask, PlayedRun
from dcron.policy.forecast.relief import Relief
from dcron.policy.forecast.start_times import Minutes, minute_of

_QUARTER = timedelta(minutes=15)
"""Every zone's hours and clock changes begin with one of these."""


@dataclass(frozen=True)
class ForecastHour:
    """The load of one hour of local time, or of the part of it that is forecast."""

    begin: datetime
    end: datetime
    starts: int
    """Runs that come due and start. Those that no node takes now count: one may take them by then."""
    busiest: datetime | None
    """The minute in which most of them come due."""
    busiest_starts: int
    peak: int
    """The most slots that are occupied at once."""
    wait_p95: float
    """Seconds that 95 % of the runs wait at most."""
    worst: PlayedRun | None
    """The run that waits longest."""
    late: Sequence[str]
    """The tasks whose runs wait longer than LATE_AFTER, the longest wait first."""


@dataclass(frozen=True)
class ForecastSkips:
    """Occurrences of a task that are skipped for the same reason."""

    task: str
    code: SkipCode
    count: int
    occurrences: int
    """All occurrences of the task in the forecast."""
    every: float | None
    """The median of the seconds between two of them."""
    p95: float | None
    """Seconds that 95 % of its runs take at most; None if that is unknown."""


@dataclass(frozen=True)
class CrowdedMinute:
    """A minute in which runs come due that start late."""

    at: datetime
    starts: int
    worst: float
    """The longest wait in seconds."""


@dataclass(frozen=True)
class LeftOut:
    """The tasks and runs that a forecast leaves out."""

    paused: int = 0
    """The number of paused tasks."""
    frozen: int = 0
    """The number of runs that do not start because the crontab is frozen then."""
    unforeseen: Sequence[str] = ()
    """Tasks that start with events or with nodes."""
    unreadable: Sequence[tuple[str, str]] = ()
    """Tasks whose times cannot be computed, each with the reason."""


@dataclass(frozen=True)
class Outlook:
    """A forecast."""

    begin: datetime
    until: datetime
    slots: int
    """The slots of all agents together."""
    agents: int
    hours: Sequence[ForecastHour]
    crowded: Sequence[CrowdedMinute]
    skips: Sequence[ForecastSkips]
    unserved: Sequence[tuple[str, str]]
    """Tasks whose runs no node takes, each with the reason."""
    unknown: Sequence[str]
    """Tasks whose durations are unknown."""
    assumed: float | None
    """Seconds that each of their runs takes, cut at its timeout. None: it takes its timeout, or no time."""
    reliefs: Sequence[Relief]
    left_out: LeftOut

    @property
    def starts(self) -> int:
        """How many runs start."""
        return sum(hour.starts for hour in self.hours)

    @property
    def worst(self) -> PlayedRun | None:
        """The run that waits longest."""
        found = (hour.worst for hour in self.hours if hour.worst)
        return max(found, key=lambda run: run.wait, default=None)


def worst_run(runs: Iterable[PlayedRun]) -> PlayedRun | None:
    """Return the run that waits longest, of equal ones the first to be due."""
    return max(runs, key=lambda run: (run.wait, -run.due_at.timestamp(), run.task), default=None)


# By the hour ------------------------------------------------------------------------------------------


def by_hour(load: Load, begin: datetime, until: datetime, here: tzinfo) -> list[ForecastHour]:
    """Return the hours of local time from `begin` to `until`, with the runs that come due in each."""
    bounds = hour_bounds(begin, until, here)
    due, unserved = (_by_hour(runs, bounds) for runs in (load.runs, load.unserved_runs))
    ends = [*bounds[1:], until]
    peaks = _peaks(load, bounds, until)
    return [_hour(*each) for each in zip(bounds, ends, due, unserved, peaks, strict=True)]


def _by_hour(runs: Iterable[PlayedRun], bounds: Sequence[datetime]) -> list[list[PlayedRun]]:
    """Return the runs that come due in each hour."""
    due: list[list[PlayedRun]] = [[] for _ in bounds]
    for run in runs:
        if run.due_at > bounds[0]:
            due[bisect_right(bounds, run.due_at) - 1].append(run)
    return due


def hour_bounds(begin: datetime, until: datetime, here: tzinfo) -> list[datetime]:
    """Return when the hours of local time begin, the first at `begin`. One hour may come twice in a night."""
    bounds = [begin]
    at = begin - timedelta(seconds=begin.timestamp() % _QUARTER.total_seconds()) + _QUARTER
    shown = _hour_of(begin, here)
    while at < until:
        if _hour_of(at, here) != shown:
            shown = _hour_of(at, here)
            bounds.append(at)
        at += _QUARTER
    return bounds


def _hour_of(at: datetime, here: tzinfo) -> tuple[object, ...]:
    local = at.astimezone(here)
    return local.date(), local.hour, local.utcoffset()


def _hour(
    begin: datetime, end: datetime, runs: Sequence[PlayedRun], unserved: Sequence[PlayedRun], peak: int
) -> ForecastHour:
    minutes = Minutes()
    minutes.add(minute_of(run.due_at) for run in (*runs, *unserved))
    busiest, number = next(iter(minutes.busiest(1)), (None, 0))
    waits = sorted(run.wait for run in runs)
    worst_of: dict[str, float] = defaultdict(float)
    for run in runs:
        if run.wait > LATE_AFTER.total_seconds():
            worst_of[run.task] = max(run.wait, worst_of[run.task])
    return ForecastHour(
        begin,
        end,
        len(runs) + len(unserved),
        busiest,
        number,
        peak,
        waits[min(len(waits) - 1, int(0.95 * len(waits)))] if waits else 0.0,
        worst_run(runs),
        sorted(worst_of, key=lambda task: (-worst_of[task], task)),
    )


def _peaks(load: Load, bounds: Sequence[datetime], until: datetime) -> list[int]:
    """Return the most slots that are occupied at once in each hour."""
    changes = [(run.started_at, 1) for run in (*load.runs, *load.alive)]
    changes += [(run.ended_at, -1) for run in (*load.runs, *load.alive)]
    changes.sort()  # an end before a start at the same time
    peaks = [0] * len(bounds)
    occupied = position = 0
    for at, change in changes:
        if at > until:
            break
        while position + 1 < len(bounds) and bounds[position + 1] <= at:
            position += 1
            peaks[position] = occupied
        occupied += change
        peaks[position] = max(peaks[position], occupied)
    for later in range(position + 1, len(bounds)):
        peaks[later] = occupied
    return peaks


def crowded_minutes(load: Load, begin: datetime) -> list[CrowdedMinute]:
    """Return the minutes after `begin` in which runs come due that wait longer than LATE_AFTER, in order."""
    starts = Counter[int]()
    worst: dict[int, PlayedRun] = {}
    for run in load.runs:
        if run.due_at <= begin:
            continue
        minute = minute_of(run.due_at)
        starts[minute] += 1
        if run.wait > LATE_AFTER.total_seconds() and (minute not in worst or run.wait > worst[minute].wait):
            worst[minute] = run
    return [
        CrowdedMinute(run.due_at.replace(second=0, microsecond=0), starts[minute], run.wait)
        for minute, run in sorted(worst.items())
    ]


# By the task ------------------------------------------------------------------------------------------


def skips(load: Load, tasks: Sequence[LoadTask]) -> list[ForecastSkips]:
    """Return the skipped runs of each task by reason, the most first, without those that a freeze skips."""
    counted = Counter((each.task, each.code) for each in load.skipped if each.code is not SkipCode.FROZEN)
    due = Counter(run.task for run in load.runs)
    due.update(each.task for each in load.skipped)
    by_name = {each.name: each for each in tasks}
    found = [
        ForecastSkips(
            name, code, count, due[name], _every(by_name[name].occurrences), by_name[name].percentile(0.95)
        )
        for (name, code), count in counted.items()
    ]
    return sorted(found, key=lambda each: (-each.count, each.task, each.code))


def unknown(load: Load, tasks: Sequence[LoadTask]) -> list[str]:
    """Return the names of the tasks with runs to come whose durations are unknown."""
    ran = {run.task for run in load.runs}
    return sorted(each.name for each in tasks if each.is_assumed and each.name in ran)


def frozen(load: Load) -> int:
    """Return the number of occurrences that do not run because of a freeze."""
    return sum(each.code is SkipCode.FROZEN for each in load.skipped)


def _every(starts: Sequence[datetime]) -> float | None:
    gaps = [(after - before).total_seconds() for before, after in pairwise(starts)]
    return median(gaps) if gaps else None


# Quiet times ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StillRunning:
    """A run that is alive when a quiet time begins."""

    task: str
    started_at: datetime
    ends_by: datetime | None
    """When it has ended with a probability of 95 %; None if its durations are unknown."""


@dataclass(frozen=True)
class QuietTime:
    """A time in which nothing starts by itself, even if a node takes the runs that none takes now."""

    begin: datetime
    end: datetime
    running: Sequence[StillRunning]

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.begin).total_seconds()


@dataclass(frozen=True)
class QuietForecast:
    """The quiet times up to `until`."""

    begin: datetime
    until: datetime
    times: Sequence[QuietTime]
    """In order."""
    longest: QuietTime
    """The longest time without a start, however short."""
    left_out: LeftOut


def quiet_times(
    load: Load, tasks: Sequence[LoadTask], begin: datetime, until: datetime, seconds: float
) -> tuple[list[QuietTime], QuietTime]:
    """Return the times of at least `seconds` in which nothing starts, and the longest of all times."""
    percentiles = {each.name: each.percentile(0.95) for each in tasks}
    spans = list(_between_starts(load, begin, until))
    longest = max(spans, key=lambda span: span[1] - span[0], default=(begin, begin))
    found = [span for span in spans if (span[1] - span[0]).total_seconds() >= seconds]
    times = [QuietTime(*span, _still_running(load, percentiles, span[0])) for span in found]
    return times, QuietTime(*longest, _still_running(load, percentiles, longest[0]))


def _between_starts(load: Load, begin: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    last = begin
    for at in sorted(run.started_at for run in (*load.runs, *load.unserved_runs)):
        if at >= until:
            break
        if at > last:
            yield last, at
        last = at
    if last < until:
        yield last, until


def _still_running(load: Load, percentiles: Mapping[str, float | None], at: datetime) -> list[StillRunning]:
    """Return the runs that are alive at this time, the last to end first."""
    found = []
    for run in (*load.runs, *load.alive):
        if run.started_at <= at < run.ended_at:
            p95 = percentiles.get(run.task)
            ends_by = None if p95 is None else max(run.ended_at, run.started_at + timedelta(seconds=p95))
            found.append(StillRunning(run.task, run.started_at, ends_by))
    return sorted(found, key=lambda each: (each.ends_by is not None, each.ends_by or at), reverse=True)
