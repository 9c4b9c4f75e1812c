"""What one node knows of the database since it last looked."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection

from dcron.agent.node_context import NodeContext
from dcron.agent.settings import POLL_INTERVAL_WITHOUT_NOTIFY
from dcron.store.claims.snapshot import Snapshot, send_snapshot, take_snapshot

_KNOWN = timedelta(seconds=POLL_INTERVAL_WITHOUT_NOTIFY)
"""How long a snapshot holds unless a change is signalled. Not longer than the shortest poll interval."""


class View:
    """The last snapshot of the database, used again while nothing has changed."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        # What the database showed with the last look or claim, and `notified` before it.
        self._known: tuple[Snapshot, int] | None = None
        self._is_outdated = False
        self.last_lane = ""
        """The last lane of this step; the next step continues after it. Empty after the last lane of all."""

    def look_again(self) -> None:
        """Look at the database in the next step: another process may have changed it."""
        self._is_outdated = True

    def snapshot(self) -> Snapshot:
        """Return what the database shows. Look only if it may have changed, or the last look is too old."""
        return self._known_snapshot() or self.look()

    def _known_snapshot(self) -> Snapshot | None:
        if self._known is None or self._is_outdated or self.last_lane:
            return None
        known, notified = self._known
        now = self._node.database.recent_now()
        if now is None or notified != self._node.database.notified:
            return None
        return replace(known, now=now) if known.now <= now < known.now + _KNOWN else None

    def look(self) -> Snapshot:
        """Look at the database."""
        notified = self._begin()
        with self._node.counters.look, self._node.database.read() as connection:
            found = take_snapshot(connection, self._node.database, self._node.id, self.last_lane)
        self._note(found, notified)
        return found

    def send_look(self, connection: Connection) -> Callable[[], None]:
        """Look together with the COMMIT. Call the returned function after it."""
        notified = self._begin()
        read = send_snapshot(connection, self._node.database, self._node.id, self.last_lane)
        return lambda: self._note(read(), notified)

    def _begin(self) -> int:
        self._known, self._is_outdated = None, False
        return self._node.database.notified

    def _note(self, found: Snapshot, notified: int) -> None:
        self._known, self.last_lane = (found, notified), found.last_lane
