"""What a database says of itself, for people who look after it."""

from dataclasses import dataclass

from dcron import migrations
from dcron.database import Database
from dcron.model import NodeState
from dcron.schema import SCHEMA_VERSION
from dcron.store import nodes, tasks


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


def database_facts(database: Database) -> DatabaseFacts:
    """Look at a database without changing it, whatever version its tables have. Raises DatabaseError."""
    with database.read() as connection:
        version = ".".join(map(str, connection.dialect.server_version_info or ()))
        journal = database.journal_mode(connection)
    schema = migrations.current_version(database)
    if schema != SCHEMA_VERSION:
        return DatabaseFacts(version, journal, schema, None, None)
    with database.read() as connection:
        now = database.now(connection)
        living = [node for node in nodes.listing(connection, now) if node.state(now) is not NodeState.LATE]
        return DatabaseFacts(version, journal, schema, tasks.count(connection), len(living))
