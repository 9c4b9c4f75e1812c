"""Measure how late commands start when each message between the agent and Postgres is delayed."""

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.schedulers import start_default_agent
from benchmarks.servers import new_database, postgres_server, server_socket
from dcron.model import Definition
from tests.support.cluster import Cluster, cluster
from tests.support.proxy import Proxy

DELAYS = (0.0, 0.010, 0.100, 0.250)
_PATIENCE = 60
"""Seconds that the last commands get to start; those that have not started then count as never."""


def lateness(team: Cluster, database: str, rate: int, seconds: int) -> list[float]:
    """Return the sorted seconds from due to start, as the commands measured. The agent uses `database`."""
    start_default_agent(team, "far", database)
    team.wait_until_alive(1, 60)
    starts = team.directory / "starts"
    starts.touch()
    command = f'date "+$DCRON_SCHEDULED_FOR %s.%N" >> {starts}'
    first = datetime.now(UTC) + timedelta(seconds=10)
    commands = seconds * rate
    due = [first + timedelta(seconds=number // rate) for number in range(commands)]
    team.crontab.import_tasks(
        [
            Definition(
                name=f"task-{number}",
                schedule=f"@at {at:%Y-%m-%dT%H:%M:%SZ}",
                timezone="UTC",
                command=command,
            )
            for number, at in enumerate(due)
        ]
    )
    until = due[-1] + timedelta(seconds=_PATIENCE)
    while datetime.now(UTC) < until and starts.read_text().count("\n") < commands:
        time.sleep(0.1)
    rows = [row.split() for row in starts.read_text().splitlines()]
    late = [float(start) - datetime.fromisoformat(at).timestamp() for at, start in rows]
    return sorted(late) + [math.inf] * (commands - len(late))


def measure(server: str, socket: str, delay: float, rate: int, seconds: int) -> list[float]:
    """Return the lateness with a proxy before Postgres that delays data by so many seconds each way."""
    with (
        new_database("postgres", server) as url,
        tempfile.TemporaryDirectory() as directory,
        Proxy(socket, random.Random(0)) as proxy,
        cluster(url, Path(directory)) as team,
    ):
        proxy.delay = delay
        return lateness(team, proxy.url(url), rate, seconds)


def report(server: str, *, seconds: int, rate: int = 2, delays: Sequence[float] = DELAYS) -> None:
    """Print one line for each delay."""
    print(
        f"Lateness of starts with a delay between the agent and Postgres: {rate} commands each second"
        f" for {seconds} s"
    )
    socket = server_socket(server)
    if not socket:
        print("  not measured: the URL of the server names no Unix socket\n")
        return
    for delay in delays:
        late = measure(server, socket, delay, rate, seconds)
        middle, slow = statistics.median(late), late[int(len(late) * 0.99)]
        print(
            f"  {delay * 1000:4.0f} ms each way: first {late[0]:5.2f} s, median {middle:5.2f} s,"
            f" p99 {slow:5.2f} s, last {late[-1]:5.2f} s ({len(late)} runs)",
            flush=True,
        )
    print()


def main() -> None:
    """Measure what the options choose."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2, help="commands each second")
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    print(describe())
    with postgres_server() as server:
        report(server, seconds=options.seconds, rate=options.rate)


if __name__ == "__main__":
    main()
