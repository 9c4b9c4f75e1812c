"""What is wrong with the database: little room on the disk, an old transaction, jobs that are behind."""

from datetime import datetime, timedelta

from dcron.policy.conditions.thresholds import LEAST_FREE, OLD_TRANSACTION


def is_disk_low(free: int, size: int = 0) -> bool:
    """Return whether too few bytes are free beside a file of this size, which a compaction copies."""
    return free < max(2 * size, LEAST_FREE)


def is_old_transaction(seconds: float) -> bool:
    """Return whether a transaction has been open for too long."""
    return seconds > OLD_TRANSACTION


def is_behind(due_at: datetime, now: datetime, after: timedelta) -> bool:
    """Return whether a maintenance job has been due for longer than `after`."""
    return due_at < now - after
