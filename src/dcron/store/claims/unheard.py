"""Unheard runs: kept runs whose node was declared dead. They stay `running`, so nothing takes their place.

A node that comes back hears of its own. Otherwise the run is given up: when its time is over for sure, by a
person, or by the next agent that finds the spool of the node.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Executable, FromClause, Select, select, text, update

from dcron.database import Columns, Database
from dcron.model import Run, RunState
from dcron.policy.starting import disconnect
from dcron.schema.conditions import ALIVE, UNHEARD
from dcron.schema.tables import runs
from dcron.schema.types import Instant
from dcron.settings.registry import KEEP_RUNNING
from dcron.store.claims import finishing
from dcron.store.runs.rows import COLUMNS, is_in_state, run_from

IS_KEPT = runs.c.on_disconnect == KEEP_RUNNING
"""The run's command goes on while its node is cut off: its start has written so."""
IS_NOT_KEPT = runs.c.on_disconnect.is_distinct_from(KEEP_RUNNING)


class LastRenewal(NamedTuple):
    """When a dead node last renewed its lease, and for how many seconds; None if that is unknown."""

    at: datetime
    lease: float | None


def mark(connection: Connection, database: Database, dead: Mapping[str, LastRenewal]) -> None:
    """Mark the kept runs of nodes that were just declared dead as unheard, with the end of their time."""
    query = select(runs.c.id, runs.c.owner, runs.c.started_at, runs.c.spec)
    query = query.where(runs.c.owner.in_(list(dead)), text(ALIVE), is_in_state(RunState.RUNNING), IS_KEPT)
    marked = [_marked(row, dead[row.owner]) for row in connection.execute(query)]
    if marked:
        database.send(connection, _mark(database.rows(_MARKED)), database.values(_MARKED, marked))


def _marked(row: Any, last: LastRenewal) -> tuple[object, ...]:
    return row.id, last.at, disconnect.lost_after(row.started_at, row.spec, last.lease)


_MARKED = Columns(id=BigInteger(), unheard_since=Instant(), lost_after=Instant())


@cache
def _mark(batch: FromClause) -> Executable:
    query = update(runs).where(runs.c.id == batch.c.id, is_in_state(RunState.RUNNING))
    return query.values(unheard_since=batch.c.unheard_since, lost_after=batch.c.lost_after)


def of_nodes(connection: Connection, node_ids: list[str]) -> list[int]:
    """Return the unheard runs of these nodes."""
    query = select(runs.c.id).where(runs.c.owner.in_(node_ids), text(ALIVE), text(UNHEARD))
    return sorted(connection.scalars(query))


def of_tasks(connection: Connection, task_ids: Collection[int]) -> dict[int, int]:
    """Return the newest unheard run of each of these tasks that has one."""
    query = select(runs.c.task_id, runs.c.id).where(text(UNHEARD), runs.c.task_id.in_(task_ids))
    return {row.task_id: row.id for row in connection.execute(query.order_by(runs.c.id))}


def runs_of(connection: Connection, task_ids: Collection[int]) -> list[Run]:
    """Return the unheard runs of these tasks."""
    query = select(*COLUMNS).where(text(UNHEARD), runs.c.task_id.in_(task_ids)).order_by(runs.c.id)
    return [run_from(row) for row in connection.execute(query)]


def hear(connection: Connection, node_id: str) -> list[int]:
    """Note that the node is back with its runs; return those that were unheard and have not been given up."""
    mine = (runs.c.owner == node_id, text(ALIVE), text(UNHEARD))
    heard = update(runs).where(*mine).values(unheard_since=None, lost_after=None).returning(runs.c.id)
    return sorted(connection.scalars(heard))


def ending(connection: Connection, limit: int) -> dict[str, datetime]:
    """Return when the next unheard runs count as lost, by their ids as texts."""
    query = select(runs.c.id, runs.c.lost_after).where(text(UNHEARD), runs.c.lost_after.is_not(None))
    rows = connection.execute(query.order_by(runs.c.lost_after).limit(limit))
    return {str(row.id): row.lost_after for row in rows}


def give_up(
    connection: Connection, database: Database, now: datetime, over: Mapping[str, datetime]
) -> list[int]:
    """Declare unheard runs lost whose time is over; `over` has it as it was read. Return the ids.

    One whose node has come back in the meantime stays: the condition is checked again when it is locked.
    """
    lost: list[int] = []
    for run_id, lost_after in sorted(over.items()):
        as_read = (text(UNHEARD), runs.c.lost_after == lost_after)
        reason = "its node was not heard of again, and its time is over: how it ended is unknown"
        lost += finishing.declare_lost(connection, database, now, None, reason, [int(run_id)], where=as_read)
    return lost


def declare_lost(
    connection: Connection, database: Database, now: datetime, run_id: int, reason: str, actor: str
) -> bool:
    """Declare an unheard run lost because a person says so; return whether it was unheard."""
    where = [text(UNHEARD)]
    return bool(
        finishing.declare_lost(connection, database, now, None, reason, [run_id], where=where, by=actor)
    )


def settle(connection: Connection, database: Database, now: datetime, node_id: str) -> list[int]:
    """Declare the kept runs of a node lost that is certainly over, with its commands. Return the ids."""
    reason = "its agent and warden were killed, or the host restarted: how it ended is unknown"
    return finishing.declare_lost(connection, database, now, [node_id], reason, where=[IS_KEPT])


@cache
def every() -> Select[Any]:
    """Return the query for the ids of unheard runs."""
    return select(runs.c.id).where(text(UNHEARD))
