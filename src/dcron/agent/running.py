"""The runs that this node executes, shared by the agent's loops."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dcron import policy
from dcron.store.candidates import ClaimedRun


@dataclass
class ActiveRun:
    """A run that was handed to the warden and whose end is not recorded yet."""

    run: ClaimedRun
    started_at: datetime
    cancelled_by: str | None = None


class ActiveRuns:
    """Which slots are taken by which runs. A run keeps its slot until its end is recorded."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._runs: dict[int, ActiveRun] = {}
        self._changed = threading.Condition()

    def add(self, started: Iterable[ClaimedRun], now: datetime) -> None:
        """Take a slot for each of these runs, started at `now` by the database's clock."""
        with self._changed:
            self._runs.update((run.id, ActiveRun(run, now)) for run in started)

    def remove(self, run_ids: Iterable[int]) -> None:
        """Free the slots of these runs."""
        with self._changed:
            for run_id in run_ids:
                self._runs.pop(run_id, None)
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
        """Return how many more runs may start."""
        with self._changed:
            return self._slots - len(self._runs)

    def free_capacity(self, capacity: Mapping[str, float]) -> dict[str, float]:
        """Return what is left of `capacity` after the needs of all active runs."""
        left = dict(capacity)
        with self._changed:
            for active in self._runs.values():
                left = policy.without(left, active.run.lane)
        return left

    def any(self) -> bool:
        """Return whether any run is active."""
        with self._changed:
            return bool(self._runs)

    def cancel(self, requests: dict[int, str]) -> list[int]:
        """Note who cancels which run; return the runs that were not cancelled before."""
        with self._changed:
            new = {run_id: actor for run_id, actor in requests.items() if run_id in self._runs}
            fresh = [run_id for run_id in new if self._runs[run_id].cancelled_by is None]
            for run_id in fresh:
                self._runs[run_id].cancelled_by = new[run_id]
            return fresh

    def wait_until_empty(self, timeout: float) -> bool:
        """Block until no run is active, for `timeout` seconds at most; return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, timeout)
