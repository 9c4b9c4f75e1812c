"""A node's lease, and what it sees of the others': by a clock that nobody can set."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from math import inf
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from dcron.agent.clock import TOLERANCE
from dcron.agent.rollback_detection import RollbackDetector
from dcron.agent.settings import AgentSettings
from dcron.database import Database
from dcron.schema import SCHEMA_VERSION
from dcron.store import nodes
from dcron.store.reaping import HeldLease
from dcron.warden.linux import boottime

log = logging.getLogger("dcron.agent")


class Fenced(Exception):  # noqa: N818 - it is no error, but how a node ends
    """This node was declared dead, or the database does not know it: it may write no more."""


class Lease:
    """What keeps a node alive: each renewal in the database moves the warden's deadline along."""

    def __init__(
        self,
        node_id: str,
        settings: AgentSettings,
        continuity: RollbackDetector,
        set_deadline: Callable[[float], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`set_deadline` takes the moment by which commands must be dead, in seconds of `clock`."""
        self._node_id = node_id
        self._seconds = settings.lease
        self._safe_seconds = settings.lease - settings.margin
        self._worth_telling = settings.beat / 10
        self._set_deadline = set_deadline
        self._lock = Lock()
        self._told = -inf
        self._continuity = continuity
        self.clock = clock
        self.tables = SCHEMA_VERSION
        """The version of the tables at the last renewal."""

    @property
    def is_outgrown(self) -> bool:
        """Whether the tables are no longer of this program's version."""
        return self.tables != SCHEMA_VERSION

    def renew(self, connection: Connection, now: datetime) -> Row[Any]:
        """Renew it in this transaction. Raises Fenced."""
        return self._checked(connection, nodes.renew(connection, self._node_id, now, self._seconds))

    def beat(self, connection: Connection, database: Database, now: datetime, offset: float) -> Row[Any]:
        """The same with a heartbeat; `offset` is how far this machine's clock is ahead."""
        renewal = nodes.beat(connection, database, self._node_id, now, self._seconds, offset)
        return self._checked(connection, renewal)

    def _checked(self, connection: Connection, renewal: Row[Any] | None) -> Row[Any]:
        if renewal is None:
            raise Fenced(_why_fenced(connection, self._node_id))
        self.tables = renewal.version
        self._continuity.renewed(connection, renewal.renewals)
        return renewal

    def extend(self, sent: float, renewal: Row[Any]) -> None:
        """The renewal sent at that moment is committed: from then it counts, not from the answer."""
        self._continuity.committed(renewal.renewals)
        with self._lock:
            if sent - self._told >= self._worth_telling:
                self._told = sent
                self._set_deadline(sent + self._safe_seconds)


def _why_fenced(connection: Connection, node_id: str) -> str:
    if nodes.is_known(connection, node_id):
        return "was declared dead"
    return "is unknown to the database, which went back to a time before this node"


class _Seen(NamedTuple):
    alive_until: datetime
    over_at: float


def _report_too_long(node_id: str, left: float, seconds: float) -> None:
    log.warning(
        "the lease of %s ends in %.0fs by the database's clock, and lasts %gs: the clock was set back, or was"
        " ahead; without a renewal the node is declared dead in %gs",
        *(node_id, left, seconds, seconds),
    )


class OtherLeases:
    """Since when the leases of the others have not moved.

    Wall clocks are set forward and back, and with them a SQLite file's idea of now. So a lease is over when
    the time that it had left at first sight has passed without a renewal. That is no more than a lease
    lasts: one that ends later was renewed by a clock that was ahead.
    """

    def __init__(self, patience: float) -> None:
        """`patience`: seconds for which a lease that looks over at first sight is watched."""
        self._patience = patience
        self._seen: dict[str, _Seen] = {}

    def over(self, leases: Mapping[str, HeldLease], now: datetime, moment: float) -> dict[str, datetime]:
        """Those of the leases that are over; `now` is by the database's clock, `moment` by our own."""
        before, self._seen = self._seen, {}
        for node_id, (alive_until, seconds) in leases.items():
            seen = before.get(node_id)
            if seen is None or seen.alive_until != alive_until:
                left = (alive_until - now).total_seconds()
                if seconds and left > seconds + TOLERANCE:
                    _report_too_long(node_id, left, seconds)
                    left = seconds
                seen = _Seen(alive_until, moment + max(left, self._patience))
            self._seen[node_id] = seen
        return {node: seen.alive_until for node, seen in self._seen.items() if moment >= seen.over_at}
