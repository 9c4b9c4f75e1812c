"""The base of all services: a database, and the author that the audit log names."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeVar

from sqlalchemy import Connection

from dcron.database import Database
from dcron.model import StoredCalendar, Task
from dcron.policy.validation import require_text
from dcron.store.audit_log import Author

Named = TypeVar("Named", Task, StoredCalendar)


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
