"""Measure an idle agent: CPU time and statements, with few and with many tasks."""

import json
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import event, insert, text
from sqlalchemy.engine import Engine

from benchmarks.servers import new_database, postgres_server
from dcron import migrations
from dcron.agent.agent import Agent
from dcron.agent.settings import AgentSettings
from dcron.database import open_database
from dcron.schema.tables import crontab, runs


def seed(url: str, tasks: int) -> None:
    """Lines whose next run is far away."""
    database = open_database(url)
    migrations.prepare(database)
    with database.write() as connection:
        line = {"schedule": "0 0 1 1 *", "command": "true", "planned_version": 1}
        connection.execute(insert(crontab), [line | {"name": f"task-{n:06}"} for n in range(tasks)])
        far = database.now(connection).replace(year=2099)
        turn: dict[str, Any] = {"trigger": "schedule", "state": "waiting", "spec": {}}
        turn |= {"scheduled_for": far, "due_at": far, "tzdata": "9999z"}
        lines = connection.execute(text("SELECT id, name FROM crontab"))
        connection.execute(insert(runs), [turn | {"task_id": i, "task": name} for i, name in lines])
    database.close()


def serve(url: str, seconds: float, spool: str) -> None:
    """Be an agent for a while; print what it cost, its start left out."""
    statements = 0

    @event.listens_for(Engine, "before_cursor_execute")
    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    before: dict[str, float] = {}

    def begin() -> None:
        before.update(cpu=_cpu(), statements=statements)

    agent = Agent(open_database(url), AgentSettings(name="idle", spool=Path(spool), slots=8))
    settle = 3.0
    threading.Timer(settle, begin).start()

    def end() -> None:
        cost = {"cpu": _cpu() - before["cpu"], "statements": statements - before["statements"]}
        print(json.dumps(cost), flush=True)
        agent.stop()

    threading.Timer(settle + seconds, end).start()
    agent.run()


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cost(kind: str, server: str, tasks: int, seconds: float) -> tuple[float, float]:
    """Share of a core, and statements a minute."""
    with new_database(kind, server) as url, tempfile.TemporaryDirectory() as spool:
        seed(url, tasks)
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks.bench_idle",
            url,
            str(seconds),
            spool,
        ]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        measured = json.loads(printed)
        return measured["cpu"] / seconds, measured["statements"] * 60 / seconds


def report(server: str, *, tasks: int, seconds: float) -> None:
    """Print a line for each database and size."""
    print(f"Cost of an idle agent over {seconds:g} s")
    for kind in ("sqlite", "postgres"):
        for number in (10, tasks):
            share, statements = cost(kind, server, number, seconds)
            print(
                f"  {kind:9} {number:7,} tasks: {share:6.2%} of a core, {statements:4.0f} statements a minute"
            )
    print()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1], float(sys.argv[2]), sys.argv[3])
    else:
        with postgres_server() as own_server:
            report(own_server, tasks=100_000, seconds=30)
