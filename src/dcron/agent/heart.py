"""The loop that keeps the node alive, and finds the nodes that are not."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection

from dcron.agent.settings import Settings
from dcron.agent.turns import Fenced
from dcron.database import Database
from dcron.store import blocked, expiry, nodes, reaping, tasks
from dcron.warden.linux import boottime

log = logging.getLogger("dcron.agent")

BATCH = 100
"""One-off lines taken out, expired runs skipped, lines looked through for blocked runs, in one beat."""


class Heart:
    """Renews one node's lease, and moves the warden's deadline only when that has succeeded."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        node_id: str,
        set_deadline: Callable[[float], None],
        on_drain: Callable[[], None],
    ) -> None:
        """`set_deadline` takes the moment (CLOCK_BOOTTIME seconds) by which commands must be dead."""
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._set_deadline = set_deadline
        self._on_drain = on_drain
        # Up to which line blocked runs have been looked through; each beat goes on from there.
        self._looked_through = 0

    def step(self) -> float:
        """One beat; the seconds until the next. Raises Fenced or DatabaseError."""
        sent = boottime()
        with self._database.write() as connection:
            now = self._database.now(connection)
            offset = (datetime.now(UTC) - now).total_seconds()
            renewed = nodes.renew(connection, self._node_id, now, self._settings.lease, offset)
            if renewed is None:
                raise Fenced
            dead, lost = self._reap(connection, now)
            expired = expiry.expire(connection, self._database, now, BATCH)
            self._looked_through = blocked.unblock_some(connection, self._looked_through, now, BATCH)
            tasks.retire_once(connection, BATCH)
        # From when the beat was sent, never from when it was answered.
        self._set_deadline(sent + self._settings.lease - self._settings.margin)
        for node_id in dead:
            log.warning("node %s is dead: its lease is over", node_id)
        if lost:
            log.warning("lost with it: %s", ", ".join(f"run {run_id}" for run_id in lost))
        if expired:
            log.warning("%d runs were not started in time", expired)
        if renewed.draining:
            self._on_drain()
        return self._settings.beat

    def _reap(self, connection: Connection, now: datetime) -> tuple[list[str], list[int]]:
        if not reaping.has_to_reap(connection, now):
            return [], []
        return reaping.reap(connection, self._database, now)
