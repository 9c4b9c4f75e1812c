"""A node while the crontab is frozen: only manual runs start."""

from datetime import timedelta

import pytest

from dcron.model import Freeze, RunState, Trigger
from dcron.services.freezes import Freezes
from dcron.services.runs.dead_letters import DeadLetters
from tests.support.node import NINE, World


def freeze(world: World, begin: int | None = None, end: int | None = None) -> Freeze:
    """Freeze the crontab between these minutes after NINE."""
    times = [None if each is None else NINE + timedelta(minutes=each) for each in (begin, end)]
    return Freezes(world.crontab).freeze(from_at=times[0], until_at=times[1], reason="upgrade")


def thaw(world: World) -> None:
    Freezes(world.crontab).thaw()


def test_only_what_a_person_requested_starts(world: World) -> None:
    task = world.add("tick")
    world.add("push", "@on push")
    node = world.node()
    freeze(world)
    manual = world.crontab.run(task)
    world.clock.forward(minutes=1)
    assert node.dispatch() == [manual.id]
    assert node.dispatcher.step() > 1, "it does not spin"
    thaw(world)
    node.finish([manual.id])
    (started,) = node.dispatch()
    assert world.run(started).trigger is Trigger.SCHEDULE


def test_a_claim_that_does_not_know_the_freeze_starts_nothing(world: World) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    view = node.dispatcher._view
    view.look()
    before = view._known
    freeze(world)
    view._known, view._is_outdated = before, False
    assert node.dispatch() == []
    assert world.runs(RunState.RUNNING) == []


def test_a_planned_freeze_begins_and_ends_by_itself(world: World) -> None:
    world.add("tick", "* * * * *", catch_up="all", max_running=None)
    node = world.node()
    freeze(world, 2, 4)
    world.clock.forward(minutes=1)
    assert len(node.dispatch()) == 1
    world.clock.forward(minutes=1)
    assert node.dispatch() == []
    world.clock.forward(minutes=1, seconds=58)
    node.dispatch()
    assert node.dispatcher.step() == pytest.approx(2.0), "it wakes up at the end"
    world.clock.forward(seconds=2)
    first = node.dispatch()
    assert [world.run(run_id).scheduled_for for run_id in first][:1] == [NINE + timedelta(minutes=2)]


def test_a_held_claim_is_released_if_the_crontab_was_frozen_since(world: World) -> None:
    for number in range(6):
        world.add(f"task-{number}")
    node = world.node(slots=2)
    world.clock.forward(minutes=1)
    node.time = 0.0
    first = node.dispatch()
    while not world.runs(RunState.CLAIMED):
        node.end(*first)
        node.recorder.step()
        first = node.dispatch()
        if not first:
            pytest.skip("this node has held no claim")
    freeze(world)
    launched = len(node.launched)
    node.end(*(run.id for run in world.runs(RunState.RUNNING)))
    node.recorder.step()
    node.dispatch()
    assert len(node.launched) == launched
    assert world.runs(RunState.CLAIMED) == []


@pytest.mark.parametrize(("rule", "ran"), [("all", 3), ("last", 1), ("skip", 0)])
def test_the_catch_up_rule_decides_afterwards(world: World, rule: str, ran: int) -> None:
    world.add("tick", "*/10 * * * *", catch_up=rule)
    node = world.node()
    freeze(world)
    world.clock.forward(minutes=35)
    assert node.dispatch() == []
    thaw(world)
    for _ in range(5):
        node.finish(node.dispatch())
        world.clock.forward(seconds=1)
    ended = world.runs(RunState.SUCCEEDED, RunState.SKIPPED)
    assert len([run for run in ended if run.state is RunState.SUCCEEDED]) == ran
    skipped = [run for run in ended if run.state is RunState.SKIPPED]
    assert [run.skip_code for run in skipped] == ([] if rule == "all" else ["frozen"])
    assert all("upgrade" in (run.reason or "") for run in skipped)
    covered = sum(run.covers_count or 1 for run in skipped)
    assert ran + covered == 3, "every occurrence has a row"


def test_retries_wait_and_a_retry_by_hand_runs(world: World) -> None:
    world.add("flaky", tries=2, backoff=0.0)
    node = world.node()
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    freeze(world)
    node.finish([run_id], RunState.FAILED)
    world.clock.forward(seconds=10)
    assert node.dispatch() == []
    world.add("broken")
    thaw(world)
    world.clock.forward(seconds=50)
    for _ in range(3):
        node.finish(node.dispatch(), RunState.FAILED)
        world.clock.forward(seconds=1)
    dead = next(run for run in world.runs(RunState.FAILED) if run.task == "broken")
    freeze(world)
    retried = DeadLetters(world.crontab).retry(dead.id)
    assert node.dispatch() == [retried.id]
