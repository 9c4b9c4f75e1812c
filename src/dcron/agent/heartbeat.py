"""The heartbeat: renew the node's lease and reap the nodes whose leases ran out.

A node lives as long as it renews its lease in time. If a renewal finds that the node was declared dead, the
node ends (Fenced) and writes nothing more. In the same transaction the heartbeat compares clocks, run ids
and run states with what it knows, so it notices a rollback of the database before anything new is claimed.
A node is declared dead only after its lease ran out by a clock that cannot be set.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row

from dcron.agent.counters import Counters
from dcron.agent.lease import Fenced, Lease, OtherLeases
from dcron.agent.maintenance import Maintenance
from dcron.agent.notifier import Notifier
from dcron.agent.reconciliation import Differences, Reconciler
from dcron.agent.rollback_detection import RollbackDetector
from dcron.database import Database
from dcron.errors import DatabaseError
from dcron.presentation.humanize import plural
from dcron.schedule.effort import unlocked
from dcron.settings.registry import ON_DISCONNECT
from dcron.store.claims import unheard
from dcron.store.nodes import outages
from dcron.store.runs import blocked
from dcron.store.tasks import rows as tasks
from dcron.store.tasks import settings
from dcron.store.upkeep import expiry, reaping
from dcron.store.upkeep.reaping import HeldLease
from dcron.store.upkeep.steps import take_upkeep

log = logging.getLogger("dcron.agent")

BATCH = 100
"""Most one-off tasks retired, expired runs skipped, and tasks checked for blocked runs in one heartbeat."""
_NOTABLE_BEATS = 3
"""An outage of so many beats is recorded: half of the lease."""


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
        on_settings: Callable[[Mapping[str, Any]], None] = lambda _: None,
        has_kept_work: Callable[[], bool] = lambda: False,
    ) -> None:
        """`beat` is the interval in seconds. `on_version` is called with the version of foreign tables.

        `on_settings` is called with the settings that say which commands go on while the node is cut off.
        `has_kept_work` returns whether there is such a command, or its end, so that the node must not be
        replaced by a new one.
        """
        self._on_settings = on_settings
        self._has_kept_work = has_kept_work
        # Like leases, the times of unheard runs are judged by a clock that cannot be set.
        self._unheard = OtherLeases(2 * beat)
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

        With tables of another version, renew the lease and do nothing else. A node that was declared dead
        although it has kept work goes on under its own id.
        """
        try:
            pause = unlocked(self._beat_once)
        except Fenced:
            if not self._has_kept_work():
                raise
            pause = unlocked(self._revive)
        except DatabaseError:
            self._counters.contact.has_failed = True
            raise
        self._database.close_unused()
        return pause

    def _revive(self) -> float:
        """Take the node back to life, with its kept runs; the next heartbeat follows at once.

        What it still runs and no longer owns is killed first: another run may hold its place.
        """
        sent = self._lease.clock()
        with self._counters.beat, self._database.write() as connection:
            now = self._database.read_clock(connection)
            offset = self._counters.clock_offset = (datetime.now(UTC) - now).total_seconds()
            renewal = self._lease.revive(connection, self._database, now, offset)
            has_other_tables = self._lease.has_other_tables
            heard = [] if has_other_tables else unheard.hear(connection, self._node_id)
            foreign = self._reconciler.find_foreign(connection)
            self._record_outage(connection, now, sent)
        self._reconciler.fence(foreign)
        self._lease.extend(sent, renewal)
        self._counters.contact.reach(sent)
        log.warning(
            "node %s was declared dead and goes on: %s heard of again, %s ended that are no longer its own",
            *(self._node_id, plural(len(heard), "run"), plural(len(foreign), "run")),
            extra={"event": "node-revived"},
        )
        return 0.0

    def _beat_once(self) -> float:
        sent = self._lease.clock()
        with self._counters.beat, self._database.write() as connection:
            before = self._lease.clock()
            now = self._database.read_clock(connection)
            self._rollback_detector.check_clock(connection, now, before, self._lease.clock())
            offset = self._counters.clock_offset = (datetime.now(UTC) - now).total_seconds()
            renewal = self._lease.beat(connection, self._database, now, offset)
            upkeep = None if self._lease.has_other_tables else self._maintain(connection, now, renewal)
            self._record_outage(connection, now, sent)
        self._counters.contact.reach(sent)
        if upkeep is None:
            self._lease.extend(sent, renewal)
            self._on_version(self._lease.tables)
            return self._beat
        went_back, found, dead, lost, unheard_ids, expired = upkeep
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
        if unheard_ids:
            ids = ", ".join(f"run {run_id}" for run_id in unheard_ids)
            log.warning("not heard of any more, and kept: %s", ids, extra={"event": "runs-unheard"})
        if expired:
            log.warning("%d runs were not started in time", expired, extra={"event": "runs-expired"})
        self._on_drain(renewal.draining)
        return self._beat

    def _record_outage(self, connection: Connection, now: datetime, sent: float) -> None:
        """Record that heartbeats failed for half of the lease or longer, for the doctor."""
        away = self._counters.contact.away(sent)
        if away >= _NOTABLE_BEATS * self._beat and not self._lease.has_other_tables:
            outages.record(connection, now, self._node_id, away)

    def _maintain(
        self, connection: Connection, now: datetime, renewal: Row[Any]
    ) -> tuple[bool, Differences, list[str], list[int], list[int], int]:
        """Detect a rollback, reconcile runs, reap dead nodes, and tidy up tasks and runs."""
        seen = renewal.newest or 0, renewal.issued or 0
        went_back = self._rollback_detector.examine(connection, now, *seen)
        query = self._reconciler.send_query(connection)
        quick, slow = self._maintenance.names_of(quick=True), self._maintenance.names_of(quick=False)
        todo = take_upkeep(connection, self._database, self._node_id, now, quick, slow, self._notifier.names)
        given = settings.of_name(connection, ON_DISCONNECT.name) if todo.has_on_disconnect else {}
        self._on_settings(given)
        found = self._reconciler.compare(
            connection, now, query, owns_runs=todo.owns_runs, went_back=went_back
        )
        over = self._others.over(todo.leases, todo.read_at, self._lease.clock())
        if self._counters.contact.has_failed:
            # Perhaps because of what follows, such as a row that a silent client has locked. Another failure
            # would cost the lease, so every second heartbeat only renews it.
            return went_back, found, [], [], [], 0
        dead, lost = reaping.reap(connection, self._database, now, over) if over else ([], [])
        unheard_ids = unheard.of_nodes(connection, dead) if dead else []
        lost += self._give_up(connection, now) if todo.has_unheard else []
        expired = expiry.expire(connection, self._database, now, BATCH) if todo.has_expired else 0
        if todo.has_blocked:
            self._unblocked_up_to = blocked.unblock_some(connection, self._unblocked_up_to, now, BATCH)
        if todo.has_retirable:
            tasks.retire_once(connection, now, BATCH)
        for job in filter(None, todo.due_jobs):
            if not renewal.draining:
                self._maintenance.offer(job)
        self._notifier.draining = renewal.draining
        if todo.has_notifications and not renewal.draining:
            self._notifier.offer()
        return went_back, found, dead, lost, unheard_ids, expired

    def _give_up(self, connection: Connection, now: datetime) -> list[int]:
        """Declare unheard runs lost whose time is over."""
        times = {run: HeldLease(over_at) for run, over_at in unheard.ending(connection, BATCH).items()}
        over = self._unheard.over(times, now, self._lease.clock())
        return unheard.give_up(connection, self._database, now, over)
