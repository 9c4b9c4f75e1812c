"""The lease: how a node stays alive, and how it judges the leases of other nodes.

Each renewal that is committed moves the warden's deadline to shortly before the lease ends. If renewals
stop, the warden therefore kills this node's commands before another node may retry them. The deadline
counts from when the renewal was sent, never from the reply, and by a clock that cannot be set. A node that
finds itself declared dead raises Fenced and writes nothing more.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import inf
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from dcron.agent.clock import TOLERANCE
from dcron.agent.log import log
from dcron.agent.rollback_detection import RollbackDetector
from dcron.agent.settings import AgentSettings
from dcron.database import Database
from dcron.schema.tables import SCHEMA_VERSION
from dcron.store.nodes import rows as nodes
from dcron.store.runs.candidates import ClaimedRun
from dcron.store.upkeep.reaping import HeldLease
from dcron.warden.linux import boottime


class Fenced(Exception):  # noqa: N818 - the regular end of a node, not an error
    """This node was declared dead, or the database does not know it: it must write nothing more."""


class Lease:
    """Keeps a node alive: each renewal in the database moves the warden's deadline."""

    def __init__(
        self,
        node_id: str,
        settings: AgentSettings,
        rollback_detector: RollbackDetector,
        set_deadline: Callable[[float], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`set_deadline` takes the time by which commands must be dead, in seconds of `clock`."""
        self._node_id = node_id
        self._seconds = settings.lease
        self._safe_seconds = settings.lease - settings.margin
        self._smallest_step = settings.beat / 10
        self._set_deadline = set_deadline
        self._lock = Lock()
        self._deadline_set_at = -inf
        self._rollback_detector = rollback_detector
        self.clock = clock
        self._over_at = -inf
        self.tables = SCHEMA_VERSION
        """Version of the tables at the last renewal."""
        self.draining = False
        """Whether the node drains, by the last renewal: it claims nothing new."""

    @property
    def has_other_tables(self) -> bool:
        """Whether the tables have another version than this program."""
        return self.tables != SCHEMA_VERSION

    def limit_starts(self, runs: Iterable[ClaimedRun], sent: float) -> None:
        """Note when it is too late to begin the commands of these runs, whose start was sent at `sent`.

        Reaping counts on it: a command that begins later could outlive the time after which its run is lost.
        """
        for run in runs:
            run.start_by = sent + self._safe_seconds

    @property
    def left(self) -> float:
        """Seconds until the lease ends, counted from when its renewal was sent; negative once it ended."""
        return self._over_at - self.clock()

    def renew(self, connection: Connection, now: datetime) -> Row[Any]:
        """Renew the lease in this transaction. Raises Fenced."""
        return self._checked(connection, nodes.renew(connection, self._node_id, now, self._seconds))

    def send_renewal(
        self, connection: Connection, database: Database, now: datetime
    ) -> Callable[[], Row[Any]]:
        """Renew the lease together with the statement that follows.

        The returned function raises Fenced like `renew`; call it before anything else is written.
        """
        reply = nodes.send_renewal(connection, database, self._node_id, now, self._seconds)
        return lambda: self._checked(connection, next(iter(reply.rows()), None))

    def beat(self, connection: Connection, database: Database, now: datetime, offset: float) -> Row[Any]:
        """Renew the lease and record a heartbeat. `offset` is how many seconds this machine's clock is ahead.

        Raises: Fenced.
        """
        renewal = nodes.beat(connection, database, self._node_id, now, self._seconds, offset)
        return self._checked(connection, renewal)

    def revive(self, connection: Connection, database: Database, now: datetime, offset: float) -> Row[Any]:
        """Renew the lease of a node that was declared dead. Raises Fenced if it cannot go on."""
        nodes.revive(connection, self._node_id)
        return self.beat(connection, database, now, offset)

    def _checked(self, connection: Connection, renewal: Row[Any] | None) -> Row[Any]:
        if renewal is None:
            raise Fenced(_why_fenced(connection, self._node_id))
        self.tables, self.draining = renewal.version, renewal.draining
        self._rollback_detector.renewed(connection, renewal.renewals)
        return renewal

    def extend(self, sent: float, renewal: Row[Any]) -> None:
        """Move the warden's deadline after a committed renewal: it counts from `sent`, not from the reply."""
        self._rollback_detector.committed(renewal.renewals)
        self._over_at = max(self._over_at, sent + self._seconds)
        with self._lock:
            if sent - self._deadline_set_at >= self._smallest_step:
                self._deadline_set_at = sent
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
        event="clock-behind",
    )


class OtherLeases:
    """Decides which leases of other nodes ran out.

    Wall clocks, and with them the time of a SQLite file, can be set. So a lease has run out once the time
    that was left when it was first seen has passed without a renewal. That time is at most the lease's
    duration: a lease that ends later was renewed by a clock that was ahead.

    If this node itself did not see the leases for longer than `patience`, each counts as first seen again:
    after an outage of the database, the first node that is back would declare all others dead.
    """

    def __init__(self, patience: float) -> None:
        """`patience`: seconds to watch a lease that has already ended when first seen; 0 trusts the clock."""
        self._patience = patience
        self._looked_at = -inf
        self._seen: dict[str, _Seen] = {}

    def over(self, leases: Mapping[str, HeldLease], now: datetime, at: float) -> dict[str, datetime]:
        """Return the leases that ran out. `now` is by the database's clock, `at` in seconds of our own."""
        before, self._seen = self._seen, {}
        if 0 < self._patience < at - self._looked_at:
            before = {}  # the other nodes may not have reached the database meanwhile either
        self._looked_at = at
        for node_id, (alive_until, seconds) in leases.items():
            seen = before.get(node_id)
            if seen is None or seen.alive_until != alive_until:
                left = (alive_until - now).total_seconds()
                if seconds and left > seconds + TOLERANCE:
                    _report_too_long(node_id, left, seconds)
                    left = seconds
                seen = _Seen(alive_until, at + max(left, self._patience))
            self._seen[node_id] = seen
        return {node: seen.alive_until for node, seen in self._seen.items() if at >= seen.over_at}
