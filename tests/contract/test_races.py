"""Races: two nodes, or a node and a user, act at the same time."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from sqlalchemy import select, update

from dcron.database import Database, is_transient, open_database
from dcron.errors import Conflict, DatabaseError, NotFound, Refused
from dcron.model import RunState, Trigger
from dcron.policy.starting.lanes import Lane
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.store.claims import claims
from dcron.store.nodes import rows as nodes
from dcron.store.runs.candidates import Capacity
from dcron.store.tasks import rows as tasks
from dcron.store.upkeep import reaping
from tests.support.patience import PATIENCE
from tests.support.stage import LEASE, Stage

Protocol = Callable[[Database, str, Stage, Callable[[], object]], list[int]]
CLAIMERS = 4
ROUNDS = 25
RUNS_A_ROUND = 12


def dcrons_protocol(database: Database, node: str, stage: Stage, meet: Callable[[], object]) -> list[int]:
    """Claim and record the start in one transaction."""
    meet()
    with database.write() as connection:
        nodes.renew(connection, node, stage.now, LEASE)
        slots = RUNS_A_ROUND // 2
        offer = Capacity(node_id=node, slots=slots)
        started = claims.claim(connection, database, offer, stage.now, [Lane()], slots=slots).started
    return [run.id for run in started]


def held_claims(database: Database, node: str, stage: Stage, meet: Callable[[], object]) -> list[int]:
    """Claim, commit, re-read with the start."""
    meet()
    with database.write() as connection:
        nodes.renew(connection, node, stage.now, LEASE)
        offer = Capacity(node_id=node, slots=RUNS_A_ROUND // 2)
        claimed = claims.claim(connection, database, offer, stage.now, [Lane()]).claimed
    with database.write() as connection:
        return [run.id for run in claims.start(connection, database, node, stage.now, claimed)]


def naive_protocol(database: Database, node: str, stage: Stage, meet: Callable[[], object]) -> list[int]:
    """Write my ID, whatever is there; read it again; it is mine: the classic mistake."""
    with database.read() as connection:
        due = list(connection.scalars(select(runs.c.id).where(runs.c.state == RunState.WAITING)))
    meet()
    started = []
    for run_id in due:
        mine = {"owner": node, "state": RunState.CLAIMED, "claimed_at": stage.now}
        with database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(mine))
        with database.read() as connection:
            owner = connection.scalar(select(runs.c.owner).where(runs.c.id == run_id))
        if owner == node:
            started.append(run_id)
    return started


@pytest.fixture
def claimers(database_url: str, stage: Stage) -> Iterator[list[tuple[Database, str]]]:
    """Nodes with connections of their own."""
    databases = [open_database(database_url, clock=lambda: stage.now) for _ in range(CLAIMERS)]
    yield [(database, stage.node(f"web-{number}")) for number, database in enumerate(databases)]
    for database in databases:
        database.close()


def starts_of(
    stage: Stage, claimers: Sequence[tuple[Database, str]], protocol: Protocol, rounds: int
) -> Counter[int]:
    """How often each run was started when all nodes reach for the same ones, round after round."""
    started: Counter[int] = Counter()
    lines = [stage.task(f"busy-{number}", "0 0 1 1 *", max_running=None) for number in range(RUNS_A_ROUND)]
    with ThreadPoolExecutor(len(claimers)) as pool:
        for _ in range(rounds):
            for line in lines:
                stage.insert_run(task_id=line.id, task=line.name)
            barrier = threading.Barrier(len(claimers), timeout=PATIENCE)
            answers = [
                pool.submit(protocol, database, node, stage, barrier.wait) for database, node in claimers
            ]
            for answer in answers:
                started.update(answer.result())
    return started


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [dcrons_protocol, held_claims])
def test_two_claimers_never_get_the_same_run(
    stage: Stage, claimers: list[tuple[Database, str]], protocol: Protocol
) -> None:
    started = starts_of(stage, claimers, protocol, ROUNDS)
    while left := stage.take(claimers[0][1], limit=100):  # a task held by another is left out
        started.update(run.id for run in left)
    assert len(started) == ROUNDS * RUNS_A_ROUND
    assert set(started.values()) == {1}


def test_the_race_exposes_a_protocol_that_overwrites(
    stage: Stage, claimers: list[tuple[Database, str]]
) -> None:
    for _ in range(20):
        if max(starts_of_fresh(stage, claimers).values()) > 1:
            return
    pytest.fail("the harness does not bring about the race it is there for")


def starts_of_fresh(stage: Stage, claimers: list[tuple[Database, str]]) -> Counter[int]:
    stage.sql("DELETE FROM runs")
    stage.sql("DELETE FROM crontab")
    return starts_of(stage, claimers, naive_protocol, rounds=1)


def assert_one_alive(stage: Stage, claimers: list[tuple[Database, str]]) -> None:
    """Two nodes reach for several runs of a task that may have one alive."""
    task = stage.task("single", "0 0 1 1 *", max_running=1)
    with ThreadPoolExecutor(CLAIMERS) as pool:
        for _ in range(ROUNDS):
            for _ in range(4):
                stage.insert_run(task_id=task.id, task=task.name)
            barrier = threading.Barrier(CLAIMERS, timeout=PATIENCE)
            answers = [pool.submit(take_one, database, node, stage, barrier) for database, node in claimers]
            started = [run_id for answer in answers for run_id in answer.result()]
            alive = stage.runs(task.id, RunState.CLAIMED, RunState.RUNNING)
            assert len(alive) == 1
            assert started == [alive[0].id]
            assert alive[0].owner
            stage.finish(alive[0].owner, alive[0].id)
            stage.sql("DELETE FROM runs WHERE state = 'waiting' AND trigger = 'manual'")


def take_one(database: Database, node: str, stage: Stage, barrier: threading.Barrier) -> list[int]:
    """Claim and start; the lease is renewed first, as agents do."""
    barrier.wait()
    with database.write() as connection:
        nodes.renew(connection, node, stage.now, LEASE)
        offer = Capacity(node_id=node, slots=1)
        started = claims.claim(connection, database, offer, stage.now, [Lane()], slots=1).started
    return [run.id for run in started]


@pytest.mark.slow
def test_a_limit_holds_when_all_count_at_once(stage: Stage, claimers: list[tuple[Database, str]]) -> None:
    assert_one_alive(stage, claimers)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_limit_holds_whatever_isolation_the_server_prefers(
    database_url: str, stage: Stage, claimers: list[tuple[Database, str]], isolation: str
) -> None:
    name = stage.database.address.url.database
    stage.sql(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    for database, _ in claimers:
        database.close()  # connections made from now on have the setting
    with claimers[0][0].read() as connection:
        assert connection.exec_driver_sql("SHOW default_transaction_isolation").scalar() == isolation
    assert_one_alive(stage, claimers)


@pytest.mark.slow
def test_a_task_keeps_its_one_next_run_while_people_and_agents_work_on_it(
    database_url: str, stage: Stage, claimers: list[tuple[Database, str]]
) -> None:
    """Claim and start, edit, pause, cancel and plan the same task at the same time, again and again."""
    task = stage.task("contended", "* * * * *", max_running=None)
    editor, canceller = Crontab(claimers[2][0], "ed"), Crontab(claimers[3][0], "cy")
    schedules = ["* * * * *", "*/2 * * * *"]

    def act(*steps: Callable[[], object]) -> None:
        barrier.wait()
        for step in steps:
            with suppress(Conflict, NotFound, Refused):  # another one was first
                step()

    def edit() -> None:
        line = editor.get("contended")
        editor.edit(line, {"schedule": schedules[line.version % 2]})

    def pause_and_resume() -> None:
        editor.resume(editor.pause(editor.get("contended")))

    def cancel() -> None:
        for run in stage.runs(task.id, RunState.WAITING):
            canceller.cancel(run.id)

    with ThreadPoolExecutor(CLAIMERS) as pool:
        for _ in range(ROUNDS):
            stage.forward(minutes=1)
            barrier = threading.Barrier(CLAIMERS, timeout=PATIENCE)
            taking = [
                pool.submit(act, partial(dcrons_protocol, database, node, stage, int))
                for database, node in claimers[:2]
            ]
            working = [
                pool.submit(act, edit, pause_and_resume, stage.plan),
                pool.submit(act, cancel, stage.plan),
            ]
            for answer in taking + working:
                answer.result()
            while stage.plan():
                pass
            line = stage.saved(task.id)
            assert (line.enabled, line.error, stage.has_to_plan()) == (True, None, False)
            turns = [run for run in stage.runs(task.id, RunState.WAITING) if run.trigger is Trigger.SCHEDULE]
            assert len(turns) == 1
            assert turns[0].spec["schedule"] == line.schedule


def test_a_cancellation_waits_for_another_writer_of_the_task(database_url: str, stage: Stage) -> None:
    """Else both would plan a run in the place of the cancelled one."""
    planned = stage.next_run(stage.task("contended"))
    impatient = open_database(database_url, clock=lambda: stage.now, patience=0.3)
    try:
        service = Crontab(impatient, "cy")
        with stage.database.write() as connection:
            tasks.lock(connection, [planned.task_id])
            with pytest.raises(DatabaseError) as failure:
                service.cancel(planned.id)
        assert is_transient(failure.value)
        assert service.cancel(planned.id).state is RunState.CANCELLED
    finally:
        impatient.close()


def test_two_reapers_share_the_dead(stage: Stage, claimers: list[tuple[Database, str]]) -> None:
    task = stage.task("long", "0 0 1 1 *", max_running=None)
    dead = [stage.node(f"dead-{number}", lease=1) for number in range(5)]
    for node in dead:
        stage.insert_run(task_id=task.id, task=task.name)
        stage.take(node)
    stage.forward(seconds=2)
    with stage.database.read() as connection:
        living = nodes.listing(connection, stage.now)
        over = {node.id: node.alive_until for node in living if node.alive_until < stage.now}
    barrier = threading.Barrier(CLAIMERS, timeout=PATIENCE)

    def reap(database: Database) -> tuple[list[str], list[int]]:
        barrier.wait()
        with database.write() as connection:
            return reaping.reap(connection, database, stage.now, over)

    with ThreadPoolExecutor(CLAIMERS) as pool:
        answers = list(pool.map(reap, [database for database, _ in claimers]))
    assert sorted(node for found, _ in answers for node in found) == sorted(dead)
    assert sorted(run for _, lost in answers for run in lost) == [
        run.id for run in stage.runs(task.id, RunState.LOST)
    ]


def test_of_two_people_one_gets_the_same_name(stage: Stage, claimers: list[tuple[Database, str]]) -> None:
    lines = [stage.task(f"line-{number}") for number in range(CLAIMERS)]
    barrier = threading.Barrier(CLAIMERS, timeout=PATIENCE)

    def rename(number: int) -> str:
        service = Crontab(claimers[number][0], f"person-{number}")
        barrier.wait()
        try:
            return service.edit(lines[number], {"name": "wanted"}).name
        except Refused as refusal:
            return str(refusal)

    with ThreadPoolExecutor(CLAIMERS) as pool:
        answers = Counter(pool.map(rename, range(CLAIMERS)))
    assert answers == {"wanted": 1, "there is a task 'wanted' already; choose another name": CLAIMERS - 1}
