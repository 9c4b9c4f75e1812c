"""`db` and `info`: the database, and where everything is."""

from typing import TYPE_CHECKING, Any

import typer

from dcron import __version__
from dcron.cli import printing
from dcron.cli.opening import opened_database, own_zone
from dcron.cli.parameters import Db, Json, Verb
from dcron.errors import DatabaseError

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.services.facts import DatabaseFacts

db_app = typer.Typer(
    help="Prepare, upgrade or name the database.", rich_markup_mode=None, add_completion=False
)


@db_app.command("init", cls=Verb)
def init(db: Db = None) -> None:
    """Make the tables in an empty database. Harmless where they are already."""
    from dcron import migrations
    from dcron.schema import SCHEMA_VERSION

    with opened_database(db) as database:
        before = migrations.current_version(database)
        migrations.prepare(database)
        done = "was ready already" if before else "is ready"
        printing.data(f"{database.address} {done} (schema {SCHEMA_VERSION})")
        if before is None:
            _record_zone(database)


def _record_zone(database: "Database") -> None:
    """Make this machine's zone, or the config file's, that of the new crontab's tasks."""
    from dcron.config import actor, load_config
    from dcron.services.crontab import Crontab
    from dcron.services.settings import Settings, zone_without_setting
    from dcron.settings import TIMEZONE

    chosen = zone_without_setting(load_config().timezone)
    Settings(Crontab(database, actor())).set(TIMEZONE.name, chosen.name)
    printing.note(
        f"new tasks have the time zone {chosen.name} ({chosen.origin});"
        f" `dcron config set {TIMEZONE.name} ZONE` sets another"
    )


@db_app.command("upgrade", cls=Verb)
def upgrade(db: Db = None) -> None:
    """Bring the tables to the version that this dcron needs."""
    from dcron import migrations
    from dcron.schema import SCHEMA_VERSION

    with opened_database(db) as database:
        before = migrations.upgrade(database)
        if before == SCHEMA_VERSION:
            done = f"was at schema {before} already"
        else:
            done = f"is at schema {SCHEMA_VERSION} now (before: {before or 'no tables'})"
        printing.data(f"{database.address} {done}")


@db_app.command("url", cls=Verb)
def url(as_json: Json = False, db: Db = None) -> None:
    """Print which database is in force, without its password."""
    with opened_database(db) as database:
        if as_json:
            printing.emit({"url": str(database.address)})
        else:
            printing.data(str(database.address))


def info(as_json: Json = False, db: Db = None) -> None:
    """Print versions, the database, and where the settings come from."""
    with opened_database(db) as database:
        facts, problem = _database_facts(database)
        known = _known(database, facts)
    if as_json:
        printing.emit(known)
    else:
        from dcron.cli.tables import print_facts

        print_facts(
            (key.replace("_", " "), None if value is None else str(value)) for key, value in known.items()
        )
    if problem:
        raise problem


def _database_facts(database: "Database") -> tuple["DatabaseFacts | None", DatabaseError | None]:
    """What the database says of itself, or why it does not."""
    from dcron import migrations
    from dcron.services.facts import database_facts

    facts = None
    try:
        facts = database_facts(database)
        if facts.schema is not None:
            migrations.require_version(database, facts.schema)
    except DatabaseError as error:
        return facts, error
    return facts, None


def _known(database: "Database", facts: "DatabaseFacts | None") -> dict[str, Any]:
    from dcron.config import config_path
    from dcron.schedule import tzdata_version

    config = config_path()
    return {
        "version": __version__,
        "database": str(database.address),
        "database_kind": database.product,
        "database_version": facts and facts.version,
        "journal_mode": facts and facts.journal_mode,
        "schema": facts and facts.schema,
        "tasks": facts and facts.tasks,
        "nodes_alive": facts and facts.nodes_alive,
        "timezone": own_zone(),
        "tzdata": tzdata_version(),
        "config_file": str(config) if config.exists() else None,
    }
