"""What an upgrade will take, and whom it meets: asked before it begins."""

from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from sqlalchemy import Connection, func, select, text

from dcron import migrations
from dcron.database import Database
from dcron.schema import nodes, runs

RUNS_A_SECOND = 8_000
"""How many rows of `runs` a revision that goes through all of them handles on a slow, busy machine."""


@dataclass(frozen=True)
class UpgradeEstimate:
    """What lies between the tables as they are and this program's."""

    runs: int
    """Rows that the upgrade goes through, at most by one revision; 0 where it only adds columns."""
    seconds: float
    agents: tuple[str, ...]
    """The IDs of the nodes whose leases are not over."""
    leases_last: float
    """Seconds until the first of their leases is over."""

    @property
    def stops_what_runs(self) -> bool:
        """Whether leases may run out meanwhile: then agents stop what they run."""
        return bool(self.agents) and self.seconds > self.leases_last / 2


def outlook(database: Database) -> UpgradeEstimate:
    """Look at the tables without changing them. Raises DatabaseError or SchemaVersionError."""
    version = migrations.current_version(database)
    if version is None or version not in migrations.known_versions():
        return UpgradeEstimate(0, 0.0, (), 0.0)
    pending = [each for each in migrations.known_versions() if each > version]
    with database.read() as connection:
        read = [_runs_read_by(connection, each) for each in pending]
        seconds = sum(read) / RUNS_A_SECOND
        return UpgradeEstimate(max(read, default=0), seconds, *_agents(connection, database.now(connection)))


def _runs_read_by(connection: Connection, version: str) -> int:
    """Return how many rows of `runs` a revision goes through.

    `GOES_THROUGH_RUNS = True` in the revision means all of them: estimated from the highest id, because
    counting takes long. A text is the condition of those it goes through, which an index has.
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
