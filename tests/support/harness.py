"""A warden that a test speaks to itself."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcron.warden.client import Event, Finished, Job, Started, Warden, WardenGone
from dcron.warden.journal import Frame, Result
from tests.support.patience import until

ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


class Harness:
    """A warden, and everything it said."""

    def __init__(self, directory: Path, deadline: float | None = math.inf, **options: Any) -> None:
        node_id = f"web-1-{os.urandom(4).hex()}"  # of no other's: what a closed warden left is ended by it
        self.warden = Warden(directory / "spool", node_id, **options)
        if deadline is not None:
            self.warden.set_deadline(deadline)
        self.events: list[Event] = []
        self.results: dict[int, Result] = {}
        self.last = 0

    def start(
        self, *argv: str, env: Mapping[str, str] | None = None, run_id: int | None = None, **job: Any
    ) -> int:
        """Ask for a command; return its run id."""
        self.last = run_id or self.last + 1
        self.warden.start([Job(run_id=self.last, argv=argv, env=ENV if env is None else env, **job)])
        return self.last

    def shell(self, script: str, **job: Any) -> int:
        """Ask for a shell script; return its run id."""
        return self.start("/bin/sh", "-c", script, **job)

    def listen(self, timeout: float = 0.05) -> list[Event]:
        """Take in what the warden says."""
        events = self.warden.events(timeout)
        self.events += events
        self.results |= {event.run_id: event.result for event in events if isinstance(event, Finished)}
        return events

    def hear(self, condition: Callable[[], object]) -> None:
        """Listen until the condition holds."""
        until(lambda: condition() or (self.listen() and condition()))

    def result(self, run_id: int) -> Result:
        """Wait for the result of a run."""
        self.hear(lambda: run_id in self.results)
        return self.results[run_id]

    def pid(self, run_id: int) -> int:
        """Wait for the start of a run; return its pid."""

        def pids() -> list[int]:
            return [each.pid for each in self.events if isinstance(each, Started) and each.run_id == run_id]

        self.hear(pids)
        return pids()[0]

    def gone(self) -> WardenGone:
        """Wait for the warden to be reported gone."""

        def gone() -> list[WardenGone]:
            return [each for each in self.events if isinstance(each, WardenGone)]

        self.hear(gone)
        return gone()[0]

    def frames(self, run_id: int) -> list[Frame]:
        """Return the whole journal of a run."""
        frames: list[Frame] = []
        with self.warden.journal(run_id) as journal:
            while more := journal.read():
                frames += more
            assert journal.result == self.results.get(run_id)
        return frames

    def output(self, run_id: int, stream: str = "out") -> bytes:
        """Wait for the end of a run, and return what it wrote."""
        self.result(run_id)
        return b"".join(frame.data for frame in self.frames(run_id) if frame.stream == stream)

    def close(self) -> None:
        """End everything."""
        self.warden.stop(0)
        while not any(isinstance(event, WardenGone) for event in self.events):
            self.listen()
        self.warden.close()
