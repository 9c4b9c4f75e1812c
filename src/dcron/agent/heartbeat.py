"""The heartbeat: renew the node's lease and reap the nodes whose leases ran out.

A node lives as long as it renews its lease in time. If a renewal finds that the node was declared dead, the
node ends (Fenced) and writes nothing more. In the same transaction the heartbeat compares clocks, run ids
and run states with what it knows, so it notices a rollback of the database before anything new is claimed.
A node is declared dead only after its lease ran out by a clock that cannot be set.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row

from dcron.agent.counters import Counters
from dcron.agent.lease import Lease, OtherLeases
from dcron.agent.maintenance import Maintenance
from dcron.agent.notifier import Notifier
from dcron.agent.reconciliation import Differences, Reconciler
from dcron.agent.rollback_detection import RollbackDetector
from dcron.database import Database
from dcron.schedule import unlocked
from dcron.store import blocked, expiry, reaping, tasks
from dcron.store.upkeep import take_upkeep

log = logging.getLogger("dcron.agent")

BATCH = 100
"""Most one-off tasks retired, expired runs skipped, and tasks checked for blocked runs in one heartbeat."""


class Heartbeat:
    """Renews one node's lease, reaps dead nodes, and does the regular upkeep of the database."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        lease: Lease,
        others: OtherLeases,
        rollback_detector: RollbackDetector,
        reconciler: Reconciler,
        beat: float,
        on_drain: Callable[[bool], None],
        on_version: Callable[[str], None],
        maintenance: Maintenance,
        counters: Counters | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        """`beat` is the interval in seconds. `on_version` is called with the version of foreign tables."""
        self._notifier = notifier or Notifier(database, node_id)
        self._maintenance = maintenance
        self._rollback_detector = rollback_detector
        self._reconciler = reconciler
        self._database = database
        self._node_id = node_id
        self._lease = lease
        self._others = others
        self._beat = beat
        self._on_drain = on_drain
        self._on_version = on_version
        self._counters = counters or Counters()
        # The last task whose blocked runs were checked; the next heartbeat continues after it.
        self._unblocked_up_to = 0

    def step(self) -> float:
        """Do one heartbeat; return the seconds until the next. Raises Fenced or DatabaseError.

        With tables of another version, renew the lease and do nothing else.
        """
        pause = unlocked(self._beat_once)
        self._database.close_unused()
        return pause

    def _beat_once(self) -> float:
        sent = self._lease.clock()
        with self._counters.beat, self._database.write() as connection:
            before = self._lease.clock()
            now = self._database.read_clock(connection)
            self._rollback_detector.check_clock(connection, now, before, self._lease.clock())
            offset = self._counters.clock_offset = (datetime.now(UTC) - now).total_seconds()
            renewal = self._lease.beat(connection, self._database, now, offset)
            upkeep = None if self._lease.has_other_tables else self._maintain(connection, now, renewal)
        if upkeep is None:
            self._lease.extend(sent, renewal)
            self._on_version(self._lease.tables)
            return self._beat
        went_back, found, dead, lost, expired = upkeep
        if went_back:
            self._rollback_detector.settled(renewal.renewals)
        self._lease.extend(sent, renewal)
        self._rollback_detector.save()
        self._reconciler.settle(found)
        for node_id in dead:
            log.warning("node %s is dead: its lease is over", node_id, extra={"event": "node-dead"})
        if lost:
            ids = ", ".join(f"run {run_id}" for run_id in lost)
            log.warning("lost with it: %s", ids, extra={"event": "runs-lost"})
        if expired:
            log.warning("%d runs were not started in time", expired, extra={"event": "runs-expired"})
        self._on_drain(renewal.draining)
        return self._beat

    def _maintain(
        self, connection: Connection, now: datetime, renewal: Row[Any]
    ) -> tuple[bool, Differences, list[str], list[int], int]:
        """Detect a rollback, reconcile runs, reap dead nodes, and tidy up tasks and runs."""
        seen = renewal.newest or 0, renewal.issued or 0
        went_back = self._rollback_detector.examine(connection, now, *seen)
        query = self._reconciler.send_query(connection)
        names = self._maintenance.names
        todo = take_upkeep(connection, self._node_id, now, names, self._notifier.names)
        found = self._reconciler.compare(
            connection, now, query, owns_runs=todo.owns_runs, went_back=went_back
        )
        over = self._others.over(todo.leases, now, self._lease.clock())
        dead, lost = reaping.reap(connection, self._database, now, over) if over else ([], [])
        expired = expiry.expire(connection, self._database, now, BATCH) if todo.has_expired else 0
        if todo.has_blocked:
            self._unblocked_up_to = blocked.unblock_some(connection, self._unblocked_up_to, now, BATCH)
        if todo.has_retirable:
            tasks.retire_once(connection, now, BATCH)
        if todo.due_job and not renewal.draining:
            self._maintenance.offer(todo.due_job)
        self._notifier.draining = renewal.draining
        if todo.has_notifications and not renewal.draining:
            self._notifier.offer()
        return went_back, found, dead, lost, expired
