"""`dcron agent`: serve as one node after another until stopped."""

import gc
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dcron import migrations
from dcron.agent.admission import Admission
from dcron.agent.counters import Counters
from dcron.agent.ending import SessionEnd
from dcron.agent.log import log
from dcron.agent.loops import Outage
from dcron.agent.node import NodeSession
from dcron.agent.sd_notify import ServiceManager, reporting
from dcron.agent.settings import AgentSettings
from dcron.agent.signals import stopping
from dcron.database import Database, is_refusal, is_transient
from dcron.errors import DatabaseError, DatabaseReplaced, SchemaVersionError, WardenFailed
from dcron.schedule.preloading import preload
from dcron.warden.linux import become_subreaper, hide_memory

_LONGEST_PAUSE = 5.0
"""Longest pause, in seconds, between two attempts to open the database at the start."""
_NEW_OBJECTS = 5_000
"""New objects before a search for garbage."""
_MOST_WARDENS = 10
"""Wardens in a row that may fail to start before the agent gives up."""


class Agent:
    """Keeps one node of this machine alive. If a node is declared dead, a new node replaces it."""

    def __init__(self, database: Database, settings: AgentSettings) -> None:
        self._database = database
        # Less than the default lease: another node can then declare a silent one dead, and lock its rows.
        database.transaction_limit = 4.5 * database.patience
        self.settings = settings
        self.patience = database.patience
        self.counters = Counters()
        self.session: NodeSession | None = None
        """The present node; None before the first one."""
        self.admission = Admission(settings.policy, settings.account, settings.name, settings.spool)
        self._service_manager = ServiceManager(os.environ)
        self._stopped = threading.Event()

    def run(self, *, once: bool = False) -> None:
        """Serve until stopped. With `once`, run what is due and return.

        If the database is unreachable, wait for it; with `once`, wait for one lease at most.

        Raises: DatabaseError if the database refuses this agent or has tables of another version; the error
        itself if a loop of the agent breaks.
        """
        preload()
        become_subreaper()  # if the warden dies, its commands become our children, and we end them
        hide_memory()
        with stopping(self.stop, self.reload), reporting(self, self._service_manager), self._monitored():
            self._serve(once=once)

    @contextmanager
    def _monitored(self) -> Iterator[None]:
        """Serve the agent's figures meanwhile, if asked to. Without them the agent works all the same."""
        if self.settings.monitor is None:
            yield
            return
        from dcron.agent.monitor import serve  # it loads 10 MiB of libraries

        with serve(self.settings.monitor, self, self._database):
            yield

    def _serve(self, *, once: bool) -> None:
        first = True
        while not self._stopped.is_set():
            session = self._open(first=first, once=once)
            if session is None:
                return
            if first:
                _collect_garbage_sooner()
            self._service_manager.ready()
            end = session.serve()
            if session.ending.error is not None:
                raise session.ending.error
            if once or end is SessionEnd.STOPPED:
                return
            first = False

    def stop(self) -> None:
        """Drain and stop. A second call stops at once."""
        self._stopped.set()
        self._service_manager.send(STOPPING=1)
        if self.session:
            self.session.ending.request_stop()

    def reload(self) -> None:
        """Look at the policy now, not with the next heartbeat."""
        if self.session:
            self.session.node.wake_heartbeat.set()

    def _open(self, *, first: bool, once: bool) -> NodeSession | None:
        """Return a session with its node registered; None if stopped while waiting for the database.

        Only the first session creates missing tables. A later one waits for them: an operator may be
        replacing the database with a copy.
        """
        outage = Outage("start", _LONGEST_PAUSE, self.settings.lease if once else math.inf)
        failed = 0
        while not self._stopped.is_set():
            self._database.close()  # the connections may belong to a file that was replaced
            try:
                migrations.prepare(self._database, make=first)
                if first and (problem := self._database.why_unsuitable(tries_locks=False)):
                    raise DatabaseError(f"the database {self._database.address} {problem}")
                if first and self._database.has_created_file:
                    log.info("created the crontab %s", self._database.address.path)
                session = self._register(once=once, reboot=first and not once)
                outage.succeeded()
                return session
            except DatabaseReplaced:
                continue
            except WardenFailed as error:
                failed += 1
                if failed == _MOST_WARDENS:
                    raise
                log.error("%s; starting another one", error, event="warden-died")
                self._stopped.wait(min(_LONGEST_PAUSE, 0.2 * 2**failed))
            except DatabaseError as error:
                refused = is_refusal(error) or (first and not is_transient(error))
                if refused or not outage.left or isinstance(error, SchemaVersionError):
                    raise
                self._stopped.wait(outage.failed(error))
        return None

    def _register(self, *, once: bool, reboot: bool) -> NodeSession:
        session = self.session = NodeSession(
            self._database, self.settings, self.counters, self.admission, once=once
        )
        if self._stopped.is_set():  # stopped before the session existed
            session.ending.request_stop()
        try:
            session.open(reboot=reboot)
        except BaseException:
            session.abandon()
            raise
        return session


def _collect_garbage_sooner() -> None:
    """Search for garbage after some hundred jobs; while the agent starts, that would cost time.

    What was loaded stays, and is not searched again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
