"""The end of nodes: signed off by themselves, or declared dead by whoever finds their lease over."""

from datetime import datetime

from sqlalchemy import Connection, select, update

from dcron.database import Database
from dcron.schema import nodes
from dcron.store import claims, ends, orphans


def sign_off(connection: Connection, database: Database, node_id: str, now: datetime) -> None:
    """The node stops of its own accord: it gives back its claims and writes no more."""
    claims.release(connection, [node_id])
    ends.declare_lost(connection, database, now, [node_id], "its agent stopped")
    query = update(nodes).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    connection.execute(query.values(died_at=now, died_how="stopped"))
    orphans.settle_nodeless(connection, now, limit=1000)


def reap(connection: Connection, database: Database, now: datetime) -> tuple[list[str], list[int]]:
    """Declare nodes dead whose lease is over: their claims wait again, what they ran is lost.

    Any node may do this. The dead nodes' IDs and the lost runs' ids.
    """
    over = update(nodes).where(nodes.c.died_at.is_(None), nodes.c.alive_until < now)
    dead = list(connection.scalars(over.values(died_at=now, died_how="dead").returning(nodes.c.id)))
    lost: list[int] = []
    for node_id in dead:
        claims.release(connection, [node_id])
        lost += ends.declare_lost(connection, database, now, [node_id], f"node {node_id} died while it ran")
    if dead:
        orphans.settle_nodeless(connection, now, limit=1000)
    return dead, lost


def has_to_reap(connection: Connection, now: datetime) -> bool:
    """Whether `reap` would find anything."""
    over = select(nodes.c.id).where(nodes.c.died_at.is_(None), nodes.c.alive_until < now).limit(1)
    return connection.scalar(over) is not None
