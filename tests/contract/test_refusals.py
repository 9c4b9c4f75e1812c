"""Commands that a node could not begin: they go to a node that has not tried, and cost no attempt."""

from typing import Any

from dcron.model import Run, RunState, SkipCode, Trigger
from dcron.services.fleet import Fleet
from dcron.services.why import Why
from dcron.store.runs.candidates import ClaimedRun
from tests.support.stage import Stage, at

NEVER = "0 0 1 1 *"
WHY = "could not be started: there is no user 'deploy'"


def refuse(stage: Stage, node_id: str, run: ClaimedRun, why: str = WHY) -> None:
    stage.finish(node_id, run.id, RunState.FAILED, reason=why, exit_code=126, never_begun=True)


def node(stage: Stage, name: str, **facts: Any) -> str:
    return stage.node(name, lease=3600, **facts)


def take(stage: Stage, node_id: str, **offered: Any) -> list[ClaimedRun]:
    return stage.take(node_id, **offered)


def waiting(stage: Stage) -> list[Run]:
    return [run for run in stage.runs(None, RunState.WAITING) if run.trigger is not Trigger.SCHEDULE]


def test_a_command_that_could_not_be_begun_goes_to_another_node_at_once(stage: Stage) -> None:
    task = stage.task("job", user="deploy")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.now = at("12:10")
    [run] = take(stage, one)
    refuse(stage, one, run)
    assert take(stage, one) == [], "the node that refused it does not take it again"
    [again] = take(stage, two)
    assert (again.attempt, again.trigger, again.scheduled_for) == (1, Trigger.RETRY, at("12:10"))
    stage.finish(two, again.id)
    first, second = [each for each in stage.runs(task.id) if each.state.is_final]
    assert (first.state, first.reason, first.dead_at) == (
        RunState.FAILED,
        f"{WHY}; it goes to another node",
        None,
    )
    assert (second.state, second.retry_of, second.refused_by) == (RunState.SUCCEEDED, run.id, {one: WHY})


def test_where_no_node_is_left_it_fails_and_names_those_that_tried(stage: Stage) -> None:
    task = stage.task("job", NEVER, user="deploy")
    nodes = [node(stage, f"web-{number}") for number in (1, 2, 3)]
    stage.crontab.run(task)
    for each in nodes:
        [run] = take(stage, each)
        refuse(stage, each, run)
        assert take(stage, each) == []
    last = [each for each in stage.runs(task.id) if each.state.is_final][-1]
    assert last.reason == f"{WHY}; web-1, web-2 could not start it either"
    assert last.dead_at == stage.now
    assert waiting(stage) == []


def test_a_single_node_fails_as_ever(stage: Stage) -> None:
    task, one = stage.task("job", NEVER), node(stage, "web-1")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    [failed] = stage.runs(task.id, RunState.FAILED)
    assert (failed.reason, failed.dead_at) == (WHY, stage.now)


def test_nodes_that_may_not_take_it_are_not_asked(stage: Stage) -> None:
    task = stage.task("job", NEVER, require=("ssd",), user="deploy")
    one = node(stage, "web-1", tags=("ssd",))
    node(stage, "web-2")
    node(stage, "web-3", tags=("ssd",), account="www", uid=33, any_account=False)
    node(stage, "web-4", tags=("ssd",))
    Fleet(stage.crontab).drain("web-4")
    stage.crontab.run(task)
    [run] = take(stage, one, tags=("ssd",))
    refuse(stage, one, run)
    assert waiting(stage) == []
    assert [each.dead_at for each in stage.runs(task.id, RunState.FAILED)] == [stage.now]


def test_a_next_attempt_may_be_tried_everywhere_again(stage: Stage) -> None:
    task = stage.task("job", NEVER, tries=2, backoff=10.0)
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    for each in (one, two):
        [run] = take(stage, each)
        refuse(stage, each, run)
    [again] = waiting(stage)
    assert (again.attempt, again.refused_by) == (2, None)
    assert again.due_at > stage.now
    stage.now = again.due_at
    assert [run.attempt for run in take(stage, one)] == [2]


def test_a_run_of_one_node_goes_to_no_other(stage: Stage) -> None:
    task = stage.task("job", every_node=True)
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.now = at("12:10")
    [run] = take(stage, one)
    refuse(stage, one, run)
    [share] = take(stage, two)
    assert share.trigger is Trigger.NODE
    stage.finish(two, share.id)
    assert waiting(stage) == []
    assert [each.dead_at is not None for each in stage.runs(task.id) if each.state.is_final] == [True, False]


def test_the_limit_of_the_task_holds_for_what_goes_on(stage: Stage) -> None:
    task = stage.task("job")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.now = at("12:10")
    [run] = take(stage, one)
    stage.now = at("12:20")
    refuse(stage, one, run)
    [other] = take(stage, one)
    assert other.trigger is Trigger.SCHEDULE
    assert take(stage, two) == [], "one is alive"
    stage.finish(one, other.id)
    [again] = take(stage, two)
    assert again.scheduled_for == at("12:10")
    assert task.max_running == 1


def test_a_run_that_was_to_be_cancelled_goes_nowhere(stage: Stage) -> None:
    task = stage.task("job", NEVER)
    one = node(stage, "web-1")
    node(stage, "web-2")
    asked = stage.crontab.run(task)
    [run] = take(stage, one)
    stage.crontab.cancel(asked.id)
    refuse(stage, one, run)
    assert waiting(stage) == []


def test_what_a_person_requested_while_the_task_is_paused_goes_on(stage: Stage) -> None:
    task = stage.task("job")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(stage.crontab.pause(task, "holiday"))
    [run] = take(stage, one)
    refuse(stage, one, run)
    assert [each.trigger for each in take(stage, two)] == [Trigger.MANUAL]


def test_the_deadline_counts_from_the_time_it_was_due(stage: Stage) -> None:
    stage.task("job", deadline=30.0)
    one = node(stage, "web-1")
    node(stage, "web-2")
    stage.now = at("12:10")
    [run] = take(stage, one)
    stage.forward(seconds=20)
    refuse(stage, one, run)
    [again] = waiting(stage)
    assert again.expires_at == run.expires_at


def test_a_refusal_in_a_flow_lets_the_flow_go_on(stage: Stage) -> None:
    stage.task("extract")
    load = stage.task("load", "@after extract")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.now = at("12:10")
    [run] = take(stage, one)
    refuse(stage, one, run)
    assert stage.runs(load.id) == []
    [again] = take(stage, two)
    stage.finish(two, again.id)
    [step] = take(stage, one)
    assert (step.task.name, step.flow) == ("load", run.id)
    refuse(stage, one, step)
    [again] = take(stage, two)
    assert (again.task.name, again.flow) == ("load", run.id)


def test_an_edit_leaves_it_away_from_the_nodes_that_refused_it(stage: Stage) -> None:
    task = stage.task("job", NEVER)
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    stage.crontab.edit(task, {"priority": "high"})
    assert take(stage, one) == []
    assert len(take(stage, two)) == 1


def test_a_run_whose_last_node_dies_fails_and_names_those_that_tried(stage: Stage) -> None:
    task = stage.task("job", NEVER, user="deploy")
    nodes = [node(stage, name) for name in ("web-1", "web-2")]
    last = stage.node("web-3", lease=60)
    stage.crontab.run(task)
    for each in nodes:
        [run] = take(stage, each)
        refuse(stage, each, run)
    stage.forward(seconds=61)
    assert stage.fail_refused() == [], "it may still come back"
    assert stage.reap()[0] == [last]
    [failed] = stage.fail_refused()
    assert waiting(stage) == []
    end = stage.crontab.find_run(failed)
    assert (end.state, end.attempt, end.owner, end.started_at) == (RunState.FAILED, 1, None, None)
    assert (end.finished_at, end.dead_at) == (stage.now, stage.now)
    tried = "; ".join(f"{each}: {WHY}" for each in nodes)
    assert end.reason == f"no other node is left that could start it ({tried})"
    [cause] = [cause for cause in Why(stage.crontab).explain("job") if cause.facts.get("run") == failed]
    assert cause.code == "ran"
    assert cause.sentence.endswith(
        f": run {failed} failed before it started: {end.reason};"
        f" it is a dead letter, `dcron retry {failed}` tries it again"
    )
    assert stage.fail_refused() == []


def test_a_run_whose_last_node_ends_is_tried_again_if_its_task_says_so(stage: Stage) -> None:
    task = stage.task("job", NEVER, tries=2, backoff=10.0)
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    stage.sign_off(two)
    [failed] = stage.fail_refused()
    [again] = waiting(stage)
    assert (again.attempt, again.refused_by, again.retry_of) == (2, None, failed)
    stage.now = again.due_at
    assert [run.attempt for run in take(stage, one)] == [2]


def test_a_run_waits_for_a_node_that_is_alive_or_new(stage: Stage) -> None:
    task = stage.task("job", NEVER)
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    assert stage.fail_refused() == []
    stage.sign_off(two)
    new = node(stage, "web-2", suffix="11111111")
    assert stage.fail_refused() == []
    [again] = take(stage, new)
    assert again.attempt == 1


def test_a_run_whose_last_node_drains_fails(stage: Stage) -> None:
    task = stage.task("job", NEVER)
    one, _ = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    Fleet(stage.crontab).drain("web-2")
    assert len(stage.fail_refused()) == 1


def test_runs_that_no_node_refused_wait_for_one(stage: Stage) -> None:
    task = stage.task("job", NEVER, require=("ssd",))
    node(stage, "web-1")
    stage.crontab.run(task)
    assert stage.fail_refused() == []
    assert len(waiting(stage)) == 1


def test_what_follows_a_run_whose_last_node_ends_is_skipped(stage: Stage) -> None:
    extract = stage.task("extract", NEVER)
    load = stage.task("load", "@after extract")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(extract)
    [run] = take(stage, one)
    refuse(stage, one, run)
    stage.sign_off(two)
    stage.fail_refused()
    assert [(each.state, each.skip_code) for each in stage.runs(load.id)] == [
        (RunState.SKIPPED, SkipCode.UPSTREAM)
    ]


def test_at_most_so_many_nodes_are_asked(stage: Stage) -> None:
    task = stage.task("job", NEVER)
    nodes = [node(stage, f"web-{number}") for number in range(9)]
    stage.crontab.run(task)
    asked = 0
    for each in nodes:
        for run in take(stage, each):
            refuse(stage, each, run)
            asked += 1
    assert asked == 6
    assert waiting(stage) == []


def test_why_names_the_account_and_the_nodes_that_refused(stage: Stage) -> None:
    task = stage.task("job", NEVER, user="deploy")
    one, two = node(stage, "web-1"), node(stage, "web-2")
    stage.crontab.run(task)
    [run] = take(stage, one)
    refuse(stage, one, run)
    stage.sign_off(two)
    view = stage.crontab.view("job")
    assert view.unserved == "its command could not be begun on any agent that may take it"


def test_another_node_of_the_same_name_is_named_by_its_id(stage: Stage) -> None:
    task = stage.task("job", NEVER, user="deploy")
    nodes = [node(stage, "web", suffix=suffix) for suffix in ("00000001", "00000002")]
    stage.crontab.run(task)
    for each in nodes:
        [run] = take(stage, each)
        refuse(stage, each, run)
    last = [each for each in stage.runs(task.id) if each.state.is_final][-1]
    assert last.reason == f"{WHY}; web-00000001 could not start it either"
