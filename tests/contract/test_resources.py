"""Resources: a run is claimed only where what it needs is free, and gives it back whatever happens to it."""

from collections.abc import Mapping

import pytest

from dcron.model import RunState
from dcron.services.fleet import Fleet
from tests.support.node import HandNode
from tests.support.stage import Stage

NEVER = "0 0 1 1 *"


def agent(stage: Stage, capacity: Mapping[str, float], name: str = "web-1", slots: int = 8) -> HandNode:
    """An agent's own dispatcher, on a node that has this much."""
    return HandNode(stage.database, name, slots=slots, capacity=capacity).register()


def test_no_more_start_than_fit(stage: Stage) -> None:
    for number in range(4):
        stage.crontab.run(stage.task(f"train-{number}", NEVER, need={"gpu": 1, "mem": 4e9}))
    node = agent(stage, {"gpu": 2, "mem": 16e9})
    first = node.dispatch()
    assert len(first) == 2
    assert node.dispatch() == []
    node.finish(first[:1])
    assert len(node.dispatch()) == 1


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED])
def test_what_a_run_took_is_given_back_however_it_ends(stage: Stage, state: RunState) -> None:
    task = stage.task("train", NEVER, need={"gpu": 1}, max_running=None)
    node = agent(stage, {"gpu": 1})
    for _ in range(3):
        stage.crontab.run(task)
        (run_id,) = node.dispatch()
        assert node.active_runs.free_capacity({"gpu": 1}) == {"gpu": 0}
        node.finish([run_id], state)
        assert node.active_runs.free_capacity({"gpu": 1}) == {"gpu": 1}


def test_each_need_has_to_fit_and_a_small_run_passes_a_big_one(stage: Stage) -> None:
    node = agent(stage, {"gpu": 2, "mem": 8e9})
    stage.crontab.run(stage.task("big", NEVER, need={"mem": 8e9}))
    stage.crontab.run(stage.task("bigger", NEVER, need={"mem": 8e9, "gpu": 1}))
    stage.crontab.run(stage.task("small", NEVER, need={"gpu": 2}))
    stage.crontab.run(stage.task("plain", NEVER))
    started = {stage.crontab.find_run(run_id).task for run_id in node.dispatch()}
    assert started == {"big", "small", "plain"}


def test_what_has_long_waited_for_room_gets_what_becomes_free(stage: Stage) -> None:
    small = stage.task("small", NEVER, need={"gpu": 1}, max_running=None)
    node = agent(stage, {"gpu": 2})
    running = [stage.crontab.run(small).id for _ in range(2)]
    assert node.dispatch() == running
    big = stage.crontab.run(stage.task("big", NEVER, need={"gpu": 2})).id
    started = []
    for _ in range(12):
        stage.forward(minutes=1)
        stage.crontab.run(small)
        node.finish(running[:1])
        started.append(node.dispatch())
        running = [*running[1:], *started[-1]]
        assert node.dispatcher.step() > 0, "it sleeps over what it may not take"
    assert [len(each) for each in started[:10]] == [1] * 10, "smaller ones pass"
    assert started[10:] == [[], [big]]
    node.finish([big])
    assert len(node.dispatch()) == 2


def test_no_room_is_kept_for_what_its_queue_lets_not_start(stage: Stage) -> None:
    small = stage.task("small", NEVER, need={"gpu": 1}, max_running=None)
    big = stage.task("big", NEVER, need={"gpu": 2}, queue="q")
    Fleet(stage.crontab).set_queue("q", 0)
    stage.crontab.run(big)
    node = agent(stage, {"gpu": 2})
    for _ in range(2):
        stage.forward(minutes=30)
        run = stage.crontab.run(small)
        assert node.dispatch() == [run.id]


def test_what_never_fits_is_left_to_others_and_its_nodes_loss_frees_nothing_here(stage: Stage) -> None:
    task = stage.task("train", NEVER, need={"gpu": 2}, tries=2, backoff=0.0, on_lost="retry")
    stage.crontab.run(task)
    small, big = agent(stage, {"gpu": 1}, "small"), agent(stage, {"gpu": 2}, "big")
    assert small.dispatch() == []
    (run_id,) = big.dispatch()
    stage.sign_off(big.id)
    assert stage.crontab.find_run(run_id).state is RunState.LOST
    assert small.dispatch() == []
    assert len(agent(stage, {"gpu": 2}, "new").dispatch()) == 1


def test_a_claim_given_back_takes_nothing(stage: Stage) -> None:
    stage.crontab.run(stage.task("train", NEVER, need={"gpu": 1}))
    node = stage.node()
    capacity = {"gpu": 1.0}
    assert len(stage.claim(node, capacity=capacity)) == 1
    stage.release(node)
    assert len(stage.claim(node, capacity=capacity)) == 1


def test_a_node_that_drains_keeps_what_its_runs_have(stage: Stage) -> None:
    stage.crontab.run(stage.task("train", NEVER, need={"gpu": 1}))
    node = agent(stage, {"gpu": 1})
    (run_id,) = node.dispatch()
    node.dispatcher.closed = True
    assert node.active_runs.free_capacity({"gpu": 1}) == {"gpu": 0}
    node.finish([run_id])
    assert node.active_runs.free_capacity({"gpu": 1}) == {"gpu": 1}
    stage.crontab.run(stage.task("more", NEVER, need={"gpu": 1}))
    assert node.dispatch() == []


def test_fractions_add_up(stage: Stage) -> None:
    task = stage.task("tenth", NEVER, need={"cpu": 0.1}, max_running=None)
    for _ in range(12):
        stage.crontab.run(task)
    started = agent(stage, {"cpu": 1}, slots=20).dispatch()
    assert len(started) == 10
