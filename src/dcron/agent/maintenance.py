"""The loop that does maintenance jobs: work of dcron on its own tables.

It has threads of its own, so slow work cannot delay a heartbeat: one for quick jobs, and one for the
others, which may take hours. The heartbeat finds in a statement of its own whether a job is due, so an idle
agent sends no statement for it.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Any

from dcron.agent.counters import Counters, LoopStatus
from dcron.agent.log import log
from dcron.database import Database
from dcron.errors import DatabaseError, DcronError, unexpected
from dcron.store import maintenance
from dcron.store.alerts.watching import Watch
from dcron.store.maintenance import Hold, HoldLost, Job, Step
from dcron.store.retention.archives import ArchiveDays
from dcron.store.retention.walk import Prune
from dcron.store.statistics.sum_up import SumUpDays
from dcron.store.tasks_deleted_by_sql import FindDeletions

JOBS: tuple[Callable[[], Job], ...] = (Watch, SumUpDays, ArchiveDays, FindDeletions, Prune)
"""The jobs of every agent. Each agent makes its own, which may remember what it counted."""
QUICK = (Watch.name,)
"""The jobs that never wait for another one."""
_PAUSE_AFTER_FAILURE = 60.0
"""Seconds until another node may try a job that failed here, for example because it can reach the archive."""
_OWN_PAUSE_AFTER_FAILURE = 600.0
"""Seconds until this node tries a slow job again that failed."""
_FORGOTTEN = 2 * maintenance.HOLD
"""Seconds without an offer after which another node has done the job."""


class _Offer:
    """The job that one thread is to do next."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.wake = threading.Event()
        # When a job was offered first and last since this node or another one has done one.
        self._first: float | None = None
        self._last = 0.0

    def make(self, name: str) -> None:
        """Offer this job."""
        now = monotonic()
        if self._first is None or now - self._last > _FORGOTTEN:
            self._first = now
        self._last = now
        self.name = name
        self.wake.set()

    @property
    def waits(self) -> float:
        """Seconds from the first to the last offer of a job that is not done yet."""
        first = self._first
        return 0.0 if first is None else self._last - first

    def done(self) -> None:
        """Note that the job is done."""
        self._first = None

    def take(self) -> str | None:
        """Wait for an offer, or for the end; return the name of the job."""
        self.wake.wait()
        self.wake.clear()
        name, self.name = self.name, None
        return name


class Maintenance:
    """Does the jobs that its node can take: one quick job and one other at a time."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        jobs: Collection[Job] | None = None,
        counters: Counters | None = None,
        on_watched: Callable[[], None] = lambda: None,
    ) -> None:
        """Without `jobs`, it can do all of them. `counters` learn whether its loops go on.

        `on_watched` is called after each good round of the job `watch`.
        """
        self._database = database
        self._node_id = node_id
        self._on_watched = on_watched
        made = [make() for make in JOBS] if jobs is None else jobs
        self._jobs = {job.name: job for job in made}
        self._offers = {True: _Offer(), False: _Offer()}
        """By whether the job is quick."""
        counters = counters or Counters()
        self._statuses = {True: counters.quick_maintenance, False: counters.maintenance}
        self._reported: str | None = None
        self._noted: str | None = None
        self._not_before: dict[str, float] = {}
        """By name, when it tries a job again that failed."""

    @property
    def names(self) -> Collection[str]:
        """The names of its jobs."""
        return list(self._jobs)

    def names_of(self, *, quick: bool) -> Collection[str]:
        """Return the names of the quick jobs, or of the others, that it can do now."""
        at = monotonic()
        return [
            name for name in self._jobs if (name in QUICK) == quick and self._not_before.get(name, 0.0) <= at
        ]

    def offer(self, name: str) -> None:
        """Do this job, which is due, as soon as there is time."""
        self._offers[name in QUICK].make(name)

    @property
    def quick_waits(self) -> float:
        """Seconds for which a quick job was due, could be done by this node, and was not done."""
        return self._offers[True].waits

    def wake(self) -> None:
        """End the pauses early."""
        for offer in self._offers.values():
            offer.wake.set()

    def watch_first(self, stop: threading.Event) -> None:
        """Look for what did not happen while no agent ran, before this node starts what is overdue."""
        if job := self._jobs.get(Watch.name):
            self.do(job, stop)

    def run(self, stop: threading.Event, *, quick: bool = False) -> None:
        """Do what is offered until `stop` is set and `wake` called. An error does not end the node."""
        while not stop.is_set():
            name = self._offers[quick].take()
            if name and not stop.is_set():
                self.do(self._jobs[name], stop)

    def do(self, job: Job, stop: threading.Event) -> None:
        """Do a round of this job if no other node has taken it. After `stop`, another node continues it."""
        status = self._statuses[job.name in QUICK]
        status.turns()
        try:
            self._do(job, stop, status)
        except HoldLost:
            log.warning("maintenance: another node continues the job %s", job.name, event="maintenance-lost")
        except DatabaseError as error:  # another node takes it, or this one when the database answers
            self._report("maintenance: %s: %s", job.name, error)
        finally:
            status.ends()  # until the next job is due

    def _do(self, job: Job, stop: threading.Event, status: LoopStatus) -> None:
        hold = Hold(job.name, self._node_id)
        with self._database.write() as connection:
            now = self._database.now(connection)
            position = maintenance.take(connection, job.name, self._node_id, now)
        if position is None:  # another node does it, or has done it
            self._offers[job.name in QUICK].done()
            return
        began = monotonic()
        try:
            end = self._steps(job, hold, position, stop, status)
        except (HoldLost, DatabaseError):
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, DcronError) else unexpected(error)
            self._report("maintenance: %s failed: %s", job.name, reason)
            pause = _PAUSE_AFTER_FAILURE if job.name in QUICK else _OWN_PAUSE_AFTER_FAILURE
            self._not_before[job.name] = monotonic() + pause
            with self._database.write() as connection:
                now = self._database.now(connection)
                hold.fail(connection, now, _PAUSE_AFTER_FAILURE, reason)
            return
        with self._database.write() as connection:
            if end is None:
                hold.release(connection)
            else:
                now = self._database.now(connection)
                hold.finish(connection, now, job.interval, monotonic() - began, end)
        if end is not None:
            self._offers[job.name in QUICK].done()
            if job.name == Watch.name:
                self._on_watched()
        self._reported = None

    def _steps(
        self, job: Job, hold: Hold, position: Mapping[str, Any], stop: threading.Event, status: LoopStatus
    ) -> Step | None:
        """Repeat steps until the round is over; return the last one, or None after `stop`."""
        while not stop.is_set():
            status.turns()
            step = job.step(self._database, hold, position)
            if step.note and step.note != self._noted:
                self._noted = step.note
                log.warning("maintenance: %s", step.note)
            if step.position is None:
                return step
            position = step.position
            if hold.is_old:
                with self._database.write() as connection:
                    hold.renew(connection, self._database.now(connection), position)
            status.pauses(step.rest)
            stop.wait(step.rest)
        return None

    def _report(self, message: str, job: str, error: object) -> None:
        """Log a failure once, until a job succeeds."""
        if self._reported != str(error):
            self._reported = str(error)
            log.warning(message, job, error, event="maintenance-failed")
