"""Flows: tasks that come after others, once for each run with which a flow begins."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dcron.database import Database, open_database
from dcron.errors import Refused
from dcron.model import RunState, Task, Trigger
from dcron.services.runs.dead_letters import DeadLetters
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from tests.support.patience import PATIENCE
from tests.support.run_queries import find
from tests.support.stage import LEASE, Stage, at

FAILED = RunState.FAILED
TRANSFORMS = ("clean", "enrich", "join")


class Etl:
    """Extract, three transforms, load; and one node that runs them."""

    def __init__(self, stage: Stage, **fields: object) -> None:
        self.stage = stage
        self.extract = stage.task("extract", "0 * * * *")
        self.transforms = [stage.task(name, "@after extract", **fields) for name in TRANSFORMS]
        self.load = stage.task("load", "@after clean,enrich,join")
        self.node = stage.node(lease=36_000)

    def begin(self, clock_time: str = "13:00") -> int:
        """Run the extract of this hour; the flow."""
        self.stage.now = at(clock_time)
        (run,) = self.stage.take(self.node)
        assert run.task.name == "extract"
        self.stage.finish(self.node, run.id)
        return run.id

    def take(self) -> dict[str, int]:
        """Start what is due; the runs by the names of their tasks."""
        return {run.task.name: run.id for run in self.stage.take(self.node)}


@pytest.fixture
def etl(stage: Stage) -> Etl:
    return Etl(stage)


def message(stage: Stage, task: Task) -> list[tuple[RunState, str | None]]:
    return [(run.state, run.reason) for run in stage.runs(task.id)]


def test_a_diamond_runs_through_and_its_end_once(stage: Stage, etl: Etl) -> None:
    flow = etl.begin()
    middle = etl.take()
    assert sorted(middle) == sorted(TRANSFORMS)
    for count, name in enumerate(TRANSFORMS, 1):
        assert "load" not in etl.take()
        stage.finish(etl.node, middle[name])
        assert len(stage.runs(etl.load.id)) == (count == 3)
    (load,) = stage.runs(etl.load.id)
    assert (load.trigger, load.flow, load.scheduled_for) == (Trigger.AFTER, flow, at("13:00"))
    assert etl.take() == {"load": load.id}
    stage.finish(etl.node, load.id)
    assert {run.flow for run in stage.runs() if run.state is RunState.SUCCEEDED} == {flow}
    assert etl.take() == {}


@pytest.mark.slow
def test_each_flow_is_its_own(stage: Stage, etl: Etl) -> None:
    first = etl.begin("13:00")
    slow = etl.take()
    second = etl.begin("14:00")
    for run_id in slow.values():
        stage.finish(etl.node, run_id)
    for run_id in (found := etl.take()).values():
        stage.finish(etl.node, run_id)
    assert {find(stage, run_id).flow for run_id in found.values()} == {first, second}
    for run_id in etl.take().values():
        stage.finish(etl.node, run_id)
    assert sorted(run.flow or 0 for run in stage.runs(etl.load.id)) == [first, second]


ENDS = {
    FAILED: "clean failed",
    RunState.CANCELLED: "clean was cancelled",
    RunState.LOST: "clean was lost",
}


@pytest.mark.parametrize("state", ENDS)
def test_a_step_without_success_leaves_out_what_comes_after(stage: Stage, etl: Etl, state: RunState) -> None:
    report = stage.task("report", "@after load")
    flow = etl.begin()
    middle = etl.take()
    stage.finish(etl.node, middle["clean"], state)
    for task in (etl.load, report):
        (run,) = stage.runs(task.id)
        assert (run.state, run.flow) == (RunState.SKIPPED, flow)
        assert run.reason == f"{ENDS[state]} (run {middle['clean']})"
    stage.finish(etl.node, middle["enrich"], FAILED)
    stage.finish(etl.node, middle["join"])
    assert len(stage.runs(etl.load.id)) == 1, "recorded once"
    assert etl.take() == {}


def test_a_first_step_that_fails_begins_a_flow_that_is_over(stage: Stage, etl: Etl) -> None:
    stage.now = at("13:00")
    (run,) = stage.take(etl.node)
    stage.finish(etl.node, run.id, FAILED)
    assert find(stage, run.id).flow == run.id
    for task in (*etl.transforms, etl.load):
        assert message(stage, task) == [(RunState.SKIPPED, f"extract failed (run {run.id})")]


def test_retrying_the_failed_run_continues_the_flow(stage: Stage, etl: Etl) -> None:
    flow = etl.begin()
    middle = etl.take()
    stage.finish(etl.node, middle["clean"], FAILED)
    stage.finish(etl.node, middle["enrich"])
    stage.finish(etl.node, middle["join"])
    retry = DeadLetters(stage.crontab).retry(middle["clean"])
    assert retry.flow == flow
    stage.finish(etl.node, etl.take()["clean"])
    (load_id,) = etl.take().values()
    stage.finish(etl.node, load_id)
    assert [run.state for run in stage.runs(etl.load.id)] == [RunState.SKIPPED, RunState.SUCCEEDED]
    assert etl.take() == {}


def test_retrying_the_failed_root_runs_the_whole_flow(stage: Stage, etl: Etl) -> None:
    stage.now = at("13:00")
    (run,) = stage.take(etl.node)
    stage.finish(etl.node, run.id, FAILED)
    DeadLetters(stage.crontab).retry(run.id)
    stage.finish(etl.node, etl.take()["extract"])
    for run_id in etl.take().values():
        stage.finish(etl.node, run_id)
    (load_id,) = etl.take().values()
    assert find(stage, load_id).flow == run.id


def test_the_flow_waits_for_retries_and_goes_on_with_them(stage: Stage) -> None:
    etl = Etl(stage, tries=2, backoff=0.0)
    etl.begin()
    middle = etl.take()
    for name in TRANSFORMS:
        stage.finish(etl.node, middle[name], FAILED if name == "join" else RunState.SUCCEEDED)
    assert stage.runs(etl.load.id) == [], "nothing is decided yet"
    stage.finish(etl.node, etl.take()["join"])
    assert list(etl.take()) == ["load"]


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_retry_that_never_runs_leaves_the_rest_out(stage: Stage, how: str) -> None:
    root = stage.task("root", "0 0 1 1 *", tries=2, backoff=60.0, deadline=60.0)
    leaf, node = stage.task("leaf", "@after root"), stage.node(lease=36_000)
    stage.crontab.run(root)
    (run,) = stage.take(node)
    stage.finish(node, run.id, FAILED)
    retry = stage.runs(root.id)[-1]
    assert retry.trigger is Trigger.RETRY
    if how == "cancelled":
        stage.crontab.cancel(retry.id)
    else:
        stage.forward(minutes=5)
        stage.expire()
    word = "cancelled" if how == "cancelled" else "skipped"
    assert message(stage, leaf) == [(RunState.SKIPPED, f"root was {word} (run {retry.id})")]


def test_nothing_runs_twice_in_a_flow_whatever_is_retried(stage: Stage, etl: Etl) -> None:
    etl.begin()
    middle = etl.take()
    stage.finish(etl.node, middle["clean"], FAILED)
    stage.finish(etl.node, middle["enrich"])
    stage.finish(etl.node, middle["join"])
    (skipped,) = stage.runs(etl.load.id)
    letters = DeadLetters(stage.crontab)
    letters.retry(skipped.id)
    stage.finish(etl.node, etl.take()["load"])
    letters.retry(middle["clean"])
    stage.finish(etl.node, etl.take()["clean"])
    assert etl.take() == {}, "load has had its run in this flow, by hand"


def test_what_was_left_out_at_first_is_not_retried_once_it_has_run(stage: Stage, etl: Etl) -> None:
    etl.begin()
    middle = etl.take()
    stage.finish(etl.node, middle["clean"], FAILED)
    stage.finish(etl.node, middle["enrich"])
    stage.finish(etl.node, middle["join"])
    (skipped,) = stage.runs(etl.load.id)
    letters = DeadLetters(stage.crontab)
    letters.retry(middle["clean"])
    stage.finish(etl.node, etl.take()["clean"])
    load_id = etl.take()["load"]
    message = f"run {skipped.id} is skipped, but load has another run in flow {skipped.flow}, run"
    with pytest.raises(Refused, match=f"{message} {load_id}, which is running: `dcron logs -f {load_id}`"):
        letters.retry(skipped.id)
    stage.finish(etl.node, load_id, FAILED)
    retry = letters.retry(load_id)
    with pytest.raises(Refused, match=f"{message} {retry.id}, which is waiting"):
        letters.retry(skipped.id)
    stage.finish(etl.node, etl.take()["load"])
    with pytest.raises(Refused, match=f"{message} {retry.id}, which succeeded: `dcron run load` runs"):
        letters.retry(skipped.id)


def test_a_late_truth_continues_the_flow(stage: Stage) -> None:
    first, second = stage.task("first", "0 0 1 1 *"), stage.task("second", "@after first")
    node, other = stage.node(), stage.node("web-2", lease=36_000)
    stage.crontab.run(first)
    (run,) = stage.take(node)
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert message(stage, second) == [(RunState.SKIPPED, f"first was lost (run {run.id})")]
    stage.finish(node, run.id)
    assert [each.task.name for each in stage.take(other)] == ["second"]


def test_a_step_that_is_cancelled_before_it_starts_leaves_the_rest_out(stage: Stage, etl: Etl) -> None:
    etl.begin()
    (waiting,) = [run for run in stage.runs(None, RunState.WAITING) if run.task == "clean"]
    stage.crontab.cancel(waiting.id)
    assert message(stage, etl.load) == [(RunState.SKIPPED, f"clean was cancelled (run {waiting.id})")]


def test_a_step_that_expires_leaves_the_rest_out(stage: Stage) -> None:
    etl = Etl(stage, deadline=60.0)
    etl.begin()
    stage.forward(seconds=61)
    assert stage.expire() == 3
    ((state, reason),) = message(stage, etl.load)
    assert state is RunState.SKIPPED
    assert "was skipped (run" in str(reason)


def test_a_paused_step_holds_the_flow_until_it_is_resumed(stage: Stage, etl: Etl) -> None:
    clean = stage.crontab.pause(etl.transforms[0])
    etl.begin()
    for run_id in (found := etl.take()).values():
        stage.finish(etl.node, run_id)
    assert sorted(found) == ["enrich", "join"]
    stage.crontab.resume(clean)
    stage.finish(etl.node, etl.take()["clean"])
    assert list(etl.take()) == ["load"]


def test_a_suspended_step_leaves_itself_and_the_rest_out(stage: Stage, etl: Etl) -> None:
    report = stage.task("report", "@after load")
    stage.sql("UPDATE crontab SET env = 'A=1', version = version + 1 WHERE name = 'load'")
    stage.plan()
    etl.begin()
    for run_id in etl.take().values():
        stage.finish(etl.node, run_id)
    for task in (etl.load, report):
        ((state, reason),) = message(stage, task)
        assert state is RunState.SKIPPED
        assert str(reason).startswith("load is suspended: env: ")


def test_a_step_in_the_middle_that_is_run_by_hand_is_a_flow_of_its_own(stage: Stage, etl: Etl) -> None:
    run = stage.crontab.run(etl.transforms[0])
    assert etl.take() == {"clean": run.id}
    stage.finish(etl.node, run.id)
    assert message(stage, etl.load) == [
        (RunState.SKIPPED, f"enrich, join are not part of flow {run.id}, which began further on")
    ]
    alone = stage.task("alone", "@after load")
    run = stage.crontab.run(etl.load)
    etl.take()
    stage.finish(etl.node, run.id)
    (following,) = stage.runs(alone.id)
    assert (following.state, following.flow) == (RunState.WAITING, run.id)


def test_what_is_skipped_because_of_overlap_begins_no_flow(stage: Stage, etl: Etl) -> None:
    stage.now = at("13:00")
    stage.take(etl.node)
    stage.now = at("14:00")
    assert stage.take(etl.node) == []
    assert all(stage.runs(task.id) == [] for task in etl.transforms)


# At once -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_steps_that_end_at_the_same_time_start_the_next_exactly_once(database_url: str, stage: Stage) -> None:
    etl = Etl(stage)
    databases = [open_database(database_url, clock=lambda: stage.now) for _ in TRANSFORMS]
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def finish(database: Database, run_id: int) -> None:
        barrier.wait()
        with database.write() as connection:
            ended = [RunResult(run_id, RunState.SUCCEEDED, stage.now)]
            assert finishing.finish(connection, database, etl.node, ended, stage.now)

    try:
        for hour in range(13, 21):
            etl.begin(f"{hour}:00")
            middle = etl.take()
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(finish, databases, middle.values()))
            (load_id,) = etl.take().values()
            stage.finish(etl.node, load_id)
    finally:
        for database in databases:
            database.close()
    assert len(stage.runs(etl.load.id)) == 8


def test_the_last_step_may_be_on_every_node(stage: Stage) -> None:
    stage.task("build", "0 0 1 1 *")
    install = stage.task("install", "@after build", every_node=True)
    nodes = [stage.node(f"web-{number}") for number in (1, 2)]
    stage.crontab.run(stage.crontab.get("build"))
    (run,) = stage.take(nodes[0])
    stage.finish(nodes[0], run.id)
    for node in nodes:
        (share,) = stage.take(node)
        stage.finish(node, share.id)
    assert len(stage.runs(install.id)) == 2
