"""Queues: limits that many tasks share, over all nodes."""

import pytest
from sqlalchemy.exc import IntegrityError

from dcron.model import Queue, RunState
from dcron.services.fleet import Fleet
from tests.support.run_queries import held_back
from tests.support.stage import Stage

NEVER = "0 0 1 1 *"


def expected(stage: Stage, tasks: int, runs: int = 1, queue: str = "mail") -> None:
    """So many due runs of so many tasks of one queue."""
    for number in range(tasks):
        task = stage.task(f"{queue}-{number}", NEVER, queue=queue, max_running=None)
        for _ in range(runs):
            stage.crontab.run(task)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_queues_limit_holds_over_tasks_and_nodes(stage: Stage, limit: int) -> None:
    Fleet(stage.crontab).set_queue("mail", limit)
    expected(stage, tasks=3, runs=2)
    one, other = stage.node("web-1"), stage.node("web-2")
    first = stage.take(one, limit=2)
    second = stage.take(other)
    assert len(first) + len(second) == limit
    assert stage.take(one) == stage.take(other) == []
    assert not held_back(stage), "they stay due"

    stage.finish(one, first[0].id)
    assert len(stage.take(other)) == 1
    assert stage.take(one) == []


def test_what_is_claimed_counts_and_what_is_lost_does_not(stage: Stage) -> None:
    Fleet(stage.crontab).set_queue("mail", 1)
    expected(stage, tasks=2)
    one, other = stage.node("web-1", lease=1), stage.node("web-2")
    stage.claim(one)
    assert stage.claim(other) == []
    stage.forward(seconds=2)
    stage.reap()
    (run,) = stage.take(other)
    stage.sign_off(other)
    assert stage.crontab.find_run(run.id).state is RunState.LOST
    assert len(stage.take(stage.node("web-3"))) == 1


def test_other_queues_go_on_while_one_is_full(stage: Stage) -> None:
    Fleet(stage.crontab).set_queue("mail", 1)
    expected(stage, tasks=3)
    expected(stage, tasks=3, queue="reports")
    node = stage.node()
    assert sorted(run.task.queue for run in stage.take(node)) == ["mail"] + ["reports"] * 3


def test_with_a_limit_of_nothing_a_queue_starts_nothing_until_it_is_taken_away(stage: Stage) -> None:
    fleet = Fleet(stage.crontab)
    fleet.set_queue("mail", 0)
    expected(stage, tasks=2)
    node = stage.node()
    assert stage.take(node) == []
    fleet.set_queue("mail", None)
    assert len(stage.take(node)) == 2


def test_a_limit_that_is_lowered_lets_run_what_runs(stage: Stage) -> None:
    fleet = Fleet(stage.crontab)
    expected(stage, tasks=3)
    node = stage.node()
    running = stage.take(node, limit=2)
    fleet.set_queue("mail", 1)
    assert stage.take(node) == []
    stage.finish(node, running[0].id)
    assert stage.take(node) == []
    stage.finish(node, running[1].id)
    assert len(stage.take(node)) == 1


def test_queues_are_shown_with_their_limits_and_what_runs_in_them(stage: Stage) -> None:
    fleet = Fleet(stage.crontab)
    fleet.set_queue("mail", 2)
    fleet.set_queue("idle", None)
    expected(stage, tasks=1)
    expected(stage, tasks=1, queue="reports")
    stage.take(stage.node())
    assert fleet.queues() == [
        Queue(name="idle", max_running=None),
        Queue(name="mail", max_running=2, alive=1),
        Queue(name="reports", max_running=None, alive=1),
    ]


def test_a_task_that_changes_its_queue_takes_with_it_what_waits(stage: Stage) -> None:
    Fleet(stage.crontab).set_queue("mail", 0)
    task = stage.task("letter", NEVER, queue="mail")
    run = stage.crontab.run(task)
    node = stage.node()
    assert stage.take(node) == []
    stage.crontab.edit(task, {"queue": "express"})
    assert [each.id for each in stage.take(node)] == [run.id]
    assert stage.crontab.find_run(run.id).queue == "express"


def test_a_limit_that_is_no_whole_number_is_refused(sqlite_stage: Stage) -> None:
    with pytest.raises(IntegrityError, match="queues_types"):
        sqlite_stage.sql("INSERT INTO queues (name, max_running) VALUES ('mail', 1.5)")


def test_a_run_of_a_full_queue_keeps_no_place_from_the_next_in_its_lane(stage: Stage) -> None:
    """Lanes of one queue share its room, whatever else they ask for."""
    Fleet(stage.crontab).set_queue("mail", 2)
    expected(stage, tasks=2)
    urgent = stage.task("urgent", NEVER, queue="mail", priority="high")
    stage.crontab.run(urgent)
    stage.forward(seconds=1)
    node = stage.node()
    assert [run.task.name for run in stage.take(node)] == ["urgent", "mail-0"]
