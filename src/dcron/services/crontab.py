"""The crontab in one database: its tasks and its runs. The CLI and the TUI use it."""

from dcron import migrations
from dcron.database import Database
from dcron.services.runs.runs import Runs
from dcron.services.tasks.tasks import Tasks
from dcron.store.audit_log import Author


class Crontab(Tasks, Runs):
    """The shared crontab in one database. The other services are made from it."""

    def __init__(
        self, database: Database, actor: str | Author, *, readonly: bool = False, version: str | None = None
    ) -> None:
        """Act as `actor` on a database; an empty one gets its tables, unless `readonly`.

        `version` is that of the tables, if it has been read already. Raises DatabaseError.
        """
        self.database = database
        self.author = actor if isinstance(actor, Author) else Author(actor)
        if version is not None:
            migrations.require_version(database, version)
        elif readonly:
            migrations.require_made(database)
        else:
            migrations.prepare(database)
