"""Maintenance jobs that fail or are behind."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcron.policy.conditions.database import is_behind
from dcron.policy.conditions.thresholds import LONG_BEHIND, WATCH_LATE
from dcron.presentation.doctor import Finding
from dcron.store.alerts.watching import Watch
from dcron.store.maintenance import last_round
from dcron.store.retention.history import oldest_overdue
from dcron.store.retention.walk import pruning
from dcron.store.statistics.figures import MaintenanceFigures


def errors(connection: Connection, jobs: Sequence[MaintenanceFigures]) -> dict[str, str]:
    """Return why the jobs that fail have failed, by their names."""
    rounds = {job.name: last_round(connection, job.name) for job in jobs if job.failed}
    return {name: row.error for name, row in rounds.items() if row and row.error}


def examine(
    jobs: Sequence[MaintenanceFigures], errors: Mapping[str, str], now: datetime
) -> Iterator[Finding]:
    """Yield the jobs that fail, with their `errors`, and those that are behind for other reasons."""
    failing = [job.name for job in jobs if job.failed]
    if failing:
        shown = [f"{name} ({' '.join(errors[name].split())})" if name in errors else name for name in failing]
        yield Finding("maintenance-failed", failing, jobs=shown)
    behind = [job.name for job in jobs if not job.failed and is_behind(job.due_at, now, LONG_BEHIND)]
    if behind:
        yield Finding("maintenance-behind", behind)


def examine_watch(jobs: Sequence[MaintenanceFigures], now: datetime) -> Iterator[Finding]:
    """Yield a finding if agents live, and none of them has looked for what did not happen."""
    for job in jobs:
        since = job.ran_at + timedelta(seconds=Watch.interval) if job.ran_at else job.due_at
        if job.name == Watch.name and is_behind(since, now, WATCH_LATE):
            yield Finding("watch-late", [job.name], seconds=(now - since).total_seconds())


def overdue(connection: Connection, now: datetime) -> datetime | None:
    """Return when the oldest run ended that should have gone two days ago; None while pruning waits."""
    return None if pruning(connection, now).begins_at else oldest_overdue(connection, now)


def examine_history(overdue: datetime | None, now: datetime) -> Iterator[Finding]:
    """Yield a finding if runs are there that should have been pruned."""
    if overdue:
        yield Finding("retention-behind", days=(now - overdue).days)
