"""Read what a heartbeat has to look after, in one statement: most heartbeats find nothing to do."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Connection, Executable, select, text, type_coerce

from dcron.database import Database
from dcron.schema.conditions import BLOCKED
from dcron.schema.tables import nodes, runs, settings
from dcron.schema.types import Instant
from dcron.settings.registry import ON_DISCONNECT
from dcron.store import maintenance
from dcron.store.alerts import notifications
from dcron.store.claims import claims, unheard
from dcron.store.tasks import rows as tasks
from dcron.store.tasks.settings import is_of
from dcron.store.upkeep import expiry
from dcron.store.upkeep.reaping import HeldLease


@dataclass(frozen=True)
class Todo:
    """What a living node finds in its heartbeat."""

    leases: dict[str, HeldLease]
    """The leases of the nodes that have not ended, by their IDs."""
    read_at: datetime
    """The database's time in the same statement: no lease was renewed later. On SQLite, where a writer is
    alone, the time of the heartbeat."""
    owns_runs: bool
    """Whether claimed or running runs bear the node's ID."""
    has_expired: bool
    """Whether runs that wait are past their deadlines."""
    has_blocked: bool
    """Whether there are blocked runs."""
    has_retirable: bool
    """Whether there are one-off tasks to delete."""
    due_jobs: tuple[str | None, str | None]
    """A quick maintenance job that is due and that no node holds, and another one: their names.

    They are found apart, so that no slow job hides a quick one.
    """
    has_notifications: bool
    """Whether notifications wait for the channels of the node."""
    has_unheard: bool
    """Whether there are runs of dead nodes whose commands may still run."""
    has_on_disconnect: bool
    """Whether settings say which commands go on while their node is cut off."""


def take_upkeep(
    connection: Connection,
    database: Database,
    node_id: str,
    now: datetime,
    quick_jobs: Collection[str],
    slow_jobs: Collection[str],
    channels: Collection[str] = (),
) -> Todo:
    """Return what this node, which has just renewed its lease, has to look after.

    `quick_jobs` and `slow_jobs` are the names of the maintenance jobs that it can do, `channels` those that
    it offers.
    """
    waiting = notifications.waiting_values(channels, now)
    jobs = maintenance.due_values(now, quick_jobs=quick_jobs, slow_jobs=slow_jobs)
    values = {"node_id": node_id, **jobs, **waiting}
    rows = connection.execute(_statement(database.time), values).all()
    leases = {row.id: HeldLease(row.alive_until, row.lease) for row in rows}
    found = rows[0]._mapping
    due_jobs = found["due_quick_job"], found["due_slow_job"]
    same = {name: found[name] for name in Todo.__dataclass_fields__ if name in found}
    return Todo(leases=leases, due_jobs=due_jobs, **same)


@cache
def _statement(time: ColumnElement[datetime]) -> Executable:
    return select(
        type_coerce(time, Instant()).label("read_at"),
        *(nodes.c.id, nodes.c.alive_until, nodes.c.lease),
        claims.owned_runs().exists().label("owns_runs"),
        expiry.expired(select(runs.c.id)).exists().label("has_expired"),
        select(runs.c.id).where(text(BLOCKED)).exists().label("has_blocked"),
        tasks.retirable().exists().label("has_retirable"),
        maintenance.due("quick_jobs").scalar_subquery().label("due_quick_job"),
        maintenance.due("slow_jobs").scalar_subquery().label("due_slow_job"),
        notifications.is_waiting().label("has_notifications"),
        unheard.every().exists().label("has_unheard"),
        select(settings.c.name).where(is_of(ON_DISCONNECT.name)).exists().label("has_on_disconnect"),
    ).where(nodes.c.died_at.is_(None))
