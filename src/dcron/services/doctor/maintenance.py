"""Maintenance jobs that fail or are behind."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from dcron.services.doctor.finding import Finding, named
from dcron.store.cluster_figures import MaintenanceFigures

_BEHIND = timedelta(days=1)


def examine(jobs: Sequence[MaintenanceFigures], now: datetime) -> Iterator[Finding]:
    """Yield the jobs that fail, and those that are behind for other reasons."""
    failing = [job.name for job in jobs if job.failed]
    if failing:
        yield Finding(
            "maintenance-failed",
            f"the last round of these maintenance jobs failed: {named(failing)}",
            "old history stays until a round succeeds",
            "`dcron info` and the agents' logs say why",
            failing,
        )
    behind = [job.name for job in jobs if not job.failed and job.due_at < now - _BEHIND]
    if behind:
        yield Finding(
            "maintenance-behind",
            f"these maintenance jobs have been due for more than a day: {named(behind)}",
            "old history stays, and the database grows",
            "start an agent of this release; `dcron prune` does the work by hand",
            behind,
        )
