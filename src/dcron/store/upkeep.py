"""Read what a heartbeat has to look after, in one statement: most heartbeats find nothing to do."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Connection, Executable, select, text

from dcron.schema import BLOCKED, nodes, runs
from dcron.store import claims, expiry, maintenance, notifications, tasks
from dcron.store.reaping import HeldLease


@dataclass(frozen=True)
class Upkeep:
    """What a living node finds in its heartbeat."""

    leases: dict[str, HeldLease]
    """The leases of the nodes that have not ended, by their IDs."""
    owns_runs: bool
    """Whether claimed or running runs bear the node's ID."""
    has_expired: bool
    """Whether runs that wait are past their deadlines."""
    has_blocked: bool
    """Whether there are blocked runs."""
    has_retirable: bool
    """Whether there are one-off tasks to delete."""
    due_job: str | None
    """The name of a maintenance job that is due and that no node holds."""
    has_notifications: bool
    """Whether notifications wait for the channels of the node."""


def take_upkeep(
    connection: Connection,
    node_id: str,
    now: datetime,
    jobs: Collection[str],
    channels: Collection[str] = (),
) -> Upkeep:
    """Return what this node, which has just renewed its lease, has to look after.

    `jobs` are the names of the maintenance jobs that it knows, `channels` those that it offers.
    """
    waiting = notifications.waiting_values(channels, now)
    values = {"node_id": node_id, **maintenance.due_values(jobs, now), **waiting}
    rows = connection.execute(_statement(), values).all()
    leases = {row.id: HeldLease(row.alive_until, row.lease) for row in rows}
    found = rows[0]
    return Upkeep(
        leases, found.owned, found.expired, found.blocked, found.retirable, found.due_job, found.notified
    )


@cache
def _statement() -> Executable:
    return select(
        *(nodes.c.id, nodes.c.alive_until, nodes.c.lease),
        claims.owned_runs().exists().label("owned"),
        expiry.expired(select(runs.c.id)).exists().label("expired"),
        select(runs.c.id).where(text(BLOCKED)).exists().label("blocked"),
        tasks.retirable().exists().label("retirable"),
        maintenance.due().scalar_subquery().label("due_job"),
        notifications.is_waiting().label("notified"),
    ).where(nodes.c.died_at.is_(None))
