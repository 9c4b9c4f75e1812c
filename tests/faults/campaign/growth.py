"""An agent that runs many short jobs: what its processes grow by in memory, open files and threads."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import func, select

from dcron.model import Definition
from dcron.schema.tables import runs
from tests.faults.campaign.stage import Stage, stage
from tests.support.cluster import AgentProcess, wait_for
from tests.support.databases import PostgresServer

AT_ONCE = 200
WARM_UP = 200
"""Jobs after which caches and pools are full: what is measured before that is no growth."""
WARM_UP_PART = 0.2
"""The same for a measurement of so many seconds."""
PARTS = 4
PROCESSES = ("agent", "warden", "guard")
LIVELY: dict[str, tuple[str, dict[str, Any]]] = {
    "echoes": ("echo a line", {}),
    "prints": ("head -c 50000 /dev/zero | base64", {}),
    "fails": ("exit 3", {"tries": 2, "backoff": 1.0}),
    "hangs": ("sleep 300", {"timeout": 1.0}),
    "leaves": ("setsid sleep 5 & true", {}),
    "many": ("true", {"max_running": None}),
}
"""Commands that end in each way, with the fields of their tasks."""


class Process(NamedTuple):
    """A process at one moment."""

    kib: int
    files: int
    threads: int


class Sample(NamedTuple):
    """An agent with its warden and guard at one moment."""

    agent: Process
    warden: Process
    guard: Process


@dataclass(frozen=True)
class Growth:
    """The processes at the beginning, at times between if any were measured, and at the end."""

    database: str
    jobs: int
    samples: Sequence[Sample]
    seconds: float

    @property
    def before(self) -> Sample:
        return self.samples[0]

    @property
    def after(self) -> Sample:
        return self.samples[-1]

    def __str__(self) -> str:
        def column(of: str, unit: str = "") -> str:
            of_each = zip(*self.samples, strict=True)
            return " | ".join(
                " → ".join(f"{getattr(each, of):,}" for each in found) + unit for found in of_each
            )

        cells = (column("kib", " KiB"), column("files"), column("threads"))
        return f"| {self.database} | {self.jobs:,} | {self.seconds:.0f} s | {' | '.join(cells)} |"


_COLUMNS = [f"{process}'s {what}" for what in ("memory", "files", "threads") for process in PROCESSES]
HEAD = f"| database | jobs | time | {' | '.join(_COLUMNS)} |\n|---|---|---{'|---' * len(_COLUMNS)}|"


def measure(database: str, server: PostgresServer | None, jobs: int) -> Growth:
    """Run so many jobs on one agent, after some that do not count."""
    with stage(server if database == "postgres" else None, 1, 0) as played:
        agent = _start(played)
        task = played.cluster.add("job", "0 0 1 1 *", "echo a line", max_running=None)
        _run(played, task.name, WARM_UP)
        before, began = _sample(agent), time.monotonic()
        for done in range(0, jobs, AT_ONCE):
            _run(played, task.name, min(AT_ONCE, jobs - done))
        time.sleep(2)  # the last output is flushed, the last journal gone
        return Growth(database, jobs, [before, _sample(agent)], time.monotonic() - began)


def measure_for(database: str, server: PostgresServer | None, seconds: float) -> Growth:
    """Let one agent start six jobs a second for so long; return the medians of each quarter."""
    with stage(server if database == "postgres" else None, 1, 0) as played:
        agent = _start(played)
        played.cluster.crontab.import_tasks(
            [_lively(name, number) for name in LIVELY for number in (1, 2)],
        )
        time.sleep(seconds * WARM_UP_PART)
        known, began = _started(played), time.monotonic()
        samples: list[Sample] = []
        while time.monotonic() - began < seconds * (1 - WARM_UP_PART):
            samples.append(_sample(agent))
            time.sleep(min(10.0, seconds / 40))
        jobs, part = _started(played) - known, max(1, len(samples) // PARTS)
        medians = [_middle(samples[at : at + part]) for at in range(0, part * PARTS, part)]
        return Growth(database, jobs, medians, time.monotonic() - began)


def _start(played: Stage) -> AgentProcess:
    agent = played.cluster.start_agent("web-1", lease=60, slots=16)
    played.cluster.wait_until_alive(1, within=60)
    return agent


def _lively(name: str, number: int) -> Definition:
    command, fields = LIVELY[name]
    given = {"name": f"{name}-{number}", "schedule": "@every 2s", "timezone": "UTC", "command": command}
    return Definition(**given | fields)


def _run(played: Stage, name: str, count: int) -> None:
    known = _succeeded(played)
    service = played.cluster.crontab
    task = service.get(name)
    for _ in range(count):
        service.run(task)
    wait_for(lambda: _succeeded(played) >= known + count, 120, f"{count} jobs have run")


def _succeeded(played: Stage) -> int:
    return _count(played, runs.c.state == "succeeded")


def _started(played: Stage) -> int:
    return _count(played, runs.c.started_at.is_not(None))


def _count(played: Stage, condition: Any) -> int:
    with played.cluster.database.read() as connection:
        return int(connection.scalar(select(func.count()).where(condition)) or 0)


def _sample(agent: AgentProcess) -> Sample:
    return Sample(_process(agent.process.pid), _process(agent.warden()), _process(agent.guard()))


def _process(pid: int) -> Process:
    status = Path(f"/proc/{pid}/status").read_text()
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Process(_number(status, "VmRSS:"), files, _number(status, "Threads:"))


def _number(status: str, name: str) -> int:
    return int(status.partition(name)[2].split()[0])


def _middle(samples: list[Sample]) -> Sample:
    """Return the median of each figure."""
    of_each = zip(*samples, strict=True)
    return Sample(*(Process(*(int(median(each)) for each in zip(*found, strict=True))) for found in of_each))
