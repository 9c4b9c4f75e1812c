"""A database's clock that is set forward and back while nodes run, or is behind when they start."""

from datetime import UTC, datetime, timedelta

import pytest

from dcron.agent.clock import ClockWatch
from dcron.model import RunState
from tests.support.node import HandNode, World

DAY = timedelta(days=1)


def node_of(world: World, name: str = "web-1") -> HandNode:
    """A node whose own clock cannot be set."""
    node = HandNode(world.database, name, slots=20)
    node.lease.clock = world.clock.boottime
    node.register()
    node.heartbeat.step()
    return node


def pass_time(world: World, node: HandNode, seconds: float, each: float = 10) -> None:
    """Let the node live for a while: a heartbeat and all due runs every ten seconds."""
    for _ in range(int(seconds / each)):
        world.clock.forward(seconds=each)
        node.heartbeat.step()
        while started := node.dispatch():
            node.finish(started)


def starts(world: World, name: str) -> list[datetime]:
    return [run.scheduled_for for run in world.runs() if run.task == name and run.started_at is not None]


def test_a_clock_watch_sees_steps_and_no_slow_answers() -> None:
    watch, nine = ClockWatch(), datetime(2027, 6, 1, 9, tzinfo=UTC)
    assert watch.step(nine, 100.0, 100.1) == 0
    assert watch.step(nine + timedelta(seconds=10), 110.0, 110.1) == 0
    assert watch.step(nine + timedelta(seconds=25), 120.0, 126.0) == 0  # the answer took six seconds
    assert watch.step(nine + timedelta(days=1), 130.0, 130.1) == pytest.approx(86365, abs=10)
    assert watch.step(nine + timedelta(seconds=45), 140.0, 140.1) == pytest.approx(-86365, abs=10)


@pytest.mark.slow
def test_a_clock_a_day_ahead_for_a_minute_stops_no_task(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name, schedule in (("often", "@every 30s"), ("hourly", "0 * * * *"), ("daily", "0 10 * * *")):
        world.add(name, schedule)
    world.add("after", "@delay 30s")
    node = node_of(world)
    pass_time(world, node, 60)
    world.clock.ahead = DAY
    pass_time(world, node, 60)
    early = {name: starts(world, name)[-1] for name in ("often", "hourly", "daily", "after")}
    assert min(early.values()) > world.clock.now
    world.clock.ahead = timedelta()

    pass_time(world, node, 120)
    assert "set back by 86" in caplog.text
    since = world.clock.now - timedelta(seconds=120)
    for name in ("often", "after"):
        assert [each for each in starts(world, name) if since < each <= world.clock.now], name
    pass_time(world, node, 2 * 3600, each=300)
    today = [each for each in starts(world, "hourly") if each <= world.clock.now]
    assert [each.hour for each in today] == [10, 11]
    assert [each for each in starts(world, "daily") if each <= world.clock.now] == [
        world.clock.now.replace(hour=10, minute=0, second=0, microsecond=0)
    ]


def test_an_occurrence_that_ran_early_is_not_run_again(world: World) -> None:
    world.add("hourly", "0 * * * *")
    node = node_of(world)
    world.clock.ahead = timedelta(hours=1)
    pass_time(world, node, 60)  # it is ten o'clock, an hour too early
    (early,) = [run for run in world.runs() if run.started_at]
    assert early.scheduled_for.hour == 10
    world.clock.ahead = timedelta()
    pass_time(world, node, 3 * 3600, each=300)
    assert [each.hour for each in starts(world, "hourly")] == [10, 11, 12]
    first = world.crontab.view("hourly").next_run_at
    assert first
    assert first.hour == 13


@pytest.mark.slow
def test_an_agent_that_starts_later_knows_early_runs(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add("hourly", "0 * * * *")
    node = node_of(world)
    world.clock.ahead = DAY
    pass_time(world, node, 60)
    world.clock.ahead = timedelta()
    pass_time(world, node, 20)
    later = node_of(world, "web-2")
    assert "the database's clock is behind" not in caplog.text  # another agent has dealt with it
    pass_time(world, later, 26 * 3600, each=600)
    assert len(starts(world, "hourly")) == len(set(starts(world, "hourly"))) == 26
    (skipped,) = [run for run in world.runs(RunState.SKIPPED) if "ahead of its time" in str(run.reason)]
    assert skipped.scheduled_for == datetime(2026, 11, 21, 9, tzinfo=UTC)


def test_retries_and_runs_by_hand_do_not_wait_for_a_day(world: World) -> None:
    task = world.add("retry", "0 * * * *", tries=3, backoff=5.0)
    node = node_of(world)
    world.clock.ahead = DAY
    pass_time(world, node, 10)
    failed = world.crontab.run(task)
    (run_id,) = node.dispatch()
    assert run_id == failed.id
    node.finish([run_id], RunState.FAILED)
    by_hand = world.crontab.run(world.add("by-hand", "0 0 1 1 *"))
    world.clock.ahead = timedelta()
    pass_time(world, node, 40)
    assert world.run(by_hand.id).state is RunState.SUCCEEDED
    (retry,) = [run for run in world.runs() if run.attempt == 2]
    assert retry.started_at
    assert retry.started_at <= world.clock.now


def test_an_occurrence_that_a_person_cancelled_does_not_come_back(world: World) -> None:
    world.add("hourly", "0 * * * *")
    node = node_of(world)
    (first,) = world.runs(RunState.WAITING)
    world.crontab.cancel(first.id)
    world.clock.ahead = timedelta(minutes=5)
    world.crontab.edit(world.crontab.get("hourly"), {"describe": "x"})
    pass_time(world, node, 10)
    world.clock.ahead = timedelta()
    pass_time(world, node, 10)
    assert world.crontab.view("hourly").next_run_at == datetime(2026, 11, 20, 11, tzinfo=UTC)


def test_a_boot_clock_behind_keeps_no_dead_node_alive(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add("often", "@every 30s")
    before = HandNode(world.database, "web-1")
    before.lease.clock = world.clock.boottime
    before.register()
    before.heartbeat.step()
    world.clock.forward(seconds=30)
    (run_id,) = before.dispatch()

    world.clock.ahead = -timedelta(hours=1)  # a power cut; the machine comes up with its clock behind
    node = node_of(world, "web-2")
    pass_time(world, node, 20)
    world.clock.ahead = timedelta()  # NTP sets it
    pass_time(world, node, 60)
    assert world.run(run_id).state is RunState.LOST
    assert "ahead; without a renewal the node is declared dead in 60s" in caplog.text
    assert "set forward by 3600s" in caplog.text
    assert len(starts(world, "often")) == len(set(starts(world, "often")))
    assert world.clock.now - starts(world, "often")[-1] < timedelta(seconds=31)


def test_a_clock_that_stays_behind_is_trusted_after_a_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.add("hourly", "0 * * * *")
    node = node_of(world)
    pass_time(world, node, 3600, each=600)
    assert [each.hour for each in starts(world, "hourly")] == [10]
    world.clock.ahead = -timedelta(hours=1, minutes=30)
    later = node_of(world, "web-2")
    assert "the database's clock is behind" in caplog.text
    pass_time(world, later, 50)
    assert "planned anew" not in caplog.text.partition("clock is behind")[2].partition("anew")[2]
    pass_time(world, later, 2 * 3600, each=300)
    assert [each.hour for each in starts(world, "hourly")] == [10, 9]  # ten had run already
