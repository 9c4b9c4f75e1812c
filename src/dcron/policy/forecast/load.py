"""Play the coming runs of a crontab against its nodes: which runs wait for a slot, and which are skipped.

This is a queueing simulation on values alone: a clock, slots, and runs that wait in lanes. What becomes of a
run that is due is decided by the function that the claim asks. Every command succeeds: failures, retries,
events and runs on request are not simulated.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from dcron.model import Definition, Node, SkipCode, Trigger
from dcron.policy.starting.admission import Wait
from dcron.policy.starting.catch_up import Times
from dcron.policy.starting.decision import after_limit, decide, with_freeze
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.starting.lanes import (
    Lane,
    fits,
    lane_of,
    reservation,
    served_by,
    why_unschedulable,
    without,
)
from dcron.policy.starting.occurrences import due_at, expiry_of
from dcron.policy.starting.skip_reasons import Skip, overlapped_skip
from dcron.policy.statistics import percentile

_GOLDEN = 0.618033988749895
"""Multiples of it, without their whole part, spread evenly however many there are."""


@dataclass(frozen=True)
class LoadTask:
    """A task with its coming occurrences and the durations of its runs."""

    task: Definition
    occurrences: Sequence[datetime] = ()
    """In order. A scheduled run waits for the first one when the simulation begins."""
    seconds: Sequence[float] = ()
    """Durations that its runs take, sorted; all are equally likely. Empty: its runs take no time."""
    upstream: Sequence[str] = ()
    """The tasks after which it runs."""
    delay: timedelta | None = None
    """From the end of one run to the next, for a schedule that counts from there."""
    is_assumed: bool = False
    """Whether its durations are unknown and `seconds` is an assumption."""

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    @property
    def starts(self) -> Sequence[datetime]:
        """When its occurrences are due, in order."""
        if not self.task.jitter:
            return self.occurrences
        return sorted(due_at(self.task, at) for at in self.occurrences)

    def percentile(self, share: float) -> float | None:
        """Return the seconds that this share of its runs does not exceed; None if they are unknown."""
        if self.is_assumed or not self.seconds:
            return None
        return percentile(self.seconds, share)


class LiveRun(NamedTuple):
    """A run that is alive when the simulation begins."""

    task: str
    node_id: str
    seconds: float
    """How many seconds it has been running."""


@dataclass(frozen=True)
class LoadFleet:
    """The nodes that run the tasks, and the limits of queues."""

    nodes: Sequence[Node]
    """The living nodes."""
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    """How many runs of a queue may be alive, for queues with a limit."""
    alive: Sequence[LiveRun] = ()
    frozen: FrozenTime = NEVER

    @property
    def slots(self) -> int:
        """The slots of all nodes that take runs."""
        return sum(node.slots for node in self.nodes if not node.draining)


class PlayedRun(NamedTuple):
    """A run that the simulation has started."""

    task: str
    due_at: datetime
    """When it is due and the crontab is not frozen."""
    started_at: datetime
    ended_at: datetime

    @property
    def wait(self) -> float:
        """The seconds between its due time and its start."""
        return (self.started_at - self.due_at).total_seconds()


class PlayedSkip(NamedTuple):
    """An occurrence that does not run."""

    task: str
    scheduled_for: datetime
    code: SkipCode


@dataclass
class Load:
    """The results of a simulation."""

    runs: list[PlayedRun] = field(default_factory=list)
    """In the order of their ends."""
    alive: list[PlayedRun] = field(default_factory=list)
    """Runs that were alive at the beginning; they count as started then."""
    skipped: list[PlayedSkip] = field(default_factory=list)
    unserved_runs: list[PlayedRun] = field(default_factory=list)
    """When runs start that no node takes, if one does, and those that follow from them. They take no slot."""
    unserved: dict[str, str] = field(default_factory=dict)
    """Why no node takes the runs of a task, by its name; for tasks that have runs to come."""


def play(tasks: Sequence[LoadTask], fleet: LoadFleet, now: datetime, until: datetime) -> Load:
    """Play these starts, and the runs that follow from them up to `until`; then let all that waits start."""
    return _Simulation(tasks, fleet, now, until).play()


@dataclass
class _NodeState:
    """A node, and its free slots and capacity."""

    node: Node
    slots: int
    free: dict[str, float]


@dataclass(eq=False)
class _LaneState:
    """A lane, the nodes that serve it, and the runs that wait in it."""

    lane: Lane
    nodes: list[_NodeState]
    waiting: "list[_Waiting]" = field(default_factory=list)
    """A heap."""


@dataclass(eq=False)
class _TaskState:
    """A task, and where its runs are."""

    about: LoadTask
    lane: _LaneState
    drawn: float
    """Which of its durations the next run takes: a share of them."""
    blocked: "list[_Waiting]" = field(default_factory=list)
    alive: "list[_Live]" = field(default_factory=list)
    succeeded: set[str] = field(default_factory=set)
    """Upstream tasks that have succeeded since its last run."""

    @property
    def times(self) -> Times | None:
        """Its occurrences, if the clock has planned its runs."""
        return None if self.about.delay else self

    def next(self, after: datetime) -> datetime | None:
        """Return its first occurrence after this time."""
        position = bisect_right(self.about.occurrences, after)
        return self.about.occurrences[position] if position < len(self.about.occurrences) else None

    next_allowed = next

    def between(self, first: datetime, last: datetime) -> Sequence[datetime]:
        """Return its occurrences from `first` to `last`."""
        known = self.about.occurrences
        return known[bisect_left(known, first) : bisect_right(known, last)]

    def alive_on(self, node_id: str | None) -> int:
        """Return how many of its runs are alive: on this node, or everywhere for None."""
        if node_id is None:
            return len(self.alive)
        return sum(each.node is not None and each.node.node.id == node_id for each in self.alive)

    def draw(self) -> timedelta:
        """Return how long its next run takes. All its durations come equally often, spread evenly."""
        seconds = self.about.seconds
        if not seconds:
            return timedelta(0)
        self.drawn = (self.drawn + _GOLDEN) % 1
        return timedelta(seconds=seconds[int(self.drawn * len(seconds))])


class _Waiting(NamedTuple):
    """A run that is due, or will be. Runs of one lane start in this order."""

    due_at: datetime
    number: int
    state: _TaskState
    lane: _LaneState
    trigger: Trigger
    scheduled_for: datetime
    expires_at: datetime | None
    backlog_until: datetime | None = None

    @property
    def task(self) -> Definition:
        """The task of the run."""
        return self.state.about.task

    @property
    def node_id(self) -> str | None:
        """The node whose limit it counts for; None: it counts for that of the task."""
        return self.lane.lane.node if self.task.every_node else None


@dataclass(eq=False)
class _Live:
    """A run that is alive."""

    waited: _Waiting
    node: _NodeState | None
    """None: no node takes the run. It is assumed to run all the same, without a slot."""
    started_at: datetime
    is_counted: bool = True
    """Whether it began in the simulation, not before."""
    is_cancelled: bool = False
    is_over: bool = False


class _Simulation:
    def __init__(self, tasks: Sequence[LoadTask], fleet: LoadFleet, now: datetime, until: datetime) -> None:
        self._fleet, self._now, self._until = fleet, now, until
        taking = [node for node in fleet.nodes if not node.draining]
        self._nodes = [_NodeState(node, node.slots, dict(node.capacity)) for node in taking]
        self._lanes: dict[Lane, _LaneState] = {}
        self._ready: set[_LaneState] = set()
        """Lanes in which runs wait, and for which there may be room."""
        self._full: set[_LaneState] = set()
        """Lanes of which nothing can start before a run ends."""
        self._states = [
            _TaskState(each, self._lane(lane_of(each.task)), number * _GOLDEN % 1)
            for number, each in enumerate(tasks)
        ]
        self._by_name = {state.about.name: state for state in self._states}
        self._following = defaultdict[str, list[_TaskState]](list)
        for state in self._states:
            for upstream in state.about.upstream:
                self._following[upstream].append(state)
        self._of_queue = dict.fromkeys(fleet.queue_limits, 0)
        self._events: list[tuple[datetime, int, _Live | _Waiting | None]] = []
        """Ends of runs, runs that come due, and None for the end of a freeze."""
        self._thaw = now
        """The end of a freeze that is among them."""
        self._number = 0
        self._load = Load()

    def _lane(self, lane: Lane) -> _LaneState:
        if lane not in self._lanes:
            serving = [each for each in self._nodes if served_by(lane, each.node)]
            self._lanes[lane] = _LaneState(lane, serving)
        return self._lanes[lane]

    def play(self) -> Load:
        self._begin_alive()
        for state in self._states:
            if state.about.occurrences:
                self._plan(state, state.about.occurrences[0], self._now)
        at = self._now
        self._start_waiting(at)
        while self._events:
            at = self._events[0][0]
            while self._events and self._events[0][0] <= at:
                event = heapq.heappop(self._events)[-1]
                if isinstance(event, _Live):
                    self._end(event, at)
                elif event:
                    self._put(event)
            self._start_waiting(at)
        self._note_frozen(at)
        return self._load

    def _note_frozen(self, now: datetime) -> None:
        """Note what still waits as skipped if the crontab stays frozen."""
        if self._fleet.frozen.at(now):
            for run in (run for lane in self._ready | self._full for run in lane.waiting):
                for at in run.state.between(run.scheduled_for, self._until) or [run.scheduled_for]:
                    self._load.skipped.append(PlayedSkip(run.task.name, at, SkipCode.FROZEN))

    def _begin_alive(self) -> None:
        nodes = {each.node.id: each for each in self._nodes}
        for run in self._fleet.alive:
            state = self._by_name.get(run.task)
            left = _seconds_left(state.about.seconds if state else (), run.seconds)
            ends_at = self._now + timedelta(seconds=left)
            self._load.alive.append(PlayedRun(run.task, self._now, self._now, ends_at))
            if state and run.node_id in nodes:
                waited = self._run(state, self._now, Trigger.MANUAL)
                self._occupy(waited, nodes[run.node_id], self._now, ends_at).is_counted = False

    # Runs come due ----------------------------------------------------------------------------------

    def _plan(
        self, state: _TaskState, occurrence: datetime, now: datetime, backlog_until: datetime | None = None
    ) -> None:
        """Let the run of this occurrence come due."""
        due = due_at(state.about.task, occurrence)
        backlog = backlog_until if backlog_until and occurrence <= backlog_until else None
        run = self._run(state, due, Trigger.SCHEDULE, occurrence, backlog)
        if due <= now:
            self._put(run)
        else:
            heapq.heappush(self._events, (due, run.number, run))

    def _run(
        self,
        state: _TaskState,
        due: datetime,
        trigger: Trigger,
        scheduled_for: datetime | None = None,
        backlog_until: datetime | None = None,
    ) -> _Waiting:
        expires_at, number = expiry_of(state.about.task, due), self._next_number()
        about = (trigger, scheduled_for or due, expires_at, backlog_until)
        return _Waiting(due, number, state, state.lane, *about)

    def _put(self, run: _Waiting) -> None:
        heapq.heappush(run.lane.waiting, run)
        if run.lane not in self._full:
            self._ready.add(run.lane)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    # Runs start -------------------------------------------------------------------------------------

    def _start_waiting(self, now: datetime) -> None:
        """Start or skip waiting runs, the most urgent first, until nothing else has room."""
        if self._is_frozen(now):
            return
        while self._ready:
            lane = min(self._ready, key=_rank) if len(self._ready) > 1 else next(iter(self._ready))
            node = self._node_with_room(lane, now)
            if node or not lane.nodes:
                run = heapq.heappop(lane.waiting)
                if not lane.waiting:
                    self._ready.remove(lane)
                self._decide(run, node, now)
            else:
                self._ready.remove(lane)
                self._full.add(lane)

    def _is_frozen(self, now: datetime) -> bool:
        """Return whether nothing starts now; go on at the end of the freeze."""
        frozen = self._fleet.frozen
        if not frozen or not frozen.at(now):
            return False
        thaw = frozen.end_after(now)
        if thaw and self._thaw < thaw <= self._until:
            self._thaw = thaw
            heapq.heappush(self._events, (thaw, self._next_number(), None))
        return True

    def _node_with_room(self, lane: _LaneState, now: datetime) -> _NodeState | None:
        """Return the node with the most free slots that a run of the lane can start on."""
        limit = self._fleet.queue_limits.get(lane.lane.queue)
        if limit is not None and self._of_queue[lane.lane.queue] >= limit:
            return None
        nodes = lane.nodes
        if lane.lane.need:
            nodes = [each for each in nodes if fits(lane.lane, self._free_for(lane, each, now))]
        node = max(nodes, key=attrgetter("slots"), default=None)
        return node if node and node.slots > 0 else None

    def _free_for(self, lane: _LaneState, node: _NodeState, now: datetime) -> Mapping[str, float]:
        """Return the node's free capacity without what it reserves for a lane that has waited for long."""
        waiting = (each for each in self._ready | self._full if each.waiting and node in each.nodes)
        heads = ((each.lane, each.waiting[0].due_at) for each in waiting if each.lane.need)
        kept_for = reservation(heads, node.free, now)
        return node.free if kept_for in (None, lane.lane) else without(node.free, kept_for)

    def _decide(self, run: _Waiting, node: _NodeState | None, now: datetime) -> None:
        """Start the run, skip it or block it, as the claim decides. Without a node there is no limit."""
        state = run.state
        alive = state.alive_on(node.node.id if run.task.every_node else None) if node else 0
        times = state.times if run.trigger is Trigger.SCHEDULE else None
        decided = decide(run, run.trigger, now, times, alive)
        if (run.scheduled_for, run.backlog_until) != (decided.scheduled_for, decided.backlog_until):
            at, expires_at = decided.scheduled_for, decided.expires_at
            run = run._replace(scheduled_for=at, expires_at=expires_at, backlog_until=decided.backlog_until)
        if decided.missed:
            self._skip(run, decided.missed)
        if decided.refusal:
            self._skip(run, decided.refusal)
            self._go_on(run, decided.successor, now)
            return
        if run.task.every_node and node and run.lane.lane.node is None:
            self._go_on(run, decided.successor, now, is_alive=True)
            run = self._share(run, node)
        match decided.answer:
            case Skip() as skip:
                self._skip(run, skip)
                self._go_on(run, decided.successor, now)
            case Wait(_, replaces):
                state.blocked.append(run)
                if replaces:
                    self._stop_oldest(run, node, now)
            case _:
                self._start(run, node, now)
                self._go_on(run, decided.successor, now, is_alive=True)

    def _skip(self, run: _Waiting, skip: Skip) -> None:
        """Note the occurrences that this skip covers, or else that of the run."""
        if run.due_at > self._until:
            return
        code = with_freeze(self._fleet.frozen, skip).code
        covered = (
            run.state.between(skip.covers.first, skip.covers.last) if skip.covers else [run.scheduled_for]
        )
        self._load.skipped += [PlayedSkip(run.task.name, at, code) for at in covered]

    def _go_on(
        self, run: _Waiting, successor: datetime | None, now: datetime, *, is_alive: bool = False
    ) -> None:
        """Plan the next scheduled run of the task."""
        if run.trigger is Trigger.SCHEDULE and successor:
            self._plan(run.state, successor, now, run.backlog_until)
        if not is_alive:
            self._plan_delayed(run.state, now)

    def _share(self, run: _Waiting, node: _NodeState) -> _Waiting:
        """Give every other node that serves the run a share of it, and return the share of this node."""
        trigger = Trigger.NODE if run.trigger is Trigger.SCHEDULE else run.trigger
        shares = {
            each.node.id: run._replace(
                number=self._next_number(), lane=self._lane(run.lane.lane.on(each.node.id)), trigger=trigger
            )
            for each in run.lane.nodes
        }
        own = shares.pop(node.node.id)
        for share in shares.values():
            self._put(share)
        return own

    def _start(self, run: _Waiting, node: _NodeState | None, now: datetime) -> None:
        name, own_lane = run.task.name, run.state.lane
        if not own_lane.nodes and name not in self._load.unserved:
            self._load.unserved[name] = why_unschedulable(own_lane.lane, self._fleet.nodes) or ""
        self._occupy(run, node, now, now + run.state.draw())

    def _occupy(self, run: _Waiting, node: _NodeState | None, now: datetime, ends_at: datetime) -> _Live:
        if node:
            self._take(run.lane.lane, node, 1)
        live = _Live(run, node, now)
        run.state.alive.append(live)
        heapq.heappush(self._events, (ends_at, self._next_number(), live))
        return live

    def _take(self, lane: Lane, node: _NodeState, number: int) -> None:
        """Take what a run of the lane needs from the node and its queue; give it back for -1."""
        node.slots -= number
        for name, amount in lane.need:
            node.free[name] = node.free.get(name, 0.0) - number * amount
        if lane.queue in self._of_queue:
            self._of_queue[lane.queue] += number

    # Runs end ---------------------------------------------------------------------------------------

    def _stop_oldest(self, run: _Waiting, node: _NodeState | None, now: datetime) -> None:
        """Stop the oldest run of the task that this one replaces."""
        alive = (each for each in run.state.alive if not each.is_cancelled)
        oldest = next((each for each in alive if run.node_id is None or each.node is node), None)
        if oldest:
            oldest.is_cancelled = True
            heapq.heappush(self._events, (now, self._next_number(), oldest))

    def _end(self, live: _Live, now: datetime) -> None:
        if live.is_over:
            return
        live.is_over = True
        run, state = live.waited, live.waited.state
        if live.node:
            self._take(run.lane.lane, live.node, -1)
        state.alive.remove(live)
        self._ready |= self._full
        self._full.clear()
        if live.is_counted and run.due_at <= self._until:
            due = self._fleet.frozen.end_after(run.due_at) if self._fleet.frozen else run.due_at
            ended = self._load.runs if live.node else self._load.unserved_runs
            ended.append(PlayedRun(state.about.name, due or run.due_at, live.started_at, now))
        if state.blocked:
            self._unblock(state, now)
        if not live.is_cancelled:
            self._succeed(live, now)
        self._plan_delayed(state, now)

    def _unblock(self, state: _TaskState, now: datetime) -> None:
        """Let blocked runs of the task wait again, up to its limit: a run that replaces another first."""
        waiting, state.blocked = sorted(state.blocked), []
        if state.about.task.overlap == "replace":
            waiting.sort(key=lambda run: run.trigger not in (Trigger.SCHEDULE, Trigger.NODE))
        released = Counter[str | None]()
        for run in waiting:
            if state.alive_on(run.node_id) + released[run.node_id] >= (run.task.max_running or 0):
                state.blocked.append(run)
            else:
                released[run.node_id] += 1
                self._put(self._after_limit(run, now) if run.trigger is Trigger.SCHEDULE else run)

    def _after_limit(self, run: _Waiting, now: datetime) -> _Waiting:
        found = after_limit(run.task, run.scheduled_for, now, run.state.times)
        if found is None or found.runs_at is None:
            return run
        if found.missed:
            self._skip(run, overlapped_skip(found.missed))
        expires_at = expiry_of(run.task, due_at(run.task, found.runs_at))
        return run._replace(
            scheduled_for=found.runs_at, backlog_until=found.backlog_until, expires_at=expires_at
        )

    def _succeed(self, live: _Live, now: datetime) -> None:
        """Let the tasks come due whose last missing upstream task this is."""
        name = live.waited.task.name
        for each in self._following.get(name, ()):
            each.succeeded.add(name)
            if now <= self._until and each.succeeded.issuperset(each.about.upstream):
                each.succeeded.clear()
                run = self._run(each, now, Trigger.AFTER)
                is_served = live.node is not None
                self._put(run if is_served else run._replace(lane=_LaneState(each.lane.lane, [])))

    def _plan_delayed(self, state: _TaskState, now: datetime) -> None:
        delay = state.about.delay
        if delay and not state.alive and now + delay <= self._until:
            self._plan(state, now + delay, now)


def _rank(lane: _LaneState) -> tuple[datetime, int]:
    head = lane.waiting[0]
    return lane.lane.rank(head.due_at), head.number


def _seconds_left(seconds: Sequence[float], ran: float) -> float:
    """Return how much longer a run takes that has run for this long: the median of the longer durations."""
    longer = [each for each in seconds if each > ran]
    return longer[len(longer) // 2] - ran if longer else 0.0
