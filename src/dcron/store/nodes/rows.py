"""Read and write nodes and their leases, which are times of the database's clock."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Row,
    Text,
    Update,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from dcron.database import Database, Reply
from dcron.migrations import VERSION_TABLE
from dcron.model import LONGEST_DURATION, Node
from dcron.schema.conditions import ALIVE, UNHEARD
from dcron.schema.tables import nodes, runs

_VERSION = literal_column(f"(SELECT version_num FROM {VERSION_TABLE})", Text()).label("version")
_COUNTED = ("running", "unheard", "unheard_since")
COLUMNS = [nodes.c[name] for name in Node.__dataclass_fields__ if name not in _COUNTED]
_LISTS = ("tags", "queues", "channels")
LABELLED = [column.label(f"node_{column.name}") for column in COLUMNS]
"""The columns, for a statement that also reads other tables."""


def register(connection: Connection, node: Node) -> None:
    """Insert a node under its new ID."""
    values = {column.name: getattr(node, column.name) for column in COLUMNS}
    values |= {name: list(values[name]) for name in _LISTS} | {"capacity": dict(node.capacity)}
    if node.accepted_accounts is not None:
        values["accepted_accounts"] = list(node.accepted_accounts)
    connection.execute(insert(nodes).values(values))


def publish_policy(
    connection: Connection,
    node_id: str,
    accepted: Iterable[str],
    rules: Mapping[str, Any] | None,
    digest: str | None,
    error: str | None,
) -> None:
    """Write what the policy of a node accepts, and why a changed file is not in force."""
    values: dict[str, Any] = {"accepted_accounts": list(accepted), "policy": rules}
    values |= {"policy_digest": digest, "policy_error": error}
    connection.execute(update(nodes).where(nodes.c.id == node_id).values(values))


def published_policies(connection: Connection, node_ids: Collection[str]) -> dict[str, Any]:
    """Return the rules that these nodes have published, by their IDs."""
    query = select(nodes.c.id, nodes.c.policy).where(nodes.c.id.in_(node_ids), nodes.c.policy.is_not(None))
    return {row.id: row.policy for row in connection.execute(query)}


def renew(connection: Connection, node_id: str, now: datetime, lease: float) -> Row[Any] | None:
    """Extend the lease to `lease` seconds after `now`. Return None if the node is dead or missing.

    The returned row has `draining`, the number of `renewals`, and the tables' `version`, so that noticing an
    upgrade costs no statement of its own.
    """
    until = now + timedelta(seconds=lease)
    return next(iter(Reply(connection, _renew(), {"node_id": node_id, "until": until}).rows()), None)


def send_renewal(
    connection: Connection, database: Database, node_id: str, now: datetime, lease: float
) -> Reply:
    """Extend the lease like `renew`, together with the statement that follows."""
    given = {"node_id": node_id, "until": now + timedelta(seconds=lease)}
    return database.send(connection, _renew(), given)


def beat(
    connection: Connection,
    database: Database,
    node_id: str,
    now: datetime,
    lease: float,
    clock_offset: float,
) -> Row[Any] | None:
    """Renew the lease with a heartbeat. The row also has the `newest` run and the highest id `issued`."""
    until = now + timedelta(seconds=lease)
    given = {"node_id": node_id, "until": until, "offset": clock_offset, "lease": lease}
    return connection.execute(_beat(database.issued), given).first()


def revive(connection: Connection, node_id: str) -> None:
    """Take back that the node was declared dead: it has kept runs. A renewal has to follow.

    One that signed off, or that the database does not know, stays so.
    """
    dead = update(nodes).where(nodes.c.id == node_id, nodes.c.died_how == "dead")
    connection.execute(dead.values(died_at=None, died_how=None))


@cache
def _renew() -> Executable:
    return _renewal().returning(nodes.c.draining, nodes.c.renewals, _VERSION)


def _renewal() -> Update:
    living = update(nodes).where(nodes.c.id == bindparam("node_id"), nodes.c.died_at.is_(None))
    return living.values(alive_until=bindparam("until"), renewals=nodes.c.renewals + 1)


@cache
def _beat(issued: ColumnElement[int]) -> Executable:
    offset = bindparam("offset", type_=Float())
    newest = select(func.max(runs.c.id)).scalar_subquery()
    renewal = _renewal().values(clock_offset=offset, lease=bindparam("lease", type_=Float()))
    seen = newest.label("newest"), issued.label("issued")
    return renewal.returning(nodes.c.draining, nodes.c.renewals, _VERSION, *seen)


def is_known(connection: Connection, node_id: str) -> bool:
    """Return whether the node has a row, dead or alive."""
    return connection.scalar(select(nodes.c.id).where(nodes.c.id == node_id)) is not None


def listing(connection: Connection, now: datetime, *, ended_since: datetime | None = None) -> list[Node]:
    """Return the nodes that are alive, and those that ended at `ended_since` or later; the newest last.

    With `ended_since` also those that ended earlier and have unheard runs.
    """
    running = select(func.count()).where(runs.c.owner == nodes.c.id, text(ALIVE)).scalar_subquery()
    query = select(*COLUMNS, running.label("running")).where(nodes.c.died_at.is_(None))
    listed = from_rows(connection.execute(query))
    if ended_since:
        unheard = _unheard(connection)
        lately = nodes.c.died_at >= ended_since
        ended = select(*COLUMNS).where(lately | nodes.c.id.in_(list(unheard)))
        for row in connection.execute(ended):
            number, since = unheard.get(row.id, (0, None))
            listed.append(_node({**row._mapping, "unheard": number, "unheard_since": since}))
    return sorted(listed, key=lambda node: (node.started_at, node.id))


def _unheard(connection: Connection) -> dict[str, tuple[int, datetime]]:
    """Return how many unheard runs each node has, and since when."""
    since = func.min(runs.c.unheard_since)
    query = select(runs.c.owner, func.count(), since).where(text(UNHEARD)).group_by(runs.c.owner)
    return {owner: (number, first) for owner, number, first in connection.execute(query)}


def living(connection: Connection, now: datetime) -> list[Node]:
    """Return the nodes whose leases are not over, in the order of their IDs."""
    return ask_living(connection, now)()


def ask_living(connection: Connection, now: datetime) -> Callable[[], list[Node]]:
    """Read the same together with the statements that follow; return the function that returns it."""
    reply = Reply(connection, _living(), {"now": now})
    return lambda: [_node(row._asdict()) for row in reply.rows()]


@cache
def _living() -> Executable:
    alive = (nodes.c.died_at.is_(None), nodes.c.alive_until >= bindparam("now"))
    return select(*COLUMNS).where(*alive).order_by(nodes.c.id)


def not_ended(connection: Connection) -> list[Node]:
    """Return the nodes that neither signed off nor were declared dead, in the order of their IDs."""
    query = select(*COLUMNS).where(nodes.c.died_at.is_(None))
    return from_rows(connection.execute(query.order_by(nodes.c.id)))


def from_rows(rows: Iterable[Row[Any]]) -> list[Node]:
    """Return the nodes of rows that have COLUMNS, and perhaps how many runs are `running`."""
    return [_node(row._asdict()) for row in rows]


def from_labelled(row: Row[Any]) -> Node:
    """Return the node of a row that has LABELLED."""
    return _node({column.name: row._mapping[f"node_{column.name}"] for column in COLUMNS})


def is_alive(connection: Connection, node_id: str) -> bool:
    """Return whether this node has neither been declared dead nor signed off."""
    alive = select(nodes.c.id).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    return connection.scalar(alive) is not None


def is_draining(connection: Connection, node_id: str) -> bool | None:
    """Return whether this living node claims no runs; None if there is none of this ID."""
    alive = select(nodes.c.draining).where(nodes.c.id == node_id, nodes.c.died_at.is_(None))
    return connection.scalar(alive)


def drain(connection: Connection, node_id: str, *, draining: bool) -> None:
    """Set or clear `draining` of a living node. A draining node claims no runs."""
    alive = (nodes.c.id == node_id, nodes.c.died_at.is_(None))
    connection.execute(update(nodes).where(*alive).values(draining=draining))


def _node(values: Mapping[str, Any]) -> Node:
    lease = values["lease"] if values["lease"] and 0 < values["lease"] <= LONGEST_DURATION else None
    lists: dict[str, Any] = {name: tuple(values[name]) for name in _LISTS}
    accepted = values["accepted_accounts"]
    # Text that another program wrote stands for no list, as with an agent of an earlier version.
    lists["accepted_accounts"] = tuple(accepted) if isinstance(accepted, list) else None
    return Node(**{**values, **lists, "lease": lease})
