"""`@delay` counts from the end of the run before, `@every` from one fixed grid."""

from collections.abc import Callable

import pytest

from dcron.model import Block, Run, RunState, Task, Trigger
from tests.support.run_queries import reasons, times
from tests.support.stage import LEASE, Stage, at


def scheduled_runs(stage: Stage, task: Task) -> list[Run]:
    """The task's scheduled runs that are yet to come: there is never more than one."""
    found = [run for run in stage.runs(task.id, RunState.WAITING) if run.trigger is Trigger.SCHEDULE]
    assert len(found) == 1
    return found


ENDS: dict[str, Callable[[Stage, str, int], object]] = {
    "succeeds": lambda stage, node, run_id: stage.finish(node, run_id),
    "fails": lambda stage, node, run_id: stage.finish(node, run_id, RunState.FAILED),
    "is cancelled": lambda stage, node, run_id: stage.finish(node, run_id, RunState.CANCELLED),
    "is lost": lambda stage, node, run_id: (stage.forward(seconds=LEASE + 1), stage.reap()),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ENDS)
def test_the_next_run_is_counted_from_the_end_of_the_one_before(stage: Stage, how: str) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    assert scheduled_runs(stage, task)[0].due_at == at("12:05")
    stage.now = at("12:05")
    (run,) = stage.take(node)
    (planned,) = scheduled_runs(stage, task)
    assert planned.blocked is Block.DELAY
    stage.now = at("12:17")
    assert stage.take(node) == []
    assert stage.crontab.view("poll").next_run_at is None, "it is not known yet"
    ENDS[how](stage, node, run.id)
    (planned,) = scheduled_runs(stage, task)
    assert (planned.blocked, planned.due_at) == (None, stage.forward(minutes=5))
    assert len(stage.take(stage.node("web-2"))) == 1


def test_a_skipped_run_is_followed_by_one_a_delay_later(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    stage.crontab.run(task)
    stage.take(node)
    stage.now = at("12:05")
    assert stage.take(node) == []
    assert reasons(stage, task) == ["overlap: the previous run is still alive"]
    assert scheduled_runs(stage, task)[0].due_at == at("12:10")


def test_a_cancelled_run_is_followed_by_one_a_delay_later(stage: Stage) -> None:
    task = stage.task("poll", "@delay 5m")
    stage.now = at("12:06")
    stage.crontab.cancel(scheduled_runs(stage, task)[0].id)
    assert scheduled_runs(stage, task)[0].due_at == at("12:11")


def test_a_run_cancelled_while_the_one_before_runs_still_waits_for_its_end(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    stage.now = at("12:05")
    (run,) = stage.take(node)
    stage.crontab.cancel(scheduled_runs(stage, task)[0].id)
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY
    stage.now = at("12:30")
    assert stage.take(node) == []
    stage.finish(node, run.id)
    assert scheduled_runs(stage, task)[0].due_at == at("12:35")


def test_a_long_run_leaves_no_missed_occurrences(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    stage.now = at("12:05")
    (run,) = stage.take(node)
    stage.now = at("15:00")
    task = stage.crontab.edit(task, {"command": "other"})
    task = stage.crontab.edit(task, {"schedule": "@delay 10m"})
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY
    task = stage.crontab.resume(stage.crontab.pause(task))
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY
    stage.finish(node, run.id)
    assert scheduled_runs(stage, task)[0].due_at == at("15:10")
    assert reasons(stage, task) == []


def test_a_task_that_follows_the_clock_again_waits_for_no_end(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    stage.now = at("12:05")
    stage.take(node)
    task = stage.crontab.edit(task, {"schedule": "*/10 * * * *"})
    (planned,) = scheduled_runs(stage, task)
    assert (planned.blocked, planned.due_at) == (None, at("12:10"))


def test_downtime_of_a_delay_misses_nothing(stage: Stage) -> None:
    task = stage.task("poll", "@delay 5m")
    stage.now = at("18:00")
    (run,) = stage.take(stage.node())
    assert run.scheduled_for == at("12:05")
    assert reasons(stage, task) == []


def test_a_released_claim_leaves_one_run(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m"), stage.node()
    stage.now = at("12:05")
    stage.claim(node)
    stage.release(node)
    assert scheduled_runs(stage, task)[0].due_at == at("12:05")
    stage.take(node)
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY


def test_a_delay_on_every_node_counts_from_an_end(stage: Stage) -> None:
    task, node = stage.task("poll", "@delay 5m", every_node=True), stage.node(lease=3600)
    other = stage.node("web-2", lease=3600)
    stage.now = at("12:05")
    (run,) = stage.take(node)
    (share,) = stage.take(other)
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY
    stage.now = at("12:30")
    assert stage.take(node) == stage.take(other) == []
    stage.finish(node, run.id)
    assert scheduled_runs(stage, task)[0].blocked is Block.DELAY, "the other node's share is not over"
    stage.finish(other, share.id)
    assert scheduled_runs(stage, task)[0].due_at == at("12:35")


def test_a_fixed_rate_stays_on_its_grid_however_late_its_runs_are(stage: Stage) -> None:
    task, node = stage.task("tick", "@every 7m"), stage.node()
    (planned,) = scheduled_runs(stage, task)
    assert planned.due_at.timestamp() % 420 == 0
    for late in (0, 61, 200):
        stage.now = scheduled_runs(stage, task)[0].due_at
        stage.forward(seconds=late)
        (run,) = stage.take(node)
        assert run.scheduled_for.timestamp() % 420 == 0
        stage.finish(node, run.id)
        assert scheduled_runs(stage, task)[0].due_at.timestamp() % 420 == 0
    assert len(times(stage, task, RunState.SUCCEEDED)) == 3
