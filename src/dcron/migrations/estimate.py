"""Estimate, before an upgrade begins, how long it takes and which agents it affects."""

from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from sqlalchemy import Connection, func, select

from dcron import migrations
from dcron.database import Database
from dcron.schema.tables import nodes, runs


@dataclass(frozen=True)
class UpgradeEstimate:
    """How long the pending upgrade takes, and the agents that are alive."""

    runs: int
    """Rows of `runs` that the revisions process; 0 if they only add columns."""
    seconds: float
    agents: tuple[str, ...]
    """The IDs of the nodes whose leases are not over."""
    shortest_lease: float
    """Seconds until the first of their leases ends."""

    @property
    def may_stop_runs(self) -> bool:
        """Whether leases may end during the upgrade: then agents stop their runs."""
        return bool(self.agents) and self.seconds > self.shortest_lease / 2


def estimate_upgrade(database: Database) -> UpgradeEstimate:
    """Estimate the upgrade without changing the tables. Raises DatabaseError or SchemaVersionError."""
    version = migrations.current_version(database)
    if version is None or version not in migrations.known_versions():
        return UpgradeEstimate(0, 0.0, (), 0.0)
    pending = [each for each in migrations.known_versions() if each > version]
    with database.read() as connection:
        paces = [pace for each in pending if (pace := _runs_a_second(each))]
        runs_read = (connection.scalar(select(func.max(runs.c.id))) or 0) if paces else 0
        seconds = sum(runs_read / pace for pace in paces)
        return UpgradeEstimate(runs_read, seconds, *_agents(connection, database.now(connection)))


def _runs_a_second(version: str) -> int | None:
    """Return how many rows of `runs` a revision processes in a second on a slow, busy machine.

    `RUNS_A_SECOND` in the revision says so; None if it processes none. Their number is estimated by the
    highest id, because to count is slow.
    """
    (path,) = (path.stem for path in migrations.VERSIONS.glob(f"{version}_*.py"))
    return getattr(import_module(f"dcron.migrations.versions.{path}"), "RUNS_A_SECOND", None)


def _agents(connection: Connection, now: datetime) -> tuple[tuple[str, ...], float]:
    living = (nodes.c.died_at.is_(None), nodes.c.alive_until >= now)
    query = select(nodes.c.id, nodes.c.alive_until).where(*living).order_by(nodes.c.id)
    found = connection.execute(query).all()
    left = min((node.alive_until - now for node in found), default=None)
    return tuple(node.id for node in found), left.total_seconds() if left else 0.0
