"""Deadlines: what was not started in time is skipped, and says so."""

import pytest

from dcron.model import Block, RunState, Trigger
from tests.support.run_queries import find, reasons, times
from tests.support.stage import Stage, at

FIVE_MINUTES = 300.0


def test_a_run_claimed_too_late_is_skipped_and_the_task_goes_on(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *", deadline=FIVE_MINUTES)
    stage.now = at("13:05:01")
    assert stage.take(stage.node()) == []
    assert reasons(stage, task) == ["expired: not started within 5m"]
    assert times(stage, task, RunState.WAITING) == ["14:00"]


def test_a_run_claimed_at_its_deadline_starts(stage: Stage) -> None:
    stage.task("backup", "0 * * * *", deadline=FIVE_MINUTES)
    stage.now = at("13:05")
    assert stage.expire() == 0
    assert len(stage.take(stage.node())) == 1


def test_runs_that_no_node_can_take_expire_too_and_the_task_goes_on(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *", deadline=FIVE_MINUTES, require=("gpu",))
    stage.now = at("13:05:01")
    assert stage.take(stage.node()) == []
    assert stage.expire() == 1
    assert stage.expire() == 0
    assert reasons(stage, task) == ["expired: not started within 5m"]
    assert times(stage, task, RunState.SKIPPED, RunState.WAITING) == ["13:00", "14:00"]


def test_all_that_has_expired_is_in_one_row(stage: Stage) -> None:
    task = stage.task("backup", deadline=FIVE_MINUTES)
    stage.now = at("12:47")
    assert stage.expire() == 1
    assert reasons(stage, task) == [
        "expired: not started within 5m (4 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:40:00Z)"
    ]
    assert times(stage, task, RunState.WAITING) == ["12:50"]


def test_what_may_still_start_has_not_expired(stage: Stage) -> None:
    task = stage.task("backup", deadline=FIVE_MINUTES)
    stage.now = at("12:43")
    assert stage.expire() == 1
    assert "3 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:30:00Z" in reasons(stage, task)[0]
    (run,) = stage.take(stage.node())
    assert run.scheduled_for == at("12:40")


def test_what_its_jitter_holds_back_has_not_expired(stage: Stage) -> None:
    task = stage.task("backup", "* * * * *", deadline=60.0, jitter=600.0)
    stage.now = at("12:30")
    assert stage.expire() == 1
    (planned,) = stage.runs(task.id, RunState.WAITING)
    assert planned.scheduled_for == at("12:19"), "whose share of the jitter may be all of it"
    while stage.expire():
        pass
    (planned,) = stage.runs(task.id, RunState.WAITING)
    assert planned.expires_at
    assert planned.expires_at >= stage.now > planned.scheduled_for


def test_what_is_made_up_for_is_measured_by_its_own_time(stage: Stage) -> None:
    task, node = stage.task("backup", deadline=FIVE_MINUTES), stage.node()
    stage.now = at("12:43")
    (run,) = stage.claim(node)
    assert run.scheduled_for == at("12:40")
    stage.release(node)
    assert stage.expire() == 0, "given back, it has its time until 12:45"
    (run,) = stage.take(node)
    assert run.scheduled_for == at("12:40")
    assert len(stage.runs(task.id, RunState.SKIPPED)) == 1


def test_a_run_that_is_kept_waiting_expires_and_the_one_in_its_way_goes_on(stage: Stage) -> None:
    task, node = stage.task("backup", overlap="queue", deadline=FIVE_MINUTES), stage.node()
    stage.now = at("12:10")
    (running,) = stage.take(node)
    stage.now = at("12:20")
    stage.take(node)
    (planned,) = stage.runs(task.id, RunState.WAITING)
    assert planned.blocked is Block.LIMIT
    stage.now = at("12:26")
    assert stage.expire() == 1
    assert (find(stage, planned.id).state, find(stage, planned.id).blocked) == (RunState.SKIPPED, None)
    assert times(stage, task, RunState.WAITING) == ["12:30"]
    assert find(stage, running.id).state is RunState.RUNNING


def test_a_run_by_hand_and_an_event_have_the_deadline_too(stage: Stage) -> None:
    task = stage.task("backup", "0 0 1 1 *", deadline=FIVE_MINUTES, require=("gpu",))
    run = stage.crontab.run(task)
    assert run.expires_at == at("12:05")
    stage.now = at("12:06")
    assert stage.expire() == 1
    assert find(stage, run.id).reason == "expired: not started within 5m"
    assert len(stage.runs(task.id, RunState.WAITING)) == 1


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_counted_from_an_end_does_not_expire_before_it(stage: Stage, ended: bool) -> None:
    task, node = stage.task("poll", "@delay 1m", deadline=60.0), stage.node()
    stage.forward(minutes=1)
    (run,) = stage.take(node)
    stage.forward(minutes=30)
    if ended:
        stage.finish(node, run.id)
        stage.forward(minutes=3)
    assert stage.expire() == int(ended)
    (planned,) = stage.runs(task.id, RunState.WAITING)
    assert planned.blocked is (None if ended else Block.DELAY)
    assert planned.trigger is Trigger.SCHEDULE


def test_an_edit_of_the_deadline_bears_on_what_waits(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *")
    stage.now = at("13:10")
    stage.crontab.edit(task, {"deadline": FIVE_MINUTES})
    assert stage.expire() == 1
    assert times(stage, task, RunState.WAITING) == ["14:00"]


def test_what_expires_of_a_paused_task_has_no_successor(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *", deadline=FIVE_MINUTES)
    stage.set_task(task.id, enabled=False)
    stage.now = at("13:06")
    assert stage.expire() == 1
    assert stage.runs(task.id, RunState.WAITING) == []
