"""The nodes: who is alive, by leases on the database's clock."""

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Row,
    Update,
    bindparam,
    func,
    insert,
    literal,
    select,
    text,
    update,
)

from dcron.database import Database, Reply
from dcron.migrations import VERSION_TABLE
from dcron.model import LONGEST_DURATION, Node
from dcron.schema import ALIVE, nodes, runs

_VERSION = text(f"(SELECT version_num FROM {VERSION_TABLE}) AS version")
COLUMNS = [nodes.c[name] for name in Node.__dataclass_fields__ if name != "running"]


def register(connection: Connection, node: Node) -> None:
    """Enter a node under its new ID."""
    values = {column.name: getattr(node, column.name) for column in COLUMNS}
    values |= {"tags": list(node.tags), "queues": list(node.queues), "capacity": dict(node.capacity)}
    connection.execute(insert(nodes).values(values))


def renew(connection: Connection, node_id: str, now: datetime, lease: float) -> Row[Any] | None:
    """Extend the lease to `lease` seconds from now. Return the `draining` mark and how many `renewals` there
    were, or None if the node is dead or missing.

    Both renewals also return the tables' `version`: noticing an upgrade costs no statement of its own.
    """
    until = now + timedelta(seconds=lease)
    return connection.execute(_renewed(), {"node_id": node_id, "until": until}).first()


def send_renewal(
    connection: Connection, database: Database, node_id: str, now: datetime, lease: float
) -> Reply:
    """Extend the lease together with the statement that follows."""
    given = {"node_id": node_id, "until": now + timedelta(seconds=lease)}
    return database.send(connection, _renewed(), given)


def beat(
    connection: Connection,
    database: Database,
    node_id: str,
    now: datetime,
    lease: float,
    clock_offset: float,
) -> Row[Any] | None:
    """The same with each heartbeat, which also asks for the `newest` run and the highest id `issued`."""
    until = now + timedelta(seconds=lease)
    given = {"node_id": node_id, "until": until, "offset": clock_offset, "lease": lease}
    return connection.execute(_beaten(database.issued), given).first()


@cache
def _renewed() -> Executable:
    return _renewal().returning(nodes.c.draining, nodes.c.renewals, _VERSION)


def _renewal() -> Update:
    living = update(nodes).where(nodes.c.id == bindparam("node_id"), nodes.c.died_at.is_(None))
    return living.values(alive_until=bindparam("until"), renewals=nodes.c.renewals + 1)


@cache
def _beaten(issued: ColumnElement[int]) -> Executable:
    offset = bindparam("offset", type_=Float())
    newest = select(func.max(runs.c.id)).scalar_subquery()
    renewal = _renewal().values(clock_offset=offset, lease=bindparam("lease", type_=Float()))
    seen = newest.label("newest"), issued.label("issued")
    return renewal.returning(nodes.c.draining, nodes.c.renewals, _VERSION, *seen)


def is_known(connection: Connection, node_id: str) -> bool:
    """Return whether the node has a row, dead or alive."""
    return connection.scalar(select(nodes.c.id).where(nodes.c.id == node_id)) is not None


def listing(connection: Connection, now: datetime, *, ended_since: datetime | None = None) -> list[Node]:
    """The nodes that live, and those that ended after `ended_since`; the newest last."""
    running = select(func.count()).where(runs.c.owner == nodes.c.id, text(ALIVE)).scalar_subquery()
    query = select(*COLUMNS, running.label("running")).where(nodes.c.died_at.is_(None))
    found = list(connection.execute(query))
    if ended_since:
        ended = select(*COLUMNS, literal(0).label("running")).where(nodes.c.died_at >= ended_since)
        found += connection.execute(ended)
    return sorted(map(_node_from, found), key=lambda node: (node.started_at, node.id))


def living(connection: Connection, now: datetime) -> list[Node]:
    """The nodes whose leases are not over, in the order of their IDs."""
    alive = (nodes.c.died_at.is_(None), nodes.c.alive_until >= now)
    query = select(*COLUMNS, literal(0).label("running")).where(*alive).order_by(nodes.c.id)
    return [_node_from(row) for row in connection.execute(query)]


def is_alive(connection: Connection, node_id: str) -> bool:
    """Whether nobody has declared this node dead, nor has it signed off."""
    alive = select(nodes.c.id).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    return connection.scalar(alive) is not None


def drain(connection: Connection, node_id: str, *, draining: bool) -> None:
    """Mark a node, if it is alive, so that it takes nothing new; or take the mark away."""
    alive = (nodes.c.id == node_id, nodes.c.died_at.is_(None))
    connection.execute(update(nodes).where(*alive).values(draining=draining))


def _node_from(row: Any) -> Node:
    values = dict(row._mapping)
    lease = row.lease if row.lease and 0 < row.lease <= LONGEST_DURATION else None
    return Node(**values | {"tags": tuple(row.tags), "queues": tuple(row.queues), "lease": lease})
