"""Remove the values of an environment variable, such as a password, from tasks and their history."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Table

from dcron.errors import UsageError
from dcron.model import Task
from dcron.services.service import Service
from dcron.services.tasks.tasks import Tasks
from dcron.store import audit_log, scrub


class Scrubbing(Service):
    """The removal of one variable."""

    def __init__(self, crontab: Service, variable: str) -> None:
        """Raise UsageError for what is no name of a variable."""
        super().__init__(crontab)
        if not variable.isascii() or not variable.isidentifier():
            raise UsageError(f"{variable!r} is no name of a variable; write --env TOKEN, without a value")
        self.variable = variable
        self._tasks = Tasks(self)

    def tasks(self) -> list[Task]:
        """Return the tasks that have the variable now, in many transactions."""
        return [task for task in self._tasks.tasks() if self.variable in (task.env or {})]

    def scrub(self) -> Mapping[str, int]:
        """Remove it from the tasks, and then from all that is kept of them; return the numbers by word.

        Every page is a transaction. It may be repeated after an interruption.
        """
        done = {"tasks": 0}
        for task in self.tasks():
            env = {name: value for name, value in (task.env or {}).items() if name != self.variable}
            self._tasks.edit(task, {"env": env})
            done["tasks"] += 1
        for word, table, columns in scrub.PLACES:
            done[word] = self._scrub(table, columns)
        with self.database.write() as connection:
            now = self.database.now(connection)
            audit_log.record_other(
                connection, now, self.author, "database", "scrub", self.variable, after=dict(done)
            )
        return done

    def _scrub(self, table: Table, columns: Sequence[str]) -> int:
        """Remove it from all rows of a table; return how many had it."""
        count = 0
        after: int | None = scrub.FIRST
        while after is not None:
            with self.database.write() as connection:
                had, after = scrub.scrub_page(connection, table, columns, self.variable, after)
            count += had
        return count
