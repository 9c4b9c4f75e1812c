"""One node's life: registered, serving, signed off; or declared dead, and gone at once."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path

from dcron import __version__, migrations
from dcron.agent.dispatcher import LOOK_EVERY, Dispatcher
from dcron.agent.heartbeat import Heartbeat
from dcron.agent.lease import Fenced, Lease, OtherLeases
from dcron.agent.loops import keep_going
from dcron.agent.reconciliation import Reconciler
from dcron.agent.recorder import Recorder
from dcron.agent.rollback_detection import Memory, RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import AgentSettings
from dcron.agent.spool import deliver_abandoned
from dcron.config import host_name
from dcron.database import Database
from dcron.errors import DatabaseError, DatabaseReplaced, Refused, SchemaVersionError, unexpected
from dcron.model import Node, RunState
from dcron.schedule import tzdata_fingerprint, tzdata_version
from dcron.schema import SCHEMA_VERSION
from dcron.store import finishing, nodes, planning, reaping, tasks
from dcron.store.finishing import RunResult
from dcron.warden.client import Warden
from dcron.warden.descendants import kill_descendants

log = logging.getLogger("dcron.agent")

_LAST_WORDS = 10.0
"""Seconds a stopping agent tries to reach the database; after that the spool keeps its results."""


class SessionEnd(Enum):
    """Why a session is over."""

    STOPPED = auto()
    FENCED = auto()
    REPLACED = auto()
    WARDEN_GONE = auto()
    OUTGROWN = auto()
    """The tables are of another version: an upgrade while the agent ran."""
    REFUSED = auto()
    """The database refuses what the node has to do, such as for a missing right."""
    BROKEN = auto()


_PATIENT = (SessionEnd.STOPPED, SessionEnd.OUTGROWN, SessionEnd.REFUSED)
"""The ends at which commands get their grace between SIGTERM and SIGKILL."""


class NodeSession:
    """A node: an ID, a lease, a warden, and the loops that use them."""

    def __init__(self, database: Database, settings: AgentSettings, *, once: bool = False) -> None:
        """Start the warden. The node is known to nobody before `open`.

        `once`: it does what is due, and ends.
        """
        self._once = once
        self._database = database
        self._settings = settings
        self.node_id = settings.new_node_id()
        self.live = ActiveRuns(settings.slots)
        self.error: BaseException | None = None
        """What the agent ends with, where the end is BROKEN, REFUSED or OUTGROWN."""
        self._end: SessionEnd | None = None
        self._outgrown: SchemaVersionError | None = None
        self._stop = threading.Event()
        self._wake_turns = threading.Event()
        self._wake_heart = threading.Event()
        self._recorded = threading.Event()
        self._attention = threading.Event()
        self._asked_to_stop = 0
        self._draining = False
        self._threads: list[threading.Thread] = []
        self._reported: set[Path] = set()
        self.warden = _warden(settings, self.node_id)
        memory = Memory.of(settings.spool, str(database.address))
        self._continuity = RollbackDetector(
            database, self.node_id, memory, self._wake_heart.set, settings.lease
        )
        lease = Lease(self.node_id, settings, self._continuity, self._set_deadline)
        launch, kill = self.warden.start, self.warden.kill
        self.turns = Dispatcher(
            database, settings, self.node_id, lease, self._continuity, self.live, launch, kill
        )
        ownership = Reconciler(database, self.node_id, self.live, lambda: self.turns.starting, kill)
        # One pass is too short to watch others: it believes the clock.
        others = OtherLeases(patience=0 if once else 2 * settings.beat)
        on_drain, on_outgrown = self.drain, self._require_version
        self.heart = Heartbeat(
            database, lease, others, self._continuity, ownership, settings.beat, on_drain, on_outgrown
        )
        self.recorder = Recorder(database, self.node_id, self.live, self.warden, self._wake_turns.set)

    def open(self, *, reboot: bool) -> None:
        """Register the node and hold its first lease; `reboot` gives it the `@reboot` tasks.

        Raises DatabaseError.
        """
        with self._database.write() as connection:
            self._continuity.opened(connection, self._database.now(connection))
        self._continuity.settled(0)
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        with self._database.write() as connection:
            now = self._database.now(connection)
            nodes.register(
                connection,
                Node(
                    id=self.node_id,
                    name=self._settings.name,
                    host=host_name(),
                    pid=os.getpid(),
                    slots=self._settings.slots,
                    version=__version__,
                    tzdata=tzdata_version(),
                    tzdata_fingerprint=tzdata_fingerprint(),
                    started_at=now,
                    alive_until=now + timedelta(seconds=self._settings.lease),
                    draining=False,
                    died_at=None,
                    died_how=None,
                    clock_offset=None,
                    tags=self._settings.tags,
                    queues=self._settings.queues,
                    capacity=self._settings.capacity,
                    lease=self._settings.lease,
                    account=self._settings.account.name,
                    uid=self._settings.account.uid,
                    any_account=self._settings.account.any_account,
                ),
            )
            tasks.replan_older_zones(connection, tzdata_version())
            if reboot:
                planning.add_reboot_runs(connection, self.node_id, now)
        self.heart.step()
        log.info("node %s: %d slots, lease %gs", self.node_id, self._settings.slots, self._settings.lease)

    def abandon(self) -> None:
        """End a session that could not be opened."""
        self.warden.stop(0.0)
        self.warden.close()

    def serve(self) -> SessionEnd:
        """Take turns until told to stop or something ends the node."""
        if self._once:
            return self._serve_once()
        self._run("heart", self._keep_beating)
        self._run("recorder", self._keep_recording)
        self._run("watch", self._keep_watching)
        self._run("turns", self._keep_taking_turns)
        while self._goes_on():
            self._attention.wait()
            self._attention.clear()
        return self._shut_down()

    def _serve_once(self) -> SessionEnd:
        """Take the turns that are due, wait for their end, and stop."""
        self._run("heart", self._keep_beating)
        self._run("recorder", self._keep_recording)
        self._guarded(self._take_turns_once)
        self.turns.closed = True
        while self._goes_on() and not self.live.wait_until_empty(0.5):
            pass
        return self._shut_down()

    def _take_turns_once(self) -> None:
        self.turns.in_a_hurry = True
        while self._goes_on():
            if self.turns.step() > 0:
                if not self.turns.wait_for_room:
                    break
                self._wake_turns.wait(1.0)
                self._wake_turns.clear()

    def _goes_on(self) -> bool:
        return not self._asked_to_stop and self._end is None and self._outgrown is None

    def ask_to_stop(self) -> None:
        """Drain and stop; asked again, stop at once."""
        self._asked_to_stop += 1
        self._attention.set()

    def drain(self, draining: bool) -> None:
        """Take nothing new while `draining` is true; what runs runs on."""
        self.turns.draining = draining
        if draining == self._draining:
            return
        self._draining = draining
        what = "drains: it takes no new runs" if draining else "no longer drains: it takes runs again"
        log.warning("node %s %s", self.node_id, what)
        self._wake_turns.set()

    # The loops --------------------------------------------------------------------------------------

    def _keep_taking_turns(self) -> None:
        keep_going("turns", self.turns.step, self._wake_turns, self._stop, longest_pause=LOOK_EVERY)

    def _keep_beating(self) -> None:
        self._wake_heart.wait(self._settings.beat)  # `open` has done the first beat
        keep_going("heartbeat", self._beat, self._wake_heart, self._stop, self._settings.beat / 2)

    def _beat(self) -> float:
        self.warden.reap_strangers()
        pause = self.heart.step()
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        return pause

    def _keep_recording(self) -> None:
        try:
            keep_going("recorder", self._record, threading.Event(), self._recorded, longest_pause=LOOK_EVERY)
        finally:
            self._recorded.set()  # or as much as can be

    def _record(self) -> float:
        pause = self.recorder.step()
        if self.recorder.gone:
            if self.recorder.is_settled:
                self._recorded.set()
            self._ended(SessionEnd.WARDEN_GONE)
        return pause

    def _keep_watching(self) -> None:
        """Let a change that others make wake the turns; a hint, so an error is only waited out."""
        watch = self._database.watch()
        try:
            while not self._stop.is_set():
                try:
                    if watch.wait(self._stop):
                        self._wake_turns.set()
                except Exception as error:  # whatever the driver says: looking now and then goes on
                    log.debug("watch: %s", error)
                    watch.close()
                    self._stop.wait(LOOK_EVERY)
        finally:
            watch.close()

    # The end ----------------------------------------------------------------------------------------

    def _run(self, name: str, loop: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(loop,), name=f"dcron-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except Fenced as error:
            if self._end is None:
                log.warning("node %s %s; what it still runs is stopped", self.node_id, error)
            self._ended(SessionEnd.FENCED)
        except DatabaseReplaced as error:
            if self._end is None:
                log.warning("node %s has lost its database: %s", self.node_id, error)
            self._ended(SessionEnd.REPLACED)
        except BaseException as error:  # a loop that is dead must not look alive: the node ends with it
            self._broke(error)

    def _broke(self, error: BaseException) -> None:
        """End the node. On tables of another version an error means no more than that they differ."""
        try:
            self._require_version(migrations.current_version(self._database))
        except DatabaseError as also:
            log.debug("the version of the tables: %s", also)
        if self._outgrown is None:
            self.error = error
            self._ended(SessionEnd.REFUSED if isinstance(error, DatabaseError) else SessionEnd.BROKEN)

    def _require_version(self, version: str | None) -> None:
        """Take nothing new, and stop once what runs has ended, if the tables are of another version."""
        try:
            migrations.require_version(self._database, version or SCHEMA_VERSION)
        except SchemaVersionError as error:
            if self._outgrown is None:
                log.warning(
                    "node %s takes no new runs and stops when what it runs has ended: %s", self.node_id, error
                )
            self._outgrown = error
            self.turns.closed = True
            self._attention.set()

    def _ended(self, end: SessionEnd) -> None:
        self._end = self._end or end
        self._attention.set()

    def _shut_down(self) -> SessionEnd:
        self.turns.closed = True
        if self._may_let_finish():
            self._let_finish()
        if self._outgrown and self._end is None:
            self._end = SessionEnd.OUTGROWN
            self.error = None if self._asked_to_stop else self._outgrown
        end = self._end or SessionEnd.STOPPED
        patient = end in _PATIENT and self._asked_to_stop < 2
        self.warden.stop(self._settings.kill_grace if patient else min(1.0, self._settings.kill_grace))
        self._bury()
        self._stop.set()
        for wake in (self._wake_turns, self._wake_heart, self._recorded):
            wake.set()
        for thread in self._threads:
            thread.join(_LAST_WORDS)
        if end is not SessionEnd.REPLACED:
            self._sign_off()
        self._continuity.save()
        self.warden.close()
        return end

    def _let_finish(self) -> None:
        """Let what runs end by itself: for the grace, or without a limit when the tables were upgraded."""
        grace = math.inf if self._outgrown and not self._asked_to_stop else self._settings.grace
        if self.live.any() and grace < math.inf:
            log.info("node %s stops when what it runs has ended, or in %gs", self.node_id, grace)
        deadline = time.monotonic() + grace
        while self._may_let_finish() and time.monotonic() < deadline:
            if self._asked_to_stop and deadline == math.inf:
                deadline = time.monotonic() + self._settings.grace
            if self.live.wait_until_empty(0.2) or self.recorder.gone:
                return
            if self._recorded.is_set():  # the recorder has broken
                self.recorder.leave_to_spool()

    def _may_let_finish(self) -> bool:
        return self._end in (None, SessionEnd.REFUSED) and self._asked_to_stop < 2

    def _bury(self) -> None:
        """Wait for the last results; end what a warden that died has left behind, and say it is lost."""
        deadline = time.monotonic() + _LAST_WORDS
        while not self._recorded.wait(0.05) and time.monotonic() < deadline:
            if self._end is SessionEnd.BROKEN:
                return
        gone = self.recorder.gone
        if gone is None or gone.exit_status == 0:
            return
        log.error("the warden died (%d) with %d runs under way", gone.exit_status, len(gone.unknown))
        # Also when none was: what finished runs left in the background has lost its warden too.
        kill_descendants(os.getpid(), grace=self._settings.kill_grace)
        if gone.unknown:
            self._record_lost(gone.unknown)

    def _record_lost(self, run_ids: tuple[int, ...]) -> None:
        try:
            with self._database.write() as connection:
                now = self._database.now(connection)
                lost = [RunResult(run_id, RunState.LOST, now, "its warden died") for run_id in run_ids]
                finishing.finish(connection, self._database, self.node_id, lost, now)
            self.live.remove(run_ids)
        except DatabaseError as error:
            log.error("not recorded, left to the lease: %s", error)

    def _sign_off(self) -> None:
        try:
            with self._database.write() as connection:
                reaping.sign_off(connection, self._database, self.node_id, self._database.now(connection))
        except DatabaseError as error:
            log.error("could not sign off, the lease will run out: %s", error)
        except Exception as error:
            if self._outgrown is None:
                raise
            log.error("could not sign off from newer tables, the lease will run out: %s", unexpected(error))

    def _set_deadline(self, moment: float) -> None:
        self.warden.set_deadline(moment, grace=self._settings.margin / 2)


def _warden(settings: AgentSettings, node_id: str) -> Warden:
    """Start the warden. Raises Refused when there is no room for its spool."""
    try:
        return Warden(settings.spool, node_id, isolate=settings.isolate)
    except OSError as error:
        if error.filename is None:  # it is not about the spool
            raise
        raise Refused(
            f"the spool {settings.spool} cannot be written: {error.strerror};"
            " name another directory with $DCRON_SPOOL, or as `spool` of [agent] in the config file"
        ) from None
