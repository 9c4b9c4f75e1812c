"""Trials run something other than the saved task once. The task, and all that is about it, stays as it is."""

from datetime import timedelta

import pytest

from dcron.errors import NotFound, Refused, UsageError
from dcron.model import Run, RunState, Task, Trigger
from dcron.policy.starting.lanes import read_lane
from dcron.services.dashboard import Dashboard
from dcron.services.history import History
from dcron.services.runs.dead_letters import DeadLetters
from dcron.services.runs.trials import Trials
from dcron.services.statistics import RunStatistics
from dcron.store.runs.candidates import ClaimedRun
from dcron.values.lists import RunFilter, RunListFilter
from tests.support.run_queries import find
from tests.support.stage import Stage


def try_it(stage: Stage, task: Task, node: str | None = None, **changed: object) -> Run:
    return Trials(stage.crontab).run_changed(task, changed or {"command": "tried"}, node=node)


def take(stage: Stage, node: str) -> ClaimedRun:
    (run,) = stage.take(node)
    return run


def test_a_trial_runs_the_changed_command_once_and_the_task_stays_as_it_is(stage: Stage) -> None:
    task, node = stage.task("backup", env={"A": "1"}, tries=3), stage.node()
    before = (stage.saved(task.id), stage.runs(task.id))
    trial = try_it(stage, task, command="tried", env={"A": "2"})
    run = take(stage, node)
    assert (run.id, run.task.name, run.spec["command"], run.spec["env"]) == (
        *(trial.id, "backup", "tried"),
        {"A": "2"},
    )
    stage.finish(node, run.id, RunState.FAILED, exit_code=3)
    assert (stage.saved(task.id), stage.runs(task.id)) == before
    ended = find(stage, run.id)
    assert (ended.state, ended.exit_code, ended.is_trial, ended.dead_at) == (RunState.FAILED, 3, True, None)
    assert DeadLetters(stage.crontab).page(10) == []
    (row,) = stage.crontab.list_tasks()
    assert (row.last_run, row.failed, row.dead) == (None, False, False)
    with pytest.raises(Refused, match=f"run {run.id} is a trial; `dcron run --like {run.id}` repeats it"):
        DeadLetters(stage.crontab).retry(run.id)


def test_what_a_task_does_at_its_ends_takes_no_notice_of_a_trial(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *"), stage.node()
    stage.task("report", "@after backup")
    started = stage.crontab.run(task)
    own = take(stage, node)
    stage.finish(node, own.id)
    assert own.id == started.id
    for after in stage.take(node):
        stage.finish(node, after.id)
    counted = [run.id for run in stage.runs()]
    trial = try_it(stage, task)
    stage.finish(node, take(stage, node).id)
    assert [run.id for run in stage.runs()] == [*counted, trial.id]  # no run of report
    stage.forward(seconds=1)
    found = RunStatistics(stage.crontab).of(stage.now - timedelta(days=1), None).found
    assert {each.name: each.now.succeeded for each in found} == {"backup": 1, "report": 1}
    (row,) = [each for each in stage.crontab.list_tasks() if each.task.name == "backup"]
    assert row.last_run
    assert row.last_run.id == own.id


def test_a_trial_neither_waits_for_its_task_nor_delays_it(stage: Stage) -> None:
    task, node = stage.task("backup", max_running=1), stage.node()
    stage.crontab.run(task)
    own = take(stage, node)
    trial = take_trial(stage, task, node)
    stage.finish(node, own.id)
    stage.forward(minutes=10)
    scheduled = take(stage, node)
    assert (scheduled.trigger, find(stage, trial.id).state) == (Trigger.SCHEDULE, RunState.RUNNING)


def take_trial(stage: Stage, task: Task, node: str) -> ClaimedRun:
    made = try_it(stage, task)
    run = take(stage, node)
    assert run.id == made.id
    return run


def test_a_run_is_repeated_exactly_also_of_a_changed_or_removed_task(stage: Stage) -> None:
    task, node = (
        stage.task("backup", env={"A": "1"}, require=("ssd",), queue="mail"),
        stage.node(tags=("ssd",)),
    )
    stage.forward(minutes=10)
    own = stage.take(node, tags=("ssd",))[0]
    stage.finish(node, own.id)
    payload = stage.crontab.run(task, "text")
    stage.crontab.edit(task, {"command": "other", "env": {}})
    first = Trials(stage.crontab).repeat(own.id)
    assert (first.spec["command"], first.spec["env"], first.scheduled_for) == (
        *("true", {"A": "1"}),
        own.scheduled_for,
    )
    lane = read_lane(first.lane)
    assert lane
    assert (lane.require, lane.queue, lane.is_trial) == (("ssd",), "mail", True)
    stage.crontab.remove(stage.saved(task.id))
    second = Trials(stage.crontab).repeat(payload.id)
    third = Trials(stage.crontab).repeat(second.id)
    assert (second.payload, third.payload, third.spec["like"]) == ("text", "text", second.id)
    assert stage.settle_orphans() == 0
    taken = stage.take(node, tags=("ssd",))
    assert {run.id for run in taken} == {first.id, second.id, third.id}
    for run in taken:
        stage.finish(node, run.id)
    assert {find(stage, run.id).state for run in taken} == {RunState.SUCCEEDED}
    assert stage.crontab.tasks_by_id([task.id]) == {}


def test_a_trial_is_listed_with_the_runs_of_its_task(stage: Stage) -> None:
    task, node = stage.task("backup", "0 0 1 1 *"), stage.node()
    ids = []
    for make in (stage.crontab.run, lambda task: try_it(stage, task)) * 3:
        ids.append(make(task).id)
        stage.finish(node, take(stage, node).id)
    newest_first = ids[::-1]
    done = [RunState.SUCCEEDED]
    page = stage.crontab.runs(RunFilter(task.id, done), 4)
    rest = stage.crontab.runs(RunFilter(task.id, done, before_id=page[-1].id), 4)
    assert [run.id for run in page + rest] == newest_first
    board = Dashboard(stage.crontab)
    latest = board.latest_runs(RunListFilter(task.id), 2)
    found = [run.id for run in latest.page.runs]
    after = latest.page.end
    while after:
        rows = board.more_runs(RunListFilter(task.id), after, 2)
        found += [run.id for run in rows.runs]
        after = rows.end
    assert found == newest_first
    waiting = try_it(stage, task)
    assert waiting.id in [run.id for run in board.latest_runs(RunListFilter(task.id), 10).unfinished]


def test_the_node_of_a_trial_is_checked_before_anything_is_written(stage: Stage) -> None:
    task = stage.task("backup", require=("ssd",))
    stage.node("web-1", tags=("ssd",))
    stage.node("web-2", queues=("mail",), tags=("ssd",))
    stage.node("web-3", account="app", uid=1000, any_account=False, tags=("ssd",))
    counted = len(stage.runs())
    for node, changed, error, why in (
        ("web-9", {}, NotFound, "there is no living node 'web-9'"),
        ("web-2", {}, Refused, "node web-2 cannot run it: no agent serves the queue default"),
        ("web-3", {"user": "root"}, Refused, "no living agent runs commands as root"),
        ("web-1", {"env": {"": "1"}}, UsageError, "env"),
    ):
        with pytest.raises(error, match=why):
            try_it(stage, task, node, **{"command": "tried", **changed})
    assert len(stage.runs()) == counted
    trial = try_it(stage, task, "web-3")
    assert stage.take("web-1-00000000", tags=("ssd",)) == []
    (run,) = stage.take("web-3-00000000", tags=("ssd",))
    assert run.id == trial.id


def test_a_trial_whose_node_dies_ends_and_nothing_follows(stage: Stage) -> None:
    task, node = stage.task("backup", tries=3, on_lost="retry"), stage.node(lease=5)
    running = take_trial(stage, task, node)
    waiting = try_it(stage, task, node)
    stage.forward(seconds=6)
    stage.reap()
    stage.settle_orphans()
    assert [find(stage, each).state for each in (running.id, waiting.id)] == [RunState.LOST, RunState.SKIPPED]
    assert DeadLetters(stage.crontab).page(10) == []
    assert not [run for run in stage.runs() if run.trigger is Trigger.RETRY]


def test_the_history_has_the_difference_and_what_was_tried_can_be_saved(stage: Stage) -> None:
    task = stage.task("backup", env={"A": "1"}, argv=("true",))
    trial = try_it(stage, task, command="tried", argv=None, timeout=60.0)
    (change,) = History(stage.crontab).changes(1, "backup")
    assert (change.action, change.before, change.after) == (
        "run",
        {"command": "true", "argv": ["true"], "timeout": None},
        {"run": trial.id, "trial": True, "command": "tried", "argv": None, "timeout": 60.0},
    )
    fields = Trials(stage.crontab).tried_fields(trial.id, task)
    saved = stage.crontab.edit(task, fields)
    assert (saved.command, saved.argv, saved.timeout, saved.env) == ("tried", None, 60.0, {"A": "1"})
    other = stage.task("other")
    with pytest.raises(Refused, match=f"run {trial.id} is one of backup, not of other"):
        Trials(stage.crontab).tried_fields(trial.id, other)
    with pytest.raises(NotFound):
        Trials(stage.crontab).repeat(99_999)
