"""Simulated nodes on a real database: the agent's dispatcher and heartbeat, and simulated commands."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection

from dcron.agent.admission import Admission
from dcron.agent.dispatcher import Dispatcher
from dcron.agent.heartbeat import Heartbeat
from dcron.agent.lease import Fenced, Lease
from dcron.agent.maintenance import Maintenance
from dcron.agent.node_context import NodeContext
from dcron.agent.notifier import Notifier
from dcron.agent.rollback_detection import Memory, RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import AgentSettings
from dcron.agent.upkeep import Upkeep
from dcron.database import Database
from dcron.database.postgres import PostgresDatabase
from dcron.database.sqlite import SqliteDatabase
from dcron.database.url import parse_url
from dcron.errors import DatabaseError
from dcron.model import RunState
from dcron.store.claims import finishing, unheard
from dcron.store.claims.finishing import RunResult
from dcron.store.nodes import rows as nodes
from dcron.store.upkeep import reaping
from dcron.warden.accounts import Account
from dcron.warden.client import Job, Warden
from tests.support.definitions import node_row

BEGINNING = datetime(2027, 3, 27, 22, 0, tzinfo=UTC)
"""The evening before Europe's clocks go forward."""
LEASE = 60.0
LONGEST_LAG = 5.0
"""Seconds by which a machine's clock falls behind in all: less than the margin of a lease."""
LASTS = (0, 0, 1, 5, 40, 200)
KEPT_LASTS = (5, 120, 400, 1200)
ACCOUNTS = (
    Account("root", 0, any_account=True),
    Account("root", 0, any_account=True),
    Account("deploy", 1001, any_account=False),
    Account("www", 33, any_account=False),
)
"""As whom agents run; of a machine with root, any account but its own may be missing."""


class Time:
    """The only clock there is."""

    def __init__(self) -> None:
        self.now = BEGINNING

    def __call__(self) -> datetime:
        return self.now

    def since_beginning(self) -> float:
        return (self.now - BEGINNING).total_seconds()


class FaultyDatabase(Database):
    """Now and then a transaction is lost, or its answer is."""

    chance: random.Random
    faults = 0.0
    """How likely a writing transaction is to fail."""
    away = False
    """Whether the node that asks now is cut off."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self._require_link()
        with super().read() as connection:
            yield connection

    def _require_link(self) -> None:
        if self.away:
            raise DatabaseError("the node is cut off")

    @contextmanager
    def write(self, *, starts: bool = False, keeps: bool = True) -> Iterator[Connection]:
        self._require_link()
        fate = self.chance.random()
        with super().write(starts=starts, keeps=keeps) as connection:
            yield connection
            if fate < self.faults / 2:
                raise DatabaseError("the connection was cut before the commit")
        if fate < self.faults:
            raise DatabaseError("the connection was cut after the commit")


class FaultyFile(FaultyDatabase, SqliteDatabase):
    """A SQLite file that fails now and then."""


class FaultyServer(FaultyDatabase, PostgresDatabase):
    """A Postgres database that fails now and then."""


def faulty_database(url: str, clock: Time, chance: random.Random) -> FaultyDatabase:
    """Return the database of this URL, made to fail by chance."""
    address = parse_url(url)
    made = FaultyFile(address, clock=clock) if address.path else FaultyServer(address, clock=clock)
    made.chance = chance
    return made


@dataclass
class Start:
    """What a command itself would have written down."""

    run_id: int
    task: str
    scheduled_for: str
    trigger: str
    attempt: int
    flow: str | None
    node: str
    started_at: datetime
    ended_at: datetime | None = None


@dataclass
class Command:
    """A command under way on a simulated node."""

    run_id: int
    start: Start
    ends_at: datetime
    state: RunState
    user: str | None = None
    keeps: bool = False


@dataclass
class SimulatedNode:
    """An agent with its warden; it dies, freezes and is fenced as real ones do."""

    database: Database
    time: Time
    chance: random.Random
    ledger: list[Start]
    settings: AgentSettings
    id: str
    known: frozenset[str] = frozenset()
    """The accounts of its machine."""
    host: int = 0
    deadline: float = 0.0
    """When the warden kills all but kept commands, unless a beat has moved it; by the machine's clock."""
    lag: float = 0.0
    """Seconds by which the machine's clock has fallen behind."""
    is_alive: bool = True
    is_frozen: bool = False
    is_cut: bool = False
    """Whether it cannot reach the database."""
    has_spool: bool = True
    """Whether what a dead node left is still to be delivered by the next node of its host."""
    commands: dict[int, Command] = field(default_factory=dict)
    unrecorded: dict[int, RunResult] = field(default_factory=dict)
    truth: dict[int, RunState] = field(default_factory=dict)
    """How commands ended, as the warden has written it down."""

    def __post_init__(self) -> None:
        self.active_runs = ActiveRuns(self.settings.slots, self.clock)
        seen = RollbackDetector(self.database, self.id, Memory(), lambda: None)
        node = NodeContext(
            id=self.id,
            database=self.database,
            settings=self.settings,
            warden=cast("Warden", SimulatedWarden(self)),
            lease=Lease(self.id, self.settings, seen, self._set_deadline, self.clock),
            rollback_detector=seen,
            active_runs=self.active_runs,
            admission=Admission(None, self.settings.account, self.settings.name),
        )
        self.dispatcher = Dispatcher(node)
        maintenance, notifier = Maintenance(self.database, self.id), Notifier(self.database, self.id)
        self.heartbeat = Heartbeat(node, Upkeep(node, self.dispatcher, maintenance, notifier))

    def clock(self) -> float:
        return self.time.since_beginning() - self.lag

    def register(self) -> None:
        with self.database.write() as connection:
            settings, account = self.settings, self.settings.account
            facts: dict[str, Any] = {"host": "host", "slots": settings.slots, "lease": settings.lease}
            facts |= {"tags": settings.tags, "queues": settings.queues, "capacity": settings.capacity}
            facts |= {"account": account.name, "uid": account.uid, "any_account": account.any_account}
            row = node_row(self.settings.name, self.time.now, LEASE, id=self.id, **facts)
            nodes.register(connection, row)
        self._set_deadline(self.clock() + LEASE - self.settings.margin)

    def step(self) -> float:
        """One look at the agenda and what follows from it; how long the node would then wait."""
        return self._guarded(self.dispatcher.step)

    def beat(self) -> None:
        self._guarded(self.heartbeat.step)

    def record(self) -> bool:
        """Record what has ended by now; return whether anything had."""
        self.receive()
        ended = bool(self.unrecorded)
        if ended:
            self._guarded(self._deliver)
        return ended

    def receive(self) -> None:
        """Free the slots of commands that have ended by now, without a record."""
        for command in [each for each in self.commands.values() if each.ends_at <= self.time.now]:
            self._end(command, command.ends_at, command.state)

    def pass_deadline(self) -> None:
        """The warden's own clock: it kills what runs when no beat came through, except kept commands."""
        if self.clock() >= self.deadline:
            at = BEGINNING + timedelta(seconds=self.deadline + self.lag)
            for command in list(self.commands.values()):
                if not command.keeps:
                    self._end(command, max(command.start.started_at, at), RunState.LOST)

    def kill(self) -> None:
        """Kill -9 of the agent; its warden takes the commands along and writes their ends."""
        self.is_alive = False
        self.receive()
        for command in list(self.commands.values()):
            self._end(command, self.time.now, RunState.LOST)

    def kill_host(self) -> None:
        """Cut the power: no end of a command under way is written."""
        self.is_alive = False
        self.receive()
        for command in list(self.commands.values()):
            command.start.ended_at = self.time.now
        self.commands.clear()

    def stop(self) -> None:
        """SIGTERM, without any grace."""
        for command in list(self.commands.values()):
            self._end(command, self.time.now, RunState.LOST)
        try:
            with self._linked():
                self._deliver()
                with self.database.write() as connection:
                    reaping.sign_off(connection, self.database, self.id, self.time.now)
            self.has_spool = False
        except DatabaseError:
            pass  # the lease will run out
        self.is_alive = False

    def deliver_spool(self) -> None:
        """Do for this dead node what the next agent of its host does."""
        with self.database.write() as connection:
            finishing.finish(
                connection, self.database, self.id, list(self.unrecorded.values()), self.time.now
            )
        with self.database.write() as connection:
            unheard.settle(connection, self.database, self.time.now, self.id)
        self.unrecorded.clear()
        self.has_spool = False

    @contextmanager
    def _linked(self) -> Iterator[None]:
        if isinstance(self.database, FaultyDatabase):
            self.database.away = self.is_cut
        try:
            yield
        finally:
            if isinstance(self.database, FaultyDatabase):
                self.database.away = False

    def _guarded(self, step: Callable[[], float]) -> float:
        try:
            with self._linked():
                return step()
        except DatabaseError:
            pass  # the loops of a real agent wait and try again
        except Fenced:
            self.kill()
        return 1.0

    def _set_deadline(self, moment: float) -> None:
        self.deadline = moment

    def launch(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._begin(job)
        self.active_runs.free_slots(self.unrecorded)

    def _begin(self, job: Job) -> None:
        now = self.time.now
        env = job.env
        start = Start(
            job.run_id,
            env["DCRON_TASK"],
            env["DCRON_SCHEDULED_FOR"],
            env["DCRON_TRIGGER"],
            int(env["DCRON_ATTEMPT"]),
            env.get("DCRON_FLOW"),
            self.id,
            now,
        )
        if self.clock() >= min(self.deadline, job.start_by):  # the warden starts nothing any more
            self.unrecorded[job.run_id] = RunResult(
                job.run_id, RunState.LOST, now, "never begun", never_begun=True
            )
            return
        if self._cannot_begin(job):
            reason = f"could not be started: there is no user {job.user!r}"
            self.unrecorded[job.run_id] = RunResult(
                job.run_id, RunState.FAILED, now, reason, 126, never_begun=True
            )
            return
        self.ledger.append(start)
        state = RunState.FAILED if self.chance.random() < 0.25 else RunState.SUCCEEDED
        lasts = timedelta(seconds=self.chance.choice(KEPT_LASTS if job.keeps else LASTS))
        if job.timeout and lasts.total_seconds() > job.timeout:
            state, lasts = (
                RunState.FAILED,
                timedelta(seconds=job.timeout + self.chance.uniform(0, LONGEST_LAG)),
            )
        self.commands[job.run_id] = Command(job.run_id, start, now + lasts, state, job.user, job.keeps)
        if job.keeps:
            start.ended_at = now + lasts  # it goes on without the agent

    def _cannot_begin(self, job: Job) -> bool:
        """Whether the machine lacks the account, or just now something else that every command needs."""
        return (job.user is not None and job.user not in self.known) or self.chance.random() < 0.03

    def cancel(self, run_ids: Sequence[int]) -> None:
        for run_id in run_ids:
            if command := self.commands.get(run_id):
                command.state, command.ends_at = RunState.CANCELLED, self.time.now

    def fence(self, run_ids: Sequence[int]) -> None:
        for run_id in run_ids:
            if command := self.commands.get(run_id):
                self._end(command, self.time.now, RunState.LOST)

    def _end(self, command: Command, at: datetime, state: RunState) -> None:
        del self.commands[command.run_id]
        command.start.ended_at = at
        self.unrecorded[command.run_id] = RunResult(command.run_id, state, at, state.value)
        self.truth[command.run_id] = state
        self.active_runs.free_slots([command.run_id])

    def _deliver(self) -> float:
        with self.database.write() as connection:
            results = list(self.unrecorded.values())
            if results:
                finishing.finish(connection, self.database, self.id, results, self.time.now)
        self.active_runs.remove(self.unrecorded)
        self.unrecorded.clear()
        return 0.0


@dataclass
class SimulatedWarden:
    """What the agent sees of the warden of a simulated node."""

    node: SimulatedNode

    def start(self, jobs: Sequence[Job]) -> None:
        self.node.launch(jobs)

    def kill(self, run_ids: Sequence[int], reason: str = "cancelled", grace: float | None = None) -> None:
        (self.node.fence if reason == "lease" and grace == 0.0 else self.node.cancel)(run_ids)


def settings(name: str, chance: random.Random) -> AgentSettings:
    """A node with some tags and something to give."""
    tags = tuple(tag for tag in ("ssd", "eu") if chance.random() < 0.6)
    return AgentSettings(
        name=name,
        spool=Path("/nowhere"),
        slots=chance.choice([1, 2, 4]),
        lease=LEASE,
        tags=tags,
        capacity={"gpu": gpus} if (gpus := chance.choice([0.0, 1.0, 2.0])) else {},
        account=chance.choice(ACCOUNTS),
    )
