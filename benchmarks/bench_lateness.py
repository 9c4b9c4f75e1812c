"""Measure the lateness of starts: a thousand tasks over a minute, two agents."""

import statistics
import tempfile
from datetime import timedelta
from pathlib import Path

from benchmarks.servers import new_database, postgres_server
from dcron.model import Definition, RunState
from tests.support.cluster import Cluster, cluster, wait_for

TASKS_A_SECOND = 1000 / 60


def lateness(team: Cluster, seconds: int) -> list[float]:
    """Milliseconds from due to started, sorted."""
    for name in ("web-1", "web-2"):
        team.start_agent(name, lease=60, slots=32)
    team.wait_until_alive(2)
    tasks = int(seconds * TASKS_A_SECOND)
    first = team.crontab.now() + timedelta(seconds=8)
    lines = []
    for number in range(tasks):
        due = first + timedelta(seconds=int(number / TASKS_A_SECOND))
        schedule = f"@at {due:%Y-%m-%dT%H:%M:%SZ}"
        lines.append(Definition(name=f"late-{number}", schedule=schedule, timezone="UTC", command="true"))
    team.crontab.import_tasks(lines)
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) >= tasks, seconds + 60, "all have run")
    done = [(run.due_at, run.started_at) for run in team.runs(RunState.SUCCEEDED)]
    return sorted((started - due).total_seconds() * 1000 for due, started in done if started)


def report(server: str, *, seconds: int) -> None:
    """Print one line a database."""
    print(f"Lateness of starts: {TASKS_A_SECOND:.0f} tasks each second for {seconds} s, 2 agents")
    for kind in ("sqlite", "postgres"):
        with (
            new_database(kind, server) as url,
            tempfile.TemporaryDirectory() as directory,
            cluster(url, Path(directory)) as team,
        ):
            late = lateness(team, seconds)
        middle, slow = statistics.median(late), late[int(len(late) * 0.99)]
        shown = f"p50 {middle:5.0f} ms  p99 {slow:5.0f} ms  worst {late[-1]:5.0f} ms"
        print(f"  {kind:9} {shown}  ({len(late)} runs)")
    print()


if __name__ == "__main__":
    with postgres_server() as own_server:
        report(own_server, seconds=30)
