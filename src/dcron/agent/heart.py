"""The loop that keeps the node alive, and finds the nodes that are not."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from dcron.agent.settings import Settings
from dcron.agent.turns import Fenced
from dcron.database import Database
from dcron.store import nodes, tasks
from dcron.warden.linux import boottime

log = logging.getLogger("dcron.agent")

_RETIRE = 100
"""One-off lines taken out in one beat."""


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

    def step(self) -> float:
        """One beat; the seconds until the next. Raises Fenced or DatabaseError."""
        sent = boottime()
        with self._database.write() as connection:
            now = self._database.now(connection)
            offset = (datetime.now(UTC) - now).total_seconds()
            renewed = nodes.renew(connection, self._node_id, now, self._settings.lease, offset)
            if renewed is None:
                raise Fenced
            dead, lost = nodes.reap(connection, now) if nodes.has_to_reap(connection, now) else ([], [])
            tasks.retire_once(connection, _RETIRE)
        # From when the beat was sent, never from when it was answered.
        self._set_deadline(sent + self._settings.lease - self._settings.margin)
        for node_id in dead:
            log.warning("node %s is dead: its lease is over", node_id)
        if lost:
            log.warning("lost with it: %s", ", ".join(f"run {run_id}" for run_id in lost))
        if renewed.draining:
            self._on_drain()
        return self._settings.beat
