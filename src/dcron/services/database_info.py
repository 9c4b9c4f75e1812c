"""What a database says of itself, for people who look after it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from dcron import migrations
from dcron.database import Database, Protection, Replication
from dcron.model import NodeState
from dcron.schema import SCHEMA_VERSION
from dcron.store import epochs, nodes, tasks


@dataclass(frozen=True)
class DatabaseFacts:
    """What a database says of itself."""

    version: str
    journal_mode: str | None
    """SQLite's; None for Postgres."""
    schema: str | None
    """The version of dcron's tables; None where there are none."""
    tasks: int | None
    """None where the tables are missing, or of another version."""
    nodes_alive: int | None
    replication: Replication | None = None
    """Postgres's; None for SQLite."""
    protection: Protection | None = None
    """Of the connection to Postgres; None for SQLite."""
    last_epoch: Row[Any] | None = None
    """The note of the last time that the database went back in time."""
    last_set_back: Row[Any] | None = None
    """The note of the last time that its clock was set back."""


def database_facts(database: Database) -> DatabaseFacts:
    """Look at a database without changing it, whatever version its tables have. Raises DatabaseError."""
    with database.read() as connection:
        version = ".".join(map(str, connection.dialect.server_version_info or ()))
        journal = database.journal_mode(connection)
        server = database.replication(connection), database.protection(connection)
    schema = migrations.current_version(database)
    if schema != SCHEMA_VERSION:
        return DatabaseFacts(version, journal, schema, None, None, *server)
    with database.read() as connection:
        now = database.now(connection)
        living = [node for node in nodes.listing(connection, now) if node.state(now) is not NodeState.LATE]
        happened = epochs.last(connection, "epoch"), epochs.last(connection, "clock")
        count = tasks.count(connection)
        return DatabaseFacts(version, journal, schema, count, len(living), *server, *happened)
