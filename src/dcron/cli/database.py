"""`db` and `info`: the database, and where everything is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron import __version__
from dcron.cli import console
from dcron.cli.context import opened_database, own_zone
from dcron.cli.options import Db, Json, Verb
from dcron.errors import DatabaseError, Refused

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.migrations.estimate import UpgradeEstimate
    from dcron.services.database_info import DatabaseFacts

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
        console.data(f"{database.address} {done} (schema {SCHEMA_VERSION})")
        if before is None:
            _record_zone(database)


def _record_zone(database: "Database") -> None:
    """Make this machine's zone, or the config file's, that of the new crontab's tasks."""
    from dcron.config import actor, load_config
    from dcron.services.crontab import Crontab
    from dcron.services.settings import SharedSettings, zone_without_setting
    from dcron.settings import TIMEZONE

    chosen = zone_without_setting(load_config().timezone)
    SharedSettings(Crontab(database, actor())).set(TIMEZONE.name, chosen.name)
    console.note(
        f"new tasks have the time zone {chosen.name} ({chosen.origin});"
        f" `dcron config set {TIMEZONE.name} ZONE` sets another"
    )


@db_app.command("upgrade", cls=Verb)
def upgrade(
    force: Annotated[
        bool, typer.Option("--force", help="Also where it takes longer than running agents can wait.")
    ] = False,
    db: Db = None,
) -> None:
    """Bring the tables to the version that this dcron needs.

    Agents that run take nothing new from then on, and finish what they run; start them again with this
    dcron. It says how long it will take, and refuses where what they run would be stopped by it.
    """
    from dcron import migrations
    from dcron.cli.progress import ticking
    from dcron.migrations.estimate import outlook
    from dcron.schema import SCHEMA_VERSION

    with opened_database(db) as database:
        ahead = outlook(database) if migrations.current_version(database) != SCHEMA_VERSION else None
        if ahead:
            _say_what_is_ahead(ahead, force=force)
        with ticking("upgrading", ahead.seconds if ahead else 0.0):
            before = migrations.upgrade(database)
        if before == SCHEMA_VERSION:
            done = f"was at schema {before} already"
        else:
            done = f"is at schema {SCHEMA_VERSION} now (before: {before or 'no tables'})"
        console.data(f"{database.address} {done}")


def _say_what_is_ahead(ahead: "UpgradeEstimate", *, force: bool) -> None:
    """Name the agents that run and the time it will take. Raises Refused."""
    from dcron.presentation.humanize import rough_span

    agents = ", ".join(ahead.agents[:5]) + (", …" if len(ahead.agents) > 5 else "")
    if ahead.stops_what_runs and not force:
        raise Refused(
            f"the upgrade of {ahead.runs:,} runs takes about {rough_span(ahead.seconds)}, longer than the"
            f" agents that run can wait ({agents}): what they run would be stopped;"
            " stop them first, or use --force"
        )
    if ahead.agents:
        console.note(
            f"agents run ({agents}): they take nothing new and finish what they run;"
            " start each again with this dcron"
        )
    if ahead.runs:
        console.note(f"upgrading {ahead.runs:,} runs: about {rough_span(ahead.seconds)}")


@db_app.command("url", cls=Verb)
def url(as_json: Json = False, db: Db = None) -> None:
    """Print which database is in force, without its password."""
    with opened_database(db) as database:
        if as_json:
            console.emit({"url": str(database.address)})
        else:
            console.data(str(database.address))


def info(as_json: Json = False, db: Db = None) -> None:
    """Print versions, the database, and where the settings come from."""
    with opened_database(db) as database:
        facts, problem = _database_facts(database)
        known = _known(database, facts)
    if as_json:
        console.emit(known)
    else:
        from dcron.cli.tables import print_facts

        print_facts(
            (key.replace("_", " "), None if value is None else str(value)) for key, value in known.items()
        )
    for warning in _warnings(facts):
        console.complain(f"warning: {warning}")
    if problem:
        raise problem


def _database_facts(database: "Database") -> tuple["DatabaseFacts | None", DatabaseError | None]:
    """What the database says of itself, or why it does not."""
    from dcron import migrations
    from dcron.services.database_info import database_facts

    facts = None
    try:
        facts = database_facts(database)
        if facts.schema is not None:
            migrations.require_version(database, facts.schema)
    except DatabaseError as error:
        return facts, error
    return facts, None


def _continuity(facts: "DatabaseFacts | None") -> dict[str, Any]:
    """What keeps commits, and when some were lost."""
    from dcron.cli.json_output import instant

    known = facts and facts.replication
    epoch, step = (facts.last_epoch, facts.last_set_back) if facts else (None, None)
    return {
        "synchronous_replication": known and ("on" if known.is_synchronous else "off"),
        "synchronous_standby_names": known and known.standby_names,
        "synchronous_commit": known and known.commit,
        "last_epoch_at": epoch and instant(epoch.at),
        "last_epoch_reason": epoch and epoch.after.get("reason"),
        "clock_set_back_at": step and instant(step.at),
    }


def _protection(facts: "DatabaseFacts | None") -> dict[str, Any]:
    """How the connection to Postgres is protected, and who else may put something in its way."""
    known = facts and facts.protection
    return {
        "encryption": known and (known.encryption or ("none: this machine" if known.is_local else "none")),
        "sslmode": known and known.sslmode,
        "certificate_verified": known and known.is_verified,
        "require_auth": known and known.require_auth,
        "database_schema": known and known.schema,
        "others_may_create": known and known.others_may_create,
    }


def _warnings(facts: "DatabaseFacts | None") -> Iterator[str]:
    """What is not safe about the connection, and what to do about it."""
    known = facts and facts.protection
    if known and not known.is_local and not known.is_verified:
        yield (
            "the server does not prove who it is: another machine that answers in its place gets the password"
            " and can run commands on every node; leave out sslmode, or write ?sslmode=verify-full"
        )
    if known and known.others_may_create:
        yield (
            f"every role of the server may create in schema {known.schema}, and so run code with the rights"
            f" of those who use it: let its owner REVOKE CREATE ON SCHEMA {known.schema} FROM PUBLIC"
        )


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
        **_protection(facts),
        **_continuity(facts),
        "schema": facts and facts.schema,
        "tasks": facts and facts.tasks,
        "nodes_alive": facts and facts.nodes_alive,
        "timezone": own_zone(),
        "tzdata": tzdata_version(),
        "config_file": str(config) if config.exists() else None,
    }
