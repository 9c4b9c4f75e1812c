"""Overlap: what happens to a due run while its task is at its limit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from dcron.model import Block, RunState, Task, Trigger
from dcron.services.dashboard import Dashboard
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.runs import blocked
from dcron.values.lists import Term
from tests.support.patience import PATIENCE
from tests.support.run_queries import find, held_back, reasons, states, times
from tests.support.stage import LEASE, Stage, at

LIMITS = pytest.mark.parametrize("limit", [1, 3])
HOUR = 3600.0
STEP = 10
"""Minutes between two occurrences."""
WAITS = (Trigger.RETRY, Trigger.EVENT, Trigger.AFTER, Trigger.BACKFILL)


def fill(stage: Stage, node: str, task: Task) -> list[int]:
    """Start as many runs as the task may have alive, one an occurrence; it is time for one more."""
    started: list[int] = []
    for _ in range(task.max_running or 1):
        stage.forward(minutes=STEP)
        started += [run.id for run in stage.take(node)]
    assert len(started) == task.max_running
    stage.forward(minutes=STEP)
    return started


@LIMITS
def test_with_skip_a_run_beyond_the_limit_is_skipped_with_the_reason(stage: Stage, limit: int) -> None:
    task, node = stage.task("backup", max_running=limit), stage.node()
    fill(stage, node, task)
    assert stage.take(node) == []
    alive = "the previous run is" if limit == 1 else "3 runs are"
    assert reasons(stage, task) == [f"overlap: {alive} still alive"]
    assert not held_back(stage)


@LIMITS
def test_with_queue_every_occurrence_runs_one_after_the_other(stage: Stage, limit: int) -> None:
    task, node = stage.task("backup", max_running=limit, overlap="queue"), stage.node()
    running = fill(stage, node, task)
    first_to_wait = stage.now
    assert stage.take(node) == []
    assert [run.blocked for run in held_back(stage, task)] == [Block.LIMIT]

    stage.forward(minutes=3 * STEP)
    for _ in range(4):
        assert stage.take(node) == []
        stage.finish(node, running.pop(0))
        (run,) = stage.take(node)
        assert run.scheduled_for == first_to_wait
        running.append(run.id)
        first_to_wait = run.scheduled_for.replace(minute=(run.scheduled_for.minute + STEP) % 60)
        if first_to_wait.minute == 0:
            first_to_wait = first_to_wait.replace(hour=first_to_wait.hour + 1)
    assert reasons(stage, task) == []


def test_a_run_that_waits_for_its_limit_is_not_called_late(stage: Stage) -> None:
    held, node = stage.task("held", overlap="queue"), stage.node()
    fill(stage, node, held)
    assert stage.take(node) == []
    late = stage.task("late")
    stage.forward(minutes=STEP, seconds=16)
    board = Dashboard(stage.crontab)
    assert [*board.task_ids([Term("late")], "name", reverse=False)] == [late.id]
    assert board.task_rows([held.id]).rows[held.id].is_late(stage.now) is False


@LIMITS
def test_with_replace_the_oldest_is_asked_to_stop_and_then_the_new_one_runs(stage: Stage, limit: int) -> None:
    task, node = stage.task("backup", max_running=limit, overlap="replace"), stage.node()
    oldest, *others = fill(stage, node, task)
    assert stage.take(node) == []
    (waiting,) = held_back(stage, task)
    assert stage.cancel_requests(node) == {oldest: f"run {waiting.id}, which replaces it"}
    assert stage.claim_batch(node).blocked == [], "asked once"

    stage.finish(node, oldest, RunState.CANCELLED)
    assert [run.id for run in stage.take(node)] == [waiting.id]
    assert [find(stage, run_id).state for run_id in others] == [RunState.RUNNING] * (limit - 1)
    assert stage.cancel_requests(node) == {}


def test_each_of_two_that_replace_stops_one(stage: Stage) -> None:
    task, node = stage.task("backup", max_running=2, overlap="replace"), stage.node()
    running = fill(stage, node, task)
    stage.crontab.run(task)
    assert stage.take(node) == []
    assert sorted(stage.cancel_requests(node)) == running
    for run_id in running:
        stage.finish(node, run_id, RunState.CANCELLED)
    assert len(stage.take(node)) == 2


def test_without_a_limit_nothing_waits_and_nothing_is_left_out(stage: Stage) -> None:
    task, node = stage.task("backup", max_running=None), stage.node()
    for _ in range(4):
        stage.forward(minutes=STEP)
        assert len(stage.take(node)) == 1
    assert states(stage, task) == [RunState.RUNNING] * 4 + [RunState.WAITING]


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_runs_that_nothing_would_follow_wait_instead_of_being_left_out(stage: Stage, overlap: str) -> None:
    task, node = stage.task("backup", overlap=overlap), stage.node()
    stage.forward(minutes=STEP)
    (running,) = stage.take(node)
    waiting = [stage.insert_run(task_id=task.id, task=task.name, trigger=trigger) for trigger in WAITS]
    assert stage.take(node) == []
    assert [(run.id, run.blocked) for run in held_back(stage, task)] == [
        (each, Block.LIMIT) for each in waiting
    ]
    asked = stage.cancel_requests(node)
    assert (running.id in asked) is (overlap == "replace"), "an event replaces, all others wait"

    for run_id in waiting:
        stage.finish(node, running.id)
        (running,) = stage.take(node)
        assert running.id == run_id


CAUSES_THAT_END: dict[str, Callable[[Stage, str, int, Task], object]] = {
    "it ends": lambda stage, node, run_id, task: stage.finish(node, run_id),
    "it fails": lambda stage, node, run_id, task: stage.finish(node, run_id, RunState.FAILED),
    "it is cancelled": lambda stage, node, run_id, task: stage.finish(node, run_id, RunState.CANCELLED),
    "its node dies": lambda stage, node, run_id, task: (stage.forward(seconds=LEASE + 1), stage.reap()),
    "its node stops": lambda stage, node, run_id, task: stage.sign_off(node),
    "the limit is raised": lambda stage, node, run_id, task: stage.crontab.edit(task, {"max_running": 2}),
    "the limit is taken away": lambda stage, node, run_id, task: stage.crontab.edit(
        task, {"max_running": None}
    ),
}


@pytest.mark.parametrize("cause", CAUSES_THAT_END)
def test_a_run_kept_waiting_is_let_go_when_the_cause_ends(stage: Stage, cause: str) -> None:
    task, node = stage.task("backup", "0 0 1 1 *"), stage.node()
    stage.insert_run(task_id=task.id, task=task.name)
    (running,) = stage.take(node)
    waiting = stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.EVENT)
    assert stage.take(node) == []
    assert [run.id for run in held_back(stage)] == [waiting]
    CAUSES_THAT_END[cause](stage, node, running.id, task)
    assert held_back(stage) == []
    assert [run.id for run in stage.take(stage.node("web-2"))] == [waiting]


def test_no_more_are_let_go_than_there_is_room_for(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *", max_running=2), stage.node()
    for _ in range(7):
        stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.EVENT)
    first, second = stage.take(node)
    assert len(held_back(stage)) == 5
    stage.finish(node, first.id)
    assert len(held_back(stage)) == 4
    stage.crontab.edit(task, {"max_running": 4})
    assert len(held_back(stage)) == 1
    assert find(stage, second.id).state is RunState.RUNNING


def test_what_waits_is_moved_out_of_the_way_once_and_for_all(stage: Stage) -> None:
    task, node = stage.task("busy", "0 0 1 1 *"), stage.node()
    free = stage.task("free", "0 0 1 1 *")
    for _ in range(50):
        stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.BACKFILL)
    stage.forward(seconds=1)
    assert len(stage.take(node, limit=1)) == 1
    stage.insert_run(task_id=free.id, task=free.name)
    assert [run.task.name for run in stage.take(node, limit=1)] == ["free"]
    batch = stage.claim_batch(node)
    assert (batch.blocked, batch.skipped, batch.moved_on) == ([], [], False)


def test_a_paused_task_keeps_what_waits_until_it_is_resumed(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    run_id = stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.EVENT)
    paused = stage.crontab.pause(task)
    assert stage.take(node) == []
    assert [(run.id, run.blocked) for run in held_back(stage)] == [(run_id, Block.PAUSED)]
    stage.crontab.resume(paused)
    assert [run.id for run in stage.take(node)] == [run_id]


@pytest.mark.parametrize("overlap", ["queue", "replace"])
def test_what_downtime_left_out_is_recorded_once_though_its_run_waits(stage: Stage, overlap: str) -> None:
    task, node = stage.task("backup", overlap=overlap), stage.node()
    by_hand = stage.crontab.run(task)
    stage.take(node)
    stage.now = at("12:45")
    for _ in range(3):
        assert stage.take(node) == []
        stage.sql("UPDATE runs SET blocked = NULL")
    stage.finish(node, by_hand.id)
    ran = []
    while found := stage.take(node):
        ran.append(f"{found[0].scheduled_for:%H:%M}")
        stage.finish(node, found[0].id)
    assert ran == ["12:40"]
    assert times(stage, task, RunState.SKIPPED) == ["12:30"]
    assert "3 occurrences" in reasons(stage, task)[0]


def test_the_backlog_of_a_queue_outlasts_an_edit_that_raises_the_limit(stage: Stage) -> None:
    task, node = stage.task("backup", overlap="queue"), stage.node()
    running = fill(stage, node, task)
    assert stage.take(node) == []
    stage.now = at("12:45")
    task = stage.crontab.edit(task, {"max_running": 2})
    ran = []
    while found := stage.take(node):
        ran.append(f"{found[0].scheduled_for:%H:%M}")
        stage.finish(node, found[0].id)
    assert ran == ["12:20", "12:30", "12:40"]
    assert reasons(stage, task) == []
    assert find(stage, running[0]).state is RunState.RUNNING


def test_a_backlog_outlasts_an_edit_of_the_command(stage: Stage) -> None:
    task, node = stage.task("backup", overlap="queue"), stage.node()
    running = fill(stage, node, task)
    assert stage.take(node) == []
    stage.now = at("12:45")
    stage.crontab.edit(task, {"command": "new"})
    assert stage.take(node) == []
    stage.finish(node, running[0])
    (run,) = stage.take(node)
    assert (run.scheduled_for, run.spec["command"]) == (at("12:20"), "new")


def test_what_waits_for_a_task_deleted_by_hand_ends_skipped(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *"), stage.node()
    stage.insert_run(task_id=task.id, task=task.name)
    (running,) = stage.take(node)
    waiting = stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.RETRY)
    stage.take(node)
    stage.sql("DELETE FROM crontab WHERE name = 'backup'")
    stage.finish(node, running.id)
    with stage.database.write() as connection:
        blocked.unblock_some(connection, 0, stage.now, 100)
    run = find(stage, waiting)
    assert (run.state, run.reason) == (RunState.SKIPPED, "no longer wanted: removed")


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_run_that_begins_to_wait_while_the_one_in_its_way_ends_is_not_forgotten(stage: Stage) -> None:
    """The end is written and not yet committed when the other looks, twice."""
    task, node = stage.task("backup", "0 0 1 1 *"), stage.node()
    stage.insert_run(task_id=task.id, task=task.name)
    (running,) = stage.take(node)
    stage.insert_run(task_id=task.id, task=task.name, trigger=Trigger.EVENT)
    ended = [RunResult(running.id, RunState.SUCCEEDED, stage.now)]
    written, look_again = threading.Event(), threading.Event()

    def finish_slowly() -> None:
        with stage.database.write() as connection:
            assert finishing.finish(connection, stage.database, node, ended, stage.now)
            written.set()
            assert look_again.wait(PATIENCE)

    def claim() -> None:
        # A node that looks again waits for the end, or the end finds it.
        stage.claim_batch(node)

    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(finish_slowly)
        assert written.wait(PATIENCE)
        claiming = pool.submit(claim)
        while not claiming.done() and not waits_for_lock(stage):
            pass
        look_again.set()
        ending.result()
        claiming.result()
    assert held_back(stage) == []


def waits_for_lock(stage: Stage) -> bool:
    with stage.database.read() as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return bool(connection.scalar(text(waiting)))


def test_a_run_that_replaces_goes_before_the_retry_of_the_run_it_replaces(stage: Stage) -> None:
    task, node = stage.task("backup", overlap="replace", tries=3, backoff=660.0), stage.node(lease=HOUR)
    stage.now = at("12:10")
    (first,) = stage.take(node)
    stage.finish(node, first.id, RunState.FAILED)
    stage.now = at("12:20")
    (second,) = stage.take(node)
    stage.now = at("12:30")  # the retry is due, and so is the run that replaces what runs
    assert stage.take(node) == []
    assert stage.cancel_requests(node).keys() == {second.id}
    stage.finish(node, second.id, RunState.CANCELLED)
    (third,) = stage.take(node)
    assert (third.trigger, third.scheduled_for) == (Trigger.SCHEDULE, at("12:30"))
    assert [run.trigger for run in held_back(stage, task)] == [Trigger.RETRY]


def test_occurrences_that_a_slow_end_held_up_are_skipped_for_the_overlap(stage: Stage) -> None:
    task, node = stage.task("backup", overlap="replace"), stage.node(lease=2 * HOUR)
    stage.now = at("12:10")
    (slow,) = stage.take(node)
    stage.now = at("12:20")
    assert stage.take(node) == []
    stage.now = at("12:45")
    stage.finish(node, slow.id, RunState.CANCELLED)
    (run,) = stage.take(node)
    assert run.scheduled_for == at("12:40")
    (reason,) = reasons(stage, task)
    assert reason.startswith("overlap: the run before was still alive (2 occurrences, ")


def test_a_run_that_queues_too_long_leaves_those_behind_it_in_the_queue(stage: Stage) -> None:
    task = stage.task("backup", overlap="queue", deadline=1200.0)
    node = stage.node(lease=2 * HOUR)
    stage.now = at("12:10")
    (slow,) = stage.take(node)
    stage.now = at("12:20")
    assert stage.take(node) == []
    stage.now = at("12:45")
    assert stage.expire() == 1  # that of 12:20 alone: 12:30 may yet start
    stage.finish(node, slow.id)
    (run,) = stage.take(node)
    assert run.scheduled_for == at("12:30")
    stage.finish(node, run.id)
    (run,) = stage.take(node)
    assert run.scheduled_for == at("12:40")
    assert reasons(stage, task) == ["expired: not started within 20m"]
