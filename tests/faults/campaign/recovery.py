"""Recovery times: seconds from a fault to the next run, to `lost`, to service."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from dcron.errors import DatabaseError
from dcron.model import Run, RunState
from tests.faults.campaign.ledger import Load
from tests.faults.campaign.stage import LEASES, Stage, stage
from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer

HELD = "held"
"""A task that runs for long, so that its owner can be killed with it."""
LINES = (Load(HELD, "@every 1s", 30.0, fields={"overlap": "queue", "on_lost": "retry", "tries": 100}),)
WITHIN = 40.0


@dataclass
class Figure:
    """Some measurements of one thing."""

    what: str
    bound: str
    seconds: list[float]

    def __str__(self) -> str:
        median, worst = statistics.median(self.seconds), max(self.seconds)
        return f"| {self.what} | {len(self.seconds)} | {median:.1f} s | {worst:.1f} s | {self.bound} |"


HEAD = "| from … to … | times | median | worst | bound |\n|---|---|---|---|---|"


def measure(database: str, server: PostgresServer | None, times: int) -> Iterator[Figure]:
    """All figures for one kind of database."""
    yield from after_a_kill(database, server, times)
    if server:
        yield after_a_restart(server, times)


def after_a_kill(database: str, server: PostgresServer | None, times: int) -> list[Figure]:
    """From kill -9 of a run's owner to its being shown as lost, and to the task's next start elsewhere."""
    lost, again = [], []
    with stage(server if database == "postgres" else None, 1, 0) as played:
        played.begin(LINES)
        for _ in range(times):
            killed_at, run_id = _kill_owner(played)
            wait_for(lambda run_id=run_id: _state(played, run_id) is RunState.LOST, WITHIN, "it is lost")  # type: ignore[misc]
            lost.append(time.monotonic() - killed_at)
            wait_for(lambda run_id=run_id: _runs_after(played, run_id), WITHIN, "another runs")  # type: ignore[misc]
            again.append(time.monotonic() - killed_at)
            played.restart_dead()
            wait_for(lambda: len(played.cluster.alive()) == len(LEASES), WITHIN, "all are back")
    bound = f"lease ({min(LEASES.values()):g} to {max(LEASES.values()):g} s) + beat (a sixth of it)"
    return [
        Figure(f"kill -9 of a run's owner to `lost` ({database})", bound, lost),
        Figure(
            f"kill -9 of a run's owner to the task's next turn on another node ({database})", bound, again
        ),
    ]


def after_a_restart(server: PostgresServer, times: int) -> Figure:
    """From Postgres answering again after a crash to the first run that starts."""
    seconds = []
    with stage(server, 1, 0) as played:
        played.begin([Load("tick", "@every 1s", 0.0)])
        for _ in range(times):
            wait_for(lambda: len(played.cluster.alive()) == len(LEASES), WITHIN, "all are well")
            server.crash()
            time.sleep(2.0)
            server.start()
            began, known = time.monotonic(), len(played.cluster.ledger())
            wait_for(lambda known=known: len(played.cluster.ledger()) > known, WITHIN, "a job runs")  # type: ignore[misc]
            seconds.append(time.monotonic() - began)
            wait_for(lambda: _answers(played), WITHIN, "we are connected again")
    return Figure(
        "Postgres up again after a crash to the next start", "the longest pause between tries, 5 s", seconds
    )


def _kill_owner(played: Stage) -> tuple[float, int]:
    wait_for(lambda: _running(played), WITHIN, "a job runs")
    run = _running(played)[0]
    assert run.node
    played.agents[run.node].kill()
    return time.monotonic(), run.id


def _running(played: Stage) -> list[Run]:
    return played.cluster.runs(RunState.RUNNING, task=HELD)


def _state(played: Stage, run_id: int) -> RunState:
    return played.cluster.crontab.find_run(run_id).state


def _runs_after(played: Stage, run_id: int) -> bool:
    return any(run.id > run_id for run in played.cluster.runs(RunState.RUNNING, task=HELD))


def _answers(played: Stage) -> bool:
    try:
        return bool(played.cluster.alive())
    except DatabaseError:
        return False
