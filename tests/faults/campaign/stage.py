"""Where a fault is played: a database, agents, the usual load, and what brings all of it to rest again."""

import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select

from dcron.errors import DatabaseError
from dcron.model import Definition, RunState, Task
from dcron.schema.tables import nodes, runs
from tests.faults.campaign import audit, ledger
from tests.faults.campaign.ledger import USUAL, Load
from tests.support.cluster import AgentProcess, Cluster
from tests.support.databases import PostgresServer, new_database

LEASES = {"web-1": 4.0, "web-2": 5.0, "web-3": 6.0}
SETTLED_WITHIN = 90.0
"""Seconds in which, after a fault, all that was left has to be recorded and runs go on: generous, for
machines that do more than this."""
RESTS_FOR = 2.0
"""Seconds that it has to stay so."""
_T = TypeVar("_T")


@dataclass
class Stage:
    """Three agents with a lease each, and the lines they run."""

    cluster: Cluster
    server: PostgresServer | None
    chance: random.Random
    seconds: float
    """How long the fault is to last."""
    resources: ExitStack
    """What is to be closed when the agents are gone."""
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    options: tuple[str, ...] = ("--grace", "3s")
    slots: int = 16
    leases: Mapping[str, float] = field(default_factory=lambda: LEASES)
    """The agents of the beginning, with their leases."""
    program: Sequence[str] = ("-m", "dcron")
    environments: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """What some agents, by name, have in their environment beside the rest."""
    expected_exits: set[int] = field(default_factory=lambda: {0, -signal.SIGKILL})

    at_the_end: list[Callable[[], object]] = field(default_factory=list)
    """What is to be done when the agents have ended, before all is judged."""
    problems: list[str] = field(default_factory=list)
    """What the fault itself found wrong."""
    figures: dict[str, object] = field(default_factory=dict)
    """What is shown besides the figures of the fault."""

    def require(self, holds: object, problem: str) -> None:
        """Note what is wrong unless it holds."""
        if not holds:
            self.problems.append(problem)

    @property
    def directory(self) -> Path:
        return self.cluster.directory

    def load(self, lines: Sequence[Load] = USUAL) -> None:
        """Write lines whose jobs keep the ledger, all at once."""
        ledger.write_script(self.directory)
        definitions = [self.definition(line) for line in lines]
        self.cluster.crontab.import_tasks(definitions)
        names = {line.name for line in lines}
        self.tasks += [task for task in self.cluster.crontab.tasks() if task.name in names]

    def definition(self, line: Load) -> Definition:
        facts: dict[str, Any] = {"name": line.name, "schedule": line.schedule, "timezone": "UTC"}
        facts |= {"command": line.command(self.directory), "env": {"CAMPAIGN": str(self.directory)}}
        return Definition(**facts | line.fields)

    def start(self, name: str) -> AgentProcess:
        """Start the agent of this name, or start it again."""
        temporary = self.directory / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {"TMPDIR": str(temporary), "CAMPAIGN": str(self.directory)}
        environment |= self.environments.get(name, {})
        lease = self.leases.get(name, 6.0)
        agent = self.cluster.start_agent(
            name,
            *self.options,
            lease=lease,
            slots=self.slots,
            program=self.program,
            environment=environment,
        )
        self.agents[name] = agent
        return agent

    def begin(self, lines: Sequence[Load] = USUAL) -> None:
        """The usual beginning: the lines, and all agents alive."""
        self.load(lines)
        for name in self.leases:
            self.start(name)
        self.cluster.wait_until_alive(len(self.leases), within=60)

    def living(self) -> list[AgentProcess]:
        return [agent for agent in self.agents.values() if agent.process.poll() is None]

    def restart_dead(self) -> None:
        for name, agent in list(self.agents.items()):
            if agent.process.poll() is not None:
                self.start(name)

    def some(self) -> AgentProcess | None:
        """An agent by chance, if any lives."""
        living = self.living()
        return self.chance.choice(living) if living else None

    def owner_of_a_long_run(self, within: float = 8.0) -> AgentProcess | None:
        """The agent that has just begun a run which outlasts every lease; any agent if there is none."""
        known = {run.id for run in self.cluster.runs(RunState.RUNNING, task="held")}
        end = time.monotonic() + within
        while time.monotonic() < end:
            for run in self.cluster.runs(RunState.RUNNING, task="held"):
                agent = self.agents.get(run.node or "")
                if run.id not in known and agent and agent.process.poll() is None:
                    return agent
            time.sleep(0.1)
        return self.some()

    def pauses(self, shortest: float, longest: float) -> Iterator[None]:
        """Moments by chance, until the fault has lasted long enough."""
        end = time.monotonic() + self.seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.chance.uniform(shortest, longest)))
            yield

    def enter(self, resource: AbstractContextManager[_T]) -> _T:
        """Keep something open until the agents are gone."""
        return self.resources.enter_context(resource)

    def has_registered(self, agent: AgentProcess) -> bool:
        """Return whether the agent's node is in the table."""
        with self.cluster.database.read() as connection:
            query = select(nodes.c.id).where(nodes.c.pid == agent.process.pid)
            return connection.scalar(query) is not None

    def is_settled(self) -> bool:
        """Whether no dead node's runs are left, and no run is late."""
        with self.cluster.database.read() as connection:
            now = self.cluster.database.now(connection)
            dead = select(nodes.c.id).where(nodes.c.died_at.is_not(None))
            left = runs.c.state.in_(["claimed", "running"]) & runs.c.owner.in_(dead)
            waits = (runs.c.state == "waiting") & runs.c.blocked.is_(None)
            if connection.scalar(select(runs.c.id).where(left).limit(1)):
                return False
            due = connection.scalars(select(runs.c.due_at).where(waits)).all()
            query = select(nodes.c.pid, nodes.c.alive_until).where(nodes.c.died_at.is_(None))
            alive = {row.pid: row.alive_until for row in connection.execute(query)}
        late = [moment for moment in due if (now - moment).total_seconds() > 2.5]
        # By their pids: a killed node whose lease is not over must not count for an agent that still starts.
        living = {agent.process.pid for agent in self.living()}
        return not late and alive.keys() == living and all(until > now for until in alive.values())

    def settle(self, within: float = SETTLED_WITHIN) -> float | None:
        """Bring everybody back and wait for rest; the seconds it took, or None if it did not come."""
        for agent in self.living():
            agent.thaw()
        self.restart_dead()
        began = time.monotonic()
        resting_since: float | None = None
        while (now := time.monotonic()) - began < within:
            self.restart_dead()
            resting_since = (resting_since or now) if self._rests() else None
            if resting_since and now - resting_since > RESTS_FOR:
                return resting_since - began
            time.sleep(0.2)
        return None

    def _rests(self) -> bool:
        try:
            return self.is_settled()
        except DatabaseError:  # its connections may be of before the fault
            return False


@contextmanager
def stage(
    server: PostgresServer | None, seed: int, seconds: float, directory: Path | None = None
) -> Iterator[Stage]:
    """A stage with an empty, watched database; its agents are gone afterwards, whatever happened."""
    place = directory or Path(tempfile.mkdtemp(prefix="dcron-faults-"))
    with new_database(server.url if server else None, place) as url, ExitStack() as resources:
        cluster = Cluster(url, place)
        try:
            audit.install(cluster.database)
            yield Stage(cluster, server, random.Random(seed), seconds, resources)
        finally:
            cluster.close()
    if directory is None:
        shutil.rmtree(place)
