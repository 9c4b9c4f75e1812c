"""An agent that runs many short jobs: what it grows by in memory and in open files."""

import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from dcron.schema import runs
from tests.faults.campaign.stage import Stage, stage
from tests.support.cluster import AgentProcess, wait_for
from tests.support.databases import PostgresServer

AT_ONCE = 200
WARM_UP = 200
"""Jobs after which caches and pools are full: what is measured before that is no growth."""


@dataclass(frozen=True)
class Sample:
    """An agent and its warden at one moment."""

    agent_kib: int
    warden_kib: int
    agent_files: int
    warden_files: int


@dataclass(frozen=True)
class Growth:
    """Before and after."""

    database: str
    jobs: int
    before: Sample
    after: Sample
    seconds: float

    def __str__(self) -> str:
        def column(of: str, unit: str = "") -> str:
            return f"{getattr(self.before, of)} → {getattr(self.after, of)}{unit}"

        files = (column("agent_files"), column("warden_files"))
        memory = (column("agent_kib", " KiB"), column("warden_kib", " KiB"))
        return f"| {self.database} | {self.jobs:,} | {' | '.join((*memory, *files))} |"


HEAD = (
    "| database | jobs | agent's memory | warden's memory | agent's files | warden's files |\n"
    "|---|---|---|---|---|---|"
)


def measure(database: str, server: PostgresServer | None, jobs: int) -> Growth:
    """Run so many jobs on one agent, after some that do not count."""
    with stage(server if database == "postgres" else None, 1, 0) as played:
        agent = played.cluster.start_agent("web-1", lease=60, slots=16)
        played.cluster.wait_until_alive(1, within=60)
        task = played.cluster.add("job", "0 0 1 1 *", "echo a line", max_running=None)
        _run(played, task.name, WARM_UP)
        before, began = _sample(agent), time.monotonic()
        for done in range(0, jobs, AT_ONCE):
            _run(played, task.name, min(AT_ONCE, jobs - done))
        time.sleep(2)  # the last output is flushed, the last journal gone
        return Growth(database, jobs, before, _sample(agent), time.monotonic() - began)


def _run(played: Stage, name: str, count: int) -> None:
    known = _succeeded(played)
    service = played.cluster.crontab
    task = service.get(name)
    for _ in range(count):
        service.run(task)
    wait_for(lambda: _succeeded(played) >= known + count, 120, f"{count} jobs have run")


def _succeeded(played: Stage) -> int:
    with played.cluster.database.read() as connection:
        return int(connection.scalar(select(func.count()).where(runs.c.state == "succeeded")) or 0)


def _sample(agent: AgentProcess) -> Sample:
    pids = (agent.process.pid, agent.warden())
    memory = [_resident(pid) for pid in pids]
    files = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]
    return Sample(memory[0], memory[1], files[0], files[1])


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
