"""The life of one node: register, run the loops, shut down, sign off."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path

from dcron import __version__, migrations
from dcron.agent.counters import Counters, LoopStatus
from dcron.agent.dispatcher import Dispatcher
from dcron.agent.heartbeat import Heartbeat
from dcron.agent.lease import Fenced, Lease, OtherLeases
from dcron.agent.loops import run_loop
from dcron.agent.maintenance import Maintenance
from dcron.agent.notifier import Notifier
from dcron.agent.pings import ClusterPings, PingQueue, RunPings
from dcron.agent.receiver import Receiver
from dcron.agent.reconciliation import Reconciler
from dcron.agent.recorder import Recorder
from dcron.agent.rollback_detection import Memory, RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import POLL_INTERVAL, AgentSettings
from dcron.agent.spool import deliver_abandoned
from dcron.config import trust
from dcron.config.files import host_name
from dcron.database import Database
from dcron.errors import (
    DatabaseError,
    DatabaseReplaced,
    Refused,
    SchemaVersionError,
    WardenFailed,
    unexpected,
)
from dcron.model import Node, RunState
from dcron.presentation.humanize import plural
from dcron.schedule.zones import tzdata_fingerprint, tzdata_version
from dcron.schema.tables import SCHEMA_VERSION
from dcron.store import maintenance
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.retention import history as past
from dcron.store.retention.walk import CLOCK_WAIT, pruning
from dcron.store.tasks import rows as tasks
from dcron.store.upkeep import reaping
from dcron.warden.client import Warden
from dcron.warden.descendants import kill_descendants

log = logging.getLogger("dcron.agent")

_SHUTDOWN_PATIENCE = 10.0
"""Seconds a stopping agent tries to reach the database. After that the spool keeps its results."""
_POOLED = (
    "the database is behind a connection pooler (PgBouncer or the like): this agent keeps nothing in its"
    " sessions, looks every second instead of listening, and plans each statement; a direct address is"
    " faster, and so is ?pooler=session in the URL if the pool keeps sessions"
)


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


class NodeSession:
    """One node: its id, its lease, its warden, and the loops that use them."""

    def __init__(
        self, database: Database, settings: AgentSettings, counters: Counters, *, once: bool = False
    ) -> None:
        """Start the warden. The node is not in the database before `open`.

        With `once`, the session runs what is due and ends.
        """
        self._once = once
        self._database = database
        self._settings = settings
        self._counters = counters
        self.node_id = settings.new_node_id()
        self.active_runs = ActiveRuns(settings.slots)
        self.error: BaseException | None = None
        """What the agent ends with if the end is BROKEN, REFUSED or OTHER_TABLES."""
        self._end: SessionEnd | None = None
        self._version_error: SchemaVersionError | None = None
        self._stop = threading.Event()
        self._wake_dispatcher = threading.Event()
        self._wake_heartbeat = threading.Event()
        self._recorded = threading.Event()
        self._attention = threading.Event()
        self._stop_requests = 0
        self._draining = False
        self.is_registered = False
        """Whether the database has the node."""
        self._threads: list[threading.Thread] = []
        self._reported: set[Path] = set()
        self.warden = _warden(settings, self.node_id)
        self._pings = PingQueue()
        self._run_pings = RunPings(self._pings)
        self._cluster_pings = PingQueue()  # what tasks ping cannot hold up the dead man's switch
        self._make_loops(database, settings)

    def _make_loops(self, database: Database, settings: AgentSettings) -> None:
        memory = Memory.of(settings.spool, str(database.address))
        self._rollback_detector = RollbackDetector(
            database, self.node_id, memory, self._wake_heartbeat.set, settings.lease
        )
        lease = self.lease = Lease(self.node_id, settings, self._rollback_detector, self._set_deadline)
        launch, kill = self.warden.start, self.warden.kill
        self.dispatcher = Dispatcher(
            database,
            settings,
            self.node_id,
            lease,
            self._rollback_detector,
            self.active_runs,
            launch,
            kill,
            self._counters,
            self._run_pings,
            self._wake_heartbeat.set,
        )
        reconciler = Reconciler(
            database,
            self.node_id,
            self.active_runs,
            lambda: self.dispatcher.starting,
            kill,
            lambda run_ids: self.warden.kill(run_ids, "lease", grace=0.0),
        )
        # One pass is too short to watch other leases: it trusts the clock.
        others = OtherLeases(patience=0 if self._once else 2 * settings.beat)
        on_drain, on_version = self.drain, self._require_version
        cluster_pings = ClusterPings(settings.ping, self._cluster_pings)
        self.maintenance = Maintenance(
            database, self.node_id, counters=self._counters, on_watched=cluster_pings.healthy
        )
        # One pass does not wait for channels.
        channels = () if self._once else settings.channels
        strict = os.geteuid() == trust.ROOT
        self.notifier = Notifier(database, self.node_id, channels, strict=strict)
        self.heartbeat = Heartbeat(
            database,
            self.node_id,
            lease,
            others,
            self._rollback_detector,
            reconciler,
            settings.beat,
            on_drain,
            on_version,
            self.maintenance,
            self._counters,
            self.notifier,
            lambda given: setattr(self.dispatcher, "on_disconnect", given),
            lambda: self.dispatcher.has_kept_work,
        )
        on_change = self._wake_dispatcher.set
        self.receiver = Receiver(self.warden, self.active_runs, on_change)
        self.recorder = Recorder(
            database,
            self.node_id,
            self.active_runs,
            self.warden,
            self.receiver,
            on_change,
            lambda: self.dispatcher.is_busy,
            self._counters,
            self._run_pings,
        )

    def open(self, *, reboot: bool) -> None:
        """Register the node with its first lease. With `reboot`, add the runs of its `@reboot` tasks.

        Raises: DatabaseError.
        """
        with self._database.write() as connection:
            self._rollback_detector.opened(connection, self._database.now(connection))
        self._rollback_detector.settled(0)
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        with self._database.write() as connection:
            now = self._database.now(connection)
            node = replace(_node(self.node_id, self._settings, now), channels=self.notifier.names)
            nodes.register(connection, node)
            tasks.replan_older_zones(connection, tzdata_version())
            maintenance.add_missing(connection, self._database, self.maintenance.names, now)
            begins_at = pruning(connection, now).begins_at
            if begins_at and not past.has_ended(connection, past.EARLIEST, now - CLOCK_WAIT, None):
                begins_at = None  # a new crontab has no old history
            if reboot:
                planning.add_reboot_runs(connection, self.node_id, now)
        self.heartbeat.step()
        self.maintenance.watch_first(self._stop)
        self.is_registered = True
        if begins_at:
            log.warning(
                "old history is pruned from %s on: `dcron prune --dry-run` shows what goes, `dcron config set"
                " keep.runs none` keeps it",
                f"{begins_at:%Y-%m-%dT%H:%M:%SZ}",
            )
        if self._database.pooler == "detected":
            log.info(_POOLED, extra={"event": "pooler"})
        log.info(
            "node %s: %d slots, lease %gs",
            *(self.node_id, self._settings.slots, self._settings.lease),
            extra={"event": "node-registered"},
        )

    def abandon(self) -> None:
        """Stop the warden of a session that could not be opened."""
        self.warden.stop(0.0)
        self.warden.close()

    def serve(self) -> SessionEnd:
        """Run the loops until the node is stopped or ends for another reason; return why."""
        if self._once:
            return self._serve_once()
        self._run(self._run_heartbeat, self._counters.heartbeat)
        self._run(self._run_receiver, self._counters.receiver)
        self._run(self._run_recorder, self._counters.recorder)
        self._run(self._run_watch, LoopStatus("watch"))
        self._run(self._run_maintenance, self._counters.maintenance)
        self._run(self._run_quick_maintenance, self._counters.quick_maintenance)
        if self.notifier.names:
            self._run(self._run_notifier, LoopStatus("notifier"))
        self._run(self._run_dispatcher, self._counters.dispatcher)
        while self._is_serving():
            self._attention.wait()
            self._attention.clear()
        return self._shut_down()

    def _serve_once(self) -> SessionEnd:
        """Run what is due, wait until it has ended, and stop."""
        self._run(self._run_heartbeat, self._counters.heartbeat)
        self._run(self._run_receiver, self._counters.receiver)
        self._run(self._run_recorder, self._counters.recorder)
        self._guarded(self._run_one_pass)
        self.dispatcher.closed = True
        while self._is_serving() and not self.active_runs.wait_until_empty(0.5):
            pass
        return self._shut_down()

    def _run_one_pass(self) -> None:
        """Start what is due, including runs that the dispatcher holds up for a while."""
        self.dispatcher.is_single_pass = True
        while self._is_serving():
            pause = self.dispatcher.step()
            if pause > 0:
                if not self.dispatcher.is_held_up:
                    break
                self._wake_dispatcher.wait(min(1.0, pause))
                self._wake_dispatcher.clear()

    def _is_serving(self) -> bool:
        return not self._stop_requests and self._end is None and self._version_error is None

    def why_not_ready(self) -> str | None:
        """Return why this node takes no runs now; None if it takes some."""
        if not self.is_registered:
            return "it is not registered"
        if not self._is_serving():
            return "it stops"
        if self.lease.left <= 0:
            return "its lease is over"
        return "it drains" if self.dispatcher.draining else None

    def request_stop(self) -> None:
        """Drain and stop. A second call stops at once."""
        self._stop_requests += 1
        self._attention.set()

    def drain(self, draining: bool) -> None:
        """Start nothing new while `draining` is true; active runs continue."""
        self.dispatcher.draining = draining
        if draining == self._draining:
            return
        self._draining = draining
        what = "drains: it takes no new runs" if draining else "no longer drains: it takes runs again"
        event = "node-draining" if draining else "node-undrained"
        log.warning("node %s %s", self.node_id, what, extra={"event": event})
        self._wake_dispatcher.set()

    # The loops --------------------------------------------------------------------------------------

    def _run_dispatcher(self) -> None:
        status, step = self._counters.dispatcher, self.dispatcher.step
        run_loop(status, step, self._wake_dispatcher, self._stop, longest_pause=POLL_INTERVAL)

    def _run_heartbeat(self) -> None:
        status, longest_pause = self._counters.heartbeat, self._settings.beat / 2
        status.pauses(self._settings.beat)
        self._wake_heartbeat.wait(self._settings.beat)  # `open` did the first heartbeat
        # A connection that became silent must not use up the lease: a new one may work.
        with self._database.answering_within(self._settings.lease / 4):
            run_loop(status, self._beat, self._wake_heartbeat, self._stop, longest_pause)

    def _beat(self) -> float:
        self.warden.reap_other_children(self.notifier.children)
        pause = self.heartbeat.step()
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        return pause

    def _run_receiver(self) -> None:
        self.receiver.run(self._stop, self._counters.receiver)

    def _run_recorder(self) -> None:
        try:
            status, wake = self._counters.recorder, threading.Event()
            run_loop(status, self._record, wake, self._recorded, longest_pause=POLL_INTERVAL)
        finally:
            self._recorded.set()  # also after an error: no thread may wait for a recorder that is gone

    def _record(self) -> float:
        pause = self.recorder.step()
        if self.recorder.gone:
            if self.recorder.is_settled:
                self._recorded.set()
            self._ended(SessionEnd.WARDEN_GONE)
        return pause

    def _run_maintenance(self) -> None:
        self.maintenance.run(self._stop)

    def _run_quick_maintenance(self) -> None:
        self.maintenance.run(self._stop, quick=True)

    def _run_notifier(self) -> None:
        self.notifier.run(self._stop)

    def _run_watch(self) -> None:
        """Wake the dispatcher when another process changes the database.

        The watch is only a hint: after an error, wait and reconnect.
        """
        watch = self._database.watch()
        try:
            while not self._stop.is_set():
                try:
                    if watch.wait(self._stop):
                        self.dispatcher.look_again()
                        self._wake_dispatcher.set()
                except Exception as error:  # whatever the driver raises: the dispatcher still polls
                    log.debug("watch: %s", error)
                    watch.close()
                    self._stop.wait(POLL_INTERVAL)
        finally:
            watch.close()

    # The end ----------------------------------------------------------------------------------------

    def _run(self, loop: Callable[[], None], status: LoopStatus) -> None:
        def run() -> None:
            self._guarded(loop)
            status.ends()

        thread = threading.Thread(target=run, name=f"dcron-{status.name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except Fenced as error:
            if self._end is None:
                log.warning(
                    "node %s %s; what it still runs is stopped",
                    *(self.node_id, error),
                    extra={"event": "node-fenced"},
                )
            self._ended(SessionEnd.FENCED)
        except DatabaseReplaced as error:
            if self._end is None:
                log.warning(
                    "node %s has lost its database: %s",
                    *(self.node_id, error),
                    extra={"event": "database-replaced"},
                )
            self._ended(SessionEnd.REPLACED)
        except BaseException as error:  # without this loop the node must not go on
            self._on_error(error)

    def _on_error(self, error: BaseException) -> None:
        """End the node, unless the error only shows that the tables now have another version."""
        try:
            self._require_version(migrations.current_version(self._database))
        except DatabaseError as also:
            log.debug("the version of the tables: %s", also)
        if self._version_error is None:
            self.error = error
            self._ended(SessionEnd.REFUSED if isinstance(error, DatabaseError) else SessionEnd.BROKEN)

    def _require_version(self, version: str | None) -> None:
        """If the tables have another version, start nothing new and stop once the active runs have ended."""
        try:
            migrations.require_version(self._database, version or SCHEMA_VERSION)
        except SchemaVersionError as error:
            if self._version_error is None:
                log.warning(
                    "node %s takes no new runs and stops when what it runs has ended: %s",
                    *(self.node_id, error),
                    extra={"event": "tables-changed"},
                )
            self._version_error = error
            self.dispatcher.closed = True
            self._wake_dispatcher.set()
            self._attention.set()

    def _ended(self, end: SessionEnd) -> None:
        self._end = self._end or end
        self._attention.set()

    def _shut_down(self) -> SessionEnd:
        self.dispatcher.closed = True
        self._wake_dispatcher.set()  # it releases the claims that it holds
        self._await_started()
        if self._may_await_running():
            self._await_running()
        if self._version_error and self._end is None:
            self._end = SessionEnd.OTHER_TABLES
            self.error = None if self._stop_requests else self._version_error
        end = self._end or SessionEnd.STOPPED
        patient = end in _GRACEFUL_ENDS and self._stop_requests < 2
        self.warden.stop(self._settings.kill_grace if patient else min(1.0, self._settings.kill_grace))
        self._await_last_results()
        self._stop.set()
        for wake in (self._wake_dispatcher, self._wake_heartbeat, self._recorded):
            wake.set()
        self.receiver.wake()
        self.maintenance.wake()
        self.notifier.wake()
        self.warden.wake()
        for thread in self._threads:
            thread.join(_SHUTDOWN_PATIENCE)
        is_settled = end is not SessionEnd.REPLACED and self._sign_off()
        self._rollback_detector.save()
        self.warden.close(is_settled=is_settled)
        self._pings.close()
        self._cluster_pings.close()
        log.info(
            "node %s ended: %s",
            *(self.node_id, plural(self.active_runs.started, "run")),
            extra={"event": "node-ended"},
        )
        return end

    def _await_started(self) -> None:
        """Let the dispatcher begin the runs whose start it is committing: they would be lost otherwise."""
        deadline = time.monotonic() + _SHUTDOWN_PATIENCE
        while self._may_await_running() and not self.dispatcher.wait_for_step(0.1):
            if time.monotonic() > deadline:
                return

    def _await_running(self) -> None:
        """Let active runs end by themselves: for the grace, or without limit if the tables were upgraded."""
        grace = math.inf if self._version_error and not self._stop_requests else self._settings.grace
        if self.active_runs.any() and grace < math.inf:
            log.info(
                "node %s stops when what it runs has ended, or in %gs",
                *(self.node_id, grace),
                extra={"event": "node-stopping"},
            )
        deadline = time.monotonic() + grace
        while self._may_await_running() and time.monotonic() < deadline:
            if self._stop_requests and deadline == math.inf:
                deadline = time.monotonic() + self._settings.grace
            if self.active_runs.wait_until_empty(0.2) or self.recorder.gone:
                return
            if self._recorded.is_set():  # the recorder broke
                self.recorder.leave_to_spool()

    def _may_await_running(self) -> bool:
        return self._end in (None, SessionEnd.REFUSED) and self._stop_requests < 2

    def _await_last_results(self) -> None:
        """Wait for the last results. If the warden died, kill what it left and record its runs as lost."""
        deadline = time.monotonic() + _SHUTDOWN_PATIENCE
        while not self._recorded.wait(0.05) and time.monotonic() < deadline:
            if self._end is SessionEnd.BROKEN:
                return
        gone = self.recorder.gone
        if gone is None or gone.exit_status == 0:
            return
        log.error(
            "the warden died (%d) with %d runs under way",
            *(gone.exit_status, len(gone.unknown)),
            extra={"event": "warden-died"},
        )
        # Even if no run was active: background processes of finished runs have lost their warden, too.
        kill_descendants(os.getpid(), grace=self._settings.kill_grace)
        if gone.unknown:
            self._record_lost(gone.unknown)

    def _record_lost(self, run_ids: tuple[int, ...]) -> None:
        try:
            with self._database.write() as connection:
                now = self._database.now(connection)
                lost = [RunResult(run_id, RunState.LOST, now, "its warden died") for run_id in run_ids]
                recorded = finishing.finish(connection, self._database, self.node_id, lost, now)
            for each in lost:
                if each.id in recorded and (active := self.active_runs.get(each.id)):
                    self._run_pings.ended(active.run, each)
            self.active_runs.remove(run_ids)
        except DatabaseError as error:
            log.error("not recorded, left to the lease: %s", error, extra={"event": "sign-off-failed"})

    def _sign_off(self) -> bool:
        """End the node in the database; return whether that is certain."""
        try:
            with self._database.write() as connection:
                reaping.sign_off(connection, self._database, self.node_id, self._database.now(connection))
            return True
        except DatabaseError as error:
            log.error(
                "could not sign off, the lease will run out: %s", error, extra={"event": "sign-off-failed"}
            )
        except Exception as error:
            if self._version_error is None:
                raise
            log.error(
                "could not sign off from newer tables, the lease will run out: %s",
                unexpected(error),
                extra={"event": "sign-off-failed"},
            )
        return False

    def _set_deadline(self, at: float) -> None:
        self.warden.set_deadline(at, grace=self._settings.margin / 2)


def _node(node_id: str, settings: AgentSettings, now: datetime) -> Node:
    return Node(
        id=node_id,
        name=settings.name,
        host=host_name(),
        pid=os.getpid(),
        slots=settings.slots,
        version=__version__,
        tzdata=tzdata_version(),
        tzdata_fingerprint=tzdata_fingerprint(),
        started_at=now,
        alive_until=now + timedelta(seconds=settings.lease),
        draining=False,
        died_at=None,
        died_how=None,
        clock_offset=None,
        tags=settings.tags,
        queues=settings.queues,
        capacity=settings.capacity,
        lease=settings.lease,
        account=settings.account.name,
        uid=settings.account.uid,
        any_account=settings.account.any_account,
    )


def _warden(settings: AgentSettings, node_id: str) -> Warden:
    """Start the warden. Raises Refused if its spool cannot be written, and WardenFailed."""
    try:
        return Warden(settings.spool, node_id, isolate=settings.isolate)
    except OSError as error:
        if error.filename is None:  # the error does not concern the spool
            raise WardenFailed(str(error)) from error
        raise Refused(
            f"the spool {settings.spool} cannot be written: {error.strerror};"
            " name another directory with $DCRON_SPOOL, or as `spool` of [agent] in the config file"
        ) from None
