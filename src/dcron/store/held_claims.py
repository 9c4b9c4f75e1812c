"""Held claims: which of them may still start after the time for which a node held them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from sqlalchemy import BigInteger, Connection, Executable, FromClause, select

from dcron.database import Columns, Database
from dcron.schema import crontab, runs
from dcron.store.candidates import ClaimedRun


@dataclass
class Checked:
    """What becomes of held claims."""

    to_start: list[ClaimedRun] = field(default_factory=list)
    """Runs that start, including those to cancel."""
    to_cancel: dict[int, str] = field(default_factory=dict)
    """Runs whose cancellation was requested, and by whom. Their commands must not begin."""
    to_release: list[int] = field(default_factory=list)
    """Runs that have expired, or whose task was edited, paused or removed since the claim."""


def check(connection: Connection, database: Database, held: Sequence[ClaimedRun], now: datetime) -> Checked:
    """Compare held claims with their rows and tasks."""
    given = database.values(_HELD, ([run.id] for run in held))
    rows = {row.id: row for row in connection.execute(_rows(database.rows(_HELD)), given)}
    checked = Checked()
    for run in held:
        row = rows.get(run.id)
        if row is None:  # the database went back in time
            continue
        if row.cancel_requested_by is not None:
            checked.to_cancel[run.id] = row.cancel_requested_by
        elif row.version != run.task.version or (run.expires_at is not None and run.expires_at <= now):
            checked.to_release.append(run.id)
            continue
        checked.to_start.append(run)
    return checked


_HELD = Columns(id=BigInteger())


@cache
def _rows(batch: FromClause) -> Executable:
    return (
        select(runs.c.id, runs.c.cancel_requested_by, crontab.c.version)
        .join_from(batch, runs, runs.c.id == batch.c.id)
        .outerjoin(crontab, crontab.c.id == runs.c.task_id)
    )
