"""The receiver: free the slot of each run that ended at once, and keep the warden's reports for the recorder.

It uses no database, so a slow or unreachable one delays no report.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.warden.client import Event, Finished, OutputChunk, WardenGone
from dcron.warden.journal import Result

LONGEST_WAIT = 30.0
"""Seconds that a loop waits for reports before it shows that it still runs (`counters.LoopStatus`)."""


@dataclass
class Reports:
    """What the warden reported since the last time the recorder asked."""

    with_new_output: set[int] = field(default_factory=set)
    finished: dict[int, Result] = field(default_factory=dict)
    gone: WardenGone | None = None


class Receiver:
    """Takes in what one node's warden reports. One thread calls `receive`, another one `take`."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._reports = Reports()
        self._lock = threading.Lock()
        self._news = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Receive reports until the warden is gone or `stop` is set; `Warden.wake` ends a wait for them."""
        while not stop.is_set() and self._reports.gone is None:
            self._node.counters.receiver.pauses(LONGEST_WAIT)
            self.receive(LONGEST_WAIT)

    def receive(self, timeout: float) -> None:
        """Take in what the warden reports, waiting up to `timeout` seconds."""
        events = self._node.warden.events(timeout)
        if not events:
            return
        with self._lock:
            ended = [run_id for event in events if (run_id := self._note(event)) is not None]
        if ended:
            self._node.active_runs.free_slots(ended)
            self._node.wake_dispatcher.set()
        self._report_lapsed(events)
        self._news.set()

    def _report_lapsed(self, events: Iterable[Event]) -> None:
        """Log which commands were ended because the lease was not renewed: nothing else can say it now."""
        over = [each for each in events if isinstance(each, Finished) and each.result.reason == "lease"]
        if over:
            kept = "; commands of `--on-disconnect keep` go on" if self._node.active_runs.has_kept() else ""
            ids = ", ".join(f"run {each.run_id}" for each in over)
            message = "the lease was not renewed in time: ended %s%s"
            log.warning(message, ids, kept, event="lease-over")

    def take(self, timeout: float) -> Reports:
        """Return what was reported since the last call, waiting up to `timeout` seconds for news."""
        self._news.wait(timeout)
        self._news.clear()
        with self._lock:
            reports, self._reports = self._reports, Reports(gone=self._reports.gone)
        return reports

    def wake(self) -> None:
        """Make a waiting `take` return at once."""
        self._news.set()

    def _note(self, event: Event) -> int | None:
        """Keep one report; return the run if its slot is free now."""
        match event:
            case OutputChunk(run_id):
                self._reports.with_new_output.add(run_id)
            case Finished(run_id, result):
                self._reports.finished[run_id] = result
                return run_id
            case WardenGone():
                self._reports.gone = event
        return None
