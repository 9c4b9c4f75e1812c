"""Why a node ends, and its last words to the database."""

import threading
from collections.abc import Callable
from enum import Enum, auto

from dcron import migrations
from dcron.agent.dispatcher import Dispatcher
from dcron.agent.lease import Fenced
from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.errors import DatabaseError, DatabaseReplaced, SchemaVersionError, unexpected
from dcron.model import RunState
from dcron.schema.tables import SCHEMA_VERSION
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.upkeep import reaping


class SessionEnd(Enum):
    """Why a session ended."""

    STOPPED = auto()
    FENCED = auto()
    REPLACED = auto()
    WARDEN_GONE = auto()
    OTHER_TABLES = auto()
    """The tables have another version: the database was upgraded while the agent ran."""
    REFUSED = auto()
    """The database refuses what the node has to do, for example because a right is missing."""
    BROKEN = auto()


_GRACEFUL_ENDS = (SessionEnd.STOPPED, SessionEnd.OTHER_TABLES, SessionEnd.REFUSED)
"""The ends at which commands get their grace between SIGTERM and SIGKILL."""


class Ending:
    """Whether a node goes on, and why not. Any thread may end it."""

    def __init__(self, node: NodeContext, dispatcher: Dispatcher) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self.end: SessionEnd | None = None
        self.error: BaseException | None = None
        """What the agent ends with if the end is BROKEN, REFUSED or OTHER_TABLES."""
        self.version_error: SchemaVersionError | None = None
        self.stop_requests = 0
        self.attention = threading.Event()
        """Set when the node may have to end."""

    @property
    def is_serving(self) -> bool:
        """Whether the node goes on."""
        return not self.stop_requests and self.end is None and self.version_error is None

    @property
    def awaits_running(self) -> bool:
        """Whether active runs may end by themselves."""
        return self.end in (None, SessionEnd.REFUSED) and self.stop_requests < 2

    @property
    def is_patient(self) -> bool:
        """Whether commands get their grace between SIGTERM and SIGKILL."""
        return self.conclude() in _GRACEFUL_ENDS and self.stop_requests < 2

    def request_stop(self) -> None:
        """Drain and stop. A second call stops at once."""
        self.stop_requests += 1
        self.attention.set()

    def note(self, end: SessionEnd) -> None:
        """End the node for this reason, unless it ends for another one."""
        self.end = self.end or end
        self.attention.set()

    def conclude(self) -> SessionEnd:
        """Return why the node ends, now that it does."""
        if self.version_error and self.end is None:
            self.end = SessionEnd.OTHER_TABLES
            self.error = None if self.stop_requests else self.version_error
        return self.end or SessionEnd.STOPPED

    def guarded(self, loop: Callable[[], None]) -> None:
        """Run a loop of the node. Its error ends the node, unless the tables have another version now."""
        try:
            loop()
        except Fenced as error:
            self._warn("node %s %s; what it still runs is stopped", error, "node-fenced")
            self.note(SessionEnd.FENCED)
        except DatabaseReplaced as error:
            self._warn("node %s has lost its database: %s", error, "database-replaced")
            self.note(SessionEnd.REPLACED)
        except BaseException as error:  # without this loop the node must not go on
            self._on_error(error)

    def _warn(self, message: str, error: Exception, event: str) -> None:
        if self.end is None:
            log.warning(message, self._node.id, error, event=event)

    def _on_error(self, error: BaseException) -> None:
        try:
            self.require_version(migrations.current_version(self._node.database))
        except DatabaseError as also:
            log.debug("the version of the tables: %s", also)
        if self.version_error is None:
            self.error = error
            self.note(SessionEnd.REFUSED if isinstance(error, DatabaseError) else SessionEnd.BROKEN)

    def require_version(self, version: str | None) -> None:
        """If the tables have another version, start nothing new and stop once the active runs have ended."""
        try:
            migrations.require_version(self._node.database, version or SCHEMA_VERSION)
        except SchemaVersionError as error:
            if self.version_error is None:
                log.warning(
                    "node %s takes no new runs and stops when what it runs has ended: %s",
                    *(self._node.id, error),
                    event="tables-changed",
                )
            self.version_error = error
            self._dispatcher.closed = True
            self._node.wake_dispatcher.set()
            self.attention.set()

    def record_lost(self, run_ids: tuple[int, ...]) -> None:
        """Record runs whose warden died."""
        node = self._node
        try:
            with node.database.write() as connection:
                now = node.database.now(connection)
                lost = [RunResult(run_id, RunState.LOST, now, "its warden died") for run_id in run_ids]
                recorded = finishing.finish(connection, node.database, node.id, lost, now)
            for each in lost:
                if each.id in recorded and (active := node.active_runs.get(each.id)):
                    node.pings.ended(active.run, each)
            node.active_runs.remove(run_ids)
        except DatabaseError as error:
            log.error("not recorded, left to the lease: %s", error, event="sign-off-failed")

    def sign_off(self) -> bool:
        """End the node in the database; return whether that is certain."""
        database = self._node.database
        try:
            with database.write() as connection:
                reaping.sign_off(connection, database, self._node.id, database.now(connection))
            return True
        except DatabaseError as error:
            message, reason = "could not sign off, the lease will run out: %s", str(error)
        except Exception as error:
            if self.version_error is None:
                raise
            message = "could not sign off from newer tables, the lease will run out: %s"
            reason = unexpected(error)
        log.error(message, reason, event="sign-off-failed")
        return False
