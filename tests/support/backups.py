"""Restore a backup of a crontab's database while nodes run, on both kinds of database."""

from typing import Any

from sqlalchemy import delete, insert, select, text

from dcron.database import Database
from dcron.schema.tables import changes, crontab, nodes, runs

_TABLES = (crontab, runs, nodes, changes)


class Backup:
    """The content of all tables at one time, and the last ids that were given out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[str, list[dict[str, Any]]] = {}
        with database.read() as connection:
            for table in _TABLES:
                self._rows[table.name] = [dict(row._mapping) for row in connection.execute(select(table))]
            self._issued = database.issued_ids(connection)

    def restore(self) -> None:
        """Restore everything."""
        with self._database.write() as connection:
            for table in _TABLES:
                connection.execute(delete(table))
                if rows := self._rows[table.name]:
                    connection.execute(insert(table), rows)
            if self._database.is_sqlite:
                counter = text("UPDATE sqlite_sequence SET seq = :seq WHERE name = 'runs'")
                connection.execute(counter, {"seq": self._issued})
            else:
                connection.execute(text("SELECT setval('runs_id_seq', :seq)"), {"seq": self._issued})
