"""Slots: a run takes one until its process has ended; the record of the end follows in a batch."""

import os
from datetime import timedelta

import pytest

from dcron.agent import running
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import default_slots
from dcron.errors import DatabaseError
from dcron.model import RunState, Trigger
from dcron.store.runs.candidates import ClaimedRun
from tests.support.definitions import task
from tests.support.node import NINE, HandNode, World


def test_an_agent_has_eight_slots_per_core_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert default_slots() == 24


def busy_node(world: World, tasks: int, slots: int) -> tuple[HandNode, list[int]]:
    """A node whose slots are all taken, with more tasks due; the runs that took the slots."""
    for number in range(tasks):
        world.add(f"task-{number}")
    node = world.node(slots=slots)
    world.clock.forward(minutes=1)
    started = node.dispatch()
    assert len(started) == slots
    return node, started


def test_a_slot_is_used_again_before_the_end_of_its_run_is_recorded(world: World) -> None:
    node, first = busy_node(world, tasks=6, slots=2)
    node.end(*first)
    second = node.dispatch()
    assert len(second) == 2
    assert len(world.runs(RunState.RUNNING)) == 4
    node.end(*second)
    third = node.dispatch()
    assert len(third) == 2
    node.recorder.step()
    assert {run.id for run in world.runs(RunState.SUCCEEDED)} == {*first, *second}
    assert {run.id for run in world.runs(RunState.RUNNING)} == {*third}
    assert sorted(node.warden.forgotten) == sorted(first + second)


def test_runs_start_while_ends_cannot_be_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, started = busy_node(world, tasks=6, slots=2)
    with monkeypatch.context() as broken:
        broken.setattr("dcron.store.claims.finishing.send_ends", refuse)
        for _ in range(2):
            node.end(*started)
            with pytest.raises(DatabaseError):
                node.recorder.step()
            started = node.dispatch()
            assert len(started) == 2
    node.recorder.step()
    assert len(world.runs(RunState.SUCCEEDED)) == 4


def test_with_too_many_unrecorded_ends_nothing_starts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_UNRECORDED", 4)
    node, started = busy_node(world, tasks=8, slots=2)
    node.end(*started)
    started = node.dispatch()
    node.end(*started)
    assert node.dispatch() == []
    assert node.dispatcher.is_held_up
    node.recorder.step()
    assert len(node.dispatch()) == 2


def test_no_slot_is_free_while_an_end_is_unrecorded_for_too_long() -> None:
    now = 0.0
    active = ActiveRuns(2, clock=lambda: now)
    active.add([run_of(1), run_of(2)], NINE)
    active.free_slots([1])
    assert active.free() == 1
    now = running.LONGEST_UNRECORDED + 1
    assert active.free() == 0
    active.remove([1])
    assert active.free() == 1


def test_a_task_is_not_skipped_because_its_ended_run_is_not_recorded_yet(world: World) -> None:
    node, (first,) = busy_node(world, tasks=1, slots=1)
    world.clock.forward(minutes=1)
    assert node.dispatch() == []
    node.end(first)
    assert node.dispatch() == []
    assert world.runs(RunState.SKIPPED) == []
    node.recorder.step()
    (second,) = node.dispatch()
    assert world.run(second).scheduled_for == NINE + timedelta(minutes=2)


def test_for_other_nodes_a_run_is_alive_until_its_end_is_recorded(world: World) -> None:
    node, (first,) = busy_node(world, tasks=1, slots=1)
    world.clock.forward(minutes=1)
    node.end(first)
    assert world.node("other").dispatch() == []
    (skipped,) = world.runs(RunState.SKIPPED)
    assert skipped.reason == "overlap: the previous run is still alive"


def test_a_task_without_a_limit_need_not_wait_for_the_record(world: World) -> None:
    task = world.add("tick", "0 0 1 1 *", max_running=None)
    node = world.node(slots=1)
    for _ in range(3):
        world.crontab.run(task)
    for _ in range(3):
        (run_id,) = node.dispatch()
        node.end(run_id)
    assert len(world.runs(RunState.RUNNING)) == 3


def test_a_run_that_has_ended_is_not_killed(world: World) -> None:
    node, (first,) = busy_node(world, tasks=1, slots=1)
    node.end(first)
    world.crontab.cancel(first)
    node.dispatcher.step()
    assert node.killed == []
    node.recorder.step()
    assert world.run(first).state is RunState.SUCCEEDED


def test_an_unrecorded_end_is_no_difference_between_node_and_database(world: World) -> None:
    node, (first,) = busy_node(world, tasks=1, slots=1)
    node.end(first)
    for _ in range(3):
        node.heartbeat.step()
    assert world.run(first).state is RunState.RUNNING
    assert node.active_runs.any()
    assert not node.active_runs.wait_until_empty(0)
    node.recorder.step()
    assert node.active_runs.wait_until_empty(0)


def test_a_node_that_dies_with_unrecorded_ends_leaves_them_to_its_spool(world: World) -> None:
    node, started = busy_node(world, tasks=4, slots=2)
    node.end(*started)
    node.dispatch()
    node.recorder.leave_to_spool()
    assert node.active_runs.ids().isdisjoint(started)
    assert node.warden.forgotten == []


def run_of(run_id: int) -> ClaimedRun:
    return ClaimedRun(run_id, task(), Trigger.SCHEDULE, 1, NINE, None, {})


def refuse(*_: object) -> None:
    raise DatabaseError("the database is away")
