"""Count what an agent does, for its page `/metrics`. Durations are in seconds.

All counts are plain numbers. One thread writes each of them, so none needs a lock; another thread that reads
them may miss the latest addition.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from types import TracebackType

from dcron.model import RunState, Trigger

_LATENESS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0)
_DURATION = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)

_ENDS = (RunState.SUCCEEDED, RunState.FAILED, RunState.LOST, RunState.CANCELLED)


class Distribution:
    """Counts values by size."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the largest values of each class but the last, which has no bound."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def up_to(self) -> list[tuple[float, int]]:
        """Return for each bound how many values were at most as large; the last bound is infinite."""
        counts, seen = list(self._counts), 0
        cumulated = []
        for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
            seen += count
            cumulated.append((bound, seen))
        return cumulated


class Timer:
    """Counts how often a block ran, and how long that took. One thread may use it, and not recursively."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        """Begin."""
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Count the block, also one that raised."""
        self.count += 1
        self.seconds += time.perf_counter() - self._began


class Contact:
    """When a heartbeat reached the database last, for all nodes of an agent. Times are of a boot clock."""

    def __init__(self) -> None:
        self.has_failed = False
        """Whether a heartbeat has failed since."""
        self._reached_at: float | None = None

    def reach(self, at: float) -> None:
        """Note that the heartbeat that was sent then was committed."""
        self.has_failed, self._reached_at = False, at

    def away(self, at: float) -> float:
        """Return the seconds since then if heartbeats failed, else 0: an agent may just have stood still."""
        return at - self._reached_at if self.has_failed and self._reached_at is not None else 0.0


class LoopStatus:
    """Whether a loop of the agent goes on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.database_errors = 0
        # When its current step began, or when its next one is expected; None while it does not run.
        self._expected_at: float | None = None

    def turns(self) -> None:
        """Note that the loop begins a step."""
        self._expected_at = time.monotonic()

    def pauses(self, seconds: float) -> None:
        """Note that the loop waits up to this long for its next step."""
        self._expected_at = time.monotonic() + seconds

    def ends(self) -> None:
        """Note that the loop is over: it has no next step."""
        self._expected_at = None

    @property
    def overdue(self) -> float:
        """Seconds that its current step has taken, or that its next one is late; 0 if it does not run."""
        expected_at = self._expected_at
        return 0.0 if expected_at is None else max(0.0, time.monotonic() - expected_at)


class Counters:
    """What one agent has done since it started, as one node or as several in turn."""

    def __init__(self) -> None:
        self.started: dict[str, int] = dict.fromkeys(Trigger, 0)
        """Runs started, by trigger."""
        self.finished: dict[str, int] = dict.fromkeys(_ENDS, 0)
        """Runs whose ends were recorded, by state."""
        self.lateness = Distribution(_LATENESS)
        """From the time at which a run was due until its start was recorded."""
        self.duration = Distribution(_DURATION)
        """From the start of a command to its end."""
        self.look, self.claim, self.start, self.finish, self.beat = (Timer() for _ in range(5))
        self.dispatcher, self.heartbeat, self.receiver, self.recorder = (
            LoopStatus(name) for name in ("dispatcher", "heartbeat", "receiver", "recorder")
        )
        self.maintenance, self.quick_maintenance = LoopStatus("maintenance"), LoopStatus("quick-maintenance")
        self.contact = Contact()
        self.clock_offset: float | None = None
        """Seconds that this machine's clock is ahead of the database's, at the last heartbeat."""

    @property
    def transactions(self) -> dict[str, Timer]:
        """The timers of the agent's regular transactions."""
        names = ("look", "claim", "start", "finish", "beat")
        return {name: getattr(self, name) for name in names}

    @property
    def loops(self) -> Iterable[LoopStatus]:
        """The loops without which a node does not work, and those of the maintenance jobs."""
        return (*self._vital, self.maintenance, self.quick_maintenance)

    @property
    def _vital(self) -> Iterable[LoopStatus]:
        """The loops without which runs do not start or their ends are not recorded."""
        return (self.dispatcher, self.heartbeat, self.receiver, self.recorder)

    def stalled(self, limit: float) -> list[str]:
        """Return the names of the vital loops that have not gone on for more than `limit` seconds.

        Not of a maintenance job that hangs, for example on an archive: another node continues it, and the
        runs of this node must not be stopped for it.
        """
        return [loop.name for loop in self._vital if loop.overdue > limit]
