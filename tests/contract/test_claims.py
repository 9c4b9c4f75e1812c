"""The claim protocol: each run starts once, on one node; and what happens when nodes die."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.model import Run, RunState, Task, Trigger
from tests.support.stage import LEASE, Stage, at

STATES_THAT_NEVER_CHANGE = [RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED, RunState.CANCELLED]


def states(runs: list[Run]) -> list[RunState]:
    return [run.state for run in runs]


def due_task(stage: Stage, name: str = "backup", **fields: Any) -> Task:
    """A task whose run for 12:10 is due; it is 12:10."""
    task = stage.task(name, **fields)
    stage.now = at("12:10")
    return task


def test_a_run_is_claimed_started_and_finished(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    assert stage.claim(node) == []

    stage.now = at("12:10")
    claimed = stage.claim(node)
    (run,) = stage.runs(task.id)
    assert (run.id, run.state, run.owner, run.claimed_at) == (
        claimed[0].id,
        RunState.CLAIMED,
        node,
        stage.now,
    )

    stage.forward(seconds=1)
    assert stage.start(node, claimed) == claimed
    run, successor = stage.runs(task.id)
    assert (run.state, run.started_at, run.scheduled_for) == (RunState.RUNNING, stage.now, at("12:10"))
    assert (successor.state, successor.due_at, successor.trigger) == (
        RunState.WAITING,
        at("12:20"),
        Trigger.SCHEDULE,
    )

    stage.forward(seconds=5)
    assert stage.finish(node, run.id, exit_code=0) == {run.id}
    run = stage.runs(task.id)[0]
    assert (run.state, run.finished_at, run.exit_code) == (RunState.SUCCEEDED, stage.now, 0)
    assert (run.node, run.duration(stage.now), run.dead_at) == ("web-1", 5.0, None)


def test_no_more_is_claimed_than_asked_for_and_the_longest_due_comes_first(stage: Stage) -> None:
    stage.task("late", "*/5 * * * *")
    stage.task("early", "1-59/2 * * * *")
    stage.task("middle", "3 * * * *")
    stage.now = at("12:05")
    node = stage.node()
    assert [run.task.name for run in stage.claim(node, limit=2)] == ["early", "middle"]
    assert [run.task.name for run in stage.claim(node, limit=2)] == ["late"]
    assert stage.claim(node, limit=2) == []


def test_a_run_for_one_node_is_taken_by_no_other(stage: Stage) -> None:
    task = stage.task("backup")
    mine, other = stage.node("web-1"), stage.node("web-2")
    run_id = stage.insert_run(task_id=task.id, task=task.name, trigger="reboot", for_node=mine)
    assert stage.claim(other) == []
    assert [run.id for run in stage.claim(mine)] == [run_id]


def test_a_paused_task_is_claimed_only_by_hand(stage: Stage) -> None:
    task = stage.task("backup")
    stage.set_task(task.id, enabled=False)
    stage.now = at("12:10")
    node = stage.node()
    assert stage.claim(node) == []
    by_hand = stage.crontab.run(task)
    assert [run.id for run in stage.claim(node)] == [by_hand.id]


@pytest.mark.slow
def test_tasks_that_cannot_start_do_not_starve_those_that_can(stage: Stage) -> None:
    for number in range(20):
        busy = stage.task(f"paused-{number}", "*/5 * * * *")
        stage.set_task(busy.id, enabled=False)
    stage.task("free", "*/6 * * * *")
    stage.now = at("12:06")
    node = stage.node()
    assert [run.task.name for run in stage.claim(node, limit=3)] == ["free"]
    stage.release(node)
    batch = stage.claim_batch(node, limit=3)
    assert [run.task.name for run in batch.claimed] == ["free"]
    assert batch.blocked == [], "they were moved out of the way once and for all"


def test_a_run_that_overlaps_is_skipped_and_the_task_goes_on(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    stage.take(node)
    stage.now = at("12:20")
    assert stage.claim(node) == []
    running, skipped, following = stage.runs(task.id)
    assert states([running, skipped, following]) == [RunState.RUNNING, RunState.SKIPPED, RunState.WAITING]
    assert (skipped.scheduled_for, skipped.finished_at) == (at("12:20"), stage.now)
    assert skipped.reason == "overlap: the previous run is still alive"
    assert following.due_at == at("12:30")


def test_a_limit_counts_the_runs_of_one_batch_too(stage: Stage) -> None:
    task, node = due_task(stage, max_running=2), stage.node()
    for _ in range(3):
        stage.crontab.run(task)
    assert len(stage.claim(node)) == 2
    assert sorted(states(stage.runs(task.id))) == ["claimed", "claimed", "skipped", "skipped"]


def test_without_a_limit_everything_due_is_claimed(stage: Stage) -> None:
    task, node = due_task(stage, max_running=None), stage.node()
    for _ in range(3):
        stage.crontab.run(task)
    assert len(stage.claim(node)) == 4


def test_a_start_brings_in_one_successor_and_asking_again_none(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.start(node, claimed)
    assert stage.start(node, claimed) == []
    assert states(stage.runs(task.id)) == [RunState.RUNNING, RunState.WAITING]


def test_a_successor_that_is_there_already_is_not_doubled(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    (run,) = claimed
    stage.sql("UPDATE runs SET state = 'running', started_at = claimed_at WHERE id = :id", id=run.id)
    stage.insert_run(task_id=task.id, task=task.name, trigger="schedule", due_at=at("12:30"))
    stage.sql(
        "UPDATE runs SET state = 'claimed', started_at = NULL, trigger = 'manual' WHERE id = :id", id=run.id
    )
    assert stage.start(node, claimed) == claimed
    waiting = stage.runs(task.id, RunState.WAITING)
    assert [run.due_at for run in waiting] == [at("12:30")]


def test_a_task_edited_between_claim_and_start_is_planned_anew(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.crontab.edit(task, {"schedule": "45 * * * *"})
    assert stage.runs(task.id, RunState.WAITING) == []
    assert not stage.has_to_plan(), "there is nothing to plan before the start is known"
    assert stage.start(node, claimed) == claimed
    assert stage.runs(task.id, RunState.WAITING) == []
    assert stage.has_to_plan()
    assert stage.plan() == 1
    assert [run.due_at for run in stage.runs(task.id, RunState.WAITING)] == [at("12:45")]
    assert not stage.has_to_plan()


def test_a_task_paused_between_claim_and_start_gets_no_successor(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.crontab.pause(task)
    assert stage.start(node, claimed) == claimed
    stage.plan()
    assert states(stage.runs(task.id)) == [RunState.RUNNING]
    assert not stage.has_to_plan()


def test_a_task_removed_between_claim_and_start_gets_no_successor(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.crontab.remove(task)
    assert stage.start(node, claimed) == claimed
    assert states(stage.runs(task.id)) == [RunState.RUNNING]


def test_a_claimed_run_keeps_its_plan_though_the_task_is_edited(stage: Stage) -> None:
    task, node = due_task(stage, command="old"), stage.node()
    claimed = stage.claim(node)
    stage.crontab.edit(task, {"command": "new"})
    (started,) = stage.start(node, claimed)
    assert started.spec["command"] == "old"
    stage.plan()
    following = stage.next_run(task)
    assert following.spec["command"] == "new"


def test_only_the_owner_starts_what_it_claimed(stage: Stage) -> None:
    due_task(stage)
    owner, other = stage.node("web-1"), stage.node("web-2")
    claimed = stage.claim(owner)
    assert stage.start(other, claimed) == []
    assert stage.start(owner, claimed) == claimed


def test_only_the_owner_finishes_what_it_runs(stage: Stage) -> None:
    task = due_task(stage)
    owner, other = stage.node("web-1"), stage.node("web-2")
    (run,) = stage.take(owner)
    assert stage.finish(other, run.id) == set()
    assert stage.runs(task.id)[0].state is RunState.RUNNING
    assert stage.finish(owner, run.id) == {run.id}


def test_what_was_never_started_cannot_be_finished(stage: Stage) -> None:
    due_task(stage)
    node = stage.node()
    (run,) = stage.claim(node)
    assert stage.finish(node, run.id) == set()


@pytest.mark.parametrize("state", STATES_THAT_NEVER_CHANGE)
def test_a_final_run_never_changes(stage: Stage, state: RunState) -> None:
    node = stage.node()
    run_id = stage.insert_run(
        task_id=stage.task("backup").id,
        state=state,
        owner=node,
        reason="as it was",
        claimed_at=stage.now,
        started_at=stage.now,
        finished_at=stage.now,
    )
    stage.forward(minutes=1)
    assert stage.finish(node, run_id, RunState.FAILED, exit_code=1, reason="another story") == set()
    stage.forward(seconds=LEASE * 2)
    stage.reap()
    with stage.database.write() as connection:
        assert connection.exec_driver_sql("UPDATE runs SET reason = reason").rowcount
    (run,) = [run for run in stage.runs() if run.id == run_id]
    assert (run.state, run.reason, run.exit_code) == (state, "as it was", None)


def test_a_failed_run_becomes_a_dead_letter(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED, exit_code=7, reason="exit 7")
    ended = stage.runs(task.id)[0]
    assert (ended.state, ended.exit_code, ended.dead_at) == (RunState.FAILED, 7, stage.now)


def test_a_batch_of_ends_says_which_were_its_own(stage: Stage) -> None:
    first, second = stage.task("first"), stage.task("second")
    stage.now = at("12:10")
    node, other = stage.node("web-1"), stage.node("web-2")
    (one,) = stage.take(node, limit=1)
    (two,) = stage.take(other, limit=1)
    assert {one.task.name, two.task.name} == {first.name, second.name}
    assert stage.finish(node, one.id) | stage.finish(node, two.id) == {one.id}


def test_a_lost_run_takes_its_owners_late_truth_once(stage: Stage) -> None:
    task = due_task(stage)
    node, other = stage.node("web-1"), stage.node("web-2")
    (run,) = stage.take(node)
    stage.forward(seconds=LEASE + 1)
    assert stage.renew(other) is True
    assert stage.reap() == ([node], [run.id])
    lost = stage.runs(task.id)[0]
    assert (lost.state, lost.dead_at, lost.finished_at) == (RunState.LOST, stage.now, stage.now)
    assert lost.reason == f"node {node} died while it ran"

    assert stage.finish(other, run.id) == set()
    assert stage.finish(node, run.id, exit_code=0, finished_at=at("12:10:30")) == {run.id}
    ended = stage.runs(task.id)[0]
    assert (ended.state, ended.finished_at, ended.dead_at) == (RunState.SUCCEEDED, at("12:10:30"), None)
    assert ended.reason is None
    assert stage.finish(node, run.id, RunState.FAILED) == set()


def test_what_is_released_waits_again_and_costs_no_attempt(stage: Stage) -> None:
    task = due_task(stage)
    node, other = stage.node("web-1"), stage.node("web-2")
    claimed = stage.claim(node)
    stage.release(node)
    (run,) = stage.runs(task.id)
    assert (run.state, run.owner, run.claimed_at, run.attempt) == (RunState.WAITING, None, None, 1)
    assert stage.start(node, claimed) == []
    assert [each.id for each in stage.take(other)] == [run.id]


def test_any_node_reaps_a_dead_one(stage: Stage) -> None:
    ran, waits = stage.task("ran"), stage.task("waits")
    stage.now = at("12:10")
    dead, other = stage.node("web-1"), stage.node("web-2")
    (started,) = stage.take(dead, limit=1)
    (claimed,) = stage.claim(dead, limit=1)
    assert stage.reap() == ([], [])

    stage.forward(seconds=LEASE + 1)
    stage.renew(other)
    assert stage.reap() == ([dead], [started.id])
    assert stage.reap() == ([], [])
    assert states(stage.runs(ran.id)) == [RunState.LOST, RunState.WAITING]
    assert states(stage.runs(waits.id)) == [RunState.WAITING]
    assert [run.id for run in stage.take(other, limit=1)] == [claimed.id]


def test_a_lease_lasts_to_its_last_instant(stage: Stage) -> None:
    node = stage.node()
    stage.forward(seconds=LEASE)
    assert stage.reap() == ([], [])
    stage.now += timedelta(microseconds=1)
    assert stage.reap() == ([node], [])


def test_a_node_declared_dead_cannot_renew_so_it_cannot_claim(stage: Stage) -> None:
    due_task(stage)
    node = stage.node()
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert stage.renew(node) is False


def test_a_node_declared_dead_cannot_start_what_it_had_claimed(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert stage.start(node, claimed) == []
    assert states(stage.runs(task.id)) == [RunState.WAITING]


def test_a_node_that_signs_off_gives_back_its_claims(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    stage.claim(node)
    stage.sign_off(node)
    assert states(stage.runs(task.id)) == [RunState.WAITING]
    assert stage.renew(node) is False


def test_a_run_for_a_node_that_is_gone_is_skipped(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    stage.insert_run(task_id=task.id, task=task.name, trigger="reboot", for_node=node)
    stage.insert_run(task_id=task.id, task=task.name, trigger="reboot", for_node="never-was-1234abcd")
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert [run.reason for run in stage.runs(task.id, RunState.SKIPPED)] == ["its node is gone"] * 2


def test_after_downtime_one_row_has_what_was_missed_and_the_last_occurrence_runs(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    stage.now = at("13:05")
    (run,) = stage.take(node)
    assert run.scheduled_for == at("13:00")
    assert run.successor == at("13:10")
    (missed,) = stage.runs(task.id, RunState.SKIPPED)
    assert missed.reason == (
        "missed: no agent could start it (5 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:50:00Z)"
    )
    (running,) = stage.runs(task.id, RunState.RUNNING)
    assert running.scheduled_for == at("13:00")
    assert [run.due_at for run in stage.runs(task.id, RunState.WAITING)] == [at("13:10")]


def test_a_year_of_downtime_holds_no_claim_up(stage: Stage) -> None:
    for number in range(3):
        stage.task(f"minutely-{number}", "* * * * *")
    stage.forward(days=365)
    assert len(stage.take(stage.node())) == 3
    assert all("more than 200 occurrences" in str(run.reason) for run in stage.runs(None, RunState.SKIPPED))


def test_an_overlap_after_downtime_keeps_the_record_whole(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    stage.take(node)
    stage.now = at("13:05")
    assert stage.claim(node) == []
    missed, overlapping = sorted(stage.runs(task.id, RunState.SKIPPED), key=lambda run: run.scheduled_for)
    assert "4 occurrences, 2027-06-01T12:20:00Z to 2027-06-01T12:50:00Z" in str(missed.reason)
    assert (overlapping.scheduled_for, overlapping.reason) == (
        at("13:00"),
        "overlap: the previous run is still alive",
    )


def test_the_last_run_of_a_schedule_has_no_successor(stage: Stage) -> None:
    task, node = stage.task("once", "@at 2027-06-01T12:10:00Z"), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    assert run.successor is None
    assert states(stage.runs(task.id)) == [RunState.RUNNING]


def test_due_runs_of_a_task_deleted_by_hand_end_skipped(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    stage.sql("DELETE FROM crontab WHERE name = 'backup'")
    assert stage.claim(node) == []
    assert stage.settle_orphans() == 1
    (run,) = stage.runs(task.id)
    assert (run.state, run.reason) == (RunState.SKIPPED, "no longer wanted: removed")


def test_a_task_deleted_by_hand_while_it_is_claimed_runs_once_more(stage: Stage) -> None:
    task, node = due_task(stage), stage.node()
    claimed = stage.claim(node)
    stage.sql("DELETE FROM crontab WHERE name = 'backup'")
    assert stage.start(node, claimed) == claimed
    assert states(stage.runs(task.id)) == [RunState.RUNNING]


def test_a_claim_says_what_to_execute(stage: Stage) -> None:
    fields: dict[str, Any] = {
        "env": {"A": "1"},
        "cwd": "/srv",
        "user": "www",
        "timeout": 60.0,
        "shell": "/bin/bash",
    }
    task = stage.task("backup", command="make it so", **fields)
    run_id = stage.crontab.run(task, payload='{"n": 1}').id
    (claimed,) = stage.claim(stage.node())
    assert (claimed.id, claimed.payload, claimed.trigger) == (run_id, '{"n": 1}', Trigger.MANUAL)
    assert claimed.spec == {
        "schedule": "*/10 * * * *",
        "timezone": "UTC",
        "command": "make it so",
        **fields,
    }
