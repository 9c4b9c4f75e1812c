"""A node that runs step by step: a fixed clock, a crontab, and no threads."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Executable, event

from dcron.agent.admission import Admission
from dcron.agent.dispatcher import Dispatcher
from dcron.agent.heartbeat import Heartbeat
from dcron.agent.lease import Lease
from dcron.agent.maintenance import Maintenance
from dcron.agent.node_context import NodeContext
from dcron.agent.notifier import Notifier
from dcron.agent.receiver import Receiver
from dcron.agent.recorder import Recorder
from dcron.agent.rollback_detection import Memory, RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import AgentSettings
from dcron.agent.upkeep import Upkeep
from dcron.database import Database
from dcron.model import Definition, Run, RunState, Task
from dcron.services.crontab import Crontab
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.values.lists import RunFilter
from dcron.warden.client import Event, Finished, Job, Warden
from dcron.warden.journal import JournalReader, Result
from tests.support.definitions import node_row

NINE = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


class StandingClock:
    """The database's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = NINE
        self.ahead = timedelta()
        """By how much it is wrong."""

    def __call__(self) -> datetime:
        return self.now + self.ahead

    def boottime(self) -> float:
        """Seconds of a clock that is never wrong."""
        return self.now.timestamp()

    def forward(self, **duration: float) -> None:
        self.now += timedelta(**duration)


class SilentJournal:
    """The journal of a command without output."""

    def read(self, _limit: int) -> list[bytes]:
        return []

    def close(self) -> None:
        pass


class HandWarden:
    """Reports the ends that a test asks for."""

    def __init__(self) -> None:
        self.reports: list[Event] = []
        self.forgotten: list[int] = []
        self.launched: list[Job] = []
        self.killed: list[int] = []
        self.fenced: list[int] = []
        """Runs that were killed without a grace."""

    def start(self, jobs: Iterable[Job]) -> None:
        self.launched.extend(jobs)

    def kill(self, run_ids: Iterable[int], reason: str = "cancelled", grace: float | None = None) -> None:
        assert (reason, grace) in (("cancelled", None), ("lease", 0.0))
        (self.killed if grace is None else self.fenced).extend(run_ids)

    def end(self, run_id: int, exit_code: int = 0) -> None:
        """Let the command of a run end."""
        at = NINE.timestamp()
        result = Result(run_id, "", exit_code, None, None, None, at, at, 0.0, None, 0, 0)
        self.reports.append(Finished(run_id, result))

    def events(self, _timeout: float | None) -> list[Event]:
        events, self.reports = self.reports, []
        return events

    def journal(self, _run_id: int, _after: int = 0) -> JournalReader:
        return cast("JournalReader", SilentJournal())

    def forget(self, run_id: int) -> None:
        self.forgotten.append(run_id)


class WatchedDispatcher(Dispatcher):
    """Hears of every commit but those of its own steps, as from a watch."""

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self._is_stepping = False
        event.listen(node.database.engine, "commit", self._changed)

    def step(self) -> float:
        self._is_stepping = True
        try:
            return super().step()
        finally:
            self._is_stepping = False

    def _changed(self, _: object) -> None:
        if not self._is_stepping:
            self.look_again()


class HandNode:
    """One agent's dispatcher and heartbeat on a real database; commands are collected instead of started."""

    def __init__(
        self,
        database: Database,
        name: str,
        slots: int = 4,
        lease: float = 60,
        memory: Memory | None = None,
        capacity: Mapping[str, float] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.settings = AgentSettings(
            name=name, spool=Path("/nowhere"), slots=slots, lease=lease, capacity=capacity or {}
        )
        self.id = self.settings.new_node_id()
        self.has_policy = admission is not None
        self.database = database
        self.time = 0.0
        """Seconds, for how long slots are taken."""
        self.active_runs = ActiveRuns(slots, lambda: self.time)
        self.deadlines: list[float] = []
        self.doubts: list[bool] = []
        self.memory = memory or Memory()
        self.rollback_detector = RollbackDetector(
            database, self.id, self.memory, lambda: self.doubts.append(True)
        )
        self.lease = Lease(
            self.id, self.settings, self.rollback_detector, self.deadlines.append, self._boottime
        )
        self.warden = HandWarden()
        self.launched, self.killed, self.fenced = self.warden.launched, self.warden.killed, self.warden.fenced
        self.context = NodeContext(
            id=self.id,
            database=database,
            settings=self.settings,
            warden=cast("Warden", self.warden),
            lease=self.lease,
            rollback_detector=self.rollback_detector,
            active_runs=self.active_runs,
            admission=admission or Admission(None, self.settings.account, name),
        )
        self.counters = self.context.counters
        self.dispatcher: Dispatcher = WatchedDispatcher(self.context)
        self.maintenance = Maintenance(database, self.id)
        notifier = Notifier(database, self.id)
        self.heartbeat = Heartbeat(
            self.context, Upkeep(self.context, self.dispatcher, self.maintenance, notifier)
        )
        self.receiver = Receiver(self.context)
        self.recorder = Recorder(self.context, self.receiver, self.dispatcher)

    def _boottime(self) -> float:
        with self.database.read() as connection:
            return self.database.now(connection).timestamp()

    def register(self, *, reboot: bool = False) -> "HandNode":
        with self.database.write() as connection:
            now = self.database.now(connection)
            self.rollback_detector.opened(connection, now)
            facts: dict[str, Any] = {
                "id": self.id,
                "host": "host",
                "slots": self.settings.slots,
                "lease": self.settings.lease,
            }
            if self.has_policy:
                facts |= {"account": "root", "uid": 0, "any_account": True}
            nodes.register(connection, node_row(self.settings.name, now, self.settings.lease, **facts))
            if reboot:
                planning.add_reboot_runs(connection, self.id, now)
        self.rollback_detector.settled(0)
        return self

    def dispatch(self) -> list[int]:
        """Step until there is nothing to do; the runs that were launched."""
        before = len(self.launched)
        for _ in range(20):
            if self.dispatcher.step() > 0:
                break
        return [job.run_id for job in self.launched[before:]]

    def end(self, *run_ids: int) -> None:
        """Let these commands end. Nothing is recorded before the next step of `recorder`."""
        for run_id in run_ids:
            self.warden.end(run_id)
        self.receiver.receive(0.0)

    def finish(self, run_ids: Sequence[int], state: RunState = RunState.SUCCEEDED) -> set[int]:
        with self.database.write() as connection:
            now = self.database.now(connection)
            ended = [RunResult(run_id, state, now, exit_code=0) for run_id in run_ids]
            recorded = finishing.finish(connection, self.database, self.id, ended, now)
        self.active_runs.remove(run_ids)
        return recorded


class World:
    """A crontab, its clock, and as many nodes as a test wants."""

    def __init__(self, database: Database, clock: StandingClock) -> None:
        self.database = database
        self.clock = clock
        self.crontab = Crontab(database, "tester@here")

    def add(self, name: str, schedule: str = "* * * * *", **fields: Any) -> Task:
        line = {"name": name, "schedule": schedule, "timezone": "UTC", "command": "true", **fields}
        return self.crontab.add(Definition(**line))

    def node(self, name: str = "web-1", **settings: Any) -> HandNode:
        return HandNode(self.database, name, **settings).register()

    def execute(self, statement: Executable, *values: Any) -> None:
        """Execute a statement in a transaction of its own."""
        with self.database.write() as connection:
            connection.execute(statement, *values)

    def watch(self, node: HandNode, seconds: int) -> None:
        """Let this time pass while the node renews its lease and watches those of others."""
        for _ in range(seconds // 10):
            self.clock.forward(seconds=10)
            node.heartbeat.step()
        self.clock.forward(seconds=seconds % 10)
        node.heartbeat.step()

    def runs(self, *states: RunState) -> list[Run]:
        """The runs in these states, the oldest first; all without states."""
        return self.crontab.runs(RunFilter(states=states or None), limit=1000)[::-1]

    def run(self, run_id: int) -> Run:
        return self.crontab.find_run(run_id)
