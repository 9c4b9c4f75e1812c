"""What is wrong with a run: it waits too long, takes too long, or was missed."""

from collections.abc import Callable
from datetime import datetime, timedelta

from dcron.policy.starting.freezes import FrozenTime
from dcron.policy.starting.lanes import read_lane

Freezes = Callable[[], FrozenTime]
"""Reads when the crontab was frozen: asked only where it matters."""


def has_waited(
    since: datetime, seconds: float, now: datetime, freezes: Freezes, *, is_requested: bool = False
) -> bool:
    """Return whether it is longer since a time; frozen time counts only if a person requested the run."""
    wait = timedelta(seconds=seconds)
    if is_requested or now - since < wait:
        return now - since >= wait
    return freezes().waited(since, now) >= wait


def is_overdue(due_at: datetime, lane: str, within: float | None, now: datetime, freezes: Freezes) -> bool:
    """Return whether a waiting run should have started `within` seconds; None: it is never overdue."""
    if within is None:
        return False
    known = read_lane(lane)
    return has_waited(due_at, within, now, freezes, is_requested=known is not None and known.is_requested)


def is_too_long(started_at: datetime, longest: float | None, now: datetime) -> bool:
    """Return whether a running run takes longer than expected, in seconds."""
    return longest is not None and (now - started_at).total_seconds() > longest


def is_missed(scheduled_for: datetime, finished_at: datetime, frozen: FrozenTime) -> bool:
    """Return whether a skipped occurrence counts as missed: a freeze is planned downtime."""
    return not frozen.between(scheduled_for, finished_at)
