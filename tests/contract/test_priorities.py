"""Priorities: urgent runs go first when slots are short, and the others do not starve."""

from datetime import timedelta

import pytest

from dcron.policy.starting.lanes import HEAD_START
from tests.support.stage import Stage

NEVER = "0 0 1 1 *"


def test_high_goes_before_normal_before_low_before_what_is_made_up_for(stage: Stage) -> None:
    for priority in ("low", "normal", "high"):
        stage.crontab.run(stage.task(priority, NEVER, priority=priority))
    task = stage.task("again", NEVER, priority="high")
    stage.insert_run(task_id=task.id, task="again", trigger="backfill", lane="default priority=low")
    node = stage.node()
    order = [run.task.name for _ in range(4) for run in stage.take(node, limit=1)]
    assert order == ["high", "normal", "low", "again"]


def test_of_one_priority_the_longest_due_goes_first(stage: Stage) -> None:
    for name, due in (("third", 1), ("first", 3), ("second", 2)):
        task = stage.task(name, NEVER, priority="high")
        stage.insert_run(
            task_id=task.id,
            task=name,
            lane="default priority=high",
            due_at=stage.now - timedelta(seconds=due),
        )
    assert [run.task.name for run in stage.claim(stage.node())] == ["first", "second", "third"]


@pytest.mark.slow
def test_low_does_not_wait_for_ever_behind_a_stream_of_others(stage: Stage) -> None:
    low = stage.task("low", NEVER, priority="low")
    busy = stage.task("busy", NEVER, max_running=None)
    urgent = stage.task("urgent", NEVER, priority="high", max_running=None)
    stage.crontab.run(low)
    node, began = stage.node(), stage.now
    for _ in range(30):
        stage.crontab.run(busy)
        (run,) = stage.take(node, limit=1)
        stage.finish(node, run.id)
        if run.task.name == "low":
            break
        stage.forward(minutes=1)
    waited = stage.now - began
    assert waited == HEAD_START["normal"] - HEAD_START["low"], "then it ranks level, and is the older one"

    stage.crontab.run(low)
    began = stage.now
    for _ in range(60):
        stage.crontab.run(urgent)
        (run,) = stage.take(node, limit=1)
        stage.finish(node, run.id)
        if run.task.name == "low":
            break
        stage.forward(minutes=1)
    assert stage.now - began <= HEAD_START["high"] - HEAD_START["low"] + timedelta(minutes=1)
    assert run.task.name == "low"


def test_an_edit_of_the_priority_bears_on_what_waits(stage: Stage) -> None:
    first = stage.task("first", NEVER)
    stage.crontab.run(first)
    late = stage.task("late", NEVER, priority="low")
    run = stage.crontab.run(late)
    stage.crontab.edit(late, {"priority": "high"})
    assert [each.id for each in stage.take(stage.node(), limit=1)] == [run.id]


def test_with_slots_for_all_nothing_waits(stage: Stage) -> None:
    for priority in ("low", "normal", "high"):
        stage.crontab.run(stage.task(priority, NEVER, priority=priority))
    assert len(stage.take(stage.node())) == 3
