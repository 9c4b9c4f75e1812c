"""The life of one node: register, run the loops, shut down, sign off."""

import math
import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from dcron import __version__
from dcron.agent.admission import Admission
from dcron.agent.counters import Counters, LoopStatus
from dcron.agent.dispatcher import Dispatcher
from dcron.agent.ending import Ending, SessionEnd
from dcron.agent.heartbeat import Heartbeat
from dcron.agent.lease import Lease
from dcron.agent.log import log
from dcron.agent.loops import run_loop
from dcron.agent.maintenance import Maintenance
from dcron.agent.node_context import NodeContext
from dcron.agent.notifier import Notifier
from dcron.agent.pings import ClusterPings, PingQueue
from dcron.agent.receiver import Receiver
from dcron.agent.recorder import Recorder
from dcron.agent.rollback_detection import Memory, RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import POLL_INTERVAL, AgentSettings
from dcron.agent.spool import deliver_abandoned
from dcron.agent.upkeep import Upkeep
from dcron.config import trust
from dcron.config.files import host_name
from dcron.database import Database
from dcron.errors import (
    Refused,
    WardenFailed,
)
from dcron.model import Node
from dcron.presentation.humanize import plural
from dcron.schedule.zones import tzdata_fingerprint, tzdata_version
from dcron.store import maintenance
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.retention import history as past
from dcron.store.retention.walk import CLOCK_WAIT, pruning
from dcron.store.tasks import rows as tasks
from dcron.warden.client import Warden
from dcron.warden.descendants import kill_descendants

_SHUTDOWN_PATIENCE = 10.0
"""Seconds a stopping agent tries to reach the database. After that the spool keeps its results."""
_POOLED = (
    "the database is behind a connection pooler (PgBouncer or the like): this agent keeps nothing in its"
    " sessions, looks every second instead of listening, and plans each statement; a direct address is"
    " faster, and so is ?pooler=session in the URL if the pool keeps sessions"
)


class NodeSession:
    """One node: its id, its lease, its warden, and the loops that use them."""

    def __init__(
        self,
        database: Database,
        settings: AgentSettings,
        counters: Counters,
        admission: Admission,
        *,
        once: bool = False,
    ) -> None:
        """Start the warden. The node is not in the database before `open`.

        With `once`, the session runs what is due and ends.
        """
        self._once = once
        self._settings = settings
        self.is_registered = False
        """Whether the database has the node."""
        self._stop = threading.Event()
        self._recorded = threading.Event()
        self._draining = False
        self._threads: list[threading.Thread] = []
        self._reported: set[Path] = set()
        self._cluster_pings = PingQueue()  # what tasks ping cannot hold up the dead man's switch
        self.node = node = _node(database, settings, counters, admission)
        self._database = database
        self.dispatcher = Dispatcher(node, is_single_pass=once)
        self.ending = Ending(node, self.dispatcher)
        on_watched = ClusterPings(settings.ping, self._cluster_pings).healthy
        self.maintenance = Maintenance(database, node.id, counters=counters, on_watched=on_watched)
        channels = () if once else settings.channels  # one pass does not wait for channels
        self.notifier = Notifier(database, node.id, channels, strict=os.geteuid() == trust.ROOT)
        # One pass is too short to watch other leases: it trusts the clock.
        upkeep = Upkeep(node, self.dispatcher, self.maintenance, self.notifier, watches_leases=not once)
        self.heartbeat = Heartbeat(node, upkeep)
        self.receiver = Receiver(node)
        self.recorder = Recorder(node, self.receiver, self.dispatcher)

    def open(self, *, reboot: bool) -> None:
        """Register the node with its first lease. With `reboot`, add the runs of its `@reboot` tasks.

        Raises: DatabaseError.
        """
        node = self.node
        with self._database.write() as connection:
            node.rollback_detector.opened(connection, self._database.now(connection))
        node.rollback_detector.settled(0)
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        with self._database.write() as connection:
            now = self._database.now(connection)
            nodes.register(connection, _row(node, now, self.notifier.names))
            tasks.replan_older_zones(connection, tzdata_version())
            maintenance.add_missing(connection, self._database, self.maintenance.names, now)
            begins_at = pruning(connection, now).begins_at
            if begins_at and not past.has_ended(connection, past.EARLIEST, now - CLOCK_WAIT, None):
                begins_at = None  # a new crontab has no old history
            if reboot:
                planning.add_reboot_runs(connection, node.id, now)
        self._beat()
        self.maintenance.watch_first(self._stop)
        self.is_registered = True
        if begins_at:
            log.warning(
                "old history is pruned from %s on: `dcron prune --dry-run` shows what goes, `dcron config set"
                " keep.runs none` keeps it",
                f"{begins_at:%Y-%m-%dT%H:%M:%SZ}",
            )
        if self._database.pooler == "detected":
            log.info(_POOLED, event="pooler")
        log.info(
            "node %s: %d slots, lease %gs",
            *(node.id, self._settings.slots, self._settings.lease),
            event="node-registered",
        )

    def abandon(self) -> None:
        """Stop the warden of a session that could not be opened."""
        self.node.warden.stop(0.0)
        self.node.warden.close()

    def serve(self) -> SessionEnd:
        """Run the loops until the node is stopped or ends for another reason; return why."""
        if self._once:
            return self._serve_once()
        counters, stop = self.node.counters, self._stop
        self._run_vital()
        self._run(self._watch, LoopStatus("watch"))
        self._run(lambda: self.maintenance.run(stop), counters.maintenance)
        self._run(lambda: self.maintenance.run(stop, quick=True), counters.quick_maintenance)
        if self.notifier.names:
            self._run(lambda: self.notifier.run(stop), LoopStatus("notifier"))
        self._run(self._dispatch, counters.dispatcher)
        while self.ending.is_serving:
            self.ending.attention.wait()
            self.ending.attention.clear()
        return self._shut_down()

    def _serve_once(self) -> SessionEnd:
        """Run what is due, wait until it has ended, and stop."""
        self._run_vital()
        self.ending.guarded(self._run_one_pass)
        self.dispatcher.closed = True
        while self.ending.is_serving and not self.node.active_runs.wait_until_empty(0.5):
            pass
        return self._shut_down()

    def _run_one_pass(self) -> None:
        """Start what is due, including runs that the dispatcher holds up for a while."""
        while self.ending.is_serving:
            pause = self.dispatcher.step()
            if pause > 0:
                if not self.dispatcher.is_held_up:
                    break
                self.node.wake_dispatcher.wait(min(1.0, pause))
                self.node.wake_dispatcher.clear()

    def why_not_ready(self) -> str | None:
        """Return why this node takes no runs now; None if it takes some."""
        if not self.is_registered:
            return "it is not registered"
        if not self.ending.is_serving:
            return "it stops"
        if self.node.lease.left <= 0:
            return "its lease is over"
        return "it drains" if self.node.lease.draining else None

    # The loops --------------------------------------------------------------------------------------

    def _run(self, loop: Callable[[], None], status: LoopStatus) -> None:
        def run() -> None:
            self.ending.guarded(loop)
            status.ends()

        thread = threading.Thread(target=run, name=f"dcron-{status.name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_vital(self) -> None:
        """Run the loops that the runs of a node need until they end."""
        counters = self.node.counters
        self._run(self._keep_beating, counters.heartbeat)
        self._run(lambda: self.receiver.run(self._stop), counters.receiver)
        self._run(self._keep_recording, counters.recorder)

    def _dispatch(self) -> None:
        node, step = self.node, self.dispatcher.step
        run_loop(node.counters.dispatcher, step, node.wake_dispatcher, self._stop, POLL_INTERVAL)

    def _keep_beating(self) -> None:
        status, wake, beat = self.node.counters.heartbeat, self.node.wake_heartbeat, self._settings.beat
        status.pauses(beat)
        wake.wait(beat)  # `open` did the first heartbeat
        # A connection that became silent must not use up the lease: a new one may work.
        with self._database.answering_within(self._settings.lease / 4):
            run_loop(status, self._beat_and_deliver, wake, self._stop, beat / 2)

    def _beat_and_deliver(self) -> float:
        self.node.warden.reap_other_children(self.notifier.children)
        pause = self._beat()
        deliver_abandoned(self._database, self._settings.spool, self._reported)
        return pause

    def _beat(self) -> float:
        pause, lease = self.heartbeat.step(), self.node.lease
        if lease.has_other_tables:
            self.ending.require_version(lease.tables)
        elif lease.draining != self._draining:
            self._report_draining(lease.draining)
        return pause

    def _report_draining(self, draining: bool) -> None:
        self._draining = draining
        what = "drains: it takes no new runs" if draining else "no longer drains: it takes runs again"
        event = "node-draining" if draining else "node-undrained"
        log.warning("node %s %s", self.node.id, what, event=event)
        self.node.wake_dispatcher.set()

    def _keep_recording(self) -> None:
        try:
            run_loop(
                self.node.counters.recorder, self._record, threading.Event(), self._recorded, POLL_INTERVAL
            )
        finally:
            self._recorded.set()  # also after an error: no thread may wait for a recorder that is gone

    def _record(self) -> float:
        pause = self.recorder.step()
        if self.recorder.gone:
            if self.recorder.is_settled:
                self._recorded.set()
            self.ending.note(SessionEnd.WARDEN_GONE)
        return pause

    def _watch(self) -> None:
        """Wake the dispatcher when another process changes the database.

        The watch is only a hint: after an error, wait and reconnect.
        """
        watch = self._database.watch()
        try:
            while not self._stop.is_set():
                try:
                    if watch.wait(self._stop):
                        self.dispatcher.look_again()
                        self.node.wake_dispatcher.set()
                except Exception as error:  # whatever the driver raises: the dispatcher still polls
                    log.debug("watch: %s", error)
                    watch.close()
                    self._stop.wait(POLL_INTERVAL)
        finally:
            watch.close()

    # The end ----------------------------------------------------------------------------------------

    def _shut_down(self) -> SessionEnd:
        node, warden = self.node, self.node.warden
        self.dispatcher.closed = True
        node.wake_dispatcher.set()  # it releases the claims that it holds
        self._await_started()
        if self.ending.awaits_running:
            self._await_running()
        end = self.ending.conclude()
        kill_grace = self._settings.kill_grace
        warden.stop(kill_grace if self.ending.is_patient else min(1.0, kill_grace))
        self._await_last_results()
        self._stop.set()
        for wake in (node.wake_dispatcher, node.wake_heartbeat, self._recorded):
            wake.set()
        for part in (self.receiver, self.maintenance, self.notifier, warden):
            part.wake()
        for thread in self._threads:
            thread.join(_SHUTDOWN_PATIENCE)
        is_settled = end is not SessionEnd.REPLACED and self.ending.sign_off()
        node.rollback_detector.save()
        warden.close(is_settled=is_settled)
        node.pings.queue.close()
        self._cluster_pings.close()
        log.info("node %s ended: %s", node.id, plural(node.active_runs.started, "run"), event="node-ended")
        return end

    def _await_started(self) -> None:
        """Let the dispatcher begin the runs whose start it is committing: they would be lost otherwise."""
        deadline = time.monotonic() + _SHUTDOWN_PATIENCE
        while self.ending.awaits_running and not self.dispatcher.wait_for_step(0.1):
            if time.monotonic() > deadline:
                return

    def _await_running(self) -> None:
        """Let active runs end by themselves: for the grace, or without limit if the tables were upgraded."""
        grace = (
            math.inf if self.ending.version_error and not self.ending.stop_requests else self._settings.grace
        )
        if self.node.active_runs.any() and grace < math.inf:
            log.info(
                "node %s stops when what it runs has ended, or in %gs",
                *(self.node.id, grace),
                event="node-stopping",
            )
        deadline = time.monotonic() + grace
        while self.ending.awaits_running and time.monotonic() < deadline:
            if self.ending.stop_requests and deadline == math.inf:
                deadline = time.monotonic() + self._settings.grace
            if self.node.active_runs.wait_until_empty(0.2) or self.recorder.gone:
                return
            if self._recorded.is_set():  # the recorder broke
                self.recorder.leave_to_spool()

    def _await_last_results(self) -> None:
        """Wait for the last results. If the warden died, kill what it left and record its runs as lost."""
        deadline = time.monotonic() + _SHUTDOWN_PATIENCE
        while not self._recorded.wait(0.05) and time.monotonic() < deadline:
            if self.ending.end is SessionEnd.BROKEN:
                return
        gone = self.recorder.gone
        if gone is None or gone.exit_status == 0:
            return
        log.error(
            "the warden died (%d) with %d runs under way",
            *(gone.exit_status, len(gone.unknown)),
            event="warden-died",
        )
        # Even if no run was active: background processes of finished runs have lost their warden, too.
        kill_descendants(os.getpid(), grace=self._settings.kill_grace)
        if gone.unknown:
            self.ending.record_lost(gone.unknown)


def _node(
    database: Database, settings: AgentSettings, counters: Counters, admission: Admission
) -> NodeContext:
    """Return a new node, with its warden."""
    node_id, wake_heartbeat = settings.new_node_id(), threading.Event()
    warden = _warden(settings, node_id)
    memory = Memory.of(settings.spool, str(database.address))
    detector = RollbackDetector(database, node_id, memory, wake_heartbeat.set, settings.lease)
    return NodeContext(
        id=node_id,
        database=database,
        settings=settings,
        warden=warden,
        lease=Lease(node_id, settings, detector, partial(warden.set_deadline, grace=settings.margin / 2)),
        rollback_detector=detector,
        active_runs=ActiveRuns(settings.slots),
        admission=admission,
        counters=counters,
        wake_heartbeat=wake_heartbeat,
    )


def _row(node: NodeContext, now: datetime, channels: tuple[str, ...]) -> Node:
    settings = node.settings
    return Node(
        id=node.id,
        accepted_accounts=node.admission.accounts,
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
        channels=channels,
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
