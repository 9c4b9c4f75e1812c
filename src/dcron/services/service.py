"""The base of all services: a database, and the author that the audit log names."""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, TypeVar

from sqlalchemy import Connection

from dcron.database import Database
from dcron.errors import NotFound
from dcron.model import LAST_RUN, Run, StoredCalendar, Task
from dcron.policy.validation import require_text
from dcron.store import audit_log
from dcron.store.audit_log import Author
from dcron.store.runs import rows as runs

Named = TypeVar("Named", Task, StoredCalendar)


def find_run(connection: Connection, run_id: int) -> Run:
    """Return the run of this id. Raises NotFound."""
    run = runs.by_id(connection, run_id) if run_id <= LAST_RUN else None
    if run is None:
        raise NotFound(f"there is no run {run_id}")
    return run


class Service:
    """Work on one crontab. Every public method is one transaction, unless it says otherwise."""

    database: Database
    author: Author
    """Its changes are one act: one batch of the audit log."""

    def __init__(self, crontab: "Service") -> None:
        """Use the database and the author of another service."""
        self.database = crontab.database
        self.author = crontab.author

    @property
    def actor(self) -> str:
        """The name of the author."""
        return self.author.name

    def acting(self, via: str | None = None, note: str | None = None) -> Self:
        """Return the same service for a new act: its changes are a batch of their own."""
        made = copy(self)
        made.author = Author(self.actor, via, note)
        return made

    def noting(self, note: str | None) -> Self:
        """Return the same service for the same act; its changes bear this reason. Raises UsageError."""
        if note is not None:
            require_text("reason", note)
        made = copy(self)
        made.author = replace(self.author, note=note)
        return made

    def now(self) -> datetime:
        """Return the time of the database's clock, in UTC."""
        with self.database.read() as connection:
            return self.database.now(connection)

    def _record_run(
        self,
        connection: Connection,
        action: str,
        of: Run | Task,
        detail: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that runs of this task, or this run, were changed: see `audit_log.record_run`."""
        task_id, task = (of.about_task, of.task) if isinstance(of, Run) else (of.id, of.name)
        now = self.database.now(connection)
        audit_log.record_run(connection, now, self.author, action, task_id, task, detail, before)

    def _by_name(self, page: Callable[[Connection, str, int], list[Named]], size: int) -> Iterator[Named]:
        """Yield all rows in the order of names; each page of this size is a transaction of its own."""
        after = ""
        while True:
            with self.database.read() as connection:
                found = page(connection, after, size)
            yield from found
            if len(found) < size:
                return
            after = found[-1].name
