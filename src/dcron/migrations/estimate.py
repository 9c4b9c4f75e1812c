"""Estimate, before an upgrade begins, how long it takes and which agents it affects."""

from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from sqlalchemy import Connection, func, select, text

from dcron import migrations
from dcron.database import Database
from dcron.schema import nodes, runs

RUNS_A_SECOND = 8_000
"""How many rows of `runs` a revision processes on a slow, busy machine."""


@dataclass(frozen=True)
class UpgradeEstimate:
    """How long the pending upgrade takes, and the agents that are alive."""

    runs: int
    """Rows of `runs` that the longest of the revisions processes; 0 if they only add columns."""
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
        read = [_runs_read_by(connection, each) for each in pending]
        seconds = sum(read) / RUNS_A_SECOND
        return UpgradeEstimate(max(read, default=0), seconds, *_agents(connection, database.now(connection)))


def _runs_read_by(connection: Connection, version: str) -> int:
    """Return how many rows of `runs` a revision processes.

    `GOES_THROUGH_RUNS = True` in the revision means all of them: estimated by the highest id, because to
    count is slow. A text is the condition of the rows it processes, which an index has.
    """
    (path,) = (path.stem for path in migrations.VERSIONS.glob(f"{version}_*.py"))
    which = getattr(import_module(f"dcron.migrations.versions.{path}"), "GOES_THROUGH_RUNS", False)
    if not which:
        return 0
    if which is True:
        return connection.scalar(select(func.max(runs.c.id))) or 0
    return connection.scalar(select(func.count()).select_from(runs).where(text(which))) or 0


def _agents(connection: Connection, now: datetime) -> tuple[tuple[str, ...], float]:
    living = (nodes.c.died_at.is_(None), nodes.c.alive_until >= now)
    query = select(nodes.c.id, nodes.c.alive_until).where(*living).order_by(nodes.c.id)
    found = connection.execute(query).all()
    left = min((node.alive_until - now for node in found), default=None)
    return tuple(node.id for node in found), left.total_seconds() if left else 0.0
