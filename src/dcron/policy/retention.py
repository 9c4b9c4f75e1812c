"""Decide which finished runs are kept, and how much one transaction deletes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from math import inf
from typing import Any

from dcron.errors import UsageError
from dcron.fields.retention import DEFAULTS, FOREVER, LAST, OF_TASK, require_value
from dcron.model import RunState

MOST_BAD = 1000
"""Failed and lost runs that a task keeps beyond `keep.runs`, and dead letters that it keeps, at most."""
FIRST_SIZE, SMALLEST_SIZE, LARGEST_SIZE = 50, 20, 2000
"""Rows of one batch. The smallest follows one that failed, for example because the disk is full."""


@dataclass(frozen=True)
class Keep:
    """How long the history of a task is kept, in seconds; `inf` is for ever."""

    runs: float
    """Runs that succeeded, were skipped or were cancelled."""
    bad: float
    """Runs that failed or were lost."""
    last: int
    """How many of its started runs are kept however old they are."""
    output: float
    bad_output: float

    @property
    def durations(self) -> tuple[float, ...]:
        """The ages at which something of a run may be deleted, in seconds."""
        return tuple(each for each in (self.runs, self.bad, self.output, self.bad_output) if each < inf)


class Fate(Enum):
    """What is deleted of a run."""

    NOTHING = auto()
    OUTPUT = auto()
    ALL = auto()


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """What decides how long a finished run is kept."""

    id: int
    state: RunState
    is_started: bool
    is_dead_letter: bool
    finished_at: datetime
    scheduled_for: datetime
    paused_at: datetime | None = None
    """When its task was paused, if it is."""


def keep_of(settings: Mapping[str, Any], task: Mapping[str, Any] | None) -> Keep:
    """Return what is kept of a task's history; `task` has its own values, None is a task that was removed.

    A stored value that cannot be read keeps what it is for.
    """
    values = {name: _readable(name, settings.get(name, DEFAULTS[name])) for name in OF_TASK}
    if task is None:
        values[LAST] = 0
    else:
        values |= {name: _readable(name, task[name]) for name in OF_TASK if name in task}
    return Keep(
        runs=values["runs"],
        bad=values["bad"],
        last=int(min(values[LAST], 1 << 31)),
        output=values["output"],
        bad_output=values["bad-output"],
    )


def seconds_of(settings: Mapping[str, Any], name: str) -> float:
    """Return the seconds for which this part is kept; `inf` is for ever."""
    return _readable(name, settings.get(name, DEFAULTS[name]))


@dataclass(frozen=True)
class Verdict:
    """What may be deleted of a run by its age."""

    fate: Fate
    otherwise: Fate
    """The same where the run itself has to stay for another reason."""
    is_spare: bool = False
    """Whether it stays only because it failed: a task keeps `MOST_BAD` such runs."""


def judge(
    run: PastRun, keep: Keep, now: datetime, last_kept: int | None, oldest_spare: int | None = None
) -> Verdict:
    """Return what may be deleted of a run by its age.

    `last_kept` is the oldest of the started runs that its task keeps in any case; None keeps them all.
    `oldest_spare` is the oldest of the runs that the task keeps only because they failed, if it has too many.
    """
    age, is_bad = (now - run.finished_at).total_seconds(), run.state.is_failure
    if run.is_dead_letter:
        return Verdict(Fate.NOTHING, Fate.NOTHING)
    is_last = keep.last > 0 and run.is_started and (last_kept is None or run.id >= last_kept)
    may_go = not is_last and not _settles_future(run, now)
    is_old = age > (keep.bad if is_bad else keep.runs)
    is_spare = may_go and is_bad and not is_old and age > keep.runs
    exceeds = is_spare and oldest_spare is not None and run.id < oldest_spare
    otherwise = Fate.OUTPUT if age > (keep.bad_output if is_bad else keep.output) else Fate.NOTHING
    fate = Fate.ALL if (may_go and is_old) or exceeds else otherwise
    return Verdict(fate, otherwise, is_spare and not exceeds)


def _settles_future(run: PastRun, now: datetime) -> bool:
    """Return whether the run records an occurrence that planning may ask for once more.

    That is one of the future, such as an occurrence that a person cancelled early, or one of a pause that
    has not ended.
    """
    return run.scheduled_for >= (run.paused_at or now)


def next_size(size: int, seconds: float, target: float) -> int:
    """Return the size of the next batch, from the size of the last one and the seconds it took.

    It grows slowly: one quick batch says little about the next one.
    """
    factor = min(1.25, max(0.25, target / max(seconds, 0.0001)))
    return int(min(LARGEST_SIZE, max(SMALLEST_SIZE, size * factor)))


def is_clock_trusted(last_round: datetime | None, passed: float | None, now: datetime) -> bool:
    """Return whether the clock can be trusted: it has not been set forward since the last round.

    `passed` are the seconds since then by a clock that cannot be set; None if another process did that round.
    """
    if last_round is None:
        return False
    by_clock = (now - last_round).total_seconds()
    return by_clock < passed + 3600 if passed is not None else by_clock < timedelta(days=1).total_seconds()


def _readable(name: str, value: Any) -> float:
    try:
        require_value(name, value)
    except UsageError:
        return inf
    return inf if value == FOREVER else float(value)
