"""Dead letters: a failed run that is not retried stays on the list until a user handles it."""

import pytest

from dcron.errors import NotFound, Refused
from dcron.model import RunState, Task, Trigger
from dcron.services.runs.dead_letters import DeadLetters
from tests.support.run_queries import find
from tests.support.stage import LEASE, Stage, at

FAILED = RunState.FAILED


def dead_run(stage: Stage, name: str = "backup", **fields: object) -> tuple[Task, str, int]:
    """A task, a node, and its run that has failed for good."""
    task, node = stage.task(name, "0 0 1 1 *", **fields), stage.node(name)
    stage.crontab.run(task)
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED, exit_code=1)
    return task, node, run.id


def test_the_list_has_what_failed_and_was_lost_the_newest_first(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    first = dead_run(stage, "first")[2]
    task, node = stage.task("second", "0 0 1 1 *"), stage.node("web-2", lease=1)
    stage.crontab.run(task)
    (second,) = stage.take(node)
    stage.forward(seconds=2)
    stage.reap()
    assert [run.id for run in letters.page(10)] == [second.id, first]
    assert [run.id for run in letters.page(10, before_id=second.id)] == [first]
    assert [run.id for run in letters.page(1)] == [second.id]


def test_one_is_dismissed_and_its_record_stays(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    _, _, run_id = dead_run(stage)
    letters.dismiss(run_id)
    assert letters.page(10) == []
    assert find(stage, run_id).state is FAILED
    with pytest.raises(Refused, match="no dead letter: it failed, and was dismissed"):
        letters.dismiss(run_id)
    with pytest.raises(NotFound):
        letters.dismiss(999)


def test_all_are_dismissed(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    for number in range(3):
        dead_run(stage, f"task-{number}")
    assert letters.dismiss_all() == 3
    assert (letters.page(10), letters.dismiss_all()) == ([], 0)


def test_a_retry_by_hand_runs_the_task_as_it_is_now(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    task, node, run_id = dead_run(stage, command="old", tries=1)
    stage.crontab.edit(task, {"command": "new"})
    retry = letters.retry(run_id)
    assert (retry.trigger, retry.attempt, retry.retry_of) == (Trigger.RETRY, 2, run_id)
    assert letters.page(10) == []
    (run,) = stage.take(node)
    assert (run.id, run.spec["command"]) == (retry.id, "new")
    stage.finish(node, run.id, FAILED)
    assert [each.id for each in letters.page(10)] == [retry.id]


def test_what_was_tried_again_is_not_tried_twice(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    _, node, run_id = dead_run(stage)
    retry = letters.retry(run_id)
    with pytest.raises(Refused, match=f"retried already, as run {retry.id}, which is waiting"):
        letters.retry(run_id)
    with pytest.raises(Refused, match="is not over"):
        letters.retry(retry.id)
    stage.take(node)
    stage.finish(node, retry.id)
    with pytest.raises(Refused, match="succeeded"):
        letters.retry(retry.id)


def test_what_never_ran_can_be_tried_too(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    stage.now = at("12:10")
    stage.take(node)
    stage.now = at("12:20")
    stage.take(node)
    (skipped,) = stage.runs(task.id, RunState.SKIPPED)
    retry = DeadLetters(stage.crontab).retry(skipped.id)
    assert (retry.scheduled_for, retry.state) == (at("12:20"), RunState.WAITING)


def test_a_removed_task_cannot_be_tried_again(stage: Stage) -> None:
    task, _, run_id = dead_run(stage)
    stage.crontab.remove(task)
    with pytest.raises(Refused, match="was removed"):
        DeadLetters(stage.crontab).retry(run_id)


def test_a_run_that_belongs_to_a_node_is_tried_there_or_nowhere(stage: Stage) -> None:
    letters = DeadLetters(stage.crontab)
    task, node, other = stage.task("rotate", every_node=True), stage.node("web-1"), stage.node("web-2")
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    retry = letters.retry(run.id)
    assert (retry.for_node, retry.task_id) == (node, task.id)
    assert retry.id not in [each.id for each in stage.take(other)]
    stage.take(node)
    stage.finish(node, retry.id, FAILED)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    with pytest.raises(Refused, match="which is gone"):
        letters.retry(retry.id)
