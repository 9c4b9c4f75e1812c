"""The heartbeat: renew the node's lease and reap the nodes whose leases ran out.

A node lives as long as it renews its lease in time. If a renewal finds that the node was declared dead, the
node ends (Fenced) and writes nothing more. In the same transaction the heartbeat compares clocks, run ids
and run states with what it knows, so it notices a rollback of the database before anything new is claimed.
"""

from datetime import UTC, datetime

from sqlalchemy import Connection

from dcron.agent.admission import Published
from dcron.agent.lease import Fenced
from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.agent.upkeep import Upkeep
from dcron.errors import DatabaseError
from dcron.presentation.humanize import plural
from dcron.schedule.effort import unlocked
from dcron.store.claims import unheard
from dcron.store.nodes import outages
from dcron.store.nodes import rows as nodes

_NOTABLE_BEATS = 3
"""An outage of so many beats is recorded: half of the lease."""


class Heartbeat:
    """Renews one node's lease, reaps dead nodes, and does the regular upkeep of the database."""

    def __init__(self, node: NodeContext, upkeep: Upkeep) -> None:
        self._node = node
        self._upkeep = upkeep
        # What the node's row has of its policy.
        self._published: Published | None = None

    def step(self) -> float:
        """Do one heartbeat; return the seconds until the next. Raises Fenced or DatabaseError.

        With tables of another version, renew the lease and do nothing else. A node that was declared dead
        although it has kept work goes on under its own id.
        """
        try:
            pause = unlocked(self._beat_once)
        except Fenced:
            if not self._upkeep.dispatcher.has_kept_work:
                raise
            pause = unlocked(self._revive)
        except DatabaseError:
            self._node.counters.contact.has_failed = True
            self._published = None  # whether it was committed is unknown
            raise
        self._node.database.close_unused()
        return pause

    def _revive(self) -> float:
        """Take the node back to life, with its kept runs; the next heartbeat follows at once.

        What it still runs and no longer owns is killed first: another run may hold its place.
        """
        node, reconciler = self._node, self._upkeep.reconciler
        sent = node.lease.clock()
        with node.counters.beat, node.database.write() as connection:
            now = node.database.read_clock(connection)
            offset = node.counters.clock_offset = (datetime.now(UTC) - now).total_seconds()
            renewal = node.lease.revive(connection, node.database, now, offset)
            heard = [] if node.lease.has_other_tables else unheard.hear(connection, node.id)
            foreign = reconciler.find_foreign(connection)
            self._record_outage(connection, now, sent)
        reconciler.fence(foreign)
        node.lease.extend(sent, renewal)
        node.counters.contact.reach(sent)
        log.warning(
            "node %s was declared dead and goes on: %s heard of again, %s ended that are no longer its own",
            *(node.id, plural(len(heard), "run"), plural(len(foreign), "run")),
            event="node-revived",
        )
        return 0.0

    def _publish_policy(self, connection: Connection) -> None:
        """Write what the node accepts into its row, unless it has that already."""
        policy = self._node.admission.published
        if policy is not self._published and not self._node.lease.has_other_tables:
            self._published = policy
            nodes.publish_policy(
                *(connection, self._node.id, policy.accounts, policy.rules, policy.digest, policy.error)
            )

    def _beat_once(self) -> float:
        node, detector = self._node, self._node.rollback_detector
        if node.admission.refresh():
            node.wake_dispatcher.set()
        sent = node.lease.clock()
        with node.counters.beat, node.database.write() as connection:
            before = node.lease.clock()
            now = node.database.read_clock(connection)
            detector.check_clock(connection, now, before, node.lease.clock())
            offset = node.counters.clock_offset = (datetime.now(UTC) - now).total_seconds()
            renewal = node.lease.beat(connection, node.database, now, offset)
            done = None if node.lease.has_other_tables else self._upkeep.do(connection, now, renewal)
            self._publish_policy(connection)
            self._record_outage(connection, now, sent)
        node.counters.contact.reach(sent)
        if done and done.went_back:
            detector.settled(renewal.renewals)
        node.lease.extend(sent, renewal)
        if done:
            detector.save()
            self._upkeep.reconciler.settle(done.differences)
            done.report()
        return node.settings.beat

    def _record_outage(self, connection: Connection, now: datetime, sent: float) -> None:
        """Record that heartbeats failed for half of the lease or longer, for the doctor."""
        node = self._node
        away = node.counters.contact.away(sent)
        if away >= _NOTABLE_BEATS * node.settings.beat and not node.lease.has_other_tables:
            outages.record(connection, now, node.id, away)
