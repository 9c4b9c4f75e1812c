"""When one node claims, and how long its dispatcher pauses."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dcron.agent.node_context import NodeContext
from dcron.agent.settings import POLL_INTERVAL, POLL_INTERVAL_WITHOUT_NOTIFY
from dcron.policy.conditions.thresholds import PACED_AFTER
from dcron.policy.starting.lanes import Lane
from dcron.store.claims.snapshot import Snapshot
from dcron.store.planning.planning import LaneHead
from dcron.store.runs.candidates import Capacity, ClaimedRun

LATE_STARTS = 4
"""Runs later than PACED_AFTER that each slot starts per second, so downtime ends in no stampede."""
_FIRST_RETRY = 0.05
_NEXT_LANES_PAUSE = 0.2
"""Seconds to the next step when one step does not reach all lanes."""
_PART_OF_CLAIM = 0.125
"""Part of the duration of a claim for which the next one waits for commands that were just started to end."""


class Pace:
    """Spreads late runs over time, and claims that find nothing to start."""

    def __init__(self, node: NodeContext, *, is_single_pass: bool) -> None:
        """`is_single_pass`: there is one pass only. Late runs are then not spread over time."""
        self._node = node
        self.is_single_pass = is_single_pass
        self.retry = 0.0
        """Seconds to the next claim after one that settled nothing."""
        # By the database's clock: when late runs may be claimed again.
        self._late_runs_wait_until: datetime | None = None
        # By the lease's clock, in seconds.
        self._next_claim = 0.0

    def until_claim(self) -> float:
        """Return for how long quick commands may end before the next claim, in seconds."""
        pause = self._next_claim - self._node.lease.clock()
        return pause if pause > 0 and self._node.active_runs.free() < self._node.settings.slots else 0.0

    def wait_for_quick_ends(self, began: float) -> None:
        """Let quick commands end before the next claim, if the claim that `began` then has taken most slots.

        With a database far away, a claim that finds few free slots fills few of them, and takes as long.
        """
        now = self._node.lease.clock()
        if 2 * self._node.active_runs.free() < self._node.settings.slots and not self.is_single_pass:
            self._next_claim = now + _PART_OF_CLAIM * (now - began)

    def note(self, *, moved_on: bool) -> None:
        """Wait longer after each claim that settled nothing."""
        self.retry = 0.0 if moved_on else min(POLL_INTERVAL, max(_FIRST_RETRY, self.retry * 2))

    def hold_back_late_runs(self, taken: Iterable[ClaimedRun], now: datetime) -> None:
        """Let further late runs wait if some of these are late."""
        late = sum(run.due_at is not None and now - run.due_at > PACED_AFTER for run in taken)
        if late and not self.is_single_pass:
            seconds = late / (LATE_STARTS * self._node.settings.slots)
            self._late_runs_wait_until = now + timedelta(seconds=seconds)

    def lanes_to_claim(self, now: datetime, due: list[LaneHead], capacity: Capacity) -> list[Lane]:
        """Return the due lanes that this node has room for, without late ones while those are held back."""
        until = self._late_runs_wait_until
        holds_back = until is not None and now < until < now + PACED_AFTER
        fitting = (head for head in due if capacity.has_room_for(head.lane))
        return [head.lane for head in fitting if not (holds_back and now - head.due_at > PACED_AFTER)]

    def until_next(
        self, snapshot: Snapshot, heads: Iterable[LaneHead], capacity: Capacity, *, has_more_lanes: bool
    ) -> float:
        """Return the seconds until the first of these heads is due, or until the next poll if that is sooner.

        Heads without room do not count: the end of a run wakes the dispatcher.
        """
        pause = POLL_INTERVAL_WITHOUT_NOTIFY if self._node.database.is_pooled else POLL_INTERVAL
        if has_more_lanes:
            pause = 0.0 if self.is_single_pass else _NEXT_LANES_PAUSE
        times = [head.due_at for head in heads if capacity.has_room_for(head.lane)]
        times += filter(None, (snapshot.next_resume, snapshot.next_thaw))
        for at in times:
            if snapshot.now - at > PACED_AFTER:
                at = max(at, self._late_runs_wait_until or at)
            pause = min(pause, max(0.0, (at - snapshot.now).total_seconds()))
        return pause
