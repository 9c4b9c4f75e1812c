"""`db`: create or upgrade the tables, and print the URL of the database."""

from typing import TYPE_CHECKING, Annotated

from dcron import config, services
from dcron.cli.asking.options import Db, GuardedVerb, Json, Verb, WritingVerb, flag, group, option
from dcron.cli.asking.shared_options import keep_yes
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.progress import ticking
from dcron.cli.running.context import author, opened_crontab, opened_database, require_named_file
from dcron.errors import Refused
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.migrations.estimate import UpgradeEstimate

AGENTS_SHOWN = 5
TASKS_SHOWN = 5
command = group("Prepare or upgrade the database, or print its URL.")


@command.command("init", cls=Verb)
def init(as_json: Json = False, db: Db = None) -> None:
    """Create the tables in an empty database.

    Nothing changes if the tables exist.
    """
    from dcron import migrations
    from dcron.schema.tables import SCHEMA_VERSION

    with opened_database(db) as database:
        before = migrations.current_version(database)
        if before is not None:
            migrations.require_suitable(database)
        migrations.prepare(database)
        done = "is ready already" if before else "is ready"
        _report(database, before, f"{done} (schema {SCHEMA_VERSION})", as_json=as_json)
        if before is None:
            _record_zone(database)


def _report(database: "Database", before: str | None, done: str, *, as_json: bool) -> None:
    from dcron.schema.tables import SCHEMA_VERSION

    url = str(database.address)
    if as_json:
        console.emit(make("prepared", url=url, schema_before=before, schema_version=SCHEMA_VERSION))
    else:
        console.data(f"{url} {done}")


def _record_zone(database: "Database") -> None:
    """Set the time zone of new tasks to that of the config file or of this machine."""
    from dcron.settings.registry import TIMEZONE

    chosen = services.settings.zone_without_setting(config.files.load_config().timezone)
    services.settings.SharedSettings(services.crontab.Crontab(database, author())).set(
        TIMEZONE.name, chosen.name
    )
    console.note(
        f"new tasks have the time zone {chosen.name} ({chosen.origin});"
        f" `dcron config set {TIMEZONE.name} ZONE` sets another"
    )


@command.command("upgrade", cls=GuardedVerb)
def upgrade(
    force: Annotated[
        bool,
        flag(
            "--force",
            "Upgrade even if it takes longer than running agents can wait.",
            callback=keep_yes,
        ),
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Upgrade the tables to the version that this dcron needs.

    Running agents claim no more runs and finish their active ones; restart them with this dcron. The upgrade
    prints how long it will take, and is refused if it would stop active runs.
    """
    from dcron import migrations
    from dcron.migrations.estimate import estimate_upgrade
    from dcron.schema.tables import SCHEMA_VERSION

    with opened_database(db) as database:
        require_named_file(database)
        ahead = estimate_upgrade(database) if migrations.current_version(database) != SCHEMA_VERSION else None
        if ahead:
            announce(ahead, force=force)
        console.agree(f"upgrade {database.address} to schema {SCHEMA_VERSION}", asks=False)
        with ticking("upgrading", ahead.seconds if ahead else 0.0):
            before = migrations.upgrade(database)
        if before == SCHEMA_VERSION:
            done = f"is at schema {before} already"
        else:
            done = f"is now at schema {SCHEMA_VERSION} (before: {before or 'no tables'})"
        _report(database, before, done, as_json=as_json)


def announce(ahead: "UpgradeEstimate", *, force: bool) -> None:
    """Print the running agents and the time that the upgrade takes. Raises Refused."""
    agents = humanize.first_few(ahead.agents, AGENTS_SHOWN)
    if ahead.may_stop_runs and not force:
        raise Refused(
            f"the upgrade of {ahead.runs:,} runs takes about {humanize.rough_span(ahead.seconds)}, longer"
            f" than the running agents can wait ({agents}): their active runs would be stopped;"
            " stop the agents first, or use --force"
        )
    if ahead.agents:
        console.note(
            f"agents are running ({agents}): they claim no more runs and finish their active ones;"
            " restart each with this dcron"
        )
    if ahead.runs:
        console.note(f"upgrading {ahead.runs:,} runs: about {humanize.rough_span(ahead.seconds)}")


@command.command("scrub", cls=WritingVerb)
def scrub(
    env: Annotated[str, option("--env", "VARIABLE", "Name of the variable, such as TOKEN.")],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Remove the value of a variable from all tasks, runs and the history.

    \b
    dcron db scrub --env TOKEN

    Tasks that still have it lose it. Backups, archives, and the output of commands keep what they have.
    """
    with opened_crontab(db) as crontab:
        scrubbing = services.scrubbing.Scrubbing(crontab, env)
        names = [task.name for task in scrubbing.tasks()]
        losing = f" from {humanize.first_few(names, TASKS_SHOWN)}, and" if names else ""
        console.agree(f"remove {env}{losing} from all runs and changes, for good")
        done = scrubbing.scrub()
        counts = {word.removesuffix("s"): number for word, number in done.items()}
        if as_json:
            numbers = {f"{word}_count": number for word, number in counts.items()}
            console.emit(make("scrubbed", variable=env, **numbers))
        else:
            removed = ", ".join(humanize.plural(number, word) for word, number in counts.items())
            console.data(f"removed  {env}: {removed}")
        rest = (
            "`dcron prune --compact` rewrites the file without the old pages"
            if crontab.database.address.path
            else "VACUUM frees the old rows"
        )
        console.note(f"{rest}; change the secret, too: those who could read the database may have it")


@command.command("url", cls=Verb)
def url(as_json: Json = False, db: Db = None) -> None:
    """Print the URL of the database, without its password."""
    with opened_database(db) as database:
        if as_json:
            console.emit(make("url", url=str(database.address)))
        else:
            console.data(str(database.address))
