"""Limits while many nodes claim and finish at once: never exceeded, and nothing that waited is forgotten."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest
from sqlalchemy import func, select, text

from dcron.database import is_transient, open_database
from dcron.errors import DatabaseError
from dcron.model import RunState, Task, Trigger
from dcron.policy.starting.lanes import Lane
from dcron.schema.conditions import ALIVE
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.store.claims import claims, finishing
from dcron.store.claims.claims import ClaimResult
from dcron.store.claims.finishing import RunResult
from dcron.store.runs import blocked
from dcron.store.runs.candidates import Capacity, ClaimedRun
from tests.support.patience import PATIENCE
from tests.support.run_queries import held_back
from tests.support.stage import Stage

NODES = 4
RUNS = 24
Answer = TypeVar("Answer")


class Ledger:
    """What was started, and how many runs were alive at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.most = 0
        self.started: Counter[int] = Counter()
        self.finished = 0

    def start(self, run_ids: Iterable[int], alive: int) -> None:
        with self._lock:
            self.started.update(run_ids)
            self.most = max(self.most, alive)

    def finish(self) -> None:
        with self._lock:
            self.finished += 1

    @property
    def is_done(self) -> bool:
        return self.finished == RUNS


class Racer:
    """One node with connections of its own, that claims, starts and finishes as fast as it can."""

    def __init__(self, url: str, stage: Stage, name: str, ledger: Ledger, lane: Lane) -> None:
        self.database = open_database(url, clock=lambda: stage.now)
        self.stage, self.ledger, self.lane = stage, ledger, lane
        self.node = stage.node(name)

    def run(self, start: threading.Barrier, deadline: float) -> None:
        start.wait()
        while not self.ledger.is_done and time.monotonic() < deadline:
            batch = persist(self._claim)
            if batch.blocked:
                persist(partial(self._look_again_at, batch))
            self.ledger.start((run.id for run in batch.started), self._count_alive())
            for run in batch.started:
                persist(partial(self._finish, run))
                self.ledger.finish()

    def _claim(self) -> ClaimResult:
        offer = Capacity(node_id=self.node, slots=3)
        with self.database.write() as connection:
            return claims.claim(connection, self.database, offer, self.stage.now, [self.lane], slots=3)

    def _look_again_at(self, batch: ClaimResult) -> None:
        with self.database.write() as connection:
            blocked.unblock(connection, [run.task.id for run, _ in batch.blocked], self.stage.now)

    def _count_alive(self) -> int:
        with self.database.read() as connection:
            return connection.scalar(select(func.count()).select_from(runs).where(text(ALIVE))) or 0

    def _finish(self, run: ClaimedRun) -> None:
        ended = [RunResult(run.id, RunState.SUCCEEDED, self.stage.now)]
        with self.database.write() as connection:
            assert finishing.finish(connection, self.database, self.node, ended, self.stage.now) == {run.id}


def persist(step: Callable[[], Answer]) -> Answer:
    """Do it again where the database says that trying again can help, as agents do."""
    for _ in range(20):
        try:
            return step()
        except DatabaseError as error:
            if not is_transient(error):
                raise
    return step()


@pytest.fixture
def race(database_url: str, stage: Stage) -> Iterator[Callable[[Lane], Ledger]]:
    racers: list[Racer] = []

    def run(lane: Lane) -> Ledger:
        ledger = Ledger()
        racers.extend(Racer(database_url, stage, f"web-{number}", ledger, lane) for number in range(NODES))
        start, deadline = threading.Barrier(NODES, timeout=PATIENCE), time.monotonic() + PATIENCE
        with ThreadPoolExecutor(NODES) as pool:
            for answer in [pool.submit(racer.run, start, deadline) for racer in racers]:
                answer.result()
        return ledger

    yield run
    for racer in racers:
        racer.database.close()


def expected(stage: Stage, tasks: list[Task]) -> None:
    for number in range(RUNS):
        task = tasks[number % len(tasks)]
        stage.insert_run(
            task_id=task.id, task=task.name, trigger=Trigger.EVENT, lane=task.queue, queue=task.queue
        )


def assert_all_ran(stage: Stage, ledger: Ledger, limit: int) -> None:
    assert ledger.most <= limit
    assert held_back(stage) == [], "what waited was forgotten"
    assert set(ledger.started.values()) == {1}
    assert len(ledger.started) == RUNS


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3])
def test_a_tasks_limit_holds_and_nothing_that_waited_is_forgotten(
    stage: Stage, race: Callable[[Lane], Ledger], limit: int
) -> None:
    expected(stage, [stage.task("busy", "0 0 1 1 *", max_running=limit)])
    assert_all_ran(stage, race(Lane()), limit)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3])
def test_a_queue_limit_holds_over_many_tasks(
    stage: Stage, race: Callable[[Lane], Ledger], limit: int
) -> None:
    Fleet(stage.crontab).set_queue("mail", limit)
    expected(
        stage, [stage.task(f"mail-{number}", "0 0 1 1 *", queue="mail", max_running=2) for number in range(4)]
    )
    assert_all_ran(stage, race(Lane(queue="mail")), limit)


def test_many_may_set_one_queue_for_the_first_time_at_once(database_url: str, stage: Stage) -> None:
    databases = [open_database(database_url, clock=lambda: stage.now) for _ in range(NODES)]
    fleets = [Fleet(Crontab(database, "ann")) for database in databases]
    start = threading.Barrier(NODES, timeout=PATIENCE)

    def put(number: int) -> None:
        for name in ("mail", "reports", "builds", "other"):
            start.wait()
            fleets[number].set_queue(name, number)

    try:
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(put, range(NODES)))
    finally:
        for database in databases:
            database.close()
    assert [queue.name for queue in fleets[0].queues()] == ["builds", "mail", "other", "reports"]
    databases[0].close()
