"""Held claims: due runs that a busy node claimed ahead, so that a free slot need not wait for a claim.

A held run is claimed but not started: its start is committed only when a slot is free. Claims are held only
while runs are quick, and only as many as will start within a fraction of a second. Otherwise another node
could have started them sooner.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from dcron.agent.running import ActiveRuns
from dcron.policy.starting import lanes
from dcron.store.runs.candidates import ClaimedRun

MOST_PER_SLOT = 12
"""Most held claims for each slot."""
LONGEST_HOLD = 1.0
"""Seconds after which a node releases the claims it holds."""


class HeldClaims:
    """The claims that one node holds, in the order in which they start."""

    def __init__(self, slots: int, active_runs: ActiveRuns, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and cannot be set."""
        self._most = MOST_PER_SLOT * slots
        self._active_runs = active_runs
        self._clock = clock
        self._held: deque[tuple[ClaimedRun, float]] = deque()

    def __iter__(self) -> Iterator[ClaimedRun]:
        """The runs, the next one first."""
        return iter([run for run, _ in list(self._held)])

    def __len__(self) -> int:
        """How many claims are held."""
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more claims to hold: as many as runs were quick just now; 0 while a quarter is held."""
        target = min(self._most, self._active_runs.quick_ends())
        return target - len(self._held) if len(self._held) <= target // 4 else 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the oldest claim was held for too long; infinity without claims."""
        return self._held[0][1] + LONGEST_HOLD - self._clock() if self._held else float("inf")

    def add(self, claimed: Iterable[ClaimedRun]) -> None:
        """Hold these claims behind the others."""
        now = self._clock()
        self._held.extend((run, now) for run in claimed)

    def take(self, number: int) -> list[ClaimedRun]:
        """Return the next runs, at most `number`; they are no longer held."""
        return [self._held.popleft()[0] for _ in range(min(number, len(self._held)))]

    def clear(self) -> None:
        """Hold nothing any more."""
        self._held.clear()

    def free_capacity(self, free: Mapping[str, float]) -> Mapping[str, float]:
        """Return what is left of `free` capacity after the needs of these runs."""
        for run in self:
            free = lanes.without(free, run.lane)
        return free
