"""What a node does for the whole crontab with each heartbeat: reap dead nodes, and tidy up tasks and runs.

A node is declared dead only after its lease ran out by a clock that cannot be set.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from dcron.agent.dispatcher import Dispatcher
from dcron.agent.lease import OtherLeases
from dcron.agent.log import log
from dcron.agent.maintenance import Maintenance
from dcron.agent.node_context import NodeContext
from dcron.agent.notifier import Notifier
from dcron.agent.reconciliation import Differences, Reconciler
from dcron.settings.registry import ON_DISCONNECT
from dcron.store.claims import unheard
from dcron.store.runs import blocked
from dcron.store.tasks import rows as tasks
from dcron.store.tasks import settings
from dcron.store.upkeep import expiry, reaping
from dcron.store.upkeep.reaping import HeldLease
from dcron.store.upkeep.steps import take_upkeep

BATCH = 100
"""Most one-off tasks retired, expired runs skipped, and tasks checked for blocked runs in one heartbeat."""


@dataclass
class Done:
    """What one heartbeat found and settled."""

    went_back: bool
    """Whether the database went back in time."""
    differences: Differences
    dead: list[str] = field(default_factory=list)
    """The nodes that it declared dead."""
    lost: list[int] = field(default_factory=list)
    unheard: list[int] = field(default_factory=list)
    """Runs of dead nodes whose commands may go on."""
    expired: int = 0
    """How many runs were not started in time."""

    def report(self) -> None:
        """Log it, once it is committed."""
        for node_id in self.dead:
            log.warning("node %s is dead: its lease is over", node_id, event="node-dead")
        if self.lost:
            log.warning("lost with it: %s", _named(self.lost), event="runs-lost")
        if self.unheard:
            message = "not heard of any more, and kept: %s"
            log.warning(message, _named(self.unheard), event="runs-unheard")
        if self.expired:
            log.warning("%d runs were not started in time", self.expired, event="runs-expired")


def _named(run_ids: Iterable[int]) -> str:
    return ", ".join(f"run {run_id}" for run_id in run_ids)


class Upkeep:
    """The regular upkeep of the database by one node."""

    def __init__(
        self,
        node: NodeContext,
        dispatcher: Dispatcher,
        maintenance: Maintenance,
        notifier: Notifier,
        *,
        watches_leases: bool = True,
    ) -> None:
        """With `watches_leases`, a lease of another node is over only once this node has seen it run out."""
        self._node = node
        self.dispatcher = dispatcher
        self.reconciler = Reconciler(node, lambda: dispatcher.starting)
        self._maintenance = maintenance
        self._notifier = notifier
        self._others = OtherLeases(2 * node.settings.beat if watches_leases else 0)
        # Like leases, the times of unheard runs are judged by a clock that cannot be set.
        self._unheard = OtherLeases(2 * node.settings.beat)
        # The last task whose blocked runs were checked; the next heartbeat continues after it.
        self._unblocked_up_to = 0

    def do(self, connection: Connection, now: datetime, renewal: Row[Any]) -> Done:
        """Detect a rollback, reconcile runs, reap dead nodes, and tidy up tasks and runs."""
        node, database = self._node, self._node.database
        seen = renewal.newest or 0, renewal.issued or 0
        went_back = node.rollback_detector.examine(connection, now, *seen)
        query = self.reconciler.send_query(connection)
        quick, slow = self._maintenance.names_of(quick=True), self._maintenance.names_of(quick=False)
        todo = take_upkeep(connection, database, node.id, now, quick, slow, self._notifier.names)
        given = settings.of_name(connection, ON_DISCONNECT.name) if todo.has_on_disconnect else {}
        self.dispatcher.on_disconnect = given
        found = self.reconciler.compare(connection, now, query, owns_runs=todo.owns_runs, went_back=went_back)
        done = Done(went_back, found)
        over = self._others.over(todo.leases, todo.read_at, node.lease.clock())
        if node.counters.contact.has_failed:
            # Perhaps because of what follows, such as a row that a silent client has locked. Another failure
            # would cost the lease, so every second heartbeat only renews it.
            return done
        if over:
            done.dead, done.lost = reaping.reap(connection, database, now, over)
        if done.dead:
            done.unheard = unheard.of_nodes(connection, done.dead)
        if todo.has_unheard:
            done.lost += self._give_up(connection, now)
        if todo.has_expired:
            done.expired = expiry.expire(connection, database, now, BATCH)
        if todo.has_blocked:
            self._unblocked_up_to = blocked.unblock_some(connection, self._unblocked_up_to, now, BATCH)
        if todo.has_retirable:
            tasks.retire_once(connection, now, BATCH)
        self._notifier.draining = renewal.draining
        if not renewal.draining:
            for job in filter(None, todo.due_jobs):
                self._maintenance.offer(job)
            if todo.has_notifications:
                self._notifier.wake()
        return done

    def _give_up(self, connection: Connection, now: datetime) -> list[int]:
        """Declare unheard runs lost whose time is over."""
        times = {run: HeldLease(over_at) for run, over_at in unheard.ending(connection, BATCH).items()}
        over = self._unheard.over(times, now, self._node.lease.clock())
        return unheard.give_up(connection, self._node.database, now, over)
