"""Claims that a busy node holds ahead: started when a slot is free, and released when they must not wait."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.agent.held_claims import LONGEST_GATHERING, LONGEST_HOLD, MOST_PER_SLOT
from dcron.agent.recorder import LONGEST_DELAY
from dcron.errors import DatabaseError
from dcron.model import Run, RunState
from dcron.store.claims import held as held_claims
from tests.agent.test_dispatcher import cut_commit
from tests.support.node import HandNode, World


def holding(world: World, tasks: int = 6, slots: int = 2) -> tuple[HandNode, list[Run]]:
    """A node whose slots are taken by runs of which the first ones were quick, and the claims it holds."""
    for number in range(tasks):
        world.add(f"task-{number}")
    node = world.node(slots=slots)
    world.clock.forward(minutes=1)
    node.end(*node.dispatch())
    node.dispatch()
    held = world.runs(RunState.CLAIMED)
    assert {run.owner for run in held} == {node.id}
    assert len(held) == slots
    assert len(node.active_runs.ids()) == 2 * slots
    return node, held


def test_a_held_claim_starts_without_another_claim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, held = holding(world)
    node.end(*node.active_runs.ids())
    monkeypatch.setattr("dcron.store.claims.claims.claim_locked", None)
    assert node.dispatcher.step() == 0
    assert [job.run_id for job in node.launched[-2:]] == [run.id for run in held]
    assert world.run(held[0].id).attempt == 1


def test_nothing_is_claimed_ahead_while_runs_take_long(world: World) -> None:
    for number in range(6):
        world.add(f"task-{number}")
    node = world.node(slots=2)
    world.clock.forward(minutes=1)
    started = node.dispatch()
    node.time += 1
    node.end(*started)
    node.dispatch()
    assert world.runs(RunState.CLAIMED) == []


@pytest.mark.slow
def test_no_more_than_a_few_for_each_slot_are_claimed_ahead(world: World) -> None:
    task = world.add("tick", "0 0 1 1 *", max_running=None)
    for _ in range(30):
        world.crontab.run(task)
    node = world.node(slots=1)
    most = 0
    for _ in range(30):
        node.end(*node.dispatch())
        most = max(most, len(world.runs(RunState.CLAIMED)))
    assert most == MOST_PER_SLOT
    assert len({job.run_id for job in node.launched}) == len(node.launched) == 30


def test_while_claims_are_held_and_no_slot_is_free_the_database_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = holding(world)
    with monkeypatch.context() as without:
        without.setattr("dcron.agent.look.take_snapshot", None)
        world.clock.forward(milliseconds=100)
        pause = node.dispatcher.step()
    assert 0 < pause < 0.2
    world.crontab.cancel(node.launched[-1].run_id)
    assert node.killed == []
    world.clock.forward(milliseconds=200)
    node.dispatcher.step()
    assert len(node.killed) == 1


def test_a_free_slot_waits_as_long_as_the_last_start_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any) -> Any:
        world.clock.forward(milliseconds=10)
        return start(*arguments)

    start = held_claims.start
    monkeypatch.setattr(held_claims, "start", slow)
    node, _ = holding(world, tasks=12)
    node.end(*node.active_runs.ids())
    first, second = node.dispatch()
    assert len(world.runs(RunState.CLAIMED)) >= 2
    node.end(first)
    assert node.dispatch() == []
    node.end(second)
    assert len(node.dispatch()) == 2
    node.end(node.launched[-1].run_id)
    assert 0 < node.dispatcher.step() <= LONGEST_GATHERING
    world.clock.forward(milliseconds=10)
    assert len(node.dispatch()) == 1


def test_ends_are_recorded_behind_the_starts_of_held_claims(world: World) -> None:
    node, _ = holding(world)
    node.time += 0.1
    assert node.recorder.step() > 0
    assert world.runs(RunState.SUCCEEDED) == []
    node.time += LONGEST_DELAY
    assert node.recorder.step() == 0
    assert len(world.runs(RunState.SUCCEEDED)) == 2


def test_claims_that_were_held_too_long_are_released_at_no_cost(world: World) -> None:
    node, held = holding(world)
    assert 0 < node.dispatcher.step() <= LONGEST_HOLD
    pass_time(world, node, LONGEST_HOLD)
    node.dispatcher.step()
    node.dispatcher.step()
    assert world.runs(RunState.CLAIMED) == []
    assert {run.id for run in held} == set(world.node("other").dispatch())
    assert {world.run(run.id).attempt for run in held} == {1}


@pytest.mark.parametrize("what", ["draining", "closed"])
def test_a_node_that_drains_or_stops_releases_what_it_holds(world: World, what: str) -> None:
    node, held = holding(world)
    setattr(node.lease if what == "draining" else node.dispatcher, what, True)
    node.dispatch()
    assert {world.run(run.id).state for run in held} == {RunState.WAITING}
    assert len(node.launched) == 4


def test_a_suspected_rollback_releases_what_the_node_holds(world: World) -> None:
    node, held = holding(world)
    node.rollback_detector.settled(renewals=1_000)
    node.end(*node.active_runs.ids())
    world.add("another")
    world.clock.forward(minutes=1)
    node.dispatcher.step()
    node.dispatcher.step()
    assert not {run.id for run in held} & {run.id for run in world.runs(RunState.CLAIMED)}


def test_a_held_run_that_is_cancelled_never_begins(world: World) -> None:
    node, (first, second) = holding(world)
    world.crontab.cancel(first.id)
    node.end(*node.active_runs.ids())
    node.dispatch()
    cancelled = world.run(first.id)
    assert (cancelled.state, cancelled.reason) == (RunState.CANCELLED, "cancelled by tester@here")
    launched = {job.run_id for job in node.launched}
    assert first.id not in launched
    assert second.id in launched
    assert [run.task for run in world.runs(RunState.WAITING)].count(first.task) == 1


def test_a_held_run_of_a_paused_task_does_not_start(world: World) -> None:
    node, (first, second) = holding(world)
    world.crontab.pause(world.crontab.get(first.task))
    node.end(*node.active_runs.ids())
    node.dispatch()
    assert world.run(first.id).state is not RunState.RUNNING
    assert first.id not in {job.run_id for job in node.launched}
    assert second.id in {job.run_id for job in node.launched}


def test_a_held_run_of_an_edited_task_executes_the_new_command(world: World) -> None:
    node, (first, _) = holding(world)
    world.crontab.edit(world.crontab.get(first.task), {"command": "echo new"})
    node.end(*node.active_runs.ids())
    node.dispatch()
    commands = {job.env["DCRON_TASK"]: job.argv[-1] for job in node.launched}
    assert commands.get(first.task, "echo new") == "echo new"
    assert world.run(first.id).attempt == 1


def test_a_held_claim_is_no_difference_between_node_and_database(world: World) -> None:
    node, held = holding(world)
    for _ in range(3):
        node.heartbeat.step()
    assert {world.run(run.id).state for run in held} == {RunState.CLAIMED}


def test_what_a_dead_node_held_waits_again_at_no_cost(world: World) -> None:
    _, held = holding(world)
    other = world.node("other")
    other.heartbeat.step()
    world.watch(other, 61)
    assert {(world.run(run.id).state, world.run(run.id).attempt) for run in held} == {(RunState.WAITING, 1)}


def test_held_claims_without_a_reply_start_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, held = holding(world)
    node.end(*node.active_runs.ids())
    cut_commit(world, monkeypatch, is_committed=True)
    with pytest.raises(DatabaseError):
        node.dispatch()
    node.dispatch()
    launched = [job.run_id for job in node.launched]
    assert {run.id for run in held} <= set(launched)
    assert len(launched) == len(set(launched))


def test_the_end_of_one_pass_waits_for_held_claims(world: World) -> None:
    node, held = holding(world)
    assert node.dispatcher.step() > 0
    assert node.dispatcher.is_held_up
    node.end(*node.active_runs.ids())
    node.dispatch()
    assert not node.dispatcher.is_held_up
    assert {world.run(run.id).state for run in held} == {RunState.RUNNING}


@pytest.mark.slow
def test_a_task_with_a_limit_has_no_second_run_among_the_held(world: World) -> None:
    task = world.add("one", "0 0 1 1 *", overlap="queue")
    for _ in range(4):
        world.crontab.run(task)
    world.add("many", "0 0 1 1 *", max_running=None)
    for _ in range(6):
        world.crontab.run(world.crontab.get("many"))
    node = world.node(slots=2)
    for _ in range(12):
        node.dispatch()
        alive = [run for run in world.runs(RunState.CLAIMED, RunState.RUNNING) if run.task_id == task.id]
        assert len(alive) <= 1
        if running := node.active_runs.ids():
            node.end(*running)
            node.recorder.step()
    assert len(world.runs(RunState.SUCCEEDED)) == 10


def pass_time(world: World, node: HandNode, seconds: float) -> None:
    node.time += seconds
    world.clock.now += timedelta(seconds=seconds)
