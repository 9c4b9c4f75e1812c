"""The loop that takes turns: look at the agenda, claim what is due, commit the start, hand it over."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcron import policy
from dcron.agent.execution import job_for
from dcron.agent.lease import Lease
from dcron.agent.rollback_detection import RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import AgentSettings
from dcron.database import Database
from dcron.errors import ROW_ERRORS, UsageError, unexpected
from dcron.model import RunState
from dcron.policy import Lane
from dcron.schedule import tzdata_version, unlocked
from dcron.store import blocked, claims, events, finishing, planning, runs, tasks, unclaimable
from dcron.store.candidates import Capacity, ClaimedRun
from dcron.store.claims import ClaimResult
from dcron.store.finishing import RunResult
from dcron.store.planning import LaneHead
from dcron.warden.client import Job

log = logging.getLogger("dcron.agent")

BATCH = 100
"""Runs claimed, and lines planned, in one transaction."""
LOOK_EVERY = 5.0
"""Seconds between two looks when nothing is due and nobody gave a sign."""
LOOK_EVERY_UNWATCHED = 1.0
"""The same where no sign can come, behind a transaction pooler."""
LATE_STARTS = 4
"""Runs that are late by more than LATE which each slot starts in a second: after downtime, no stampede."""
LATE = timedelta(seconds=60)
_FIRST_RETRY = 0.05
_FURTHER = 0.2
"""Seconds to the next look where one does not reach all lanes."""


Prepared = list[tuple[ClaimedRun, Job]]
"""Runs whose start is recorded, each with the command to execute."""


@dataclass(frozen=True)
class Snapshot:
    """What the database shows at one moment."""

    now: datetime
    to_plan: bool
    has_events: bool
    heads: list[LaneHead]
    """The lanes that this node serves, each with its first run."""
    kept_for: Lane | None
    """The one of them for which room is kept."""
    next_resume: datetime | None
    cancel_requests: dict[int, str]


class Dispatcher:
    """Takes turns for one node. `step` is one look and what follows from it."""

    def __init__(
        self,
        database: Database,
        settings: AgentSettings,
        node_id: str,
        lease: Lease,
        continuity: RollbackDetector,
        live: ActiveRuns,
        launch: Callable[[Sequence[Job]], None],
        kill: Callable[[Sequence[int]], None],
    ) -> None:
        """`launch` starts commands, `kill` ends runs; both return at once."""
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._lease = lease
        self._continuity = continuity
        self._live = live
        self._launch = launch
        self._kill = kill
        # What a lost answer was about: not None until the database has been asked what is ours.
        self._in_doubt: list[ClaimedRun] | None = None
        self._retry = 0.0
        # The lane behind which the next look goes on.
        self._further = ""
        self._kept_for: Lane | None = None
        # By the database's clock: when runs that are late may be taken again.
        self._late_again: datetime | None = None
        self.in_a_hurry = False
        """Set when there is one pass alone: then late runs are not spread over time."""
        self.closed = False
        """Set when the agent stops, or the tables are of another version: then nothing new is claimed."""
        self.draining = False
        """Set while the node drains: the same, until it no longer does."""
        self.wait_for_room = False
        """Whether, at the last look, something due was waiting for what runs here to end."""

    @property
    def starting(self) -> frozenset[int]:
        """The runs of which this node may just be recording the start."""
        return frozenset(run.id for run in self._in_doubt or ())

    def step(self) -> float:
        """Do what there is to do now; the seconds until the next look. Raises Fenced or DatabaseError."""
        if self._in_doubt is not None:
            self._settle_doubt(self._in_doubt)
        look = self._look()
        self._kept_for = look.kept_for
        offer = self._offer()
        due = [head.lane for head in look.heads if head.due_at <= look.now]
        self.wait_for_room = not all(offer.has_room_for(lane) for lane in due)
        if fresh := self._live.cancel(look.cancel_requests):
            self._kill(fresh)
        if self.closed or self.draining:
            return LOOK_EVERY
        if look.to_plan and unlocked(self._plan):
            return 0.0
        if look.has_events and self._handle_events():
            return 0.0
        if lanes := self._lanes_to_take(look):
            return min(self._take_turns(lanes), self._until_others(look, lanes))
        return self._until_next(look)

    def _offer(self) -> Capacity:
        settings = self._settings
        free = self._live.free_capacity(settings.capacity)
        return Capacity(
            node_id=self._node_id,
            slots=min(BATCH, self._live.free()),
            tags=settings.tags,
            queues=settings.queues,
            capacity=settings.capacity,
            free=policy.without(free, self._kept_for) if self._kept_for else free,
            accounts=settings.account.accounts,
        )

    def _look(self) -> Snapshot:
        offer = self._offer()
        with self._database.read() as connection:
            now = self._database.now(connection)
            heads, self._further = planning.heads_behind(connection, self._further)
            served = [head for head in heads if offer.serves(head.lane)]
            return Snapshot(
                now,
                tasks.has_to_plan(connection, now),
                events.any_unhandled(connection),
                served,
                planning.reservation(
                    connection, served, self._live.free_capacity(self._settings.capacity), now
                ),
                tasks.next_resume(connection),
                runs.cancel_requests(connection, self._node_id) if self._live.any() else {},
            )

    def _plan(self) -> int:
        """Plan some of the lines that need it; how many. Those that others hold are left to them."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            lines = tasks.to_plan(connection, now, BATCH)
            moved = [planning.plan(connection, task, now) for task in lines]
        for each in filter(None, moved):
            log.warning(
                "task %s: its next run moved from %s to %s, by the time zones of %s",
                *(each.task, each.before, each.after, tzdata_version()),
            )
        return len(lines)

    def _handle_events(self) -> int:
        """Make the runs of events that came in by plain SQL; how many events."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            found = events.unhandled(connection, BATCH)
            for event in found:
                events.handle(connection, self._database, event, now)
        return len(found)

    def _lanes_to_take(self, look: Snapshot) -> list[Lane]:
        """The lanes with something due that this node has room for; what is late goes at its own pace."""
        offer = self._offer()
        paced = self._late_again is not None and look.now < self._late_again < look.now + LATE
        due = (head for head in look.heads if head.due_at <= look.now and offer.has_room_for(head.lane))
        return [head.lane for head in due if not (paced and look.now - head.due_at > LATE)]

    def _take_turns(self, lanes: list[Lane]) -> float:
        batch = unlocked(lambda: self._claim(lanes))
        if batch.blocked:
            unlocked(lambda: self._look_again_at(batch))
        if batch.claimed:
            self._start(batch.claimed)
        if batch.moved_on:
            self._retry = 0.0
            return 0.0
        # Due, but not for us or not just now: others hold the rows, or the line forbids it.
        self._retry = min(LOOK_EVERY, max(_FIRST_RETRY, self._retry * 2))
        return self._retry

    def _claim(self, lanes: list[Lane]) -> ClaimResult:
        self._in_doubt = []
        sent = self._lease.clock()
        with self._database.write() as connection:
            now = self._database.now(connection)
            renewal = self._lease.renew(connection, now)
            self.draining = renewal.draining
            if renewal.draining or self._lease.is_outgrown:
                self._in_doubt, self.closed = None, self.closed or self._lease.is_outgrown
                return ClaimResult()
            if self._continuity.is_in_doubt:
                self._in_doubt = None
                return ClaimResult()
            ran_until = self._continuity.ran_until
            batch = claims.claim(connection, self._database, self._offer(), now, lanes, ran_until)
            if not batch.moved_on:
                unclaimable.settle_orphans(connection, lanes, now, BATCH)
        self._in_doubt = None
        self._lease.extend(sent, renewal)
        late = sum(run.due_at is not None and now - run.due_at > LATE for run in batch.claimed)
        if late and not self.in_a_hurry:
            self._late_again = now + timedelta(seconds=late / (LATE_STARTS * self._settings.slots))
        return batch

    def _look_again_at(self, batch: ClaimResult) -> None:
        """What was in the way may have ended while this node decided to wait for it."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            blocked.unblock(connection, [run.task.id for run, _ in batch.blocked], now)

    def _start(self, claimed: list[ClaimedRun]) -> None:
        self._in_doubt = claimed
        with self._database.write() as connection:
            now = self._database.now(connection)
            started = claims.start(connection, self._database, self._node_id, now, claimed)
            jobs = self._prepare(connection, started, now)
        self._hand_over(jobs, now)
        self._in_doubt = None

    def _settle_doubt(self, claimed: Sequence[ClaimedRun]) -> None:
        """After a lost reply: what the database has as started by us is started, the rest is given back."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            self._lease.renew(connection, now)
            mine = claims.owned(connection, self._node_id)
            claims.release(connection, [self._node_id])
            started = [
                run for run in claimed if mine.get(run.id) is RunState.RUNNING and not self._live.get(run.id)
            ]
            jobs = self._prepare(connection, started, now)
        self._hand_over(jobs, now)
        self._in_doubt = None

    def _prepare(self, connection: Connection, started: Sequence[ClaimedRun], now: datetime) -> Prepared:
        """Return the commands of these runs. A run of which none can be made fails by itself, here and now:
        its row was written by hand."""
        prepared: Prepared = []
        unfit: list[RunResult] = []
        for run in started:
            try:
                prepared.append((run, job_for(run, self._node_id, self._settings.kill_grace)))
            except (UsageError, *ROW_ERRORS) as error:
                reason = str(error) if isinstance(error, UsageError) else unexpected(error)
                unfit.append(RunResult(run.id, RunState.FAILED, now, f"cannot be prepared: {reason}"))
        if unfit:
            finishing.finish(connection, self._database, self._node_id, unfit, now)
        for each in unfit:
            log.warning("run %d: failed (%s)", each.id, each.reason)
        return prepared

    def _hand_over(self, prepared: Prepared, now: datetime) -> None:
        if not prepared:
            return
        self._live.add((run for run, _ in prepared), now)
        self._continuity.started(run.id for run, _ in prepared)
        self._launch([job for _, job in prepared])
        for run, _ in prepared:
            log.info("run %d of %s: started (%s)", run.id, run.task.name, run.trigger)

    def _until_others(self, look: Snapshot, lanes: list[Lane]) -> float:
        """A lane that stands still does not keep the others waiting."""
        heads = [head for head in look.heads if head.lane not in lanes]
        return self._until_next(replace(look, heads=heads))

    def _until_next(self, look: Snapshot) -> float:
        pause = LOOK_EVERY_UNWATCHED if self._database.address.transaction_pooling else LOOK_EVERY
        if self._further:
            pause = 0.0 if self.in_a_hurry else _FURTHER
        offer = self._offer()
        # Where there is no room, a run that ends is what wakes us.
        times = [head.due_at for head in look.heads if offer.has_room_for(head.lane)]
        times += [look.next_resume] if look.next_resume else []
        for moment in times:
            is_late = look.now - moment > LATE
            moment = max(moment, self._late_again or moment) if is_late else moment
            pause = min(pause, max(0.0, (moment - look.now).total_seconds()))
        return pause
