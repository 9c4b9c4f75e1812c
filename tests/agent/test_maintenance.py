"""Maintenance jobs: one node at a time does a job, and a node that is gone is succeeded."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Row, select, update

from dcron import migrations
from dcron.agent import maintenance as agent_maintenance
from dcron.agent.counters import Counters
from dcron.agent.maintenance import Maintenance
from dcron.database import Database
from dcron.errors import DatabaseError
from dcron.model import Definition
from dcron.schema.tables import alerts, maintenance_jobs
from dcron.services.crontab import Crontab
from dcron.store import maintenance
from dcron.store.maintenance import HOLD, Hold, HoldLost, Step
from dcron.store.retention import walk
from tests.support.node import StandingClock, World
from tests.support.patience import PATIENCE

NEVER = threading.Event()


@dataclass
class Counting:
    """A job of three steps that counts."""

    name: str = "counting"
    interval: float = 600.0
    seen: list[int] = field(default_factory=list)
    before_writing: Callable[[int], None] = lambda _: None

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        number = int(position.get("next", 0))
        self.before_writing(number)
        with database.write() as connection:
            hold.renew(connection, database.now(connection), {"next": number + 1})
            self.seen.append(number)
        return Step(None, {"rows": 3}) if number == 2 else Step({"next": number + 1})


@pytest.fixture
def job(world: World) -> Counting:
    job = Counting()
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [job.name], world.clock.now)
    return job


def row(world: World, name: str = "counting") -> Row[Any]:
    with world.database.read() as connection:
        return connection.execute(select(maintenance_jobs).where(maintenance_jobs.c.name == name)).one()


def take(world: World, node_id: str) -> Mapping[str, Any] | None:
    with world.database.write() as connection:
        return maintenance.take(connection, "counting", node_id, world.clock.now)


def test_a_job_is_done_in_steps_and_repeated(world: World, clock: StandingClock, job: Counting) -> None:
    agent = Maintenance(world.database, "web-1", [job])
    agent.do(job, NEVER)
    assert job.seen == [0, 1, 2]
    found = row(world)
    assert (found.holder, found.held_until, found.position, found.error) == (None, None, {}, None)
    assert (found.ran_at, found.done) == (clock.now, {"rows": 3})
    agent.do(job, NEVER)
    assert job.seen == [0, 1, 2]
    clock.forward(minutes=11)
    agent.do(job, NEVER)
    assert job.seen == [0, 1, 2] * 2


def test_the_rows_of_jobs_are_inserted_once(world: World, clock: StandingClock, job: Counting) -> None:
    Maintenance(world.database, "web-1", [job]).do(job, NEVER)
    before = row(world)
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, ["counting", "other"], clock.now)
    assert row(world) == before
    assert row(world, "other").due_at == clock.now


def test_a_heartbeat_offers_the_job_that_is_due(
    world: World, clock: StandingClock, job: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world.node()
    offered: list[str] = []
    monkeypatch.setattr(node.maintenance, "offer", offered.append)
    node.heartbeat.step()
    assert offered == [], "this node does not know the job"
    node.maintenance._jobs = {job.name: job}
    node.heartbeat.step()
    assert offered == ["counting"]
    assert take(world, "web-2") == {}
    node.heartbeat.step()
    assert offered == ["counting"], "another node has it"
    clock.forward(seconds=HOLD + 1)
    world.execute(update(maintenance_jobs).values(holder=None, held_until=None))
    node.heartbeat.step()
    assert offered == ["counting"] * 2


def test_of_two_nodes_one_gets_the_job(world: World, job: Counting) -> None:
    assert take(world, "web-1") == {}
    assert take(world, "web-2") is None
    agent = Maintenance(world.database, "web-2", [job])
    agent.do(job, NEVER)
    assert job.seen == []


def test_a_dead_holder_is_succeeded_where_it_was(world: World, clock: StandingClock, job: Counting) -> None:
    assert take(world, "web-1") == {}
    dead = Hold(job.name, "web-1")
    job.step(world.database, dead, {})
    clock.forward(seconds=59 - world.node().settings.beat)
    Maintenance(world.database, "web-2", [job]).do(job, NEVER)
    assert job.seen == [0, 1, 2]
    assert row(world).ran_at == clock.now


def test_a_holder_that_was_succeeded_writes_nothing_more(
    world: World, clock: StandingClock, job: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    def freeze(number: int) -> None:
        if number == 1:
            clock.forward(seconds=HOLD + 1)
            assert take(world, "web-2") == {"next": 1}

    job.before_writing = freeze
    with caplog.at_level(logging.WARNING, "dcron.agent"):
        Maintenance(world.database, "web-1", [job]).do(job, NEVER)
    assert job.seen == [0]
    assert row(world).holder == "web-2"
    assert "another node continues the job counting" in caplog.text


def test_a_node_that_stops_leaves_the_rest_to_another_at_once(world: World, job: Counting) -> None:
    stop = threading.Event()
    job.before_writing = lambda _: stop.set()
    Maintenance(world.database, "web-1", [job]).do(job, stop)
    assert (job.seen, row(world).position, row(world).holder) == ([0], {"next": 1}, None)
    Maintenance(world.database, "web-2", [job]).do(job, NEVER)
    assert job.seen == [0, 1, 2]


def test_an_unforeseen_error_is_recorded_and_the_node_goes_on(
    world: World, clock: StandingClock, job: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(number: int) -> None:
        if number == 1:
            raise ZeroDivisionError("a bug")

    job.before_writing = stumble
    agent = Maintenance(world.database, "web-1", [job])
    with caplog.at_level(logging.WARNING, "dcron.agent"):
        agent.do(job, NEVER)
        clock.forward(minutes=11)
        agent.do(job, NEVER)
    assert row(world).error == "ZeroDivisionError: a bug"
    assert row(world).due_at > clock.now
    assert len(caplog.records) == 1, "it is reported once"
    job.before_writing = lambda _: None
    clock.forward(minutes=11)
    agent.do(job, NEVER)
    assert (row(world).error, row(world).done) == (None, {"rows": 3})


def test_a_database_that_is_away_is_no_end(world: World, clock: StandingClock, job: Counting) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise DatabaseError("away")

    job.before_writing = fail
    agent = Maintenance(world.database, "web-1", [job])
    agent.do(job, NEVER)
    job.before_writing = lambda _: None
    clock.forward(seconds=HOLD + 1)
    agent.do(job, NEVER)
    assert job.seen == [0, 1, 2]


def test_times_of_a_clock_once_ahead_hold_nothing_up(
    world: World, clock: StandingClock, job: Counting
) -> None:
    clock.forward(days=400)
    assert take(world, "web-1") == {}
    Maintenance(world.database, "web-1", [job]).do(job, NEVER)
    clock.forward(days=-400)
    assert take(world, "web-2") == {}, "it seemed to be held, and due, in a year"


def test_a_position_written_by_hand_begins_a_new_round(world: World, job: Counting) -> None:
    for text in ("[]", "{", "5"):
        with world.database.write() as connection:
            connection.exec_driver_sql(
                f"UPDATE maintenance_jobs SET position = '{text}', holder = NULL, held_until = NULL"
            )
        assert take(world, "web-1") == {}


def test_a_job_ends_with_an_upgrade_of_the_tables(world: World, job: Counting) -> None:
    assert take(world, "web-1") == {}
    hold = Hold(job.name, "web-1")
    with world.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'")
    with world.database.write() as connection, pytest.raises(HoldLost):
        hold.renew(connection, world.clock.now, {})
    assert take(world, "web-2") is None


def test_each_good_round_of_the_watch_is_announced(world: World, clock: StandingClock, job: Counting) -> None:
    watch, rounds = Counting(name="watch"), []
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [watch.name], clock.now)
    agent = Maintenance(world.database, "web-1", [job, watch], on_watched=lambda: rounds.append(1))
    agent.do(job, NEVER)
    agent.do(watch, NEVER)
    agent.do(watch, NEVER)  # it is not due
    assert rounds == [1]

    def fail(_: int) -> None:
        raise ValueError("out of order")

    clock.forward(minutes=11)
    watch.before_writing = fail
    agent.do(watch, NEVER)
    assert rounds == [1]


def test_what_a_heartbeat_offers_is_done_in_another_thread(world: World, job: Counting) -> None:
    agent, stop = Maintenance(world.database, "web-1", [job]), threading.Event()
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    agent.offer("counting")
    give_up = time.monotonic() + PATIENCE
    while row(world).ran_at is None and time.monotonic() < give_up:
        time.sleep(0.01)
    stop.set()
    agent.wake()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert job.seen == [0, 1, 2]


def test_a_quick_job_does_not_wait_for_a_long_one(world: World, job: Counting) -> None:
    may_end, began = threading.Event(), threading.Event()

    def block(_: int) -> None:
        began.set()
        assert may_end.wait(60)

    job.before_writing = block
    quick = Counting(name="watch")
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [quick.name], world.clock.now)
    agent, stop = Maintenance(world.database, "web-1", [job, quick]), threading.Event()
    threads = [
        threading.Thread(target=agent.run, args=(stop,), kwargs={"quick": is_quick})
        for is_quick in (False, True)
    ]
    for thread in threads:
        thread.start()
    try:
        agent.offer("counting")
        assert began.wait(60)
        agent.offer("watch")
        give_up = time.monotonic() + 60
        while row(world, "watch").ran_at is None and time.monotonic() < give_up:
            time.sleep(0.01)
        assert (quick.seen, job.seen) == ([0, 1, 2], [])
    finally:
        may_end.set()
        stop.set()
        agent.wake()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_watch_is_done_while_a_slow_job_never_ends(world: World, clock: StandingClock) -> None:
    may_end, began = threading.Event(), threading.Event()

    def block(_: int) -> None:
        began.set()
        assert may_end.wait(60)

    endless, next_one, quick = Counting("archive", before_writing=block), Counting("prune"), Counting("watch")
    quick.interval = 15.0
    jobs = [endless, next_one, quick]
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [job.name for job in jobs], clock.now)
    node, stop = world.node(), threading.Event()
    node.maintenance._jobs = {job.name: job for job in jobs}
    threads = [
        threading.Thread(target=node.maintenance.run, args=(stop,), kwargs={"quick": is_quick})
        for is_quick in (False, True)
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 5):
            node.heartbeat.step()
            assert began.wait(60)
            give_up = time.monotonic() + PATIENCE
            while row(world, "watch").ran_at != clock.now and time.monotonic() < give_up:
                time.sleep(0.01)
            assert quick.seen == [0, 1, 2] * number
            clock.forward(seconds=20)
        assert (endless.seen, next_one.seen) == ([], [])
    finally:
        may_end.set()
        stop.set()
        node.maintenance.wake()
        for thread in threads:
            thread.join(60)


def test_what_was_overdue_without_agents_is_noticed_at_the_start(world: World, clock: StandingClock) -> None:
    agent = Maintenance(world.database, "web-1")
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, agent.names, clock.now)
    Crontab(world.database, "ann@desk").add(
        Definition(name="backup", schedule="*/10 * * * *", timezone="UTC", command="true")
    )
    clock.forward(minutes=30)
    agent.watch_first(NEVER)
    agent.watch_first(NEVER)  # another node has just looked
    with world.database.read() as connection:
        assert list(connection.scalars(select(alerts.c.kind))) == ["late"]


def test_a_quick_job_that_is_not_done_shows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = [1000.0]
    monkeypatch.setattr(agent_maintenance, "monotonic", lambda: at[0])
    quick = Counting(name="watch")
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [quick.name], world.clock.now)
    agent = Maintenance(world.database, "web-1", [quick])

    def offer_for(seconds: int) -> float:
        for _ in range(0, seconds, 10):
            at[0] += 10
            agent.offer("watch")
        return agent.quick_waits

    assert agent.quick_waits == 0.0
    assert offer_for(100) == 90.0
    agent.do(quick, NEVER)
    assert agent.quick_waits == 0.0
    assert offer_for(60) == 50.0
    at[0] += 600  # another node has done it meanwhile
    assert offer_for(20) == 10.0
    agent.do(quick, NEVER)  # it is not due
    assert agent.quick_waits == 0.0

    def fail(_: int) -> None:
        raise ValueError("out of order")

    quick.before_writing = fail
    world.clock.forward(minutes=11)
    offer_for(60)
    agent.do(quick, NEVER)
    assert agent.names_of(quick=True) == []
    at[0] += 61
    assert agent.names_of(quick=True) == ["watch"]
    assert offer_for(10) > 90.0, "it was not done"


def test_a_step_that_hangs_shows(world: World, job: Counting) -> None:
    counters, overdue = Counters(), list[float]()
    job.before_writing = lambda _: overdue.append(counters.maintenance.overdue)
    assert counters.maintenance.overdue == 0.0
    Maintenance(world.database, "web-1", [job], counters).do(job, NEVER)
    assert all(0.0 < each < 60 for each in overdue)
    assert counters.maintenance.overdue == 0.0, "no job is due"


def test_the_first_pruning_is_announced(world: World, clock: StandingClock) -> None:
    with world.database.write() as connection:
        maintenance.add_missing(connection, world.database, [walk.JOB], clock.now)
        due_at = clock.now + timedelta(days=6)
        connection.execute(update(maintenance_jobs).values(due_at=due_at))
    with world.database.read() as connection:
        begins_at = walk.pruning(connection, clock.now).begins_at
    assert begins_at == clock.now + timedelta(days=7)
    clock.forward(days=9)
    with world.database.read() as connection:
        assert walk.pruning(connection, clock.now).begins_at is None
