"""The base of all services: a database, and the actor that the audit log names."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from dcron.database import Database
from dcron.model import StoredCalendar, Task

Named = TypeVar("Named", Task, StoredCalendar)


class Service:
    """Work on one crontab. Every public method is one transaction, unless it says otherwise."""

    database: Database
    actor: str

    def __init__(self, crontab: "Service") -> None:
        """Use the database and the actor of another service."""
        self.database = crontab.database
        self.actor = crontab.actor

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
