"""The dispatcher: claim due runs, record their start, hand their commands to the warden.

A run starts only after the commit that writes this node's ID on the locked row and records the start. So two
nodes never start the same run. If a commit gets no reply, the dispatcher first asks the database which runs
are its own. It claims nothing while the node drains, while a rollback of the database is suspected, or when
the tables are of another version. While the crontab is frozen it claims manual runs only.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from dcron.agent.counters import Counters
from dcron.agent.execution import job_for
from dcron.agent.held_claims import HeldClaims
from dcron.agent.lease import Fenced, Lease
from dcron.agent.pings import RunPings
from dcron.agent.rollback_detection import RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import POLL_INTERVAL, POLL_INTERVAL_WITHOUT_NOTIFY, AgentSettings
from dcron.database import Database
from dcron.errors import ROW_ERRORS, UsageError, unexpected
from dcron.model import RunState
from dcron.policy.conditions.thresholds import PACED_AFTER
from dcron.policy.starting.lanes import Lane, without
from dcron.schedule.effort import unlocked
from dcron.schedule.zones import tzdata_version
from dcron.store.claims import claims, finishing
from dcron.store.claims import held as held_claims
from dcron.store.claims.claims import ClaimResult
from dcron.store.claims.finishing import RunResult
from dcron.store.claims.snapshot import Snapshot, send_snapshot, take_snapshot
from dcron.store.planning import events, planning
from dcron.store.planning.planning import LaneHead
from dcron.store.runs import blocked, candidates, unclaimable
from dcron.store.runs.candidates import Capacity, ClaimedRun
from dcron.store.tasks import queues
from dcron.warden.client import Job

log = logging.getLogger("dcron.agent")

BATCH = 100
"""Most runs claimed, tasks planned, or events handled in one transaction."""
LATE_STARTS = 4
"""Runs later than PACED_AFTER that each slot starts per second, so downtime ends in no stampede."""
_FIRST_RETRY = 0.05
_KNOWN = timedelta(seconds=POLL_INTERVAL_WITHOUT_NOTIFY)
"""How long a snapshot holds unless a change is signalled. Not longer than the shortest poll interval."""
_NEXT_LANES_PAUSE = 0.2
"""Seconds to the next step when one step does not reach all lanes."""
LONGEST_GATHERING = 0.02
"""Seconds for which a free slot waits for others, so that one commit starts several held claims."""
_PART_OF_CLAIM = 0.125
"""Part of the duration of a claim for which the next one waits for commands that were just started to end."""
_DEAD_PAUSE = 1.0
"""Seconds to the next step of a node that was declared dead, while its heartbeat revives it."""
_SNAPSHOT_PAUSE = 0.2
"""Seconds to the next snapshot while enough claims are held."""


Prepared = list[tuple[ClaimedRun, Job]]
"""Runs whose start is recorded, each with the command to execute."""


class Dispatcher:
    """Starts the due runs of one node. Call `step` again and again."""

    def __init__(
        self,
        database: Database,
        settings: AgentSettings,
        node_id: str,
        lease: Lease,
        rollback_detector: RollbackDetector,
        active_runs: ActiveRuns,
        launch: Callable[[Sequence[Job]], None],
        kill: Callable[[Sequence[int]], None],
        counters: Counters | None = None,
        pings: RunPings | None = None,
        on_dead: Callable[[], None] = lambda: None,
    ) -> None:
        """`launch` starts commands and `kill` ends runs; both return at once.

        `on_dead` is called if the node was declared dead and has kept work: only a heartbeat revives it.
        """
        self._on_dead = on_dead
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._lease = lease
        self._rollback_detector = rollback_detector
        self._active_runs = active_runs
        self._launch = launch
        self._kill = kill
        self._counters = counters or Counters()
        self._pings = pings or RunPings()
        # The runs of a commit without a reply; None once the database has said which of them are ours.
        self._in_doubt: list[ClaimedRun] | None = None
        self._retry = 0.0
        # The last lane of this step; the next step continues after it. Empty after the last lane of all.
        self._last_lane = ""
        # By the database's clock: when late runs may be claimed again.
        self._late_runs_wait_until: datetime | None = None
        self.is_single_pass = False
        """Set when there is one pass only. Late runs are then not spread over time."""
        self.closed = False
        """Set when the agent stops, or the tables are of another version: nothing new is claimed."""
        self.draining = False
        """Set while the node drains: nothing new is claimed."""
        self.on_disconnect: Mapping[str, Any] = {}
        """The settings that say which commands go on while the node is cut off."""
        self.next_due: datetime | None = None
        """When the first waiting run that this node serves is due, as the last look found."""
        self._waits_for_room = False
        # What the database showed with the last look or claim, and `notified` before it.
        self._known: tuple[Snapshot, int] | None = None
        self._is_outdated = False
        self._held = HeldClaims(settings.slots, active_runs, lease.clock)
        # By the lease's clock, in seconds.
        self._last_start_took = 0.0
        self._gathers_until: float | None = None
        self._next_snapshot = 0.0
        self._next_claim = 0.0
        # When it may check again whether a node is left for runs that nodes refused.
        self._next_check = 0.0
        self._stepping = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether claimed runs wait for free slots."""
        return bool(self._held)

    @property
    def starting(self) -> frozenset[int]:
        """The runs whose start this node may be recording now, or that it has claimed ahead."""
        return frozenset(run.id for run in (*(self._in_doubt or ()), *self._held))

    @property
    def is_held_up(self) -> bool:
        """Whether a due run waits for room on this node, or for the check of a suspected rollback."""
        return self._waits_for_room or bool(self._held) or self._rollback_detector.is_in_doubt

    @property
    def has_kept_work(self) -> bool:
        """Whether a command that goes on while the node is cut off may be here, or its unrecorded end."""
        return self._active_runs.has_kept() or any(run.keeps for run in self._in_doubt or ())

    def look_again(self) -> None:
        """Look at the database in the next step: another process may have changed it."""
        self._is_outdated = True

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
                self._on_dead()
                return _DEAD_PAUSE

    def _step(self) -> float:
        if self._in_doubt is not None:
            self._settle_doubt(self._in_doubt)
        if self._held and (pause := self._use_held()) is not None:
            return pause
        if (pause := self._next_claim - self._lease.clock()) > 0 and not self._has_all_slots():
            return pause
        self._next_snapshot = self._lease.clock() + _SNAPSHOT_PAUSE
        capacity = self._capacity()
        snapshot = self._known_snapshot() or self._look()
        elsewhere = [head.lane for head in snapshot.heads if not capacity.serves(head.lane)]
        served = [head for head in snapshot.heads if capacity.serves(head.lane)]
        if snapshot.is_frozen:
            served = [head for head in served if head.lane.is_requested]
        snapshot = replace(snapshot, heads=served)
        self.next_due = min((head.due_at for head in snapshot.heads), default=None)
        if kept_for := planning.reservation(snapshot.heads, capacity.free, snapshot.now, self._is_full):
            capacity = replace(capacity, free=without(capacity.free, kept_for))
        due = [head for head in snapshot.heads if head.due_at <= snapshot.now]
        self._waits_for_room = not all(capacity.has_room_for(head.lane) for head in due)
        if newly_cancelled := self._active_runs.cancel(snapshot.cancel_requests):
            self._kill(newly_cancelled)
        if self.closed or self.draining:
            return POLL_INTERVAL
        if snapshot.to_plan and unlocked(self._plan):
            return 0.0
        if snapshot.has_events and self._handle_events():
            return 0.0
        if self._fail_refused([lane for lane in elsewhere if lane.refused_by]):
            return 0.0
        if not any(snapshot.now - head.due_at > PACED_AFTER for head in due):
            capacity = replace(capacity, slots=min(BATCH, capacity.slots + self._held.room))
        lanes = self._lanes_to_claim(snapshot, due, capacity)
        if lanes and self._claim_and_start(lanes, capacity):
            return 0.0
        # A lane whose runs cannot be claimed now must not delay the others.
        unclaimed = [head for head in snapshot.heads if head.lane not in lanes]
        pause = self._until_next(snapshot, unclaimed, capacity)
        pause = max(0.0, min(pause, self._held.seconds_left))
        return min(self._retry, pause) if lanes else pause

    def _capacity(self) -> Capacity:
        settings = self._settings
        return Capacity(
            node_id=self._node_id,
            slots=min(BATCH, self._active_runs.free()),
            tags=settings.tags,
            queues=settings.queues,
            capacity=settings.capacity,
            free=self._held.free_capacity(self._active_runs.free_capacity(settings.capacity)),
            accounts=settings.account.accounts,
            ending_tasks=self._active_runs.ending_tasks(),
            on_disconnect=self.on_disconnect,
        )

    def _known_snapshot(self) -> Snapshot | None:
        """Return what the last look or claim has shown; None if that is too long ago or has changed since."""
        if self._known is None or self._is_outdated or self._last_lane:
            return None
        known, notified = self._known
        now = self._database.recent_now()
        if now is None or notified != self._database.notified or not known.now <= now < known.now + _KNOWN:
            return None
        return replace(known, now=now)

    def _look(self) -> Snapshot:
        """Look at the database."""
        notified = self._begin_look()
        with self._counters.look, self._database.read() as connection:
            found = take_snapshot(connection, self._database, self._node_id, self._last_lane)
        self._note(found, notified)
        return found

    def _send_look(self, connection: Connection) -> Callable[[], None]:
        """Look together with the COMMIT. Call the returned function after it."""
        notified = self._begin_look()
        read = send_snapshot(connection, self._database, self._node_id, self._last_lane)
        return lambda: self._note(read(), notified)

    def _begin_look(self) -> int:
        self._known, self._is_outdated = None, False
        return self._database.notified

    def _note(self, found: Snapshot, notified: int) -> None:
        self._known, self._last_lane = (found, notified), found.last_lane

    def _is_full(self, queue: str) -> bool:
        with self._database.read() as connection:
            return queues.is_full(connection, queue)

    def _plan(self) -> int:
        """Plan a batch of tasks that need it, except those that other nodes hold; return how many."""
        self.look_again()
        with self._database.write() as connection:
            now = self._database.now(connection)
            number, moved = planning.plan_unplanned(connection, now, BATCH)
        for each in moved:
            log.warning(
                "task %s: its next run moved from %s to %s, by the time zones of %s",
                *(each.task, each.before, each.after, tzdata_version()),
                extra={"event": "task-moved", "task": each.task},
            )
        return number

    def _handle_events(self) -> int:
        """Add the runs of events that were inserted by plain SQL; return the number of events."""
        self.look_again()
        with self._database.write() as connection:
            now = self._database.now(connection)
            found = events.unhandled(connection, BATCH)
            for event in found:
                events.handle(connection, self._database, event, now)
        return len(found)

    def _fail_refused(self, lanes: Sequence[Lane]) -> int:
        """Fail runs of these lanes that other nodes refused, if no node is left for them; return how many."""
        if not lanes or self._lease.clock() < self._next_check:
            return 0
        with self._database.write() as connection:
            now = self._database.now(connection)
            failed = finishing.fail_refused(connection, self._database, lanes, now, BATCH)
        if not failed:
            self._next_check = self._lease.clock() + POLL_INTERVAL
            return 0
        self.look_again()
        ids = ", ".join(f"run {run_id}" for run_id in failed)
        log.warning("no node is left that could start them: %s", ids, extra={"event": "runs-refused"})
        return len(failed)

    def _lanes_to_claim(self, snapshot: Snapshot, due: list[LaneHead], capacity: Capacity) -> list[Lane]:
        """Return the due lanes that this node has room for, without late ones while those are held back."""
        now, until = snapshot.now, self._late_runs_wait_until
        holds_back = until is not None and now < until < now + PACED_AFTER
        fitting = (head for head in due if capacity.has_room_for(head.lane))
        return [head.lane for head in fitting if not (holds_back and now - head.due_at > PACED_AFTER)]

    def _use_held(self) -> float | None:
        """Start held claims for which slots are free, or release them all if they must not wait any longer.

        Return the seconds until the next step; None if this step has to look at the database.
        """
        now = self._lease.clock()
        is_in_doubt = self._rollback_detector.is_in_doubt
        if self.closed or self.draining or is_in_doubt or self._held.seconds_left <= 0:
            self._release_held()
            return 0.0
        if (slots := self._active_runs.free()) > 0:
            if (pause := self._gathering(slots, now)) > 0:
                return pause
            self._start_held(self._held.take(slots))
            self._last_start_took = self._lease.clock() - now
            return 0.0
        if self._held.room or now >= self._next_snapshot:
            return None
        return min(self._next_snapshot - now, self._held.seconds_left)

    def _gathering(self, slots: int, now: float) -> float:
        """Return the seconds to wait for more free slots: at most as long as the last start took."""
        if self._gathers_until is None:
            self._gathers_until = now + min(LONGEST_GATHERING, self._last_start_took)
        pause = self._gathers_until - now
        if pause > 0 and slots < min(len(self._held), self._settings.slots):
            return pause
        self._gathers_until = None
        return 0.0

    def _release_held(self) -> None:
        with self._database.write() as connection:
            claims.release(connection, [self._node_id], [run.id for run in self._held])
            self._database.notify(connection)
        self._held.clear()

    def _start_held(self, held: list[ClaimedRun]) -> None:
        """Start these runs, except those that were cancelled or whose tasks changed while they were held."""
        self.look_again()
        self._set_start_by(held, self._lease.clock())
        self._in_doubt = held
        with self._counters.start, self._database.write(starts=True) as connection:
            now = self._database.now(connection)
            started = held_claims.start(connection, self._database, self._node_id, now, held)
            if len(started) < len(held):
                started_ids = {run.id for run in started}
                others = [run for run in held if run.id not in started_ids]
                self._settle_unstarted(connection, others, now)
        self._start(started, now)

    def _set_start_by(self, runs: Iterable[ClaimedRun], sent: float) -> None:
        for run in runs:
            run.start_by = self._lease.start_by(sent)

    def _settle_unstarted(self, connection: Connection, held: list[ClaimedRun], now: datetime) -> None:
        """Record held claims that were cancelled as such, before their commands begin; release the others."""
        actors = held_claims.cancelled(connection, [run.id for run in held])
        claims.release(connection, [self._node_id], [run.id for run in held if run.id not in actors])
        self._database.notify(connection)
        if not actors:
            return
        cancelled = [run for run in held if run.id in actors]
        started = claims.start(connection, self._database, self._node_id, now, cancelled)
        ended = [
            RunResult(run.id, RunState.CANCELLED, now, f"cancelled by {actors[run.id]}") for run in started
        ]
        finishing.finish(connection, self._database, self._node_id, ended, now)
        _log_ends(ended, held)

    def _claim_and_start(self, lanes: list[Lane], capacity: Capacity) -> bool:
        """Claim due runs of these lanes, start as many as there are free slots, and hold the others.

        Return whether any of them was settled in some way.
        If not, other nodes hold the rows or their tasks forbid a start: `_retry` says how long to wait.
        """
        began = self._lease.clock()
        result = unlocked(lambda: self._claim(lanes, capacity))
        self._held.add(result.claimed)
        if result.started:
            self._start(result.started, result.now)
            self._wait_for_quick_ends(began)
        if result.blocked:
            unlocked(lambda: self._unblock(result))
        if result.moved_on:
            self._retry = 0.0
        else:
            self._retry = min(POLL_INTERVAL, max(_FIRST_RETRY, self._retry * 2))
        return result.moved_on

    def _wait_for_quick_ends(self, began: float) -> None:
        """Let quick commands end before the next claim, if this claim has taken most slots.

        With a database far away, a claim that finds few free slots fills few of them, and takes as long.
        """
        now = self._lease.clock()
        if 2 * self._active_runs.free() < self._settings.slots and not self.is_single_pass:
            self._next_claim = now + _PART_OF_CLAIM * (now - began)

    def _has_all_slots(self) -> bool:
        return self._active_runs.free() >= self._settings.slots

    def _claim(self, lanes: list[Lane], capacity: Capacity) -> ClaimResult:
        self._in_doubt = []
        sent = self._lease.clock()
        with self._counters.claim, self._database.write(starts=True) as connection:
            now = self._database.now(connection)
            renewed = self._lease.send_renewal(connection, self._database, now)
            due = candidates.lock(connection, self._database, capacity, now, lanes)
            renewal = renewed()
            now = max(now, self._database.now(connection))  # the locks took a round trip
            self.draining = renewal.draining
            self.closed = self.closed or self._lease.has_other_tables
            if self.draining or self._lease.has_other_tables or self._rollback_detector.is_in_doubt:
                self._in_doubt = None
                return ClaimResult(now)
            ran_until = self._rollback_detector.ran_until
            slots = max(0, self._active_runs.free() - len(self._held))
            result = claims.claim_locked(
                connection, self._database, self._node_id, now, due, ran_until, slots=slots
            )
            self._set_start_by(result.started, sent)
            if not result.moved_on:
                unclaimable.skip_orphans(connection, lanes, now, BATCH)
            self._in_doubt = result.started
            look = self._send_look(connection)
        result.started = result.owned()
        self._in_doubt = result.started or None
        look()
        self._lease.extend(sent, renewal)
        taken = result.started + result.claimed
        late = sum(run.due_at is not None and now - run.due_at > PACED_AFTER for run in taken)
        if late and not self.is_single_pass:
            seconds = late / (LATE_STARTS * self._settings.slots)
            self._late_runs_wait_until = now + timedelta(seconds=seconds)
        return result

    def _unblock(self, result: ClaimResult) -> None:
        """Unblock runs whose obstacle has gone since the claim: it may have ended in the meantime."""
        self.look_again()
        with self._database.write() as connection:
            now = self._database.now(connection)
            blocked.unblock(connection, [run.task.id for run, _ in result.blocked], now)

    def _settle_doubt(self, claimed: Sequence[ClaimedRun]) -> None:
        """After a lost reply: start the runs whose start was committed, and release all other claims."""
        self.look_again()
        with self._database.write() as connection:
            now = self._database.now(connection)
            self._lease.renew(connection, now)
            owned = claims.owned(connection, self._node_id)
            claims.release(connection, [self._node_id])
            self._held.clear()
        started = [
            run
            for run in claimed
            if owned.get(run.id) is RunState.RUNNING and not self._active_runs.get(run.id)
        ]
        self._start(started, now)

    def _start(self, started: Sequence[ClaimedRun], now: datetime) -> None:
        """Begin the commands of runs whose start is committed.

        Fail a run that gives no command: its row was edited by hand.
        """
        prepared, unfit = self._prepare(started, now)
        self._hand_over(prepared, now)
        if unfit:
            with self._database.write() as connection:
                finishing.finish(connection, self._database, self._node_id, unfit, now)
            runs = {run.id: run for run in started}
            for each in unfit:
                self._pings.ended(runs[each.id], each)
        _log_ends(unfit, started)
        self._in_doubt = None

    def _prepare(self, started: Sequence[ClaimedRun], now: datetime) -> tuple[Prepared, list[RunResult]]:
        """Return these runs with their commands, and the results of those that give no command."""
        prepared: Prepared = []
        unfit: list[RunResult] = []
        for run in started:
            try:
                prepared.append((run, job_for(run, self._node_id, self._settings.kill_grace)))
            except (UsageError, *ROW_ERRORS) as error:
                reason = str(error) if isinstance(error, UsageError) else unexpected(error)
                unfit.append(RunResult(run.id, RunState.FAILED, now, f"cannot be prepared: {reason}"))
        return prepared, unfit

    def _hand_over(self, prepared: Prepared, now: datetime) -> None:
        if not prepared:
            return
        self._active_runs.add((run for run, _ in prepared), now)
        self._rollback_detector.started(run.id for run, _ in prepared)
        for run, _ in prepared:
            self._pings.started(run)
        self._launch([job for _, job in prepared])
        for run, _ in prepared:
            self._counters.started[run.trigger] += 1
            self._counters.lateness.add((now - (run.due_at or now)).total_seconds())
            name = run.task.name
            facts = {"event": "run-started", "run": run.id, "task": name}
            log.info("run %d of %s: started (%s)", run.id, name, run.trigger, extra=facts)

    def _until_next(self, snapshot: Snapshot, heads: list[LaneHead], capacity: Capacity) -> float:
        """Return the seconds until the first of these heads is due, or until the next poll if that is sooner.

        Heads without room do not count: the end of a run wakes the dispatcher.
        """
        pause = POLL_INTERVAL_WITHOUT_NOTIFY if self._database.is_pooled else POLL_INTERVAL
        if self._last_lane:
            pause = 0.0 if self.is_single_pass else _NEXT_LANES_PAUSE
        times = [head.due_at for head in heads if capacity.has_room_for(head.lane)]
        times += filter(None, (snapshot.next_resume, snapshot.next_thaw))
        for at in times:
            if snapshot.now - at > PACED_AFTER:
                at = max(at, self._late_runs_wait_until or at)
            pause = min(pause, max(0.0, (at - snapshot.now).total_seconds()))
        return pause


def _log_ends(ended: Iterable[RunResult], claimed: Iterable[ClaimedRun]) -> None:
    """Log the ends of claimed runs whose commands never began."""
    names = {run.id: run.task.name for run in claimed}
    for each in ended:
        log.warning(
            *("run %d of %s: %s (%s)", each.id, names[each.id], each.state, each.reason),
            extra={"event": "run-ended", "run": each.id, "task": names[each.id]},
        )
