"""The loop that keeps the node alive, and finds the nodes that are not."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row

from dcron.agent.lease import Lease, OtherLeases
from dcron.agent.reconciliation import Differences, Reconciler
from dcron.agent.rollback_detection import RollbackDetector
from dcron.database import Database
from dcron.schedule import unlocked
from dcron.store import blocked, expiry, reaping, tasks

log = logging.getLogger("dcron.agent")

BATCH = 100
"""One-off lines taken out, expired runs skipped, lines looked through for blocked runs, in one beat."""


class Heartbeat:
    """Renews one node's lease, and declares dead those whose leases are over."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        others: OtherLeases,
        continuity: RollbackDetector,
        ownership: Reconciler,
        beat: float,
        on_drain: Callable[[bool], None],
        on_outgrown: Callable[[str], None],
    ) -> None:
        """`beat`: seconds between two. `on_outgrown` takes the version of the tables."""
        self._continuity = continuity
        self._ownership = ownership
        self._database = database
        self._lease = lease
        self._others = others
        self._beat = beat
        self._on_drain = on_drain
        self._on_outgrown = on_outgrown
        # Up to which line blocked runs have been looked through; each beat goes on from there.
        self._looked_through = 0

    def step(self) -> float:
        """One beat; the seconds until the next. Raises Fenced or DatabaseError.

        On tables of another version it renews the lease and does nothing else.
        """
        return unlocked(self._beat_once)

    def _beat_once(self) -> float:
        sent = self._lease.clock()
        with self._database.write() as connection:
            before = self._lease.clock()
            now = self._database.now(connection)
            self._continuity.look_at_clock(connection, now, before, self._lease.clock())
            offset = (datetime.now(UTC) - now).total_seconds()
            renewal = self._lease.beat(connection, self._database, now, offset)
            upkeep = None if self._lease.is_outgrown else self._keep_up(connection, now, renewal)
        if upkeep is None:
            self._lease.extend(sent, renewal)
            self._on_outgrown(self._lease.tables)
            return self._beat
        went_back, found, dead, lost, expired = upkeep
        if went_back:
            self._continuity.settled(renewal.renewals)
        self._lease.extend(sent, renewal)
        self._continuity.save()
        self._ownership.settle(found)
        for node_id in dead:
            log.warning("node %s is dead: its lease is over", node_id)
        if lost:
            log.warning("lost with it: %s", ", ".join(f"run {run_id}" for run_id in lost))
        if expired:
            log.warning("%d runs were not started in time", expired)
        self._on_drain(renewal.draining)
        return self._beat

    def _keep_up(
        self, connection: Connection, now: datetime, renewal: Row[Any]
    ) -> tuple[bool, Differences, list[str], list[int], int]:
        """Do what no other loop does: see time that went back, differences, dead nodes, expired runs."""
        seen = renewal.newest or 0, renewal.issued or 0
        went_back = self._continuity.examine(connection, now, *seen)
        found = self._ownership.compare(connection, now, went_back=went_back)
        dead, lost = self._reap(connection, now)
        expired = expiry.expire(connection, self._database, now, BATCH)
        self._looked_through = blocked.unblock_some(connection, self._looked_through, now, BATCH)
        tasks.retire_once(connection, BATCH)
        return went_back, found, dead, lost, expired

    def _reap(self, connection: Connection, now: datetime) -> tuple[list[str], list[int]]:
        leases = reaping.leases(connection)
        over = self._others.over(leases, now, self._lease.clock())
        return reaping.reap(connection, self._database, now, over) if over else ([], [])
