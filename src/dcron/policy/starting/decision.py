"""Decide about a due run: which occurrence it executes, whether it may start, and what comes after it.

The claim asks with the schedule of the task, the forecast with a list of its coming occurrences.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from dcron.model import Definition, SkipCode, Trigger
from dcron.policy.starting.admission import Admit, Wait, admit, expired
from dcron.policy.starting.catch_up import CatchUp, Times, catch_up
from dcron.policy.starting.freezes import FrozenTime
from dcron.policy.starting.occurrences import due_at, expiry_of
from dcron.policy.starting.skip_reasons import Skip, frozen_skip, missed_skip


class DueRun(Protocol):
    """A run that is due, as far as its decision depends on it."""

    @property
    def task(self) -> Definition:
        """Its task."""

    @property
    def scheduled_for(self) -> datetime:
        """The occurrence that it was planned for."""

    @property
    def expires_at(self) -> datetime | None:
        """When it is too late to start it."""

    @property
    def backlog_until(self) -> datetime | None:
        """Occurrences up to this time run one after the other."""


class Decision(NamedTuple):
    """The decision about a due run."""

    scheduled_for: datetime
    """The occurrence that it executes, or the last one it was for."""
    expires_at: datetime | None
    successor: datetime | None
    """The next occurrence of its task."""
    backlog_until: datetime | None
    missed: Skip | None = None
    """The occurrences that it leaves out."""
    refusal: Skip | None = None
    """Why it is skipped, whatever else is running."""
    answer: Admit | Wait | Skip | None = None
    """Whether it may start beside the live runs of its task; None if there is a `refusal` for all of them."""


_Run = TypeVar("_Run", bound=DueRun)


def decide(
    run: _Run,
    trigger: Trigger,
    now: datetime,
    times: Times | None,
    alive: int,
    backfilled: int = 0,
    excluded: Callable[[_Run, datetime], Skip | None] = lambda _, at: None,
) -> Decision:
    """Decide about a due run beside `alive` runs of its task, `backfilled` of them backfills.

    `times` are the occurrences of its task if the clock has planned it, and `excluded` says why a run of an
    occurrence is refused. Raises UsageError if the times cannot be computed.
    """
    found = CatchUp(run.scheduled_for, None, None, run.backlog_until)
    expires_at, missed = run.expires_at, None
    if times:
        found = catch_up(run.task, run.scheduled_for, now, run.backlog_until, times)
        if found.runs_at is None:
            assert found.missed
            too_old = missed_skip(run.task, found.missed, too_old=True)
            last, until = found.missed.last, found.backlog_until
            return Decision(last, expires_at, found.successor, until, refusal=too_old)
        expires_at = expiry_of(run.task, due_at(run.task, found.runs_at))
        missed = missed_skip(run.task, found.missed, too_old=False) if found.missed else None
    at, until = found.runs_at or run.scheduled_for, found.backlog_until
    refusal = excluded(run, at) or expired(run.task, expires_at, now)
    in_backlog = until is not None and at <= until
    answer = admit(run.task, trigger, alive, in_backlog=in_backlog, backfilled=backfilled)
    return Decision(at, expires_at, found.successor, until, missed, refusal, answer)


def after_limit(
    task: Definition, scheduled_for: datetime, now: datetime, times: Times | None = None
) -> CatchUp | None:
    """Decide about a scheduled run that the limit of its task kept waiting; None: it runs as it was planned.

    With overlap `queue` each of the occurrences that passed meanwhile runs, else only the one that catch-up
    chooses. Raises UsageError if the times cannot be computed.
    """
    if task.overlap == "queue":
        return CatchUp(scheduled_for, None, None, backlog_until=now)
    found = catch_up(task, scheduled_for, now, times=times)
    return found if found.runs_at and found.missed else None


def with_freeze(frozen: FrozenTime, skip: Skip) -> Skip:
    """Return the skip of occurrences that were missed during a freeze as one that says so."""
    if skip.code is not SkipCode.MISSED or skip.covers is None:
        return skip
    freeze = frozen.mostly(skip.covers.first, skip.covers.last)
    return frozen_skip(freeze, skip.covers) if freeze else skip
