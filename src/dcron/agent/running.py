"""The runs that this node executes, shared by the agent's loops.

A run is active until its end is recorded. It takes a slot only until the warden reports its end, so the next
command need not wait for the database. Limits of tasks and queues count rows and do not depend on slots.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dcron.policy.starting import lanes
from dcron.store.runs.candidates import ClaimedRun

MOST_UNRECORDED = 1000
"""Ended runs whose end is not recorded. From this many on, no slot counts as free."""
LONGEST_UNRECORDED = 10.0
"""Seconds. If the recorder is so far behind, no slot counts as free."""
QUICK = 0.5
"""Seconds: a quick run takes less."""


@dataclass
class ActiveRun:
    """A run that was handed to the warden and whose end is not recorded yet."""

    run: ClaimedRun
    started_at: datetime
    slot_taken_at: float
    cancelled_by: str | None = None


class ActiveRuns:
    """The active runs of one node, and which of them take slots."""

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._clock = clock
        self._runs: dict[int, ActiveRun] = {}
        # The active runs without a slot, with the time at which each became one; the first is the oldest.
        self._unrecorded: dict[int, float] = {}
        # When the last quick runs ended.
        self._quick_ends: deque[float] = deque()
        self._changed = threading.Condition()
        self.started = 0
        """How many runs have been started so far."""

    def add(self, started: Iterable[ClaimedRun], now: datetime) -> None:
        """Take a slot for each of these runs, started at `now` by the database's clock."""
        with self._changed:
            at = self._clock()
            added = {run.id: ActiveRun(run, now, at) for run in started}
            self._runs.update(added)
            self.started += len(added)

    def free_slots(self, run_ids: Iterable[int]) -> None:
        """Free the slots of these runs: the warden reports their end. They stay active."""
        with self._changed:
            now = self._clock()
            for run_id in run_ids:
                if run_id in self._runs and run_id not in self._unrecorded:
                    self._unrecorded[run_id] = now
                    if now - self._runs[run_id].slot_taken_at < QUICK:
                        self._quick_ends.append(now)

    def remove(self, run_ids: Iterable[int]) -> None:
        """Forget these runs: their end is recorded, or left to the spool."""
        with self._changed:
            for run_id in run_ids:
                self._runs.pop(run_id, None)
                self._unrecorded.pop(run_id, None)
            self._changed.notify_all()

    def get(self, run_id: int) -> ActiveRun | None:
        """Return the active run with this id; None if there is none."""
        with self._changed:
            return self._runs.get(run_id)

    def ids(self) -> set[int]:
        """Return the ids of the active runs."""
        with self._changed:
            return set(self._runs)

    def free(self) -> int:
        """Return how many more runs may start; 0 if too many ends, or too old ones, are not recorded."""
        with self._changed:
            if self._is_recorder_behind():
                return 0
            return self._slots - (len(self._runs) - len(self._unrecorded))

    def quick_ends(self) -> int:
        """Return how many quick runs have just ended: about as many can start as quickly.

        0 if the recorder is too far behind.
        """
        with self._changed:
            while self._quick_ends and self._clock() - self._quick_ends[0] > QUICK:
                self._quick_ends.popleft()
            return 0 if self._is_recorder_behind() else len(self._quick_ends)

    def unrecorded_for(self) -> float:
        """Return the seconds since the oldest end that is not recorded; 0 if all are."""
        with self._changed:
            return self._unrecorded_for()

    def _unrecorded_for(self) -> float:
        now = self._clock()
        return now - next(iter(self._unrecorded.values()), now)

    def _is_recorder_behind(self) -> bool:
        return self._unrecorded_for() > LONGEST_UNRECORDED or len(self._unrecorded) >= MOST_UNRECORDED

    def free_capacity(self, capacity: Mapping[str, float]) -> dict[str, float]:
        """Return what is left of `capacity` after the needs of all runs that take slots."""
        left = dict(capacity)
        with self._changed:
            for run_id, active in self._runs.items():
                if run_id not in self._unrecorded:
                    left = lanes.without(left, active.run.lane)
        return left

    def ending_tasks(self) -> frozenset[int]:
        """Return the tasks with a limit that have an ended run here whose end is not recorded.

        The database still counts that run. Their next runs wait for the record, instead of being skipped.
        """
        with self._changed:
            tasks = (self._runs[run_id].run.task for run_id in self._unrecorded)
            return frozenset(task.id for task in tasks if task.max_running is not None)

    @property
    def count(self) -> int:
        """How many runs take slots."""
        with self._changed:
            return len(self._runs) - len(self._unrecorded)

    @property
    def unrecorded(self) -> int:
        """How many runs have ended whose end is not recorded."""
        with self._changed:
            return len(self._unrecorded)

    def has_kept(self) -> bool:
        """Return whether the command of an active run goes on while the node is cut off."""
        with self._changed:
            return any(active.run.keeps for active in self._runs.values())

    def any(self) -> bool:
        """Return whether any run is active."""
        with self._changed:
            return bool(self._runs)

    def cancel(self, requests: dict[int, str]) -> list[int]:
        """Note who cancels which run; return the runs that were not cancelled before.

        A run that has ended cannot be cancelled.
        """
        with self._changed:
            running = self._runs.keys() - self._unrecorded.keys()
            new = {run_id: actor for run_id, actor in requests.items() if run_id in running}
            fresh = [run_id for run_id in new if self._runs[run_id].cancelled_by is None]
            for run_id in fresh:
                self._runs[run_id].cancelled_by = new[run_id]
            return fresh

    def wait_until_empty(self, timeout: float) -> bool:
        """Block until no run is active, for `timeout` seconds at most; return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, timeout)
