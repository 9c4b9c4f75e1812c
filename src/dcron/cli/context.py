"""From what the command line, the environment and the config file say to an open crontab."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dcron.errors import UsageError

if TYPE_CHECKING:
    from dcron.config import Config
    from dcron.database import Database
    from dcron.services.crontab import Crontab
    from dcron.services.settings import ChosenZone


@contextmanager
def opened_database(url: str | None, *, strict: bool = False) -> Iterator["Database"]:
    """The database in force. Raises UsageError for a URL that cannot be read.

    Warns where other accounts can change it; with `strict`, using it then raises Refused.
    """
    from dcron.cli.file_warnings import print_distrust
    from dcron.config import load_config

    config = load_config()
    database = _database(url, config, strict=strict)
    if not strict:
        print_distrust(config, database.address)
    try:
        yield database
    finally:
        database.close()


def new_database(url: str | None, *, readonly: bool = False) -> "Database":
    """The database in force, for the caller to close. Raises UsageError for a URL that cannot be read.

    With `readonly` not even a directory is made for it.
    """
    from dcron.config import load_config

    return _database(url, load_config(), readonly=readonly)


def _database(
    url: str | None, config: "Config", *, readonly: bool = False, strict: bool = False
) -> "Database":
    from dcron.config import database_url, own_database
    from dcron.database import Database
    from dcron.database.engine import PATIENCE

    database = Database(database_url(url, config), patience=_patience(PATIENCE), strict=strict)
    own = own_database()
    if own and database.address.path == own and not readonly:
        with suppress(OSError):  # the database will say so
            own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return database


@contextmanager
def opened_crontab(url: str | None) -> Iterator["Crontab"]:
    """The crontab in force, its tables made when there are none. Raises DatabaseError."""
    from dcron.config import actor
    from dcron.services.crontab import Crontab

    with opened_database(url) as database:
        yield Crontab(database, actor())


def new_task_zone(crontab: "Crontab") -> "ChosenZone":
    """The zone of a new task that names none, the same for all users of the crontab where one is set."""
    from dcron.config import load_config
    from dcron.services.settings import SharedSettings

    return SharedSettings(crontab).new_task_zone(load_config().timezone)


def own_zone() -> str:
    """The zone for times that this person is shown: the configured one, $TZ, the machine's, or UTC."""
    from dcron.config import load_config
    from dcron.schedule import default_zone

    return default_zone(load_config().timezone)


def _patience(usual: float) -> float:
    """Seconds to wait for a locked database: $DCRON_PATIENCE, such as 2s."""
    from dcron.quantities import parse_duration

    given = os.environ.get("DCRON_PATIENCE")
    try:
        return parse_duration(given) if given else usual
    except UsageError as error:
        raise UsageError(f"$DCRON_PATIENCE: {error}") from None
