"""Wait for changes that other processes commit, without polling the database with queries.

A watch is a hint that lets an agent start runs sooner. Nothing depends on it.
"""

import select
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dcron.database.file_events import FileEvents
from dcron.database.url import Address

if TYPE_CHECKING:
    import psycopg

WAKE_CHANNEL = "dcron_wake"
"""The channel of Postgres on which agents listen."""
_POLL_INTERVAL = 0.1
"""Seconds between two looks at a SQLite file where the kernel does not report writes: 0.1 % of a core."""
_UNTIL_DIRECT = 60.0
"""Seconds until a watch behind a pooler looks whether its connections are direct now."""
_STOP_INTERVAL = 0.5
"""Seconds between two looks whether the watch has to stop.

A SQLite file is then looked at, too: the kernel does not report what other machines write to a shared folder.
"""
_COMMIT = 0.02
"""Seconds from the first write of a transaction until it is probably committed."""
_MOST_READS = 100
"""Most buffers of notifications that one wake-up reads."""
_SHORTEST_INTERVAL = 0.1
"""Seconds between two wake-ups: any role that may connect can send hundreds of notifications a second."""


class ChangeWatch(Protocol):
    """Waits for changes that others commit."""

    def wait(self, stop: threading.Event) -> bool:
        """Block until something may have changed (True) or `stop` is set (False).

        Raises: an error of the driver or the system if the database is unreachable. The next call
        reconnects.
        """

    def close(self) -> None:
        """Close the connection."""


class _PacedWatch:
    """Leaves a pause between two wake-ups."""

    _next = 0.0

    def wait(self, stop: threading.Event) -> bool:
        stop.wait(max(0.0, self._next - time.monotonic()))
        changed = self._wait(stop)
        self._next = time.monotonic() + _SHORTEST_INTERVAL
        return changed

    def _wait(self, stop: threading.Event) -> bool:
        """Wait like `wait`, without the pause."""
        raise NotImplementedError


class SqliteWatch(_PacedWatch):
    """Reads SQLite's counter of changes by other connections after the file was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._events: FileEvents | None = None
        self._seen: int | None = None

    def _wait(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            seen, self._seen = self._seen, self._data_version()
            if seen != self._seen:  # also the first time: changes before it were not watched
                return True
            self._await_write()
        return False

    def _await_write(self) -> None:
        """Return when the file may have been written; wait for a part of a second at most."""
        if self._events is None:
            time.sleep(_POLL_INTERVAL)  # half the cost of waiting for the event
        elif not self._events.wait(_STOP_INTERVAL, settle=_COMMIT):
            time.sleep(_SHORTEST_INTERVAL)  # other files of the directory may be written all the time

    def _data_version(self) -> int:
        if self._connection is None:
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro", uri=True, timeout=1, check_same_thread=False
            )
            real = self._path.resolve()
            with suppress(OSError):  # this account has too many watches: look at the counter instead
                self._events = FileEvents(real.parent, (real.name, f"{real.name}-wal"))
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
            self._seen = None
        if self._events:
            self._events.close()
            self._events = None


class PostgresWatch(_PacedWatch):
    """Listens for the notifications of writers (LISTEN/NOTIFY)."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def _wait(self, stop: threading.Event) -> bool:
        if self._connection is None:
            self._connection = None if self._address.pooler == "transaction" else self._listen()
            if self._connection is None:  # a pooler would take the listening connection away
                stop.wait(_UNTIL_DIRECT)
                return False
            return not stop.is_set()  # notifications before LISTEN were lost
        if self._drained():  # notifications since the last wake-up
            return True
        # Not `notifies` with a timeout: it wakes up ten times a second.
        arrival = select.poll()
        arrival.register(self._connection.fileno(), select.POLLIN)
        while not stop.is_set():
            if arrival.poll(_STOP_INTERVAL * 1000) and self._drained():
                return True
        return False

    def _drained(self) -> bool:
        """Read all notifications that have arrived; return whether there was one."""
        assert self._connection
        taken = 0
        for _ in range(_MOST_READS):  # one call reads one buffer at most, and a flood does not end
            found = sum(1 for _ in self._connection.notifies(timeout=0))
            taken += found
            if not found:
                break
        return taken > 0

    def _listen(self) -> "psycopg.Connection[tuple[object, ...]] | None":
        """Return a listening connection; None behind a pooler."""
        import psycopg

        from dcron.database import connecting

        url = self._address.url.set(drivername="postgresql").render_as_string(hide_password=False)
        given = connecting.parameters(self._address) | {"application_name": "dcron watch"}
        connection = psycopg.connect(url, autocommit=True, **given)
        if self._address.pooler is None:
            direct = f"SELECT 1 WHERE {connecting.is_direct(connection)}"
            if connection.execute(direct.encode()).fetchone() is None:
                connection.close()
                return None
        connection.execute(f"LISTEN {WAKE_CHANNEL}")
        return connection

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
