"""Measure no-op runs a second: claim, start with successor, finish; beside bare commits of the same run."""

import multiprocessing
import time
from datetime import datetime, timedelta

from sqlalchemy import insert, text

from benchmarks.servers import new_database, postgres_server
from dcron import __version__, migrations
from dcron.database import Database, open_database
from dcron.model import Node, RunState
from dcron.policy.starting.lanes import Lane
from dcron.schema.tables import crontab, runs
from dcron.store.claims import claims, finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.nodes import rows as nodes
from dcron.store.runs.candidates import Capacity

BATCH = 100


def seed(database: Database, lines: int) -> datetime:
    """A crontab of hourly lines, all due since a second ago."""
    migrations.prepare(database)
    with database.write() as connection:
        now = database.now(connection)
        values = {"schedule": "0 * * * *", "command": "true", "planned_version": 1}
        connection.execute(insert(crontab), [values | {"name": f"task-{n:06}"} for n in range(lines)])
        due = now - timedelta(seconds=1)
        spec = {"schedule": "0 * * * *", "timezone": "UTC", "command": "true", "shell": "/bin/sh"}
        row = {"trigger": "schedule", "state": "waiting", "scheduled_for": due, "due_at": due, "spec": spec}
        ids = connection.execute(text("SELECT id, name FROM crontab"))
        connection.execute(insert(runs), [row | {"task_id": i, "task": name} for i, name in ids])
    return now


def node(node_id: str, now: datetime) -> Node:
    """A node with a lease that outlives the benchmark."""
    return Node(
        id=node_id,
        name=node_id[:-9],
        host="bench",
        pid=1,
        slots=BATCH,
        version=__version__,
        tzdata="",
        started_at=now,
        alive_until=now + timedelta(hours=1),
        draining=False,
        died_at=None,
        died_how=None,
        clock_offset=None,
    )


def take_turns(
    url: str, node_id: str, seconds: float, done: "multiprocessing.Queue[tuple[int, float]]"
) -> None:
    """Claim, start and finish batches; the clock runs ahead, so that lines come round again."""
    database = open_database(url)
    with database.write() as connection:
        now = database.now(connection)
        nodes.register(connection, node(node_id, now))
    turns, ahead, began = 0, timedelta(0), time.perf_counter()
    while time.perf_counter() - began < seconds:
        with database.write() as connection:
            now = database.now(connection) + ahead
            nodes.renew(connection, node_id, now, 3600)
            offer = Capacity(node_id=node_id, slots=BATCH)
            started = claims.claim(connection, database, offer, now, [Lane()], slots=BATCH).started
        if not started:
            ahead += timedelta(hours=1)
            continue
        with database.write() as connection:
            ended = [RunResult(run.id, RunState.SUCCEEDED, now, None, 0) for run in started]
            turns += len(finishing.finish(connection, database, node_id, ended, now))
    done.put((turns, time.perf_counter() - began))
    database.close()


def commits_per_second(database: Database, seconds: float) -> float:
    """The raw limit: one-row transactions of one process."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE bench_commit (n INTEGER)"))
        connection.execute(text("INSERT INTO bench_commit VALUES (0)"))
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        with database.write() as connection:
            connection.execute(text("UPDATE bench_commit SET n = n + 1"))
        count += 1
    return count / (time.perf_counter() - began)


def measure(kind: str, server: str, agents: int, lines: int, seconds: float) -> tuple[float, float]:
    """Turns a second of all agents together, and commits a second of one process alone."""
    with new_database(kind, server) as url:
        database = open_database(url)
        seed(database, lines)
        commits = commits_per_second(database, 2.0)
        database.close()
        done: multiprocessing.Queue[tuple[int, float]] = multiprocessing.Queue()
        workers = [
            multiprocessing.Process(target=take_turns, args=(url, f"bench{n}-0000000{n}", seconds, done))
            for n in range(agents)
        ]
        for worker in workers:
            worker.start()
        rates = [turns / took for turns, took in (done.get() for _ in workers)]
        for worker in workers:
            worker.join()
        return sum(rates), commits


def report(server: str, *, agents: int = 2, lines: int = 20_000, seconds: float = 8.0) -> None:
    """Print one line a database."""
    print(
        f"No-op turns (claim, start and successor, finish): {agents} agents, batches of {BATCH},"
        f" {lines:,} lines"
    )
    for kind in ("sqlite", "postgres"):
        turns, commits = measure(kind, server, agents, lines, seconds)
        print(
            f"  {kind:9} {turns:8,.0f} turns/s  beside {commits:6,.0f} commits/s: ratio {turns / commits:.1f}"
        )
    print()


if __name__ == "__main__":
    with postgres_server() as own_server:
        report(own_server)
