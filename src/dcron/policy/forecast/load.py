"""Play the coming runs of a crontab against its nodes: which runs wait for a slot, and which are skipped.

This is a queueing simulation on values alone, by the rules of the agents: lanes, priorities, slots, tags,
queues, capacity, the limits of tasks and queues, overlap, deadlines and catch-up. Every command succeeds:
failures, retries, events and runs on request are not simulated.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from dcron.model import Definition, Node, SkipCode
from dcron.policy.starting.catch_up import MISSED_AFTER
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
from dcron.policy.statistics import percentile

_GOLDEN = 0.618033988749895
"""Multiples of it, without their whole part, spread evenly however many there are."""


@dataclass(frozen=True)
class LoadTask:
    """A task with its coming starts and the durations of its runs."""

    task: Definition
    starts: Sequence[datetime] = ()
    """When its scheduled runs are due, in order."""
    overdue: datetime | None = None
    """When its scheduled run came due that waits when the simulation begins."""
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
    started_at: datetime
    ended_at: datetime

    @property
    def wait(self) -> float:
        """The seconds between its due time and its start."""
        return (self.started_at - self.due_at).total_seconds()


class PlayedSkip(NamedTuple):
    """An occurrence that does not run."""

    task: str
    due_at: datetime
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


def after_freezes(task: Definition, starts: Sequence[datetime], frozen: FrozenTime) -> list[datetime]:
    """Return when the runs of these occurrences are due if none starts in frozen time.

    Those that the task catches up with are due when the freeze ends.
    """
    found: list[datetime] = []
    for end, group in groupby(starts, key=frozen.end_after):
        occurrences = list(group)
        if end is None:
            continue
        if end == occurrences[-1]:  # it is not frozen; a freeze may end just then
            found.append(end)
            continue
        window = MISSED_AFTER if task.catch_up == "skip" else task.catch_up_window
        caught_up = occurrences if task.catch_up == "all" else occurrences[-1:]
        oldest = end - timedelta(seconds=window) if window is not None else occurrences[0]
        found += [end for at in caught_up if at >= oldest]
    return found


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
    has_next: bool = False
    """Whether its scheduled run waits. There is never more than one."""
    passed: deque[datetime] = field(default_factory=deque)
    """Occurrences that came due while that run waited."""
    is_backlog: bool = False
    """Whether each of these gets a run of its own."""
    blocked: deque["_Waiting"] = field(default_factory=deque)
    alive: "list[_Live]" = field(default_factory=list)
    succeeded: set[str] = field(default_factory=set)
    """Upstream tasks that have succeeded since its last run."""

    def draw(self) -> timedelta:
        """Return how long its next run takes. All its durations come equally often, spread evenly."""
        seconds = self.about.seconds
        if not seconds:
            return timedelta(0)
        self.drawn = (self.drawn + _GOLDEN) % 1
        return timedelta(seconds=seconds[int(self.drawn * len(seconds))])


class _Waiting(NamedTuple):
    """A run that is due. Runs of one lane start in this order."""

    due_at: datetime
    number: int
    state: _TaskState
    lane: _LaneState
    is_scheduled: bool


class _Unserved(NamedTuple):
    """A run that no node takes."""

    state: _TaskState


@dataclass(eq=False)
class _Live:
    """A run that is alive."""

    waited: _Waiting
    node: _NodeState
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
        self._states = [self._state_of(each, number) for number, each in enumerate(tasks)]
        self._by_name = {state.about.name: state for state in self._states}
        self._following = defaultdict[str, list[_TaskState]](list)
        for state in self._states:
            for upstream in state.about.upstream:
                self._following[upstream].append(state)
        self._of_queue = dict.fromkeys(fleet.queue_limits, 0)
        self._events: list[tuple[datetime, int, _Live | _Unserved | _TaskState]] = []
        """Ends of runs, and starts that follow from them."""
        self._number = 0
        self._load = Load()

    def _state_of(self, about: LoadTask, number: int) -> _TaskState:
        return _TaskState(about, self._lane(lane_of(about.task)), number * _GOLDEN % 1)

    def _lane(self, lane: Lane) -> _LaneState:
        if lane not in self._lanes:
            serving = [each for each in self._nodes if served_by(lane, each.node)]
            self._lanes[lane] = _LaneState(lane, serving)
        return self._lanes[lane]

    def play(self) -> Load:
        self._begin_alive()
        for state in self._states:
            if state.about.overdue:
                self._arrive(state, state.about.overdue)
        self._start_waiting(self._now)
        starts = self._starts()
        following = next(starts, None)
        while following or self._events:
            at = min(each[0] for each in (following, *self._events[:1]) if each)
            while self._events and self._events[0][0] <= at:
                event = heapq.heappop(self._events)[-1]
                if isinstance(event, _Live):
                    self._end(event, at)
                elif isinstance(event, _Unserved):
                    self._succeed(event.state, at, is_served=False)
                    self._plan_delayed(event.state, at)
                else:
                    self._arrive(event, at)
            while following and following[0] <= at:
                self._arrive(self._states[following[1]], following[0])
                following = next(starts, None)
            self._start_waiting(at)
        return self._load

    def _starts(self) -> Iterator[tuple[datetime, int]]:
        """Return all starts in order, each with the number of its task."""
        found = [(at, number) for number, state in enumerate(self._states) for at in state.about.starts]
        found.sort()
        return iter(found)

    def _begin_alive(self) -> None:
        nodes = {each.node.id: each for each in self._nodes}
        for run in self._fleet.alive:
            state = self._by_name.get(run.task)
            left = _seconds_left(state.about.seconds if state else (), run.seconds)
            ends_at = self._now + timedelta(seconds=left)
            self._load.alive.append(PlayedRun(run.task, self._now, self._now, ends_at))
            if state and run.node_id in nodes:
                waited = _Waiting(self._now, self._next_number(), state, state.lane, False)
                self._occupy(waited, nodes[run.node_id], self._now, ends_at).is_counted = False

    # Runs come due ----------------------------------------------------------------------------------

    def _arrive(self, state: _TaskState, at: datetime, *, is_served: bool = True) -> None:
        """Let an occurrence of the task, or a run after another one, come due.

        It is not `is_served` if no node takes the run that it follows.
        """
        if not state.lane.nodes:
            if state.about.name not in self._load.unserved:
                lacks = why_unschedulable(state.lane.lane, self._fleet.nodes)
                self._load.unserved[state.about.name] = lacks or ""
            self._assume_start(state, at)
        elif not is_served:
            self._assume_start(state, at)
        elif state.about.task.every_node:
            for each in state.lane.nodes:
                lane = self._lane(state.lane.lane.on(each.node.id))
                self._wait(state, at, lane, is_scheduled=not state.about.upstream)
        elif state.about.upstream:
            self._wait(state, at, state.lane, is_scheduled=False)
        elif state.has_next:
            state.passed.append(at)
        else:
            state.has_next = True
            self._wait(state, at, state.lane, is_scheduled=True)

    def _assume_start(self, state: _TaskState, at: datetime) -> None:
        """Note when a run would start that no node takes, and let what follows from it come due."""
        starts_at = max(at, self._now)
        ends_at = starts_at + state.draw()
        self._load.unserved_runs.append(PlayedRun(state.about.name, at, starts_at, ends_at))
        heapq.heappush(self._events, (ends_at, self._next_number(), _Unserved(state)))

    def _wait(self, state: _TaskState, at: datetime, lane: _LaneState, *, is_scheduled: bool) -> None:
        self._put(_Waiting(at, self._next_number(), state, lane, is_scheduled))

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
        while self._ready:
            lane = min(self._ready, key=_rank) if len(self._ready) > 1 else next(iter(self._ready))
            if node := self._node_with_room(lane, now):
                run = heapq.heappop(lane.waiting)
                if not lane.waiting:
                    self._ready.remove(lane)
                self._decide(run, node, now)
            else:
                self._ready.remove(lane)
                self._full.add(lane)

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

    def _decide(self, run: _Waiting, node: _NodeState, now: datetime) -> None:
        """Start the run, skip it or block it, as a claim does."""
        state, task = run.state, run.state.about.task
        in_backlog = state.is_backlog or (task.catch_up == "all" and bool(state.passed))
        scheduled_for = self._catch_up(run, now, in_backlog=in_backlog)
        if scheduled_for is None:
            self._skip(run, run.due_at, SkipCode.MISSED, now)
        elif task.deadline and now > scheduled_for + timedelta(seconds=task.deadline):
            self._skip(run, scheduled_for, SkipCode.EXPIRED, now)
        elif task.max_running is None or self._count_alive(run, node) < task.max_running:
            self._go_on(run)
            self._start(run, node, now)
        elif run.is_scheduled and task.overlap == "skip" and not in_backlog:
            self._skip(run, scheduled_for, SkipCode.OVERLAP, now)
        else:
            state.is_backlog = task.overlap == "queue"
            state.blocked.append(run)
            if task.overlap == "replace" and state.alive:
                self._replace_oldest(state, now)

    def _count_alive(self, run: _Waiting, node: _NodeState) -> int:
        alive = run.state.alive
        return sum(each.node is node for each in alive) if run.state.about.task.every_node else len(alive)

    def _catch_up(self, run: _Waiting, now: datetime, *, in_backlog: bool) -> datetime | None:
        """Return the occurrence that the run is for; None if all that it covers are too old."""
        state, task = run.state, run.state.about.task
        if not run.is_scheduled or in_backlog:
            return run.due_at
        last = run.due_at
        while state.passed:
            self._load.skipped.append(PlayedSkip(state.about.name, last, SkipCode.MISSED))
            last = state.passed.popleft()
        window = MISSED_AFTER if task.catch_up == "skip" else task.catch_up_window
        oldest = None if window is None else now - timedelta(seconds=(task.jitter or 0) + window)
        return None if oldest and last < oldest else last

    def _skip(self, run: _Waiting, at: datetime, code: SkipCode, now: datetime) -> None:
        self._load.skipped.append(PlayedSkip(run.state.about.name, at, code))
        self._go_on(run)
        self._plan_delayed(run.state, now)

    def _go_on(self, run: _Waiting) -> None:
        """Let the task's next occurrence wait, if it came due already."""
        state = run.state
        if not run.is_scheduled or state.about.task.every_node:
            return
        state.has_next = bool(state.passed)
        if state.passed:
            self._wait(state, state.passed.popleft(), state.lane, is_scheduled=True)
        else:
            state.is_backlog = False

    def _start(self, run: _Waiting, node: _NodeState, now: datetime) -> None:
        self._occupy(run, node, now, now + run.state.draw())

    def _occupy(self, run: _Waiting, node: _NodeState, now: datetime, ends_at: datetime) -> _Live:
        node.slots -= 1
        if run.lane.lane.need:
            node.free = without(node.free, run.lane.lane)
        if run.lane.lane.queue in self._of_queue:
            self._of_queue[run.lane.lane.queue] += 1
        live = _Live(run, node, now)
        run.state.alive.append(live)
        heapq.heappush(self._events, (ends_at, self._next_number(), live))
        return live

    # Runs end ---------------------------------------------------------------------------------------

    def _replace_oldest(self, state: _TaskState, now: datetime) -> None:
        """Stop the oldest run of the task now."""
        oldest = state.alive[0]
        oldest.is_cancelled = True
        heapq.heappush(self._events, (now, self._next_number(), oldest))

    def _end(self, live: _Live, now: datetime) -> None:
        if live.is_over:
            return
        live.is_over = True
        run, state = live.waited, live.waited.state
        live.node.slots += 1
        if run.lane.lane.need:
            gives_back = {name: live.node.free[name] + amount for name, amount in run.lane.lane.need}
            live.node.free |= gives_back
        if run.lane.lane.queue in self._of_queue:
            self._of_queue[run.lane.lane.queue] -= 1
        state.alive.remove(live)
        self._ready |= self._full
        self._full.clear()
        if live.is_counted:
            self._load.runs.append(PlayedRun(state.about.name, run.due_at, live.started_at, now))
        released = len(state.blocked) if state.about.task.every_node else min(1, len(state.blocked))
        for _ in range(released):
            self._put(state.blocked.popleft())
        if not live.is_cancelled:
            self._succeed(state, now)
        self._plan_delayed(state, now)

    def _succeed(self, state: _TaskState, now: datetime, *, is_served: bool = True) -> None:
        """Let the tasks come due whose last missing upstream task this is."""
        for each in self._following.get(state.about.name, ()):
            each.succeeded.add(state.about.name)
            if now <= self._until and each.succeeded.issuperset(each.about.upstream):
                each.succeeded.clear()
                self._arrive(each, now, is_served=is_served)

    def _plan_delayed(self, state: _TaskState, now: datetime) -> None:
        following = state.about.delay and self._fleet.frozen.end_after(now + state.about.delay)
        if following and following <= self._until:
            heapq.heappush(self._events, (following, self._next_number(), state))


def _rank(lane: _LaneState) -> tuple[datetime, int]:
    head = lane.waiting[0]
    return lane.lane.rank(head.due_at), head.number


def _seconds_left(seconds: Sequence[float], ran: float) -> float:
    """Return how much longer a run takes that has run for this long: the median of the longer durations."""
    longer = [each for each in seconds if each > ran]
    return longer[len(longer) // 2] - ran if longer else 0.0
