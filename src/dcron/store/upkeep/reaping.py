"""End nodes: they sign off, or another node declares them dead when their lease is over."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, update

from dcron.database import Database
from dcron.schema.tables import nodes
from dcron.store.claims import claims, finishing, unheard
from dcron.store.runs import unclaimable


def sign_off(connection: Connection, database: Database, node_id: str, now: datetime) -> None:
    """End a node that stops: release its claims and mark what it still runs as lost."""
    claims.release(connection, [node_id])
    finishing.declare_lost(connection, database, now, [node_id], "its agent stopped")
    query = update(nodes).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    connection.execute(query.values(died_at=now, died_how="stopped"))
    unclaimable.skip_nodeless(connection, now, limit=1000)


class HeldLease(NamedTuple):
    """Until when a node is alive (UTC), and how many seconds its lease lasts; None if unknown."""

    alive_until: datetime
    seconds: float | None = None


def reap(
    connection: Connection, database: Database, now: datetime, over: Mapping[str, datetime]
) -> tuple[list[str], list[int]]:
    """Declare nodes dead whose leases are over: their claims wait again, and what they ran is lost.

    A kept run stays `running` and is marked as unheard: its command may still run. The row decides that, not
    the task, which may have been edited since the start.

    Any node may do this. `over` has the end of each lease as it was read; a node that has renewed since stays
    alive. Return the IDs of the dead nodes and the ids of the lost runs.
    """
    dead: list[str] = []
    lost: list[int] = []
    last: dict[str, unheard.LastRenewal] = {}
    # In one order, so that two nodes that reap do not deadlock.
    for node_id, alive_until in sorted(over.items()):
        unrenewed = (nodes.c.id == node_id, nodes.c.died_at.is_(None), nodes.c.alive_until == alive_until)
        declared = update(nodes).where(*unrenewed).values(died_at=now, died_how="dead")
        row = connection.execute(declared.returning(nodes.c.lease)).first()
        if row is None:
            continue
        since = alive_until - timedelta(seconds=row.lease or 0.0)
        last[node_id] = unheard.LastRenewal(since, row.lease)
        dead.append(node_id)
        claims.release(connection, [node_id])
        lost += finishing.declare_lost(
            *(connection, database, now, [node_id], f"node {node_id} died while it ran"),
            where=[unheard.IS_NOT_KEPT],
        )
    if dead:
        unheard.mark(connection, database, last)  # after the tasks are locked: locks of runs come last
        unclaimable.skip_nodeless(connection, now, limit=1000)
    return dead, lost
