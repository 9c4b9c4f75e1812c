"""Every-node tasks: one run on each eligible living node, and runs that belong to one node."""

import pytest

from dcron.model import RunState, Task, Trigger
from dcron.services.fleet import Fleet
from dcron.services.runs.triggers import Triggers
from dcron.store.planning import planning
from tests.support.run_queries import find, held_back, reasons, times
from tests.support.stage import LEASE, Stage, at

HOUR = 3600.0


def three_nodes(stage: Stage) -> list[str]:
    return [stage.node(f"web-{number}", lease=HOUR) for number in (1, 2, 3)]


def shares(stage: Stage, task: Task) -> dict[str, RunState]:
    """The states of the runs that belong to a node, by its ID."""
    return {run.for_node: run.state for run in stage.runs(task.id) if run.for_node}


def test_each_living_node_runs_every_occurrence_once(stage: Stage) -> None:
    task, nodes = stage.task("rotate", every_node=True), three_nodes(stage)
    for occurrence in ("12:10", "12:20"):
        stage.now = at(occurrence)
        for node in nodes:
            (run,) = stage.take(node)
            assert (run.trigger, run.scheduled_for) == (Trigger.NODE, stage.now)
            assert find(stage, run.id).for_node == node
            assert stage.take(node) == []
            stage.finish(node, run.id)
    assert times(stage, task, RunState.SUCCEEDED) == ["12:10"] * 3 + ["12:20"] * 3
    assert times(stage, task, RunState.WAITING) == ["12:30"]
    assert reasons(stage, task) == []


def test_only_nodes_that_may_and_are_there_have_a_share(stage: Stage) -> None:
    task = stage.task("rotate", every_node=True, require=("web",), queue="logs")
    first = stage.node("web-1", lease=HOUR, tags=("web", "ssd"))
    second = stage.node("web-2", lease=HOUR, tags=("web",), queues=("logs", "mail"))
    stage.node("db-1", lease=HOUR)
    stage.node("web-3", lease=HOUR, tags=("web",), queues=("mail",))
    stage.node("web-4", lease=HOUR, tags=("web",))
    Fleet(stage.crontab).drain("web-4")
    stage.node("web-5", lease=1, tags=("web",))
    stage.now = at("12:10")
    assert len(stage.take(second, tags=("web",), queues=("logs",))) == 1
    late = stage.node("web-6", lease=HOUR, tags=("web",))
    assert stage.take(late, tags=("web",)) == []
    assert shares(stage, task) == {second: RunState.RUNNING, first: RunState.WAITING}


def test_a_limit_is_each_nodes_own(stage: Stage) -> None:
    task, (one, other, _) = stage.task("rotate", every_node=True), three_nodes(stage)
    stage.now = at("12:10")
    stage.take(one)
    (quick,) = stage.take(other)
    stage.finish(other, quick.id)
    stage.now = at("12:20")
    assert len(stage.take(other)) == 1
    assert stage.take(one) == []
    (skipped,) = stage.runs(task.id, RunState.SKIPPED)
    assert (skipped.for_node, skipped.reason) == (one, "overlap: the previous run is still alive")
    assert times(stage, task, RunState.WAITING).count("12:30") == 1


@pytest.mark.slow
@pytest.mark.parametrize("claimer", [0, 1])
def test_what_a_run_replaces_is_on_its_own_node(stage: Stage, claimer: int) -> None:
    stage.task("rotate", every_node=True, overlap="replace")
    nodes = three_nodes(stage)[:2]
    stage.now = at("12:10")
    running = {node: stage.take(node)[0].id for node in nodes}
    stage.now = at("12:20")
    node, other = nodes[claimer], nodes[1 - claimer]
    assert stage.take(node) == []
    assert list(stage.cancel_requests(node)) == [running[node]]
    assert stage.cancel_requests(other) == {}
    assert stage.take(other) == []
    for each in nodes:
        stage.finish(each, running[each], RunState.CANCELLED)
        assert len(stage.take(each)) == 1
    assert held_back(stage) == []


def test_with_queue_each_nodes_share_waits_for_its_own_run(stage: Stage) -> None:
    task, (one, other, _) = stage.task("rotate", every_node=True, overlap="queue"), three_nodes(stage)
    stage.now = at("12:10")
    (first,) = stage.take(one)
    (second,) = stage.take(other)
    stage.now = at("12:20")
    assert stage.take(one) == stage.take(other) == []
    assert {run.for_node for run in held_back(stage, task)} == {one, other}
    stage.finish(other, second.id)
    assert {run.for_node for run in held_back(stage, task)} == {one}
    assert len(stage.take(other)) == 1
    stage.finish(one, first.id)
    assert len(stage.take(one)) == 1


def test_the_run_of_a_node_that_dies_is_skipped_and_the_task_goes_on(stage: Stage) -> None:
    task, (one, other, _) = stage.task("rotate", every_node=True), three_nodes(stage)
    mortal = stage.node("old-1", lease=700)
    stage.now = at("12:10")
    (run,) = stage.take(one)
    stage.forward(seconds=200)
    assert stage.reap() == ([mortal], [])
    assert shares(stage, task)[mortal] is RunState.SKIPPED
    assert reasons(stage, task) == ["its node is gone"]
    stage.finish(one, run.id)
    (run,) = stage.take(other)
    stage.sign_off(other)
    assert shares(stage, task)[other] is RunState.LOST
    stage.now = at("12:20")
    assert len(stage.take(one)) == 1
    assert other not in [run.for_node for run in stage.runs(task.id) if run.scheduled_for == at("12:20")]


def test_after_downtime_each_share_has_its_whole_deadline(stage: Stage) -> None:
    task, (one, other, _) = stage.task("rotate", every_node=True, deadline=300.0), three_nodes(stage)
    stage.now = at("12:42")
    assert [f"{run.scheduled_for:%H:%M}" for run in stage.take(one)] == ["12:40"]
    assert stage.expire() == 0
    assert [f"{run.scheduled_for:%H:%M}" for run in stage.take(other)] == ["12:40"]
    stage.now = at("12:46")
    assert stage.expire() == 1, "the third has not come in time"
    assert times(stage, task, RunState.WAITING) == ["12:50"]


def test_a_share_that_was_given_back_is_not_shared_again(stage: Stage) -> None:
    task, (one, *_) = stage.task("rotate", every_node=True), three_nodes(stage)
    stage.now = at("12:10")
    stage.claim(one)
    stage.release(one)
    assert len(stage.take(one)) == 1
    assert len(shares(stage, task)) == 3
    assert len(stage.runs(task.id)) == 4


def test_a_run_by_hand_is_for_every_node_too(stage: Stage) -> None:
    task, (one, other, third) = stage.task("rotate", "0 0 1 1 *", every_node=True), three_nodes(stage)
    run = stage.crontab.run(task, payload="now")
    assert [each.id for each in stage.take(one)] == [run.id]
    for node in (other, third):
        (share,) = stage.take(node)
        assert share.payload == "now"
    assert stage.take(one) == []


def test_a_task_that_becomes_every_node_while_it_runs_keeps_no_node_busy(stage: Stage) -> None:
    """Both who claims and who lets go must count the run that began before."""
    task, (one, *_) = stage.task("rotate", overlap="queue"), three_nodes(stage)
    stage.now = at("12:10")
    (run,) = stage.take(one)
    stage.crontab.edit(task, {"every_node": True})
    stage.now = at("12:20")
    stage.claim_batch(one)
    assert stage.claim_batch(one).moved_on is False
    assert [each.for_node for each in held_back(stage, task)] == [one]
    stage.finish(one, run.id)
    assert len(stage.take(one)) == 1


def test_a_pause_takes_no_share_away_and_no_new_one_comes(stage: Stage) -> None:
    task, (one, other, _) = stage.task("rotate", every_node=True), three_nodes(stage)
    stage.now = at("12:10")
    (run,) = stage.take(one)
    stage.finish(one, run.id)
    task = stage.crontab.pause(task)
    assert stage.take(other) == []
    stage.now = at("12:15")
    stage.crontab.resume(task)
    assert [each.scheduled_for for each in stage.take(other)] == [at("12:10")]


# Reboot --------------------------------------------------------------------------------------------


def boot(stage: Stage, node: str) -> int:
    with stage.database.write() as connection:
        return planning.add_reboot_runs(connection, node, stage.now)


def test_a_reboot_run_keeps_to_its_node_and_dies_with_it(stage: Stage) -> None:
    task, one, other = stage.task("greet", "@reboot"), stage.node("web-1"), stage.node("web-2")
    assert (boot(stage, one), boot(stage, other)) == (1, 1)
    stage.crontab.edit(task, {"priority": "high", "command": "new"})
    (run,) = stage.take(one)
    assert find(stage, run.id).for_node == one
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert reasons(stage, task) == ["its node is gone"]


def test_a_node_that_starts_runs_no_reboot_task_it_may_not_run(stage: Stage) -> None:
    stage.task("tagged", "@reboot", require=("gpu",))
    stage.task("queued", "@reboot", queue="mail")
    stage.task("hungry", "@reboot", need={"mem": 8.0e9})
    assert boot(stage, stage.node("web-1", queues=("default",))) == 0
    assert boot(stage, stage.node("web-2", tags=("gpu",), capacity={"mem": 16.0e9})) == 3
    assert len(stage.runs()) == 3


def test_a_run_by_hand_is_one_on_every_node_of_a_paused_task_too(stage: Stage) -> None:
    task, nodes = stage.task("rotate", every_node=True), three_nodes(stage)
    stage.crontab.pause(task, "no room")
    stage.crontab.run(stage.crontab.get(task.name))
    for node in nodes:
        (run,) = stage.take(node)
        assert (run.trigger, find(stage, run.id).for_node) == (Trigger.MANUAL, node)
    assert held_back(stage) == []


@pytest.mark.slow
def test_the_shares_of_an_event_wait_where_another_run_is_alive(stage: Stage) -> None:
    task, (one, other, _) = stage.task("deploy", "@on push", every_node=True), three_nodes(stage)
    Triggers(stage.crontab).emit("push")
    (first,) = stage.take(one)
    (second,) = stage.take(other)
    stage.forward(seconds=1)
    Triggers(stage.crontab).emit("push")
    assert stage.take(one) == stage.take(other) == []
    assert reasons(stage, task) == []
    for node, run in ((one, first), (other, second)):
        stage.finish(node, run.id)
        (again,) = stage.take(node)
        assert again.event_id != run.event_id


def test_the_shares_of_a_step_are_part_of_its_flow_and_wait_like_it(stage: Stage) -> None:
    build, task = stage.task("build", "0 0 1 1 *"), stage.task("deploy", "@after build", every_node=True)
    one, other, _ = three_nodes(stage)

    def begin() -> int:
        stage.crontab.run(build)
        (run,) = stage.take(one)
        stage.finish(one, run.id)
        return run.id

    flow = begin()
    shares = {node: stage.take(node)[0] for node in (one, other)}
    next_flow = begin()
    assert stage.take(one) == stage.take(other) == [], "the shares of the flow before are alive"
    assert reasons(stage, task) == []
    for node, share in shares.items():
        stage.finish(node, share.id)
        (again,) = stage.take(node)
        assert (share.flow, again.flow) == (flow, next_flow)


def test_each_node_makes_up_for_all_that_was_missed(stage: Stage) -> None:
    task = stage.task("rotate", every_node=True, catch_up="all")
    stage.now = at("12:35")
    one, other = stage.node("web-1", lease=HOUR), stage.node("web-2", lease=HOUR)
    (mine,), (theirs,) = stage.take(one), stage.take(other)
    for _ in range(2):
        stage.finish(one, mine.id)
        (mine,) = stage.take(one)
        assert stage.take(other) == [], "its run of the occurrence before is alive there"
        stage.finish(other, theirs.id)
        (theirs,) = stage.take(other)
    stage.finish(one, mine.id)
    stage.finish(other, theirs.id)
    assert times(stage, task, RunState.SUCCEEDED) == ["12:10"] * 2 + ["12:20"] * 2 + ["12:30"] * 2
    assert reasons(stage, task) == []
