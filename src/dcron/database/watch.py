"""Noticing that somebody else changed the database, without asking it again and again.

A watch is a hint that lets an agent start sooner. Nothing depends on it.
"""

import sqlite3
import threading
import time
from pathlib import Path
from typing import Protocol

import psycopg

from dcron.database import connecting
from dcron.database.url import Address

_LOOK_EVERY = 0.1
"""Seconds between two looks at a SQLite file: 0.2 % of a core."""
_READS = 100
"""Buffers of notices that one wake-up takes in."""
_WAKE_EVERY = 0.1
"""Seconds between two wake-ups by notices: any role that may connect can send hundreds a second."""


class ChangeWatch(Protocol):
    """Waits for changes that others commit."""

    def wait(self, stop: threading.Event) -> bool:
        """Block until something may have changed (True), or `stop` is set (False).

        Raises an error of the driver or the system when the database is away; waiting again reconnects.
        """

    def close(self) -> None:
        """Give the connection back."""


class SqliteWatch:
    """Reads SQLite's own counter of changes by other connections."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None

    def wait(self, stop: threading.Event) -> bool:
        while not stop.wait(_LOOK_EVERY):
            seen, self._seen = self._seen, self._data_version()
            if seen != self._seen:  # also at the first look: whatever happened while nobody watched
                return True
        return False

    def _data_version(self) -> int:
        if self._connection is None:
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro", uri=True, timeout=1, check_same_thread=False
            )
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
            self._seen = None


class PostgresWatch:
    """Listens for the notice that writers send."""

    def __init__(self, address: Address, channel: str) -> None:
        self._address = address
        self._channel = channel
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._next = 0.0

    def wait(self, stop: threading.Event) -> bool:
        stop.wait(max(0.0, self._next - time.monotonic()))
        changed = self._wait(stop)
        self._next = time.monotonic() + _WAKE_EVERY
        return changed

    def _wait(self, stop: threading.Event) -> bool:
        if self._address.transaction_pooling:  # a pooler takes the listening connection away
            stop.wait()
            return False
        if self._connection is None:
            self._connection = self._listen()
            return not stop.is_set()  # whatever was said while nobody listened
        if self._drained():  # it came since the last wake-up
            return True
        while not stop.is_set():
            if any(True for _ in self._connection.notifies(timeout=0.5, stop_after=1)):
                self._drained()
                return True
        return False

    def _drained(self) -> bool:
        """Take in all notices that have arrived; return whether there was one."""
        assert self._connection
        taken = 0
        for _ in range(_READS):  # one look reads no more than a buffer, and a flood does not end
            found = sum(1 for _ in self._connection.notifies(timeout=0))
            taken += found
            if not found:
                break
        return taken > 0

    def _listen(self) -> psycopg.Connection[tuple[object, ...]]:
        url = self._address.url.set(drivername="postgresql").render_as_string(hide_password=False)
        given = connecting.parameters(self._address) | {"application_name": "dcron watch"}
        connection = psycopg.connect(url, autocommit=True, **given)
        connection.execute(f"LISTEN {self._channel}")
        return connection

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
