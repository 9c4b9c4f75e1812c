"""Run dcron, cronstable or Debian's cron, each with its default settings, to compare them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import new_database, server_process
from dcron.agent.settings import default_slots
from dcron.model import Definition
from tests.support.cluster import AgentProcess, Cluster, cluster

_LABELS = {"sqlite": "SQLite", "postgres": "Postgres"}
_DEFAULT_LEASE = 60
_STARTUP = 5
"""Seconds in which a scheduler that cannot run here ends."""
_CRON_IN_PRIVATE_DIRECTORIES = """
mount --bind "$1/crontabs" /var/spool/cron/crontabs
mount --bind "$1/empty" /etc/cron.d
mount --bind "$1/run" /run
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
exec cron -f
"""


class UnavailableError(Exception):
    """The scheduler cannot run here; the message says why."""


@dataclass(frozen=True)
class Workload:
    """Commands that are due each minute. Each appends its start time to one file."""

    commands: int
    directory: Path

    @property
    def starts(self) -> Path:
        """The file with one start time a row."""
        return self.directory / "starts"

    @property
    def command(self) -> str:
        """Without a percent sign, which crontabs treat specially."""
        return f"date --rfc-3339=ns >> {self.starts}"

    @property
    def crontab(self) -> str:
        """The workload in the format of crontab(5)."""
        return f"* * * * * {self.command}\n" * self.commands


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that can run a workload."""

    name: str
    run: Callable[[Workload], AbstractContextManager[list[int]]]
    """Run the workload inside the block. The block gets the processes whose CPU time counts, with their
    descendants. Raises UnavailableError."""


def all_schedulers(server: str) -> list[Scheduler]:
    """Return the others first: dcron's figures are compared with theirs. `server` is the URL of Postgres."""
    return [
        Scheduler("Debian's cron", _run_cron),
        Scheduler("cronstable", _run_cronstable),
        dcron("sqlite", server),
        dcron("postgres", server),
        dcron("postgres", server, agents=3),
    ]


def dcron(kind: str, server: str, agents: int = 1) -> Scheduler:
    """Return dcron on a new database of this kind."""

    @contextmanager
    def run(work: Workload) -> Iterator[list[int]]:
        names = [f"task-{number}" for number in range(work.commands)]
        with new_database(kind, server) as url, cluster(url, work.directory) as team:
            team.crontab.import_tasks(
                [
                    Definition(name=name, schedule="* * * * *", timezone="UTC", command=work.command)
                    for name in names
                ]
            )
            started = [start_default_agent(team, f"bench-{number}") for number in range(agents)]
            team.wait_until_alive(agents, 30)
            pids = [agent.process.pid for agent in started]
            yield pids + (server_process(server) if kind == "postgres" else [])

    return Scheduler(f"dcron, {_LABELS[kind]}, {agents} agent{'s' * (agents > 1)}", run)


def start_default_agent(team: Cluster, name: str, database: str | None = None) -> AgentProcess:
    """Start an agent with default settings; `database` is its URL if it is not the team's."""
    environment = {"DCRON_DB": database} if database else {}
    return team.start_agent(name, lease=_DEFAULT_LEASE, slots=default_slots(), environment=environment)


@contextmanager
def _run_cronstable(work: Workload) -> Iterator[list[int]]:
    venv = os.environ.get("DCRON_BENCH_CRONSTABLE")
    program = shutil.which("cronstable", path=f"{venv}/bin" if venv else None)
    if not program:
        raise UnavailableError("not installed")
    crontab = work.directory / "bench.crontab"
    crontab.write_text(work.crontab)
    with _daemon([program, "-c", str(crontab)], work.directory) as pid:
        yield [pid]


@contextmanager
def _run_cron(work: Workload) -> Iterator[list[int]]:
    """In a mount namespace of its own, where it sees our crontab and no other."""
    if not shutil.which("cron"):
        raise UnavailableError("not installed")
    if os.geteuid() != 0:
        raise UnavailableError("needs root")
    for name in ("crontabs", "empty", "run"):
        (work.directory / name).mkdir()
    crontab = work.directory / "crontabs" / "root"
    crontab.write_text(work.crontab)
    crontab.chmod(0o600)
    script = ["sh", "-euc", _CRON_IN_PRIVATE_DIRECTORIES, "sh", str(work.directory)]
    with _daemon(["unshare", "--mount", "--propagation", "private", *script], work.directory) as pid:
        yield [pid]


@contextmanager
def _daemon(command: Sequence[str], directory: Path) -> Iterator[int]:
    log = directory / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_STARTUP)
            last = "".join(log.read_text().strip().splitlines()[-1:])
            raise UnavailableError(f"ended at once with code {code}: {last}")
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
