"""The only package that knows which database is used: connections, transactions, clock, locks, errors,
wake-up.
"""

from dcron.database.connecting import SCHEMA, Protection
from dcron.database.engine import Database, Replication
from dcron.database.failures import is_refusal, is_transient, lacks_tables
from dcron.database.replies import Reply
from dcron.database.rows import Columns, beside_id, locked

__all__ = [
    "SCHEMA",
    "Columns",
    "Database",
    "Protection",
    "Replication",
    "Reply",
    "beside_id",
    "is_refusal",
    "is_transient",
    "lacks_tables",
    "locked",
]
