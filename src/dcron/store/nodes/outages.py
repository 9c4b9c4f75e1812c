"""Outages of the database, as agents saw them: the doctor compares them with the lease."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from dcron.schema.tables import changes
from dcron.store.nodes import epochs

_LATEST = 50
"""Changes among which an agent looks for a record of the same outage by another one."""
_MOST = 1_000
_LOOK_BACK = 20_000
"""How many of the latest changes are looked at: no index finds outages, and there are few of them."""


class Outage(NamedTuple):
    """A time in which a node could not renew its lease."""

    ended_at: datetime
    node_id: str
    seconds: float
    """From its last heartbeat to the next one, so up to a sixth of the lease longer than the outage."""


def record(connection: Connection, now: datetime, node_id: str, seconds: float) -> None:
    """Record that the node reaches the database again, unless another one has recorded this outage."""
    latest = select(changes.c.id).order_by(changes.c.id.desc()).limit(_LATEST).subquery()
    is_same = changes.c.at > now - timedelta(seconds=seconds), changes.c.at <= now
    known = select(changes.c.id).where(
        changes.c.id.in_(select(latest.c.id)), changes.c.action == "outage", *is_same
    )
    if connection.scalar(known.limit(1)) is None:
        epochs.record(connection, now, node_id, "outage", {}, {"seconds": round(seconds, 1)})


def since(connection: Connection, then: datetime) -> list[Outage]:
    """Return the outages that ended after this time, the latest first, among the latest changes."""
    query = select(changes.c.at, changes.c.actor, changes.c.after)
    oldest = select(func.max(changes.c.id) - _LOOK_BACK).scalar_subquery()
    recorded = query.where(changes.c.id > oldest, changes.c.action == "outage", changes.c.at > then)
    rows = connection.execute(recorded.order_by(changes.c.id.desc()).limit(_MOST))
    return [Outage(row.at, row.actor, _seconds(row.after)) for row in rows]


def _seconds(recorded: Any) -> float:
    seconds = recorded.get("seconds") if isinstance(recorded, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else 0.0
