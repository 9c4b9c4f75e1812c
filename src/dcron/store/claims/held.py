"""Held claims: start those that may still start after the time for which a node held them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import BigInteger, Connection, Executable, FromClause, Integer, bindparam, or_, select, update

from dcron.database import Columns, Database
from dcron.model import RunState
from dcron.schema.tables import crontab, runs
from dcron.store import freezes
from dcron.store.claims import claims
from dcron.store.planning import successors
from dcron.store.runs.candidates import ClaimedRun
from dcron.store.runs.rows import is_in_state


def start(
    connection: Connection, database: Database, node_id: str, now: datetime, held: Sequence[ClaimedRun]
) -> list[ClaimedRun]:
    """Re-read the ownership of held claims, record their start, and insert the next scheduled runs.

    Leave out runs that have expired or whose cancellation was requested, runs of tasks that were edited,
    paused or removed since the claim, and all but manual runs if the crontab was frozen since. Only the
    returned runs may start, and only after the commit.
    """
    given = database.values(_HELD, ((run.id, run.task.version, int(run.lane.is_requested)) for run in held))
    given |= {"node_id": node_id, "now": now}
    started_ids = set(connection.scalars(_start(database.rows(_HELD)), given))
    started = [run for run in held if run.id in started_ids]
    claims.stamp_kept(connection, database, node_id, started)
    successors.add(connection, database, started, now, running=True)
    return started


def cancelled(connection: Connection, run_ids: Collection[int]) -> dict[int, str]:
    """Return which of these runs are to be cancelled, each with the actor who requested it."""
    query = select(runs.c.id, runs.c.cancel_requested_by)
    query = query.where(runs.c.id.in_(run_ids), runs.c.cancel_requested_by.is_not(None))
    return {row.id: row.cancel_requested_by for row in connection.execute(query)}


_HELD = Columns(id=BigInteger(), version=Integer(), manual=Integer())


@cache
def _start(batch: FromClause) -> Executable:
    return (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == bindparam("node_id"), is_in_state(RunState.CLAIMED))
        .where(crontab.c.id == runs.c.task_id, crontab.c.version == batch.c.version)
        .where(or_(batch.c.manual == 1, ~freezes.is_frozen()))
        .where(runs.c.cancel_requested_by.is_(None))
        .where(or_(runs.c.expires_at.is_(None), runs.c.expires_at > bindparam("now")))
        .values(state=RunState.RUNNING, started_at=bindparam("now"))
        .returning(runs.c.id)
    )
