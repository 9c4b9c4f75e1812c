"""`dcron agent`: one node after another, until somebody stops it."""

import logging
import math
import threading

from dcron import migrations
from dcron.agent.loops import Outage
from dcron.agent.node import NodeSession, SessionEnd
from dcron.agent.settings import AgentSettings
from dcron.agent.signals import stopping
from dcron.database import Database, is_refusal, is_transient
from dcron.errors import DatabaseError, DatabaseReplaced, SchemaVersionError
from dcron.warden.linux import become_subreaper, hide_memory

log = logging.getLogger("dcron.agent")

_LONGEST_PAUSE = 5.0
"""Seconds between two tries of an agent that waits for its database to start."""


class Agent:
    """Keeps a node alive on this machine. A node that was declared dead is followed by a new one."""

    def __init__(self, database: Database, settings: AgentSettings) -> None:
        self._database = database
        self._settings = settings
        self._session: NodeSession | None = None
        self._stopped = threading.Event()

    def run(self, *, once: bool = False) -> None:
        """Serve until stopped; `once`: do what is due, and return.

        A database that is away is waited for; by `once`, for one lease. Raises DatabaseError for one that
        refuses this agent or has tables of another version, and what broke if something did.
        """
        become_subreaper()  # a dying warden's commands become ours to end
        hide_memory()
        with stopping(self.stop):
            self._serve(once=once)

    def _serve(self, *, once: bool) -> None:
        first = True
        while not self._stopped.is_set():
            session = self._open(first=first, once=once)
            if session is None:
                return
            end = session.serve()
            if session.error is not None:
                raise session.error
            if once or end is SessionEnd.STOPPED:
                return
            first = False

    def stop(self) -> None:
        """Drain and stop; said again, stop at once."""
        self._stopped.set()
        if self._session:
            self._session.ask_to_stop()

    def _open(self, *, first: bool, once: bool) -> NodeSession | None:
        """A session with its node registered; None if told to stop while waiting for the database.

        A first one makes the tables where there are none. Later ones wait for them: an operator may just be
        putting a copy of the database in its place.
        """
        outage = Outage("start", _LONGEST_PAUSE, self._settings.lease if once else math.inf)
        while not self._stopped.is_set():
            self._database.close()  # of a file that was replaced
            try:
                migrations.prepare(self._database, make=first)
                session = self._register(once=once, reboot=first and not once)
                outage.succeeded()
                return session
            except DatabaseReplaced:
                continue
            except DatabaseError as error:
                refused = is_refusal(error) or (first and not is_transient(error))
                if refused or not outage.left or isinstance(error, SchemaVersionError):
                    raise
                self._stopped.wait(outage.failed(error))
        return None

    def _register(self, *, once: bool, reboot: bool) -> NodeSession:
        session = self._session = NodeSession(self._database, self._settings, once=once)
        if self._stopped.is_set():  # asked to stop before there was a session
            session.ask_to_stop()
        try:
            session.open(reboot=reboot)
        except BaseException:
            session.abandon()
            raise
        return session
