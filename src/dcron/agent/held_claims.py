"""Held claims: due runs that a busy node claimed ahead, so that a free slot need not wait for a claim.

A held run is claimed but not started: its start is committed only when a slot is free. Claims are held only
while runs are quick, and only as many as will start within a fraction of a second. Otherwise another node
could have started them sooner.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from sqlalchemy import Connection

from dcron.agent.look import View
from dcron.agent.node_context import NodeContext
from dcron.agent.starting import Starter, log_ends
from dcron.model import RunState
from dcron.policy.starting import lanes
from dcron.store.claims import claims, finishing
from dcron.store.claims import held as held_claims
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import ClaimedRun

MOST_PER_SLOT = 12
"""Most held claims for each slot."""
LONGEST_HOLD = 1.0
"""Seconds after which a node releases the claims it holds."""
LONGEST_GATHERING = 0.02
"""Seconds for which a free slot waits for others, so that one commit starts several held claims."""


class HeldClaims:
    """The claims that one node holds, in the order in which they start."""

    def __init__(self, node: NodeContext, view: View, starter: Starter) -> None:
        self._node = node
        self._view = view
        self._starter = starter
        self._held: deque[tuple[ClaimedRun, float]] = deque()
        # By the lease's clock, in seconds.
        self._last_start_took = 0.0
        self._gathers_until: float | None = None
        self.next_snapshot = 0.0
        """When to look at the database again although enough claims are held."""

    def __iter__(self) -> Iterator[ClaimedRun]:
        """The runs, the next one first."""
        return iter([run for run, _ in list(self._held)])

    def __len__(self) -> int:
        """How many claims are held."""
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more claims to hold: as many as runs were quick just now; 0 while a quarter is held."""
        target = min(MOST_PER_SLOT * self._node.settings.slots, self._node.active_runs.quick_ends())
        return target - len(self._held) if len(self._held) <= target // 4 else 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the oldest claim was held for too long; infinity without claims."""
        return self._held[0][1] + LONGEST_HOLD - self._node.lease.clock() if self._held else float("inf")

    def add(self, claimed: Iterable[ClaimedRun]) -> None:
        """Hold these claims behind the others."""
        now = self._node.lease.clock()
        self._held.extend((run, now) for run in claimed)

    def clear(self) -> None:
        """Hold nothing any more."""
        self._held.clear()

    def free_capacity(self, free: Mapping[str, float]) -> Mapping[str, float]:
        """Return what is left of `free` capacity after the needs of these runs."""
        for run in self:
            free = lanes.without(free, run.lane)
        return free

    def use(self) -> float | None:
        """Start claims for which slots are free.

        Return the seconds until the next step; None if this step has to look at the database.
        """
        now = self._node.lease.clock()
        if (slots := self._node.active_runs.free()) > 0:
            if (pause := self._gathering(slots, now)) > 0:
                return pause
            self._start([self._held.popleft()[0] for _ in range(min(slots, len(self._held)))])
            self._last_start_took = self._node.lease.clock() - now
            return 0.0
        if self.room or now >= self.next_snapshot:
            return None
        return min(self.next_snapshot - now, self.seconds_left)

    def _gathering(self, slots: int, now: float) -> float:
        """Return the seconds to wait for more free slots: at most as long as the last start took."""
        if self._gathers_until is None:
            self._gathers_until = now + min(LONGEST_GATHERING, self._last_start_took)
        pause = self._gathers_until - now
        if pause > 0 and slots < min(len(self._held), self._node.settings.slots):
            return pause
        self._gathers_until = None
        return 0.0

    def release(self) -> None:
        """Give all claims back: they must not wait any longer."""
        with self._node.database.write() as connection:
            self._release(connection, list(self))
        self.clear()

    def _release(self, connection: Connection, held: Iterable[ClaimedRun]) -> None:
        claims.release(connection, [self._node.id], [run.id for run in held])
        self._node.database.notify(connection)

    def _start(self, held: list[ClaimedRun]) -> None:
        """Start these runs, except those that were cancelled or whose tasks changed while they were held."""
        node = self._node
        self._view.look_again()
        node.lease.limit_starts(held, node.lease.clock())
        self._starter.in_doubt = held
        with node.counters.start, node.database.write(starts=True) as connection:
            now = node.database.now(connection)
            started = held_claims.start(connection, node.database, node.id, now, held)
            if len(started) < len(held):
                started_ids = {run.id for run in started}
                others = [run for run in held if run.id not in started_ids]
                self._settle_unstarted(connection, others, now)
        self._starter.start(started, now)

    def _settle_unstarted(self, connection: Connection, held: list[ClaimedRun], now: datetime) -> None:
        """Record held claims that were cancelled as such, before their commands begin; release the others."""
        node = self._node
        actors = held_claims.cancelled(connection, [run.id for run in held])
        self._release(connection, [run for run in held if run.id not in actors])
        if not actors:
            return
        cancelled = [run for run in held if run.id in actors]
        started = claims.start(connection, node.database, node.id, now, cancelled)
        ended = [
            RunResult(run.id, RunState.CANCELLED, now, f"cancelled by {actors[run.id]}") for run in started
        ]
        finishing.finish(connection, node.database, node.id, ended, now)
        log_ends(ended, held)
