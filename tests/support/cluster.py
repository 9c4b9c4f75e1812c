"""Real agents on a real database, and a ledger that their jobs write."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from dcron.database import open_database
from dcron.errors import DatabaseError
from dcron.model import Definition, Node, Run, RunState, Task
from dcron.nodepolicy.accounts import ACCEPT_ALL
from dcron.services.crontab import Crontab
from dcron.values.lists import RunFilter
from tests.support.patience import PATIENCE


def wait_for(condition: Callable[[], object], within: float, what: str) -> float:
    """Poll until the condition holds; return the seconds it took.

    Fail after `within` seconds, which suit a quiet machine, or after PATIENCE if that is more.
    """
    began, within = time.monotonic(), max(within, PATIENCE)
    while not condition():
        if time.monotonic() - began > within:
            raise AssertionError(f"not within {within:g}s: {what}")
        time.sleep(0.02)
    return time.monotonic() - began


def processes_with(marker: str) -> list[int]:
    """Return the living processes whose command line contains the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in command:
            found.append(int(entry.name))
    return found


@dataclass
class AgentProcess:
    """A process of `dcron agent`."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, within: float) -> int:
        """Wait for its end; return its exit code."""
        return self.process.wait(max(within, PATIENCE))

    def guard(self) -> int:
        """Return the process ID of its warden's parent."""
        return _first_child(self.process.pid)

    def warden(self) -> int:
        """Return the process ID of its warden."""
        return _first_child(self.guard())


def _first_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@dataclass
class Cluster:
    """A crontab, its agents, and the ledger that the jobs append to."""

    url: str
    directory: Path
    agents: list[AgentProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = open_database(self.url, patience=30)
        self.crontab = Crontab(self.database, "tester@here")
        self.ledger_path = self.directory / "ledger"
        self.ledger_path.touch()

    def move(self, url: str) -> None:
        """Use another server, which has taken over."""
        self.database.close()
        self.url = url
        self.database = open_database(url, patience=30)
        self.crontab = Crontab(self.database, "tester@here")

    def entry(self, *words: str) -> str:
        """Return a shell command that appends its words, its occurrence and its run to the ledger."""
        line = " ".join(words)
        return f'echo "$DCRON_TASK $DCRON_SCHEDULED_FOR $DCRON_RUN_ID {line}" >> {self.ledger_path}'

    def ledger(self) -> list[list[str]]:
        """Return the entries: task, occurrence, run and words."""
        return [line.split() for line in self.ledger_path.read_text().splitlines()]

    def starts_of_occurrences(self) -> Counter[tuple[str, str]]:
        """Return how often each occurrence of each task was started."""
        return Counter((task, occurrence) for task, occurrence, *_ in self.ledger())

    def add(self, name: str, schedule: str, command: str, **fields: object) -> Task:
        line = {"name": name, "schedule": schedule, "timezone": "UTC", "command": command, **fields}
        return self.crontab.add(Definition(**line))  # type: ignore[arg-type]

    def start_agent(
        self,
        name: str,
        *options: str,
        lease: float = 4,
        slots: int = 8,
        program: Sequence[str] = ("-m", "dcron"),
        environment: Mapping[str, str] | None = None,
    ) -> AgentProcess:
        """Start an agent, and return as soon as its process runs; `program` is what Python runs."""
        log = self.directory / f"{name}.log"
        policy = self.directory / "policy.toml"
        if not policy.exists():
            policy.write_text(f"{ACCEPT_ALL}\n")
        own = {
            "DCRON_DB": self.url,
            "DCRON_SPOOL": str(self.directory / f"spool-{name}"),
            "DCRON_POLICY": str(policy),
        }
        with log.open("ab") as stream:
            process = subprocess.Popen(
                [
                    *(sys.executable, *program, "agent", "--name", name),
                    *("--lease", f"{lease:g}s", "--slots", str(slots), *options),
                ],
                env={**os.environ, **own, **(environment or {})},
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
            )
        agent = AgentProcess(name, process, log)
        self.agents.append(agent)
        return agent

    def freeze(self, agent: AgentProcess) -> None:
        """Freeze it outside its transactions: inside one on SQLite it would keep the lock from all others."""
        probe = open_database(self.url, patience=0.5)
        for _ in range(50):
            agent.freeze()
            try:
                with probe.write() as connection:
                    connection.execute(text("UPDATE nodes SET host = host"))
                break
            except DatabaseError:
                agent.thaw()
                time.sleep(0.1)
        else:
            raise AssertionError("it is never outside a transaction")
        probe.close()

    def alive(self) -> list[Node]:
        """Return the nodes that hold a lease."""
        return [node for node in self.crontab.nodes() if node.died_at is None]

    def wait_until_alive(self, count: int, within: float = 15) -> None:
        wait_for(lambda: len(self.alive()) == count, within, f"{count} nodes alive")

    def runs(self, *states: RunState, task: str | None = None) -> list[Run]:
        """Return the runs in these states, the oldest first."""
        found = self.crontab.runs(RunFilter(states=states or None), limit=100_000)[::-1]
        return [run for run in found if task in (None, run.task)]

    def close(self) -> None:
        """End every agent, whatever its state."""
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.thaw()
                agent.terminate()
        for agent in self.agents:
            try:
                agent.wait(15)
            except subprocess.TimeoutExpired:
                agent.kill()
        self.database.close()


@contextmanager
def cluster(url: str, directory: Path) -> Iterator[Cluster]:
    """Yield a cluster without agents; end those that were started."""
    made = Cluster(url, directory)
    try:
        yield made
    finally:
        made.close()
