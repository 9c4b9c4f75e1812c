"""Detect that the database went back in time: something it once showed is missing.

That happens when a failover loses commits or a backup is restored. Nothing this node read before then
holds: another node may have its runs, and run ids may be given out again. So the detector remembers the
highest run id, the number of renewals of the lease and the server's timeline, across restarts of the agent.
If one of them goes back, nothing is claimed until the next heartbeat has examined it and, if need be,
declared a new epoch, which moves the run ids past every id seen. A database clock that was set back is
noticed here, too.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection

from dcron.agent.clock import ClockWatch
from dcron.agent.log import log
from dcron.database import Database
from dcron.store.nodes import clock_steps, epochs
from dcron.store.nodes.clock_steps import Repair
from dcron.store.nodes.epochs import Epoch

_FILE = "seen.json"
_MISSING_RENEWALS = "renewals of this node's lease are missing"


@dataclass
class Memory:
    """What the agents of one spool have seen of a database. It is kept in the spool and survives restarts."""

    path: Path | None = None
    address: str = ""
    newest: int = 0
    """Highest run id seen in the database."""
    timeline: str | None = None
    """Timeline of the database server; None if it has none."""
    _saved: tuple[int, str | None] = field(default=(0, None), repr=False)

    @classmethod
    def of(cls, spool: Path, address: str) -> "Memory":
        """Read what is known of the database at this address."""
        memory = cls(spool / _FILE, address)
        known = memory._read().get(address)
        if isinstance(known, dict):
            newest, timeline = known.get("newest"), known.get("timeline")
            memory.newest = newest if isinstance(newest, int) else 0
            memory.timeline = timeline if isinstance(timeline, str) else None
            memory._saved = memory.newest, memory.timeline
        return memory

    def save(self) -> None:
        """Write the memory to the spool if it has changed. If that fails, log it and go on."""
        now = self.newest, self.timeline
        if self.path is None or now == self._saved:
            return
        known = self._read() | {self.address: {"newest": self.newest, "timeline": self.timeline}}
        fresh = self.path.with_name(f".{_FILE}.{os.getpid()}")
        try:
            fresh.unlink(missing_ok=True)
            with fresh.open("x") as file:  # do not follow a link that another account put there
                file.write(json.dumps(known))
            fresh.replace(self.path)
            self._saved = now
        except OSError as error:
            log.warning("cannot write %s: %s", self.path, error.strerror, event="spool-failed")

    def _read(self) -> dict[str, object]:
        """Return the content of the file; nothing if another account owns it or it is not ours."""
        if self.path is None:
            return {}
        with suppress(OSError, ValueError, RecursionError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would block
            with os.fdopen(os.open(self.path, flags)) as file:
                found = json.load(file) if os.fstat(file.fileno()).st_uid == os.geteuid() else {}
            return found if isinstance(found, dict) else {}
        return {}


class RollbackDetector:
    """Compares what the database shows with what the agents of this spool have seen before."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        memory: Memory,
        on_doubt: Callable[[], None],
        patience: float = 60.0,
    ) -> None:
        """`memory` is kept up to date. `on_doubt` is called when a heartbeat has to examine something.

        `patience`: seconds to wait for a clock that is behind at the start to be set.
        """
        self._patience = patience
        self._on_doubt = on_doubt
        self._database = database
        self._node_id = node_id
        self._memory = memory
        self._lock = Lock()
        self._renewals = 0
        self._connections = -1
        self._timeline: str | None = None
        self._clock = ClockWatch()
        self._was_behind = False
        self._since: float | None = None
        self.ran_until: datetime | None = None
        """Occurrences up to this time may have started early, by a clock that was ahead; None if none did."""
        self._doubt: str | None = None

    @property
    def is_in_doubt(self) -> bool:
        """Whether nothing may be claimed before the next heartbeat has examined the database."""
        return self._doubt is not None

    def renewed(self, connection: Connection, renewals: int) -> None:
        """Check the number of renewals that a renewal of the lease returned, before its commit."""
        if renewals <= self._renewals:
            self._suspect(_MISSING_RENEWALS)
        if self._connections != self._database.connections:
            self._check_server(connection)

    def committed(self, renewals: int) -> None:
        """Note that a renewal was committed."""
        with self._lock:
            self._renewals = max(self._renewals, renewals)

    def started(self, run_ids: Iterable[int]) -> None:
        """Note the ids of runs that are started."""
        with self._lock:
            self._memory.newest = max([self._memory.newest, *run_ids])

    def opened(self, connection: Connection, now: datetime) -> None:
        """Check a database that was just opened, before anything is written to it."""
        self._check_server(connection)
        issued = self._database.issued_ids(connection)
        self.examine(connection, now, newest=0, issued=issued)
        self.ran_until = clock_steps.ran_until(connection)
        self._was_behind = clock_steps.is_behind(connection, now)
        if self._was_behind:
            log.warning(
                "the database's clock is behind: runs have ended at times that are still to come;"
                " if it stays so for %gs, tasks are planned anew",
                self._patience,
                event="clock-behind",
            )

    def check_clock(self, connection: Connection, now: datetime, before: float, after: float) -> None:
        """Detect that the database's clock was set, and settle the consequences in this transaction.

        `now` was read between `before` and `after`, in seconds of a clock that cannot be set.
        """
        step = self._clock.step(now, before, after)
        if step > 0:
            log.warning("the database's clock was set forward by %.0fs", step, event="clock-changed")
        elif step < 0:
            log.warning("the database's clock was set back by %.0fs", -step, event="clock-changed")
        if step < 0 or self._is_still_behind(connection, now, after):
            self._was_behind = False
            _report_set_back(clock_steps.repair(connection, self._database, self._node_id, now))
            self.ran_until = clock_steps.ran_until(connection)

    def _is_still_behind(self, connection: Connection, now: datetime, at: float) -> bool:
        """Return whether a clock that was behind at the start still is, after the time it had to be set."""
        if not self._was_behind:
            return False
        self._since = at if self._since is None else self._since
        if at - self._since < self._patience:
            return False
        self._was_behind = clock_steps.is_behind(connection, now)
        return self._was_behind

    def examine(self, connection: Connection, now: datetime, newest: int, issued: int) -> bool:
        """Check the run ids that the database shows; return whether it went back in time.

        The first agent to see that declares a new epoch in this transaction.
        """
        seen = self._memory.newest
        if issued < seen:
            self._doubt = f"run {seen} was there, and the ids given out end at {issued}"
        reason = self._doubt
        if reason is not None:
            actor, timeline = self._node_id, self._timeline
            epoch = epochs.declare(
                connection, self._database, actor, now, seen=seen, timeline=timeline, reason=reason
            )
            _report(reason, epoch)
        with self._lock:
            self._memory.newest = max(seen, newest)
        self._memory.timeline = self._timeline or self._memory.timeline
        return reason is not None

    def settled(self, renewals: int) -> None:
        """Note that an `examine` that found a rollback was committed."""
        with self._lock:
            self._renewals, self._doubt = renewals, None

    def save(self) -> None:
        """Write down what was seen, for later agents."""
        with self._lock:
            self._memory.save()

    def _check_server(self, connection: Connection) -> None:
        """Check the timeline after a new connection: a standby that took over may answer."""
        self._connections = self._database.connections
        known, self._timeline = self._memory.timeline, self._database.timeline(connection)
        if known and self._timeline and self._timeline != known:
            self._suspect(f"another server took over (timeline {known}, now {self._timeline})")

    def _suspect(self, reason: str) -> None:
        if self._doubt is None:
            self._doubt = reason
            self._on_doubt()


def _report_set_back(done: Repair | None) -> None:
    if done:
        log.warning(
            "%d tasks are planned anew by the clock as it is now, and %d waiting runs are brought forward;"
            " an occurrence that ran ahead of its time is not run again",
            *(done.tasks, done.runs),
            event="tasks-replanned",
        )


def _report(reason: str, epoch: Epoch | None) -> None:
    if epoch is None:
        log.warning(
            "the database may have lost commits: %s; another agent has moved the ids on",
            reason,
            event="database-rolled-back",
        )
        return
    log.error(
        "the database may have lost what it had committed: %s; run ids were at %d and go on above %d,"
        " waiting runs with new ids: %d; an occurrence that the database forgot may run again",
        *(reason, epoch.before, epoch.beyond, epoch.renumbered),
        event="database-rolled-back",
    )
