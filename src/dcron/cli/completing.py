"""What the shell completes: names of tasks, if the database can tell them at once."""

import os

from dcron.errors import DcronError

_MOST = 200


def names_beginning(db: str | None, beginning: str) -> list[str]:
    """The names that begin so; none where the database is not there, for nobody asked to hear of it."""
    from dcron.cli.opening import opened_crontab, opened_database

    os.environ.setdefault("DCRON_PATIENCE", "1s")
    try:
        with opened_database(db) as database:
            path = database.address.path
        if path and not path.exists():  # the Tab key makes no database
            return []
        with opened_crontab(db) as crontab:
            return crontab.names(beginning, _MOST)
    except DcronError:
        return []
