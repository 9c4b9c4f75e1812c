"""The only package that knows which database is used: connections, transactions, clock, locks, errors,
wake-up.

A function imports what only one kind of database needs: psycopg, and with it half of the start-up time, is
not loaded for a SQLite file.
"""

from dcron.database.condition import FileCondition, ServerCondition, TableRows
from dcron.database.database import Database
from dcron.database.failures import is_refusal, is_transient, lacks_tables
from dcron.database.opening import open_database
from dcron.database.relay import is_noted, note
from dcron.database.replies import Reply
from dcron.database.rows import Columns, beside_id, locked, one_of
from dcron.database.server import SCHEMA, Protection, Replication

__all__ = [
    "SCHEMA",
    "Columns",
    "Database",
    "FileCondition",
    "Protection",
    "Replication",
    "Reply",
    "ServerCondition",
    "TableRows",
    "beside_id",
    "is_noted",
    "is_refusal",
    "is_transient",
    "lacks_tables",
    "locked",
    "note",
    "one_of",
    "open_database",
]
