"""The runs this node has under way, shared by the agent's loops."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dcron import policy
from dcron.store.candidates import ClaimedRun


@dataclass
class ActiveRun:
    """A run that was handed to the warden and is not recorded as over."""

    run: ClaimedRun
    started_at: datetime
    cancelled_by: str | None = None


class ActiveRuns:
    """Which slots are taken, by what. A run keeps its slot until its end is recorded."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._live: dict[int, ActiveRun] = {}
        self._changed = threading.Condition()

    def add(self, started: Iterable[ClaimedRun], now: datetime) -> None:
        """Take a slot for each of these runs, started at `now` by the database's clock."""
        with self._changed:
            self._live.update((run.id, ActiveRun(run, now)) for run in started)

    def remove(self, run_ids: Iterable[int]) -> None:
        """Free the slots of these runs."""
        with self._changed:
            for run_id in run_ids:
                self._live.pop(run_id, None)
            self._changed.notify_all()

    def get(self, run_id: int) -> ActiveRun | None:
        """The run under way of this id."""
        with self._changed:
            return self._live.get(run_id)

    def ids(self) -> set[int]:
        """Return the ids of the runs under way."""
        with self._changed:
            return set(self._live)

    def free(self) -> int:
        """How many more runs may be started."""
        with self._changed:
            return self._slots - len(self._live)

    def free_capacity(self, capacity: Mapping[str, float]) -> dict[str, float]:
        """What is left of it when everything under way has what it needs."""
        left = dict(capacity)
        with self._changed:
            for live in self._live.values():
                left = policy.without(left, live.run.lane)
        return left

    def any(self) -> bool:
        """Whether anything is under way."""
        with self._changed:
            return bool(self._live)

    def cancel(self, requests: dict[int, str]) -> list[int]:
        """Note who wants which run stopped; the runs that nobody had asked to stop before."""
        with self._changed:
            new = {run_id: actor for run_id, actor in requests.items() if run_id in self._live}
            fresh = [run_id for run_id in new if self._live[run_id].cancelled_by is None]
            for run_id in fresh:
                self._live[run_id].cancelled_by = new[run_id]
            return fresh

    def wait_until_empty(self, timeout: float) -> bool:
        """Block until nothing is under way, for `timeout` seconds at most; whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._live, timeout)
