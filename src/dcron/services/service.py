"""The base of all services: a database, and the actor that the audit log names."""

from datetime import datetime

from dcron.database import Database


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
