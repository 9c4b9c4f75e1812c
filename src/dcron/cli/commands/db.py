"""`db`: create or upgrade the tables, and print the URL of the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_database
from dcron.cli.options import Db, Json, Verb
from dcron.errors import Refused

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.migrations.estimate import UpgradeEstimate


command = typer.Typer(
    help="Prepare, upgrade or name the database.", rich_markup_mode=None, add_completion=False
)


@command.command("init", cls=Verb)
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


@command.command("upgrade", cls=Verb)
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


@command.command("url", cls=Verb)
def url(as_json: Json = False, db: Db = None) -> None:
    """Print which database is in force, without its password."""
    with opened_database(db) as database:
        if as_json:
            console.emit({"url": str(database.address)})
        else:
            console.data(str(database.address))
