"""The dispatcher: claim due runs, record their start, hand their commands to the warden.

A run starts only after the commit that writes this node's ID on the locked row and records the start. So two
nodes never start the same run. If a commit gets no reply, the dispatcher first asks the database which runs
are its own. It claims nothing while the node drains, while a rollback of the database is suspected, or when
the tables are of another version. While the crontab is frozen it claims manual runs only.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dcron.agent.held_claims import HeldClaims
from dcron.agent.lease import Fenced
from dcron.agent.log import log
from dcron.agent.look import View
from dcron.agent.node_context import NodeContext
from dcron.agent.pace import Pace
from dcron.agent.settings import POLL_INTERVAL
from dcron.agent.starting import Starter
from dcron.policy.conditions.thresholds import PACED_AFTER
from dcron.policy.starting.lanes import Lane, without
from dcron.schedule.effort import unlocked
from dcron.schedule.zones import tzdata_version
from dcron.store.claims import claims, finishing
from dcron.store.claims.claims import ClaimResult
from dcron.store.planning import events, planning
from dcron.store.runs import blocked, candidates, unclaimable
from dcron.store.runs.candidates import Capacity
from dcron.store.tasks import queues

BATCH = 100
"""Most runs claimed, tasks planned, or events handled in one transaction."""
_DEAD_PAUSE = 1.0
"""Seconds to the next step of a node that was declared dead, while its heartbeat revives it."""
_SNAPSHOT_PAUSE = 0.2
"""Seconds to the next snapshot while enough claims are held."""


class Dispatcher:
    """Starts the due runs of one node. Call `step` again and again."""

    def __init__(self, node: NodeContext, *, is_single_pass: bool = False) -> None:
        self._node = node
        self._view = View(node)
        self._starter = Starter(node)
        self._held = HeldClaims(node, self._view, self._starter)
        self._pace = Pace(node, is_single_pass=is_single_pass)
        self.closed = False
        """Set when the agent stops, or the tables are of another version: nothing new is claimed."""
        self.on_disconnect: Mapping[str, Any] = {}
        """The settings that say which commands go on while the node is cut off."""
        self.next_due: datetime | None = None
        """When the first waiting run that this node serves is due, as the last look found."""
        self._waits_for_room = False
        self._policy = node.admission.published
        # By the lease's clock: when it may check again whether a node is left for runs that nodes refused.
        self._next_check = 0.0
        self._stepping = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether claimed runs wait for free slots."""
        return bool(self._held)

    @property
    def starting(self) -> frozenset[int]:
        """The runs whose start this node may be recording now, or that it has claimed ahead."""
        return frozenset(run.id for run in (*(self._starter.in_doubt or ()), *self._held))

    @property
    def is_held_up(self) -> bool:
        """Whether a due run waits for room on this node, or for the check of a suspected rollback."""
        return self._waits_for_room or bool(self._held) or self._node.rollback_detector.is_in_doubt

    @property
    def has_kept_work(self) -> bool:
        """Whether a command that goes on while the node is cut off may be here, or its unrecorded end."""
        return self._node.active_runs.has_kept() or any(run.keeps for run in self._starter.in_doubt or ())

    def look_again(self) -> None:
        """Look at the database in the next step: another process may have changed it."""
        self._view.look_again()

    def wait_for_step(self, timeout: float) -> bool:
        """Wait until no step is under way, at most `timeout` seconds; return whether that is so.

        Once `closed` is set, all starts that were committed have then begun, unless a commit got no reply.
        """
        if not self._stepping.acquire(timeout=timeout):
            return False
        self._stepping.release()
        return True

    def step(self) -> float:
        """Do what is due now; return the seconds until the next step. Raises Fenced or DatabaseError."""
        with self._stepping:
            try:
                return self._step()
            except Fenced:
                if not self.has_kept_work:
                    raise
                self._node.wake_heartbeat.set()  # only a heartbeat revives the node
                return _DEAD_PAUSE

    def _step(self) -> float:
        if self._starter.in_doubt is not None:
            self.look_again()
            self._starter.settle_doubt()
            self._held.clear()
        if self._held:
            if self._must_not_claim or self._has_another_policy() or self._held.seconds_left <= 0:
                self._held.release()
                return 0.0
            if (pause := self._held.use()) is not None:
                return pause
        if (pause := self._pace.until_claim()) > 0:
            return pause
        self._held.next_snapshot = self._node.lease.clock() + _SNAPSHOT_PAUSE
        capacity = self._capacity()
        snapshot = self._view.snapshot()
        elsewhere = [head.lane for head in snapshot.heads if not capacity.serves(head.lane)]
        served = [head for head in snapshot.heads if capacity.serves(head.lane)]
        if snapshot.is_frozen:
            served = [head for head in served if head.lane.is_requested]
        self.next_due = min((head.due_at for head in served), default=None)
        if kept_for := planning.reservation(served, capacity.free, snapshot.now, self._is_full):
            capacity = replace(capacity, free=without(capacity.free, kept_for))
        due = [head for head in served if head.due_at <= snapshot.now]
        self._waits_for_room = not all(capacity.has_room_for(head.lane) for head in due)
        if newly_cancelled := self._node.active_runs.cancel(snapshot.cancel_requests):
            self._node.warden.kill(newly_cancelled)
        if self.closed or self._node.lease.draining:
            return POLL_INTERVAL
        if snapshot.to_plan and unlocked(self._plan):
            return 0.0
        if snapshot.has_events and self._handle_events():
            return 0.0
        if self._fail_refused([lane for lane in elsewhere if lane.refused_by]):
            return 0.0
        if not any(snapshot.now - head.due_at > PACED_AFTER for head in due):
            capacity = replace(capacity, slots=min(BATCH, capacity.slots + self._held.room))
        lanes = self._pace.lanes_to_claim(snapshot.now, due, capacity)
        if lanes and self._claim_and_start(lanes, capacity):
            return 0.0
        # A lane whose runs cannot be claimed now must not delay the others.
        unclaimed = [head for head in served if head.lane not in lanes]
        has_more_lanes = bool(self._view.last_lane)
        pause = self._pace.until_next(snapshot, unclaimed, capacity, has_more_lanes=has_more_lanes)
        pause = max(0.0, min(pause, self._held.seconds_left))
        return min(self._pace.retry, pause) if lanes else pause

    @property
    def _must_not_claim(self) -> bool:
        return self.closed or self._node.lease.draining or self._node.rollback_detector.is_in_doubt

    def _has_another_policy(self) -> bool:
        """Return whether the node now accepts other tasks: then it gives back what it holds."""
        before, self._policy = self._policy, self._node.admission.published
        return self._policy is not before

    def _capacity(self) -> Capacity:
        settings, active = self._node.settings, self._node.active_runs
        return Capacity(
            node_id=self._node.id,
            slots=min(BATCH, active.free()),
            tags=settings.tags,
            queues=settings.queues,
            capacity=settings.capacity,
            free=self._held.free_capacity(active.free_capacity(settings.capacity)),
            accounts=self._node.admission.accounts,
            account=settings.account.name,
            ending_tasks=active.ending_tasks(),
            on_disconnect=self.on_disconnect,
        )

    def _is_full(self, queue: str) -> bool:
        with self._node.database.read() as connection:
            return queues.is_full(connection, queue)

    def _plan(self) -> int:
        """Plan a batch of tasks that need it, except those that other nodes hold; return how many."""
        self.look_again()
        with self._node.database.write() as connection:
            now = self._node.database.now(connection)
            number, moved = planning.plan_unplanned(connection, now, BATCH)
        for each in moved:
            log.warning(
                "task %s: its next run moved from %s to %s, by the time zones of %s",
                *(each.task, each.before, each.after, tzdata_version()),
                event="task-moved",
                task=each.task,
            )
        return number

    def _handle_events(self) -> int:
        """Add the runs of events that were inserted by plain SQL; return the number of events."""
        self.look_again()
        database = self._node.database
        with database.write() as connection:
            now = database.now(connection)
            found = events.unhandled(connection, BATCH)
            for event in found:
                events.handle(connection, database, event, now)
        return len(found)

    def _fail_refused(self, lanes: Sequence[Lane]) -> int:
        """Fail runs of these lanes that other nodes refused, if no node is left for them; return how many."""
        if not lanes or self._node.lease.clock() < self._next_check:
            return 0
        database = self._node.database
        with database.write() as connection:
            failed = finishing.fail_refused(connection, database, lanes, database.now(connection), BATCH)
        if not failed:
            self._next_check = self._node.lease.clock() + POLL_INTERVAL
            return 0
        self.look_again()
        ids = ", ".join(f"run {run_id}" for run_id in failed)
        log.warning("no node is left that could start them: %s", ids, event="runs-refused")
        return len(failed)

    def _claim_and_start(self, lanes: list[Lane], capacity: Capacity) -> bool:
        """Claim due runs of these lanes, start as many as there are free slots, and hold the others.

        Return whether any of them was settled in some way.
        If not, other nodes hold the rows or their tasks forbid a start: the next claim waits for a while.
        """
        began = self._node.lease.clock()
        result = unlocked(lambda: self._claim(lanes, capacity))
        self._held.add(result.claimed)
        if result.started:
            self._starter.start(result.started, result.now)
            self._pace.wait_for_quick_ends(began)
        if result.blocked:
            unlocked(lambda: self._unblock(result))
        self._pace.note(moved_on=result.moved_on)
        return result.moved_on

    def _claim(self, lanes: list[Lane], capacity: Capacity) -> ClaimResult:
        node, database, lease = self._node, self._node.database, self._node.lease
        self._starter.in_doubt = []
        sent = lease.clock()
        with node.counters.claim, database.write(starts=True) as connection:
            now = database.now(connection)
            renewed = lease.send_renewal(connection, database, now)
            due = candidates.lock(connection, database, capacity, now, lanes)
            renewal = renewed()
            now = max(now, database.now(connection))  # the locks took a round trip
            self.closed = self.closed or lease.has_other_tables
            if lease.draining or lease.has_other_tables or node.rollback_detector.is_in_doubt:
                self._starter.in_doubt = None
                return ClaimResult(now)
            ran_until = node.rollback_detector.ran_until
            slots = max(0, node.active_runs.free() - len(self._held))
            result = claims.claim_locked(connection, database, node.id, now, due, ran_until, slots=slots)
            lease.limit_starts(result.started, sent)
            if not result.moved_on:
                unclaimable.skip_orphans(connection, lanes, now, BATCH)
            self._starter.in_doubt = result.started
            look = self._view.send_look(connection)
        result.started = result.owned()
        self._starter.in_doubt = result.started or None
        look()
        lease.extend(sent, renewal)
        self._pace.hold_back_late_runs(result.started + result.claimed, now)
        return result

    def _unblock(self, result: ClaimResult) -> None:
        """Unblock runs whose obstacle has gone since the claim: it may have ended in the meantime."""
        self.look_again()
        with self._node.database.write() as connection:
            now = self._node.database.now(connection)
            blocked.unblock(connection, [run.task.id for run, _ in result.blocked], now)
