"""Facts about a database, for `dcron info` and other checks by its operators."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from dcron import migrations
from dcron.database import Database, Protection, Replication
from dcron.fields.retention import DEFAULTS, format_value
from dcron.model import NodeState
from dcron.schema.tables import SCHEMA_VERSION
from dcron.store.nodes import epochs
from dcron.store.nodes import rows as nodes
from dcron.store.retention.history import EARLIEST, settings_kept
from dcron.store.retention.walk import Pruning, pruning
from dcron.store.statistics import finished_runs
from dcron.store.tasks import rows as tasks


@dataclass(frozen=True)
class DatabaseFacts:
    """Facts about a database."""

    version: str
    journal_mode: str | None
    """SQLite's; None for Postgres."""
    schema: str | None
    """The version of dcron's tables; None if there are none."""
    tasks: int | None
    """None if the tables are missing or have another version."""
    nodes_alive: int | None
    replication: Replication | None = None
    """Postgres's; None for SQLite."""
    protection: Protection | None = None
    """How the connection to Postgres is protected; None for SQLite."""
    last_epoch: Row[Any] | None = None
    """The latest record of a rollback of the database."""
    last_set_back: Row[Any] | None = None
    """The latest record of its clock being set back."""
    now: datetime | None = None
    """The database's time; None if the tables are missing or have another version."""
    pruning: Pruning | None = None
    """The last round of pruning."""
    oldest_end: datetime | None = None
    """When the oldest run in the history ended."""
    keep_runs: str = ""
    """How long runs are kept that succeeded."""
    pooler: str | None = None
    """How a pooler before Postgres assigns sessions; None without one."""


def database_facts(database: Database) -> DatabaseFacts:
    """Read the facts without changing the database; its tables may have any version. Raises DatabaseError."""
    with database.read() as connection:
        version = ".".join(map(str, connection.dialect.server_version_info or ()))
        journal = database.journal_mode(connection)
        server = database.replication(connection), database.protection(connection)
    schema = migrations.current_version(database)
    if schema != SCHEMA_VERSION:
        return DatabaseFacts(version, journal, schema, None, None, *server, pooler=database.pooler)
    with database.read() as connection:
        now = database.now(connection)
        living = [node for node in nodes.listing(connection, now) if node.state(now) is not NodeState.LATE]
        incidents = epochs.last(connection, "epoch"), epochs.last(connection, "clock")
        count = tasks.count(connection)
        return DatabaseFacts(
            *(version, journal, schema, count, len(living), *server, *incidents),
            pooler=database.pooler,
            now=now,
            pruning=pruning(connection, now),
            oldest_end=finished_runs.first_end(connection, EARLIEST),
            keep_runs=format_value("runs", settings_kept(connection).get("runs", DEFAULTS["runs"])),
        )
