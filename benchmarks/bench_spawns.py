"""Measure `/bin/true` with its output kept, through a complete agent, against bare spawning."""

import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.servers import new_database, postgres_server
from dcron.agent.settings import default_slots
from dcron.model import Definition, RunState
from dcron.values.lists import RunFilter
from tests.support.cluster import Cluster, cluster, wait_for

MANY_SLOTS = 100


def raw_spawns(seconds: float = 3.0) -> float:
    """Bare spawns a second of one process, output captured, one after the other."""
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        subprocess.run(["/bin/true"], capture_output=True, check=True)
        count += 1
    return count / (time.perf_counter() - began)


def agent_spawns(team: Cluster, runs: int, slots: int) -> float:
    """Runs a second of one agent: claimed, started, run, captured and recorded."""
    due = team.crontab.now().replace(microsecond=0) + timedelta(seconds=5 + runs // 300)
    schedule = f"@at {due:%Y-%m-%dT%H:%M:%SZ}"
    line = Definition(name="x", schedule=schedule, timezone="UTC", command="/bin/true", argv=("/bin/true",))
    names = [f"true-{n}" for n in range(runs)]
    team.crontab.import_tasks([Definition(**{**line.__dict__, "name": name}) for name in names])
    team.start_agent("bench", lease=60, slots=slots)
    expected = RunFilter(states=[RunState.WAITING, RunState.CLAIMED, RunState.RUNNING])
    wait_for(lambda: not team.crontab.runs(expected, 1), 180, "all have run")
    done = team.runs(RunState.SUCCEEDED)
    assert len(done) == runs
    ends = [run.finished_at for run in done if run.finished_at]
    return runs / (max(ends) - due).total_seconds()


def report(server: str, *, runs: int) -> None:
    """Print one line for each database and number of slots."""
    print(f"/bin/true with its output kept: one agent, {runs:,} runs due in one second")
    for kind in ("sqlite", "postgres"):
        for slots in (default_slots(), MANY_SLOTS):
            with new_database(kind, server) as url, tempfile.TemporaryDirectory() as directory:
                raw = raw_spawns()
                with cluster(url, Path(directory)) as team:
                    rate = agent_spawns(team, runs, slots)
            print(
                f"  {kind:9} {slots:3} slots{' (default)' if slots != MANY_SLOTS else '':10}"
                f" {rate:8,.0f} runs/s  beside {raw:6,.0f} bare spawns/s: ratio {rate / raw:.2f}"
            )
    print()


if __name__ == "__main__":
    print(describe())
    with postgres_server() as own_server:
        report(own_server, runs=3000)
