"""The nodes: who is alive, by leases on the database's clock."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, literal, select, text, update

from dcron.model import Node
from dcron.schema import ALIVE, nodes, runs
from dcron.store import agenda, claims

COLUMNS = [nodes.c[name] for name in Node.__dataclass_fields__ if name != "running"]


def register(connection: Connection, node: Node) -> None:
    """Enter a node under its new ID."""
    values = {column.name: getattr(node, column.name) for column in COLUMNS}
    connection.execute(insert(nodes).values(values))


def renew(
    connection: Connection, node_id: str, now: datetime, lease: float, clock_offset: float | None = None
) -> Row[Any] | None:
    """Extend the node's lease to `lease` seconds from now; its `draining` mark, or None if declared dead."""
    values: dict[str, Any] = {"alive_until": now + timedelta(seconds=lease)}
    if clock_offset is not None:
        values["clock_offset"] = clock_offset
    alive = (nodes.c.id == node_id, nodes.c.died_at.is_(None))
    return connection.execute(update(nodes).where(*alive).values(values).returning(nodes.c.draining)).first()


def sign_off(connection: Connection, node_id: str, now: datetime) -> None:
    """The node stops of its own accord: it gives back its claims and writes no more."""
    claims.release(connection, [node_id])
    claims.declare_lost(connection, now, [node_id], "its agent stopped")
    query = update(nodes).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    connection.execute(query.values(died_at=now, died_how="stopped"))
    agenda.settle_orphans(connection, now, limit=1000)


def reap(connection: Connection, now: datetime) -> tuple[list[str], list[int]]:
    """Declare nodes dead whose lease is over: their claims wait again, what they ran is lost.

    Any node may do this. The dead nodes' IDs and the lost runs' ids.
    """
    over = update(nodes).where(nodes.c.died_at.is_(None), nodes.c.alive_until < now)
    dead = list(connection.scalars(over.values(died_at=now, died_how="dead").returning(nodes.c.id)))
    lost: list[int] = []
    for node_id in dead:
        claims.release(connection, [node_id])
        lost += claims.declare_lost(connection, now, [node_id], f"node {node_id} died while it ran")
    if dead:
        agenda.settle_orphans(connection, now, limit=1000)
    return dead, lost


def has_to_reap(connection: Connection, now: datetime) -> bool:
    """Whether `reap` would find anything."""
    over = select(nodes.c.id).where(nodes.c.died_at.is_(None), nodes.c.alive_until < now).limit(1)
    return connection.scalar(over) is not None


def listing(connection: Connection, now: datetime, *, ended_since: datetime | None = None) -> list[Node]:
    """The nodes that live, and those that ended after `ended_since`; the newest last."""
    running = select(func.count()).where(runs.c.owner == nodes.c.id, text(ALIVE)).scalar_subquery()
    query = select(*COLUMNS, running.label("running")).where(nodes.c.died_at.is_(None))
    found = list(connection.execute(query))
    if ended_since:
        ended = select(*COLUMNS, literal(0).label("running")).where(nodes.c.died_at >= ended_since)
        found += connection.execute(ended)
    return sorted((Node(**row._mapping) for row in found), key=lambda node: (node.started_at, node.id))
