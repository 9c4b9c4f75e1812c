"""How a database gets its tables: once, also when several processes try, and only where they belong."""

import multiprocessing
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import Database, files, open_database
from dcron.errors import DatabaseError, SchemaVersionError
from dcron.schema.tables import SCHEMA_VERSION, metadata
from tests.support.older_tables import OLDEST, make_oldest_tables
from tests.support.patience import PATIENCE

SHAPE_OF_POSTGRES = """
    SELECT 'column', c.relname, a.attname,
           concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::regcollation,
                     a.attidentity, pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relkind = 'r' AND c.relnamespace = 'dcron'::regnamespace AND a.attnum > 0
    UNION ALL
    SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'dcron'::regnamespace
    UNION ALL
    SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'dcron'
    UNION ALL
    SELECT 'storage', relname, option_name, option_value
    FROM pg_class, pg_options_to_table(reloptions)
    WHERE relkind = 'r' AND relnamespace = 'dcron'::regnamespace
    UNION ALL
    SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'function', proname, proowner::regrole::text,
           concat_ws(' ', prosrc, prolang, provolatile, prosecdef, proconfig, proacl)
    FROM pg_proc WHERE pronamespace = 'dcron'::regnamespace
    UNION ALL
    SELECT 'right', relname, relkind::text, concat_ws(' ', relowner::regrole, relacl)
    FROM pg_class WHERE relnamespace = 'dcron'::regnamespace AND relkind IN ('r', 'S', 'v')
"""
SHAPE_OF_SQLITE = """
    SELECT 'column', m.name, c.name, c.type || ' ' || c."notnull" || c.pk || ' ' || ifnull(c.dflt_value, '')
    FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table'
    UNION ALL SELECT type, tbl_name, name, sql FROM sqlite_master WHERE type NOT IN ('table')
    UNION ALL SELECT 'table', name, name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_master WHERE type = 'table'
"""
STARTING_AT_ONCE = 8


def shape(connection: Connection) -> set[tuple[str, ...]]:
    """All that the database itself knows of its tables, as texts, in whatever order it was made."""
    is_sqlite = connection.dialect.name == "sqlite"
    rows: list[Sequence[Any]] = list(
        connection.execute(text(SHAPE_OF_SQLITE if is_sqlite else SHAPE_OF_POSTGRES))
    )
    if is_sqlite:
        tables = text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        rows += [rule for table, sql in connection.execute(tables) for rule in checks_in(table, sql)]
    # A migration does not check the rows to which it has just added a column.
    texts = (
        tuple(re.sub(r"\s+", " ", str(value)).removesuffix(" NOT VALID") for value in row) for row in rows
    )
    return {row for row in texts if "sqlite_sequence" not in row}


def checks_in(table: str, sql: str) -> Iterator[tuple[str, ...]]:
    """The named rules in a CREATE TABLE: SQLite shows them nowhere else."""
    for found in re.finditer(r"CONSTRAINT (\w+) CHECK \(", sql):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        yield "constraint", table, found[1], sql[found.end() : end - 1]


def test_an_empty_database_gets_its_tables(database: Database) -> None:
    migrations.prepare(database)
    assert migrations.current_version(database) == SCHEMA_VERSION
    with database.read() as connection:
        assert set(metadata.tables) <= set(inspect(connection).get_table_names())


def test_an_upgrade_makes_what_a_new_database_has(database: Database, empty_database_url: str) -> None:
    make_oldest_tables(empty_database_url)
    assert migrations.upgrade(database) == OLDEST
    with database.write() as connection:
        upgraded = shape(connection)
        if database.is_sqlite:
            for table in inspect(connection).get_table_names():
                connection.execute(text(f"DROP TABLE {table}"))
        else:
            connection.execute(text("DROP SCHEMA dcron CASCADE"))
    migrations.prepare(database)
    with database.read() as connection:
        new = shape(connection)
    assert new == upgraded
    kinds = {row[0] for row in new}
    assert kinds >= {"column", "constraint", "index", "trigger"}
    assert database.is_sqlite or kinds >= {"function", "right", "storage"}
    named = {row[2] for row in new}
    assert named >= {"planned_version", "runs_final_finished", "crontab_name_letters", "runs_next"}
    assert len([row for row in new if row[0] == "trigger"]) == (27 if database.is_sqlite else 4)


def test_only_an_upgrade_needs_alembic(empty_database_url: str) -> None:
    make = (
        "import sys; from dcron import migrations; from dcron.database import open_database;"
        " migrations.prepare(open_database(sys.argv[1])); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", make, empty_database_url], timeout=PATIENCE).returncode == 0


def test_the_newest_migration_is_the_one_the_program_wants() -> None:
    assert migrations.known_versions()[-1] == SCHEMA_VERSION


def test_migrations_do_not_follow_the_schema_as_it_changes() -> None:
    versions = Path(migrations.__file__).parent / "versions"
    files = sorted(versions.glob("0*.py"))
    assert files
    assert not [path.name for path in files if re.search(r"^\s*(from|import) dcron", path.read_text(), re.M)]


def test_preparing_twice_changes_nothing(database: Database) -> None:
    migrations.prepare(database)
    with database.read() as connection:
        before = shape(connection)
    migrations.prepare(database)
    assert migrations.upgrade(database) == SCHEMA_VERSION
    with database.read() as connection:
        assert shape(connection) == before


def start_up(url: str, wal: bool, barrier: Any, answers: Any) -> None:
    """What the first call of any dcron process does; its failure, or the version it found."""
    database = open_database(url)
    if wal:
        files.wal_is_safe = lambda version=(): True
    barrier.wait()
    try:
        migrations.prepare(database)
        answers.put(migrations.current_version(database))
    except BaseException as error:
        answers.put(f"{type(error).__name__}: {error}")
    finally:
        database.close()


@pytest.mark.slow
@pytest.mark.parametrize("wal", [False, True])
def test_several_processes_may_start_at_once_on_an_empty_database(empty_database_url: str, wal: bool) -> None:
    if wal and empty_database_url.startswith("postgres"):
        wal = False  # a second round, then
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dcron.migrations", "alembic.command", "psycopg"])
    barrier, answers = context.Barrier(STARTING_AT_ONCE), context.Queue()
    processes = [
        context.Process(target=start_up, args=(empty_database_url, wal, barrier, answers))
        for _ in range(STARTING_AT_ONCE)
    ]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    assert found == [SCHEMA_VERSION] * STARTING_AT_ONCE


def test_tables_of_a_newer_dcron_are_left_alone(database: Database) -> None:
    migrations.prepare(database)
    set_version(database, "9999")
    for act in (migrations.prepare, migrations.upgrade):
        with pytest.raises(
            SchemaVersionError, match=r"version 9999, made by a newer dcron.*upgrade dcron here"
        ):
            act(database)
    assert migrations.current_version(database) == "9999"


def test_older_tables_are_upgraded_on_request(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    migrations.prepare(database)
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", "0998")
    message = f"version {SCHEMA_VERSION} and this dcron needs 0998: run `dcron db upgrade`"
    with pytest.raises(SchemaVersionError, match=message):
        migrations.prepare(database)


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_tables_of_other_people_are_never_touched(database: Database, table: str) -> None:
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("CREATE SCHEMA dcron"))
        connection.execute(text(f"CREATE TABLE {table} (theirs INTEGER)"))
    with pytest.raises(DatabaseError, match=f"already has a table '{table}' that is not dcron's"):
        migrations.prepare(database)
    with database.read() as connection:
        assert inspect(connection).get_table_names() == [table]


@pytest.fixture
def guest_url(postgres_server: str) -> Iterator[str]:
    """A Postgres database seen by a role that may use it and create nothing."""
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("CREATE DATABASE dcron_guests")
        admin.execute("CREATE ROLE dcron_guest LOGIN PASSWORD 'hush'")
    owner = make_url(postgres_server).set(database="dcron_guests").render_as_string(hide_password=False)
    with psycopg.connect(owner, autocommit=True) as admin:
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC, dcron_guest")
    guest = make_url(owner).set(username="dcron_guest", password="hush")
    yield guest.render_as_string(hide_password=False)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("DROP DATABASE dcron_guests WITH (FORCE)")
        admin.execute("DROP ROLE dcron_guest")


@pytest.fixture
def guest(guest_url: str) -> Iterator[Database]:
    database = open_database(guest_url)
    yield database
    database.close()


def test_a_role_that_may_not_create_learns_who_may(guest: Database) -> None:
    expected = (
        r"role 'dcron_guest' may not make or change tables in schema 'public' .*owner '.+'.*`dcron db init`"
    )
    with pytest.raises(DatabaseError, match=expected) as failure:
        migrations.prepare(guest)
    assert "hush" not in str(failure.value)


def test_a_role_without_any_schema_learns_who_can_help(guest: Database, postgres_server: str) -> None:
    owner = make_url(postgres_server).set(database="dcron_guests").render_as_string(hide_password=False)
    with psycopg.connect(owner, autocommit=True) as admin:
        admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC, dcron_guest")
    with pytest.raises(DatabaseError, match=r"role 'dcron_guest' may use no schema .*`dcron db init`"):
        migrations.prepare(guest)


def set_version(database: Database, version: str) -> None:
    with database.write() as connection:
        connection.execute(text(f"UPDATE {migrations.VERSION_TABLE} SET version_num = '{version}'"))
