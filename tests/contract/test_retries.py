"""Retries: further attempts of what failed, each a run of its own."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.model import Block, RunState, Trigger
from tests.support.run_queries import find, held_back, states, times
from tests.support.stage import LEASE, Stage, at

RETRIES: dict[str, Any] = {"tries": 3, "backoff": 60.0, "backoff_factor": 2.0}
FAILED = RunState.FAILED


def test_each_attempt_is_a_run_of_its_own_and_the_last_is_a_dead_letter(stage: Stage) -> None:
    task, node = stage.task("backup", "0 13 * * *", **RETRIES), stage.node()
    stage.now = at("13:00")
    (run,) = stage.take(node)
    chain = [run.id]
    for attempt in (2, 3):
        stage.finish(node, run.id, FAILED, exit_code=1)
        failed = find(stage, run.id)
        retry = stage.runs(task.id)[-1]
        assert (failed.state, failed.dead_at) == (FAILED, None)
        assert (retry.trigger, retry.attempt, retry.retry_of) == (Trigger.RETRY, attempt, run.id)
        assert (retry.scheduled_for, retry.state) == (at("13:00"), RunState.WAITING)
        wait = (retry.due_at - stage.now).total_seconds()
        least = 60 * 2 ** (attempt - 2)
        assert least <= wait <= least * 1.25
        assert stage.take(node) == [], "not before its time"
        stage.now = retry.due_at
        (run,) = stage.take(node)
        assert (run.id, run.attempt) == (retry.id, attempt)
        chain.append(run.id)
    stage.finish(node, run.id, FAILED, exit_code=1)
    assert find(stage, run.id).dead_at == stage.now
    assert [find(stage, each).dead_at is None for each in chain] == [True, True, False]
    assert [each.trigger for each in stage.runs(task.id, RunState.WAITING)] == [Trigger.SCHEDULE]


def test_a_retry_that_succeeds_is_the_end_of_it(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", **RETRIES), stage.node()
    stage.crontab.run(task, payload="this")
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    stage.forward(minutes=2)
    (retry,) = stage.take(node)
    assert retry.payload == "this"
    stage.finish(node, retry.id)
    assert [run.state for run in stage.runs(task.id) if run.trigger is not Trigger.SCHEDULE] == [
        FAILED,
        RunState.SUCCEEDED,
    ]
    assert not any(run.dead_at for run in stage.runs())


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.CANCELLED])
def test_what_did_not_fail_is_not_tried_again(stage: Stage, state: RunState) -> None:
    task, node = stage.task("backup", **RETRIES), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.finish(node, run.id, state)
    assert states(stage, task) == [state, RunState.WAITING]
    assert find(stage, run.id).dead_at is None


def test_the_next_run_is_not_displaced_by_a_retry(stage: Stage) -> None:
    task, node = stage.task("backup", tries=3, backoff=600.0), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    stage.now = at("12:20")
    (regular,) = stage.take(node)
    assert (regular.trigger, regular.scheduled_for) == (Trigger.SCHEDULE, at("12:20"))
    stage.now = at("12:25")
    assert stage.take(node) == []
    (retry,) = held_back(stage, task)
    assert (retry.trigger, retry.blocked) == (Trigger.RETRY, Block.LIMIT)
    stage.finish(node, regular.id)
    assert [each.id for each in stage.take(node)] == [retry.id]
    assert times(stage, task, RunState.WAITING) == ["12:30"]


def test_a_lost_attempt_counts_so_that_a_task_which_kills_its_node_stops(stage: Stage) -> None:
    task = stage.task("bomb", "0 0 1 1 *", tries=3, backoff=0.0, on_lost="retry")
    stage.crontab.run(task)
    for attempt in (1, 2, 3):
        node = stage.node(f"web-{attempt}", lease=1)
        (run,) = stage.take(node)
        assert run.attempt == attempt
        stage.forward(seconds=2)
        assert stage.reap() == ([node], [run.id])
    assert stage.take(stage.node("web-9")) == []
    lost = stage.runs(task.id, RunState.LOST)
    assert [each.dead_at for each in lost] == [None, None, stage.now]


def test_a_claim_that_was_never_started_costs_no_attempt(stage: Stage) -> None:
    task = stage.task("backup", "0 0 1 1 *", tries=2, on_lost="retry")
    stage.crontab.run(task)
    for attempt in range(5):
        node = stage.node(f"web-{attempt}", lease=1)
        (run,) = stage.claim(node)
        assert run.attempt == 1
        stage.forward(seconds=2)
        stage.reap()
    assert len(stage.runs(task.id)) == 2


def test_what_is_lost_is_a_dead_letter_unless_the_task_says_retry(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", tries=3), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert (find(stage, run.id).state, find(stage, run.id).dead_at) == (RunState.LOST, stage.now)
    assert len(stage.runs(task.id)) == 2


def lost_with_a_retry_waiting(stage: Stage) -> tuple[str, int, int]:
    task, node = stage.task("backup", "0 0 1 1 *", tries=3, on_lost="retry"), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    retry = stage.runs(task.id)[-1]
    assert (retry.retry_of, retry.state) == (run.id, RunState.WAITING)
    return node, run.id, retry.id


@pytest.mark.parametrize(
    ("truth", "message"),
    [(RunState.SUCCEEDED, "had succeeded after all"), (RunState.CANCELLED, "had been cancelled after all")],
)
def test_a_late_truth_calls_the_waiting_retry_off(stage: Stage, truth: RunState, message: str) -> None:
    node, run_id, retry_id = lost_with_a_retry_waiting(stage)
    assert stage.finish(node, run_id, truth) == {run_id}
    retry = find(stage, retry_id)
    assert (retry.state, retry.reason) == (RunState.SKIPPED, f"run {run_id} {message}")
    assert find(stage, run_id).dead_at is None


def test_a_late_truth_that_is_a_failure_leaves_one_retry(stage: Stage) -> None:
    node, run_id, retry_id = lost_with_a_retry_waiting(stage)
    assert stage.finish(node, run_id, FAILED) == {run_id}
    assert (find(stage, run_id).state, find(stage, run_id).dead_at) == (FAILED, None)
    assert [run.id for run in stage.runs(None, RunState.WAITING) if run.retry_of] == [retry_id]


def test_a_failure_that_was_taken_for_lost_and_dead_is_tried_again_after_all(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", tries=2), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert find(stage, run.id).dead_at
    stage.finish(node, run.id, FAILED)
    assert find(stage, run.id).dead_at is None
    assert stage.runs(task.id)[-1].retry_of == run.id


def test_a_retry_executes_what_failed_and_not_what_the_task_says_by_then(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", command="old", **RETRIES), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.crontab.edit(task, {"command": "new"})
    stage.finish(node, run.id, FAILED)
    stage.forward(minutes=2)
    (retry,) = stage.take(node)
    assert retry.spec["command"] == "old"


def test_a_task_that_was_removed_is_not_tried_again(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", **RETRIES), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.crontab.remove(task)
    stage.finish(node, run.id, FAILED)
    assert find(stage, run.id).dead_at == stage.now
    assert stage.runs(task.id, RunState.WAITING) == []


def test_a_paused_task_s_retry_waits_for_it(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", **RETRIES), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    task = stage.crontab.pause(task)
    stage.finish(node, run.id, FAILED)
    stage.forward(minutes=2)
    assert stage.take(node) == []
    stage.crontab.resume(task)
    assert [each.attempt for each in stage.take(node)] == [2]


def test_a_retry_that_comes_too_late_leaves_a_dead_letter(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", deadline=300.0, **RETRIES), stage.node()
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    retry = stage.runs(task.id)[-1]
    stage.now = retry.due_at + timedelta(seconds=301)
    assert stage.expire() == 1
    assert find(stage, retry.id).reason == "expired: not started within 5m"
    assert find(stage, run.id).dead_at == stage.now, "nothing more is tried, so people are message"


def test_the_retry_of_a_node_that_is_gone_leaves_a_dead_letter(stage: Stage) -> None:
    task, node = stage.task("rotate", every_node=True, **RETRIES), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    assert [each.for_node for each in stage.runs(task.id, RunState.WAITING)] == [None, node]
    stage.sign_off(node)
    assert [each.reason for each in stage.runs(task.id, RunState.SKIPPED)] == ["its node is gone"]
    assert find(stage, run.id).dead_at == stage.now


@pytest.mark.parametrize("declared_dead", [False, True])
def test_a_run_that_never_started_comes_again_and_costs_no_try(stage: Stage, *, declared_dead: bool) -> None:
    task, node = stage.task("backup", "0 13 * * *"), stage.node()
    stage.now = at("13:00")
    (run,) = stage.take(node)
    if declared_dead:
        stage.forward(seconds=LEASE + 1)
        assert stage.reap() == ([node], [run.id])
        assert find(stage, run.id).dead_at == stage.now
    stage.finish(node, run.id, RunState.LOST, reason="never begun because …", never_begun=True)
    message = find(stage, run.id)
    assert (message.state, message.dead_at) == (RunState.LOST, None)
    again = stage.runs(task.id)[-1]
    assert (again.trigger, again.attempt, again.retry_of) == (Trigger.RETRY, 1, run.id)
    assert 1 <= (again.due_at - stage.now).total_seconds() <= 1.25
    assert stage.finish(node, run.id, RunState.LOST, never_begun=True) in (set(), {run.id})
    assert len([each for each in stage.runs(task.id) if each.retry_of == run.id]) == 1
    stage.forward(seconds=2)
    (second,) = stage.take(stage.node("web-2"))
    assert second.id == again.id


@pytest.mark.parametrize("on_lost", ["retry", "dead"])
def test_a_cancelled_run_is_not_tried_again_when_its_node_dies(stage: Stage, on_lost: str) -> None:
    task = stage.task("backup", tries=3, on_lost=on_lost)
    node = stage.node(lease=30)
    stage.now = at("12:10")
    stage.renew(node)
    (run,) = stage.take(node)
    stage.crontab.cancel(run.id)
    stage.forward(minutes=5)
    assert stage.reap() == ([node], [run.id])
    lost = find(stage, run.id)
    assert (lost.state, lost.dead_at) == (RunState.LOST, None)
    assert str(lost.reason).endswith("; its end was asked for by ann@desk")
    assert [each.trigger for each in stage.runs(task.id, RunState.WAITING)] == [Trigger.SCHEDULE]
