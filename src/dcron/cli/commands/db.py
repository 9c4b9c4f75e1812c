"""`db`: create or upgrade the tables, and print the URL of the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import author, opened_database, require_named_file
from dcron.cli.options import Db, Json, Verb, group
from dcron.errors import Refused

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.migrations.estimate import UpgradeEstimate


AGENTS_SHOWN = 5


command = group("Prepare or upgrade the database, or print its URL.")


@command.command("init", cls=Verb)
def init(db: Db = None) -> None:
    """Create the tables in an empty database.

    Nothing changes if the tables exist.
    """
    from dcron import migrations
    from dcron.schema import SCHEMA_VERSION

    with opened_database(db) as database:
        before = migrations.current_version(database)
        migrations.prepare(database)
        done = "is ready already" if before else "is ready"
        console.data(f"{database.address} {done} (schema {SCHEMA_VERSION})")
        if before is None:
            _record_zone(database)


def _record_zone(database: "Database") -> None:
    """Set the time zone of new tasks to that of the config file or of this machine."""
    from dcron.config import load_config
    from dcron.services.crontab import Crontab
    from dcron.services.settings import SharedSettings, zone_without_setting
    from dcron.settings import TIMEZONE

    chosen = zone_without_setting(load_config().timezone)
    SharedSettings(Crontab(database, author())).set(TIMEZONE.name, chosen.name)
    console.note(
        f"new tasks have the time zone {chosen.name} ({chosen.origin});"
        f" `dcron config set {TIMEZONE.name} ZONE` sets another"
    )


@command.command("upgrade", cls=Verb)
def upgrade(
    force: Annotated[
        bool, typer.Option("--force", help="Upgrade even if it takes longer than running agents can wait.")
    ] = False,
    db: Db = None,
) -> None:
    """Upgrade the tables to the version that this dcron needs.

    Running agents claim no more runs and finish their active ones; restart them with this dcron. The upgrade
    prints how long it will take, and is refused if it would stop active runs.
    """
    from dcron import migrations
    from dcron.cli.progress import ticking
    from dcron.migrations.estimate import estimate_upgrade
    from dcron.schema import SCHEMA_VERSION

    with opened_database(db) as database:
        require_named_file(database)
        ahead = estimate_upgrade(database) if migrations.current_version(database) != SCHEMA_VERSION else None
        if ahead:
            announce(ahead, force=force)
        with ticking("upgrading", ahead.seconds if ahead else 0.0):
            before = migrations.upgrade(database)
        if before == SCHEMA_VERSION:
            done = f"is at schema {before} already"
        else:
            done = f"is now at schema {SCHEMA_VERSION} (before: {before or 'no tables'})"
        console.data(f"{database.address} {done}")


def announce(ahead: "UpgradeEstimate", *, force: bool) -> None:
    """Print the running agents and the time that the upgrade takes. Raises Refused."""
    from dcron.presentation.humanize import first_few, rough_span

    agents = first_few(ahead.agents, AGENTS_SHOWN)
    if ahead.may_stop_runs and not force:
        raise Refused(
            f"the upgrade of {ahead.runs:,} runs takes about {rough_span(ahead.seconds)}, longer than the"
            f" running agents can wait ({agents}): their active runs would be stopped;"
            " stop the agents first, or use --force"
        )
    if ahead.agents:
        console.note(
            f"agents are running ({agents}): they claim no more runs and finish their active ones;"
            " restart each with this dcron"
        )
    if ahead.runs:
        console.note(f"upgrading {ahead.runs:,} runs: about {rough_span(ahead.seconds)}")


@command.command("url", cls=Verb)
def url(as_json: Json = False, db: Db = None) -> None:
    """Print the URL of the database, without its password."""
    with opened_database(db) as database:
        if as_json:
            console.emit({"url": str(database.address)})
        else:
            console.data(str(database.address))
