"""What is wrong with the database: little room on the disk, an old transaction, jobs that are behind."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dcron.policy.conditions.thresholds import BEHIND, LEAST_FREE, OLD_TRANSACTION


def is_disk_low(free: int, size: int = 0) -> bool:
    """Return whether too few bytes are free beside a file of this size, which a compaction copies."""
    return free < max(2 * size, LEAST_FREE)


def is_old_transaction(seconds: float) -> bool:
    """Return whether a transaction has been open for too long."""
    return seconds > OLD_TRANSACTION


def is_behind(due_at: datetime, now: datetime, after: timedelta) -> bool:
    """Return whether a maintenance job has been due for longer than `after`."""
    return due_at < now - after


def problem_of_disk(free: int) -> str | None:
    """Return what an alert says if too few bytes are free beside the file."""
    return f"only {free:,} bytes are free beside the file" if is_disk_low(free) else None


def problem_of_transaction(seconds: float) -> str | None:
    """Return what an alert says if a transaction has been open for too long."""
    return f"a transaction has been open for {seconds:.0f}s" if is_old_transaction(seconds) else None


def problems_of_jobs(jobs: Sequence[Any], now: datetime) -> dict[str, str]:
    """Return what is wrong with maintenance jobs, by name: an error, or that they are behind."""
    behind = {job.name: "it has not been done" for job in jobs if is_behind(job.due_at, now, BEHIND)}
    return behind | {job.name: job.error for job in jobs if job.error is not None}
