"""Wall clocks that are wrong and step."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dcron.model import RunState
from tests.faults.campaign import forgetting, ledger
from tests.faults.campaign.leftovers import marked_processes
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer

FOR_EVER = 2**40
DAY = 86_400
SOURCE = Path(__file__).with_name("wallclock.c")


@fault("clocks", ("postgres",))
def clocks(stage: Stage) -> Figures:
    """Wall clocks of two nodes of three five minutes ahead and behind, stepping back and forth."""
    for name, shift, step in (("web-2", 300, 7), ("web-3", -300, 11)):
        _shift(stage, name, shift, 0, FOR_EVER, step)
    stage.begin()
    offsets: set[float] = set()
    end = time.monotonic() + stage.seconds
    while time.monotonic() < end:
        time.sleep(0.5)
        offsets |= {round(node.clock_offset, -1) for node in stage.cluster.alive() if node.clock_offset}
    return {"offsets seen": f"{min(offsets, default=0):+g} to {max(offsets, default=0):+g} s"}


@fault("clock-steps", ("sqlite",))
def clock_steps(stage: Stage) -> Figures:
    """The machine's wall clock, which is also the database's, five minutes forward and later back."""
    begins = int(time.monotonic()) + 10
    ends = begins + int(max(8.0, stage.seconds / 2))
    for name in LEASES:
        _shift(stage, name, 300, begins, ends)
    stage.begin()
    time.sleep(ends + 3 - time.monotonic())
    return {"forward for": f"{ends - begins} s"}


@fault("host-clock-day", ("postgres",))
def host_clock_day(stage: Stage) -> Figures:
    """Wall clocks of two nodes of three a day ahead and a day behind, from their start to their end."""
    for name, shift in (("web-2", DAY), ("web-3", -DAY)):
        _shift(stage, name, shift, 0, FOR_EVER)
    stage.begin()
    before = {node.id for node in stage.cluster.alive()}
    time.sleep(stage.seconds)
    stage.require({node.id for node in stage.cluster.alive()} == before, "a node was replaced")
    offsets = {node.name: round(node.clock_offset or 0.0, -1) for node in stage.cluster.alive()}
    stage.require(offsets == {"web-1": 0.0, "web-2": DAY, "web-3": -DAY}, f"offsets: {offsets}")
    started = Counter(run.node for run in stage.cluster.runs() if run.started_at)
    return {"starts by the right and the wrong clocks": [started[name] for name in LEASES]}


@fault("clock-day", judge=forgetting.judge_clock)
def clock_day(stage: Stage) -> Figures:
    """The database's clock a day ahead for a while, and back."""
    figures = _off_by(stage, DAY)
    _require_log(stage, "the database's clock was set back by 86")
    return figures


@fault("clock-day-behind", judge=forgetting.judge_clock)
def clock_day_behind(stage: Stage) -> Figures:
    """The database's clock a day behind for a while, and right again."""
    figures = _off_by(stage, -DAY, after=40)
    stage.require(figures["starts until then"], "no agent had started anything before")
    _require_log(stage, "the database's clock was set forward by 86")
    return figures


def _off_by(stage: Stage, seconds: int, after: int = 14) -> Figures:
    """Let the database's clock be wrong by so much, from so many seconds on; it is right before and after."""
    wrong_for = max(6, int(stage.seconds / 3))
    begins = int(time.monotonic()) + after
    ends = begins + wrong_for
    if stage.server:
        stage.enter(_shifted_server(stage, stage.server, seconds, begins, ends))
    else:
        for name in LEASES:
            _shift(stage, name, seconds, begins, ends)
    stage.begin()
    early = _starts_until(stage, ends)
    time.sleep(max(12.0, stage.seconds / 2))
    _require_starts(stage, ("tick", "tock", "slow", "many", "long"), within=15.0)
    return {"wrong for": f"{wrong_for} s", "starts until then": early}


@fault("boot-clock", ("sqlite",), judge=forgetting.judge_clock)
def boot_clock(stage: Stage) -> Figures:
    """A power cut; the machine comes up with its clock, which is SQLite's, an hour behind for 45 s."""
    stage.begin()
    time.sleep(5.0)
    for agent in stage.living():
        guard, warden = agent.guard(), agent.warden()
        agent.freeze()
        for pid in (guard, warden):
            os.kill(pid, signal.SIGKILL)
        agent.kill()
    for pid, _ in marked_processes(str(stage.directory)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    ends = int(time.monotonic()) + 45
    for name in LEASES:
        _shift(stage, name, -3600, 0, ends)
    left = [run.id for run in stage.cluster.runs(RunState.RUNNING)]
    stage.restart_dead()
    took = wait_for(lambda: _are_over(stage, left), 42, "the runs of the power cut are recorded")
    time.sleep(max(0.0, ends - time.monotonic()) + max(12.0, stage.seconds / 3))
    _require_starts(stage, ("tick", "tock", "slow", "many", "long"), within=15.0)
    _require_log(stage, "the database's clock is behind")
    _require_log(stage, "the database's clock was set forward by 3")
    return {"runs left by the power cut": len(left), "recorded after": f"{took:.1f} s"}


def _are_over(stage: Stage, run_ids: list[int]) -> bool:
    return all(stage.cluster.crontab.find_run(run_id).state.is_final for run_id in run_ids)


def _starts_until(stage: Stage, moment: int) -> int:
    """How many commands have started when it is then by the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))
    return sum(entry.kind == "start" for entry in ledger.read(stage.cluster.ledger_path))


def _require_starts(stage: Stage, names: tuple[str, ...], within: float) -> None:
    """No task is silent: each has started within these seconds."""
    now = float(Path("/proc/uptime").read_text().split()[0])
    entries = ledger.read(stage.cluster.ledger_path)
    for name in names:
        last = max((each.at for each in entries if each.kind == "start" and each.task == name), default=0.0)
        stage.require(now - last <= within, f"{name} has not started for {now - last:.0f} s")


def _require_log(stage: Stage, message: str) -> None:
    logs = [path.read_text(errors="replace") for path in stage.directory.glob("*.log")]
    stage.require(any(message in log for log in logs), f"no agent says: {message}")


@contextmanager
def _shifted_server(
    stage: Stage, server: PostgresServer, seconds: int, begins: int, ends: int
) -> Iterator[None]:
    """The server with a wall clock that is wrong between two moments; afterwards as it was."""
    with tempfile.TemporaryDirectory(prefix="dcron-clock-") as place:
        library = shutil.copy(compiled(stage.directory), place)  # its account must be able to read it
        for path in (Path(place), Path(library)):
            path.chmod(0o755)
        wrong = {"LD_PRELOAD": str(library), **environment(seconds, begins, ends)}
        server.restart(wrong)
        stage.cluster.database.close()
        try:
            yield
        finally:
            server.restart({})


def environment(seconds: int, begins: int, ends: int, step: int = 0) -> dict[str, str]:
    given = {"SHIFT": seconds, "FROM": begins, "UNTIL": ends, "STEP": step}
    return {f"WALLCLOCK_{word}": str(value) for word, value in given.items()}


def _shift(stage: Stage, name: str, seconds: int, begins: int, ends: int, step: int = 0) -> None:
    """Let this agent's wall clock be wrong between two moments of the monotonic clock."""
    wrong = environment(seconds, begins, ends, step)
    stage.environments[name] = {"LD_PRELOAD": str(compiled(stage.directory)), **wrong}


def compiled(directory: Path) -> Path:
    """The library that shifts the clock. Raises NotHere without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotHere("there is no C compiler here")
    library = directory / "wallclock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=60)
    return library
