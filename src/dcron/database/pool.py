"""The pool of a process's connections to Postgres: as few as its work needs."""

import logging
import time
from contextlib import suppress

from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Empty

SIZE = 2
"""Connections that are kept: an agent claims runs with one and records results with the other."""
SIZE_IF_FAR = 3
"""Connections that are kept if the server is far away: transactions take so long that three overlap."""
_FAR = 0.3
"""Seconds to open a connection to a server that is far away."""
_SHORT_WAIT = 0.1
"""Seconds to wait for the first connection before a second one is opened."""
_LONG_WAIT = 0.5
"""Seconds to wait for one of `SIZE` connections before another one is opened, which closes after its use,
except if the server is far away.

So a heartbeat never waits for a lock that holds up the other two.
"""
_UNUSED = 20.0
"""Seconds after which a connection that was not needed is closed."""

# SQLAlchemy names a pool's logger after its class: its notes would be among the agent's messages.
logging.getLogger(__name__).setLevel(logging.WARNING)


class FrugalPool(QueuePool):
    """Opens another connection only for a caller that has waited for one."""

    _shared_at = 0.0
    _is_far = False

    def _do_get(self) -> ConnectionPoolEntry:
        entry = self._existing() or super()._do_get()
        if self.checkedout() > 1:
            self._shared_at = time.monotonic()
        return entry

    def _existing(self) -> ConnectionPoolEntry | None:
        made = self.checkedout() + self.checkedin()
        wait = 0.0 if not made else _SHORT_WAIT if made < SIZE else _LONG_WAIT
        with suppress(Empty):
            return self._pool.get(wait > 0, min(wait, self._timeout))
        return None

    def _create_connection(self) -> ConnectionPoolEntry:
        began = time.monotonic()
        entry = super()._create_connection()
        self._is_far = time.monotonic() - began > _FAR
        return entry

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        if self.checkedin() < SIZE or self._is_far:
            super()._do_return_conn(record)
            return
        try:
            record.close()
        finally:
            self._dec_overflow()

    def close_unused(self) -> None:
        """Close all connections but one if one has been enough for a while."""
        if time.monotonic() - self._shared_at < _UNUSED:
            return
        with suppress(Empty):
            while self.checkedin() > 1:
                self._pool.get(block=False).close()
                self._dec_overflow()
