"""Making and upgrading the tables. Alembic does the work and is loaded only when there is some."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, inspect, select, text, update

from dcron.database import SCHEMA, Database, lacks_tables
from dcron.errors import DatabaseError, SchemaVersionError
from dcron.schema import SCHEMA_VERSION, metadata, nodes

VERSION_TABLE = "dcron_version"
VERSIONS = Path(__file__).parent / "versions"
_LOCK = 0x6463726F6E  # "dcron"


def prepare(database: Database, *, make: bool = True) -> None:
    """Make sure the tables are there and of this program's version; with `make` an empty database gets them.

    Raises SchemaVersionError for another version, DatabaseError where the tables are missing, or cannot be
    made.
    """
    version = current_version(database)
    if version is not None:
        require_version(database, version)
    elif make:
        upgrade(database)
    else:
        raise DatabaseError(f"the database {database.address} has no dcron tables")


def require_made(database: Database) -> None:
    """Make nothing: raise SchemaVersionError unless the tables are there and of this program's version."""
    path = database.address.path
    if path and not path.exists():  # to look into it would make it
        raise SchemaVersionError(f"there is no database {database.address} yet: `dcron db init` makes it")
    version = current_version(database)
    if version is None:
        raise SchemaVersionError(
            f"the database {database.address} has no tables yet: `dcron db init` makes them"
        )
    require_version(database, version)


def require_version(database: Database, version: str) -> None:
    """Raise SchemaVersionError unless tables of this version are what this program needs."""
    if version != SCHEMA_VERSION:
        raise _wrong_version(database, version)


def current_version(database: Database) -> str | None:
    """The version of the tables; None where there are none."""
    try:
        with database.read() as connection:
            return _version(connection)
    except DatabaseError as error:
        if lacks_tables(error):
            return None
        raise


def upgrade(database: Database) -> str | None:
    """Bring the tables to this program's version; safe when several processes do it at once.

    Returns the version there was before. Raises DatabaseError or SchemaVersionError.
    """
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            _make_schema(connection)
        before = _version(connection) if inspect(connection).has_table(VERSION_TABLE) else None
        if before == SCHEMA_VERSION:
            return before
        began = database.now(connection)
        if before is not None:
            database.lift_time_limits(connection)
            database.lock_tables(connection, _own_tables(connection))
        if before is not None and before not in known_versions():
            raise _wrong_version(database, before)
        _refuse_other_peoples_tables(connection, before, database)
        if not database.is_sqlite:
            _require_right_to_create(connection, database)
        _run_alembic(connection)
        if before is not None:
            _send_agents_home(connection, database.now(connection) - began)
    if before is None and not database.is_sqlite:
        database.close()  # a new connection finds the schema with the tables
    return before


def _send_agents_home(connection: Connection, took: timedelta) -> None:
    """Let the agents that run take nothing new, and give their leases the time that the upgrade took.

    They may be of an earlier release, which knows nothing of these tables but drains when it is asked to.
    """
    living = select(nodes.c.id, nodes.c.alive_until).where(nodes.c.died_at.is_(None))
    for node in connection.execute(living).all():
        values = {"draining": True, "alive_until": node.alive_until + took}
        connection.execute(update(nodes).where(nodes.c.id == node.id).values(values))


def known_versions() -> list[str]:
    """The versions this program can make, oldest first."""
    return sorted(path.name[:4] for path in VERSIONS.glob("0*.py"))


def _version(connection: Connection) -> str | None:
    version: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return version


def _own_tables(connection: Connection) -> set[str]:
    return set(metadata.tables) & set(inspect(connection).get_table_names())


def _refuse_other_peoples_tables(connection: Connection, before: str | None, database: Database) -> None:
    taken = _own_tables(connection)
    if before is None and taken:
        raise DatabaseError(
            f"the database {database.address} already has a table {sorted(taken)[0]!r} that is not dcron's;"
            " use another database, or another schema (?options=-csearch_path%3Ddcron)"
        )


def _make_schema(connection: Connection) -> None:
    """Make dcron's own schema where there is none. A role that may not do so uses what it finds instead."""
    if connection.scalar(text("SELECT current_schema()")) is not None:
        return
    own = connection.scalar(text("SELECT current_setting('search_path')"))
    if own == SCHEMA and connection.scalar(
        text("SELECT has_database_privilege(current_database(), 'CREATE')")
    ):
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        connection.execute(
            text(f"SET LOCAL search_path TO {SCHEMA}")
        )  # another process may just have made it
    elif own == SCHEMA:
        connection.execute(text("SET LOCAL search_path TO DEFAULT"))


def _require_right_to_create(connection: Connection, database: Database) -> None:
    """On Postgres a role that runs tasks need not be one that makes tables."""
    role = connection.scalar(text("SELECT current_user"))
    schema = text(
        "SELECT nspname, pg_get_userbyid(nspowner) AS owner, has_schema_privilege(oid, 'CREATE') AS allowed"
        " FROM pg_namespace WHERE nspname = current_schema()"
    )
    found = connection.execute(schema).one_or_none()
    if found is None:
        raise DatabaseError(
            f"the role {role!r} may use no schema of {database.address}:"
            " let the database's owner grant it one and run `dcron db init`"
        )
    if not found.allowed:
        raise DatabaseError(
            f"the role {role!r} may not make or change tables in schema {found.nspname!r}"
            f" of {database.address}: let its owner {found.owner!r}, or another role that may create there,"
            " run `dcron db init`"
        )


def _run_alembic(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, SCHEMA_VERSION)


def _wrong_version(database: Database, version: str) -> SchemaVersionError:
    if version in known_versions():
        return SchemaVersionError(
            f"the database {database.address} has tables of version {version} and this dcron needs"
            f" {SCHEMA_VERSION}: run `dcron db upgrade`"
        )
    return SchemaVersionError(
        f"the database {database.address} has tables of version {version}, made by a newer dcron;"
        f" this one knows {SCHEMA_VERSION}: upgrade dcron here"
    )
