"""Create and upgrade the tables. Only an upgrade imports Alembic."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, inspect, select, text, update

from dcron.database import SCHEMA, Database, lacks_tables
from dcron.errors import DatabaseError, SchemaVersionError
from dcron.schema.tables import SCHEMA_VERSION, metadata, nodes

VERSION_TABLE = "dcron_version"
VERSIONS = Path(__file__).parent / "versions"
_LOCK = 0x6463726F6E  # "dcron"


def prepare(database: Database, *, make: bool = True) -> None:
    """Check that the tables exist in this program's version; with `make`, create them in an empty database.

    Raises SchemaVersionError for another version, and DatabaseError if the tables are missing or cannot be
    created.
    """
    version = current_version(database)
    if version is not None:
        require_version(database, version)
    elif make:
        upgrade(database)
    else:
        raise DatabaseError(f"the database {database.address} has no dcron tables")


def require_made(database: Database) -> None:
    """Raise SchemaVersionError unless the tables exist in this program's version. Create nothing."""
    require_file(database)
    version = current_version(database)
    if version is None:
        raise SchemaVersionError(
            f"the database {database.address} has no tables yet: `dcron db init` makes them"
        )
    require_version(database, version)


def require_file(database: Database) -> None:
    """Raise SchemaVersionError if the SQLite file is missing: connecting would create it."""
    path = database.address.path
    if path and not path.exists():
        raise SchemaVersionError(
            f"there is no crontab at {path}; `dcron db init` makes one, and so does `dcron add`"
        )


def require_suitable(database: Database) -> None:
    """Raise DatabaseError for a server that is not Postgres, is too old, or has locks that do not work."""
    if problem := database.why_unsuitable():
        raise DatabaseError(f"the database {database.address} {problem}")


def require_version(database: Database, version: str) -> None:
    """Raise SchemaVersionError unless this is the version of the tables that this program needs."""
    if version != SCHEMA_VERSION:
        raise _wrong_version(database, version)


def current_version(database: Database) -> str | None:
    """Return the version of the tables; None if there are none."""
    try:
        with database.read_once() as connection:
            return _version(connection)
    except DatabaseError as error:
        if lacks_tables(error):
            return None
        raise


def upgrade(database: Database) -> str | None:
    """Create the tables, or upgrade them to this program's version. Several processes may do so at once.

    Return the version before, or None. Raises DatabaseError if the tables may not be created, and
    SchemaVersionError if they are newer than this program.
    """
    require_suitable(database)
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            _create_schema(connection, database)
        before = _version(connection) if inspect(connection).has_table(VERSION_TABLE) else None
        if before == SCHEMA_VERSION:
            return before
        if before is None:
            _create_tables(connection, database)
        else:
            _upgrade_tables(connection, database, before)
    if before is None and not database.is_sqlite:
        database.close()  # a new connection finds the new schema
    return before


def _create_tables(connection: Connection, database: Database) -> None:
    """Create the tables in this program's version. Raises DatabaseError if a table has one of their names."""
    if taken := _own_tables(connection):
        raise DatabaseError(
            f"the database {database.address} already has a table {sorted(taken)[0]!r} that is not dcron's;"
            " use another database, or another schema (?options=-csearch_path%3Ddcron)"
        )
    _require_create_privilege(connection, database)
    metadata.create_all(connection, checkfirst=False)
    only_row = f"version_num VARCHAR(32) NOT NULL, CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)"
    connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} ({only_row})"))
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": SCHEMA_VERSION})


def _upgrade_tables(connection: Connection, database: Database, before: str) -> None:
    """Upgrade tables of an earlier version while no other program uses them, and drain the running agents."""
    if before not in known_versions():
        raise _wrong_version(database, before)
    began = database.now(connection)
    database.lift_limits(connection)
    database.lock_tables(connection, _own_tables(connection))
    _require_create_privilege(connection, database)
    _run_alembic(connection)
    _drain_agents(connection, database.now(connection) - began)


def _drain_agents(connection: Connection, took: timedelta) -> None:
    """Drain the running agents, and extend their leases by the time that the upgrade took.

    They may be of an earlier release: it does not know the new tables, but it drains when its row says so.
    """
    living = select(nodes.c.id, nodes.c.alive_until).where(nodes.c.died_at.is_(None))
    for node in connection.execute(living).all():
        values = {"draining": True, "alive_until": node.alive_until + took}
        connection.execute(update(nodes).where(nodes.c.id == node.id).values(values))


def known_versions() -> list[str]:
    """Return the versions that this program can upgrade to, the oldest first."""
    return sorted(path.name[:4] for path in VERSIONS.glob("0*.py"))


def _version(connection: Connection) -> str | None:
    version: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return version


def _own_tables(connection: Connection) -> set[str]:
    return set(metadata.tables) & set(inspect(connection).get_table_names())


def _create_schema(connection: Connection, database: Database) -> None:
    """Create dcron's own schema if there is none. A role that may not do so uses the default search path."""
    database.require_own_schema(connection)
    if connection.scalar(text("SELECT current_schema()")) is not None:
        return
    own = connection.scalar(text("SELECT current_setting('search_path')"))
    if own == SCHEMA and connection.scalar(
        text("SELECT has_database_privilege(current_database(), 'CREATE')")
    ):
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        # Set it in any case: another process may just have created the schema.
        connection.execute(text(f"SET LOCAL search_path TO {SCHEMA}"))
        database.require_own_schema(connection)
    elif own == SCHEMA:
        connection.execute(text("SET LOCAL search_path TO DEFAULT"))


def _require_create_privilege(connection: Connection, database: Database) -> None:
    """Raise DatabaseError unless the role may create tables, on Postgres. The role of an agent need not."""
    if database.is_sqlite:
        return
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
    if version < SCHEMA_VERSION:
        return SchemaVersionError(
            f"the database {database.address} has tables of version {version}, which no release had:"
            " write them to a file with the dcron that made them (`dcron dump FILE`),"
            " and read it into a new database with this one (`dcron restore FILE`)"
        )
    return SchemaVersionError(
        f"the database {database.address} has tables of version {version}, made by a newer dcron;"
        f" this one knows {SCHEMA_VERSION}: upgrade dcron here"
    )
