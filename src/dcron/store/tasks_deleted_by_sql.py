"""The maintenance job that finds tasks which were deleted with plain SQL, and records the deletions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from dcron.database import Database
from dcron.policy.history import TASK_ACTIONS, RecordedChange
from dcron.schema.tables import changes, crontab
from dcron.store import audit_log
from dcron.store.changes import COLUMNS, change_from
from dcron.store.maintenance import Hold, Step

JOB = "deletions"


class FindDeletions:
    """Finds tasks that are gone although their last change leaves them in the crontab."""

    name = JOB
    interval = 3600.0

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Look at the last change of each task."""
        with database.read() as connection:
            found = [row.task_id for row in _unrecorded(connection) if row.task_id is not None]
        if found:
            with database.write() as connection:
                now = database.now(connection)
                hold.renew(connection, now, position)
                found = record(connection, now, found)
        return Step(None, {"deletions": len(found)})


def record(connection: Connection, now: datetime, task_ids: Collection[int]) -> list[int]:
    """Record which of these tasks were deleted with plain SQL; return their ids.

    Who deleted them is unknown, and so is when: they count as deleted now.
    """
    found = _unrecorded(connection, task_ids)
    for row in found:
        audit_log.record_sql_deletion(connection, now, row)
    return [row.task_id for row in found if row.task_id is not None]


def _unrecorded(connection: Connection, task_ids: Collection[int] | None = None) -> list[RecordedChange]:
    """Return the last changes of deleted tasks, of all or of these, after which they were still there."""
    of_tasks = [changes.c.action.in_(TASK_ACTIONS), changes.c.task_id.is_not(None)]
    if task_ids is not None:
        of_tasks.append(changes.c.task_id.in_(task_ids))
    last = select(func.max(changes.c.id)).where(*of_tasks).group_by(changes.c.task_id)
    is_there = select(crontab.c.id).where(crontab.c.id == changes.c.task_id).exists()
    query = select(*COLUMNS).where(
        changes.c.id.in_(last), changes.c.action.not_in(("rm", "retire")), ~is_there
    )
    return [change_from(row) for row in connection.execute(query.order_by(changes.c.id))]
