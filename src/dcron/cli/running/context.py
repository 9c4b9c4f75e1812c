"""Open the crontab that the command line, the environment or the config file names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from dcron import config, policy, services
from dcron.cli.output import console
from dcron.cli.running.file_warnings import print_distrust
from dcron.errors import UsageError
from dcron.schedule.zones import default_zone
from dcron.values.quantities import parse_duration

if TYPE_CHECKING:
    from dcron.database import Database
    from dcron.store.audit_log import Author

VIAS = ("apply", "edit", "import", "undo")
"""Verbs that name a way of their own in the audit log; the others are `cli VERB`."""
_ACT: ContextVar[tuple[str | None, str | None]] = ContextVar("act", default=(None, None))


@contextmanager
def act(verb: str, note: str | None) -> Iterator[None]:
    """Let the audit log name this verb, and why the user has typed it."""
    token = _ACT.set((verb if verb in VIAS else f"cli {verb}", note))
    try:
        yield
    finally:
        _ACT.reset(token)


def reason() -> str | None:
    """Return why the user does it, as -m says."""
    return _ACT.get()[1]


def author() -> "Author":
    """Return the author of what this command line changes. Raises UsageError for a bad note."""
    from dcron.store.audit_log import Author

    via, note = _ACT.get()
    if note is not None:
        policy.validation.require_text("-m", note)
    return Author(config.files.actor(), via, note)


@contextmanager
def opened_database(url: str | None, *, strict: bool = False) -> Iterator["Database"]:
    """Open the chosen database. Raises UsageError for a bad URL.

    Warn if other accounts can change the database; with `strict`, using it then raises Refused.
    """
    own = config.files.load_config()
    database = _database(url, own, strict=strict)
    if not strict:
        print_distrust(own, database.address)
    try:
        yield database
    finally:
        if own.context and database.has_written:
            console.note(f"in the context {own.context.name}")
        database.close()


def new_database(url: str | None, *, readonly: bool = False) -> "Database":
    """Return the chosen database; the caller closes it. Raises UsageError for a bad URL.

    With `readonly`, the directory of the database is not created.
    """
    return _database(url, config.files.load_config(), readonly=readonly)


def _database(
    url: str | None, own: "config.files.Config", *, readonly: bool = False, strict: bool = False
) -> "Database":
    from dcron.database import open_database
    from dcron.database.database import PATIENCE

    place, patience = config.files.database_url(url, own), _patience(PATIENCE)
    database = open_database(place, patience=patience, strict=strict)
    console.consent.context = own.context.name if own.context else None
    console.consent.is_protected = bool(own.context and own.context.is_protected)
    file = config.files.own_database()
    if file and database.address.path == file and not readonly:
        with suppress(OSError):  # the database reports it
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return database


@contextmanager
def opened_crontab(
    url: str | None, *, creates: bool = False, dry_run: bool = False
) -> Iterator["services.crontab.Crontab"]:
    """Open the chosen crontab; create its tables if there are none. Raises DatabaseError.

    A SQLite file that the user has named must exist, unless the verb `creates` it: the name may be mistyped.
    With `dry_run`, a missing file stays missing: the verb sees an empty crontab.
    """
    missing = missing_file(url) if dry_run else None
    with _empty_database(missing) if missing else opened_database(url) as database:
        if not creates:
            require_named_file(database)
        crontab = services.crontab.Crontab(database, author())
        if not missing:
            report_new_file(database)
        yield crontab


def missing_file(url: str | None) -> Path | None:
    """Return the SQLite file of the chosen crontab if it does not exist yet, else None."""
    from dcron.database.url import parse_url

    path = parse_url(config.files.database_url(url, config.files.load_config())).path
    return None if path is None or path.exists() else path


@contextmanager
def _empty_database(missing: Path) -> Iterator["Database"]:
    """Open an empty database that is removed at the end, in place of a missing file."""
    from tempfile import TemporaryDirectory

    console.note(f"there is no crontab at {missing} yet: this is compared with an empty one")
    with (
        TemporaryDirectory(prefix="dcron-") as directory,
        opened_database(f"sqlite:///{directory}/dcron.db") as database,
    ):
        yield database


def require_named_file(database: "Database") -> None:
    """Raise DatabaseError if a SQLite file that the user has named is missing."""
    from dcron import migrations

    if database.address.path != config.files.own_database():
        migrations.require_file(database)


def report_new_file(database: "Database") -> None:
    """Print that a SQLite file was created, if one was."""
    if database.has_created_file:
        console.note(f"created the crontab {database.address.path}")


@contextmanager
def opened_additions(url: str | None) -> Iterator["services.additions.Additions"]:
    """Open the chosen crontab to add a task; create its tables if there are none. Raises DatabaseError."""
    with opened_database(url) as database:
        additions = services.additions.Additions(database, author())
        report_new_file(database)
        yield additions


def new_task_zone(crontab: "services.crontab.Crontab") -> "services.settings.ChosenZone":
    """Return the zone of a new task without --tz: the crontab's if set, else the user's or the machine's."""
    own = config.files.load_config()
    return services.settings.SharedSettings(crontab).new_task_zone(own.timezone)


def own_zone() -> str:
    """Return the zone for times that the user sees: the configured one, $TZ, the machine's, or UTC."""
    return default_zone(config.files.load_config().timezone)


def _patience(default: float) -> float:
    """Return the seconds to wait for a locked database: $DCRON_PATIENCE, such as 2s, or the default."""
    given = os.environ.get("DCRON_PATIENCE")
    try:
        return parse_duration(given) if given else default
    except UsageError as error:
        raise UsageError(f"$DCRON_PATIENCE: {error}") from None
