"""Wake the agents: what a transaction sends with its COMMIT when something is due now."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text

_IS_SENT = "dcron_notified"
"""The note on a connection that its transaction has called `notify`."""
WAKE_CHANNEL = "dcron_wake"
"""The channel of Postgres on which agents listen."""
_NOTIFY = text("SELECT pg_notify(:channel, '')")


def notify(connection: Connection, send: Callable[..., Any] | None) -> None:
    """Wake all agents when this transaction commits. `send` executes a statement on Postgres.

    SQLite needs no statement: a watch sees that the file has changed.
    """
    connection.info[_IS_SENT] = True
    if send:
        send(connection, _NOTIFY, {"channel": WAKE_CHANNEL})


def forget(connection: Connection) -> None:
    """Begin a transaction that has not yet called `notify`."""
    connection.info.pop(_IS_SENT, None)


def is_sent(connection: Connection) -> bool:
    """Return whether this transaction has called `notify`."""
    return _IS_SENT in connection.info
