"""Events: each starts every task that waits for it once, however it came in."""

import pytest
from sqlalchemy.exc import IntegrityError

from dcron.errors import UsageError
from dcron.model import Block, RunState, Task, Trigger
from dcron.services.runs.triggers import Triggers
from tests.support.node import HandNode
from tests.support.run_queries import find, held_back, reasons, states
from tests.support.stage import Stage


@pytest.fixture
def launching(stage: Stage) -> Triggers:
    return Triggers(stage.crontab)


def agent(stage: Stage) -> HandNode:
    return HandNode(stage.database, "web-1").register()


def test_an_event_starts_each_task_that_waits_for_it_once(stage: Stage, launching: Triggers) -> None:
    one, two = stage.task("one", "@on deploy"), stage.task("two", "@on deploy")
    other, clock = stage.task("other", "@on release"), stage.task("clock")
    emitted = launching.emit("deploy", payload='{"version": 7}')
    assert [(run.task, run.trigger, run.payload) for run in emitted.runs] == [
        ("one", Trigger.EVENT, '{"version": 7}'),
        ("two", Trigger.EVENT, '{"version": 7}'),
    ]
    assert len(stage.take(stage.node())) == 2
    assert (len(stage.runs(one.id)), len(stage.runs(two.id))) == (1, 1)
    assert stage.runs(other.id) == []
    assert states(stage, clock) == [RunState.WAITING]
    assert stage.find_next_run(one) is None, "an event has no successor"


def test_each_event_starts_them_again(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("build", "@on push"), stage.node()
    for payload in ("a", "b", "c"):
        launching.emit("push", payload=payload)
    ran = []
    while found := stage.take(node):
        ran += [run.payload for run in found]
        assert all(run.blocked is Block.LIMIT for run in stage.runs(task.id, RunState.WAITING))
        stage.finish(node, found[0].id)
    assert ran == ["a", "b", "c"], "none was left out because of overlap"


def test_an_event_with_a_key_arrives_once(stage: Stage, launching: Triggers) -> None:
    task = stage.task("build", "@on push")
    stage.task("other", "@on tag")
    assert launching.emit("push", key="42").event
    again = launching.emit("push", key="42", payload="other")
    assert (again.event, list(again.runs)) == (None, [])
    assert launching.emit("tag", key="42").event, "keys belong to their event"
    assert launching.emit("push").event
    assert launching.emit("push").event, "without a key every one counts"
    assert len(stage.runs(task.id)) == 3


def test_an_event_without_tasks_is_handled(stage: Stage, launching: Triggers) -> None:
    assert list(launching.emit("nothing").runs) == []
    assert agent(stage).dispatch() == []
    task = stage.task("late", "@on nothing")
    assert agent(stage).dispatch() == []
    assert stage.runs(task.id) == [], "who comes later missed it"


def test_a_paused_listener_has_a_skipped_row_for_each(stage: Stage, launching: Triggers) -> None:
    task = stage.crontab.pause(stage.task("build", "@on push"), reason="frozen")
    emitted = launching.emit("push")
    assert [(run.state, run.reason) for run in emitted.runs] == [
        (RunState.SKIPPED, "paused by ann@desk: frozen")
    ]
    launching.emit("push")
    stage.crontab.resume(task)
    assert stage.take(stage.node()) == []
    assert len(reasons(stage, task)) == 2


def test_a_suspended_listener_has_a_skipped_row_too(stage: Stage, launching: Triggers) -> None:
    task = stage.task("build", "@on push")
    stage.sql("UPDATE crontab SET env = 'A=1', version = version + 1 WHERE name = 'build'")
    stage.plan()
    launching.emit("push")
    (message,) = reasons(stage, task)
    assert message.startswith("suspended: env: ")


def test_an_event_by_plain_sql_is_handled_by_the_agents(stage: Stage) -> None:
    task = stage.task("build", "@on push")
    stage.sql("INSERT INTO events (name, payload) VALUES ('push', 'by hand')")
    one, other = agent(stage), agent(stage)
    (run_id,) = one.dispatch()
    assert other.dispatch() == one.dispatch() == []
    run = find(stage, run_id)
    assert (run.task_id, run.payload, run.trigger) == (task.id, "by hand", Trigger.EVENT)
    (job,) = one.launched
    assert (job.stdin, job.env["DCRON_PAYLOAD"]) == (b"by hand", "by hand")
    with pytest.raises(IntegrityError):
        stage.insert_run(task_id=task.id, trigger="event", event_id=run.event_id)


def test_plain_sql_keeps_keys_apart_too(stage: Stage) -> None:
    stage.task("build", "@on push")
    insert = "INSERT INTO events (name, key) VALUES ('push', '1')"
    stage.sql(insert)
    with pytest.raises(IntegrityError, match=r"events_once|events\.key"):
        stage.sql(insert)
    with pytest.raises(IntegrityError):
        stage.sql("INSERT INTO events (name) VALUES ('')")


@pytest.mark.slow
def test_many_events_by_plain_sql_are_handled_a_batch_at_a_time(stage: Stage) -> None:
    task = stage.task("build", "@on push", max_running=None)
    for _ in range(230):
        stage.sql("INSERT INTO events (name) VALUES ('push')")
    agent(stage).dispatch()
    assert len(stage.runs(task.id)) == 230


ODD = {
    "a time that is none": "INSERT INTO events (name, created_at) VALUES ('push', 'yesterday')",
    "a payload of bytes": "INSERT INTO events (name, payload) VALUES ('push', x'00ff')",
    "a payload that is no UTF-8": "INSERT INTO events (name, payload) VALUES ('push', CAST(x'ff' AS TEXT))",
    "a payload with NUL": "INSERT INTO events (name, payload) VALUES ('push', CAST(x'610062' AS TEXT))",
    "a name that is no UTF-8": "INSERT INTO events (name) VALUES (CAST(x'ff' AS TEXT))",
    "a name of bytes": "INSERT INTO events (name) VALUES (x'ff')",
}


@pytest.mark.parametrize("odd", ODD)
def test_what_only_sqlite_takes_as_an_event_stops_no_agent(sqlite_stage: Stage, odd: str) -> None:
    try:
        sqlite_stage.sql(ODD[odd])
    except IntegrityError:
        return  # refused: that is better still
    task = sqlite_stage.task("build", "@on push")
    sqlite_stage.sql("INSERT INTO events (name, payload) VALUES ('push', 'well')")
    node = agent(sqlite_stage)
    ran = []
    while found := node.dispatch():
        ran += [find(sqlite_stage, run_id).payload for run_id in found]
        node.finish(found)
    assert "well" in ran
    assert len(ran) == (2 if "time" in odd else 1)
    assert all("no command can be given" in message for message in reasons(sqlite_stage, task))
    assert "payload" not in odd or len(reasons(sqlite_stage, task)) == 1


def test_a_time_beyond_all_times_stops_nothing(database_url: str, stage: Stage) -> None:
    if database_url.startswith("sqlite"):
        with pytest.raises(IntegrityError):
            stage.sql("INSERT INTO events (name, created_at) VALUES ('push', 'infinity')")
    else:
        with pytest.raises(IntegrityError, match="events_created_at_range"):
            stage.sql("INSERT INTO events (name, created_at) VALUES ('push', 'infinity')")
    stage.task("build", "@on push")
    stage.sql("INSERT INTO events (name) VALUES ('push')")
    assert len(agent(stage).dispatch()) == 1


def test_with_replace_a_new_event_stops_the_run_before(stage: Stage, launching: Triggers) -> None:
    stage.task("preview", "@on push", overlap="replace")
    node = stage.node()
    launching.emit("push", payload="old")
    (old,) = stage.take(node)
    launching.emit("push", payload="new")
    assert stage.take(node) == []
    assert list(stage.cancel_requests(node)) == [old.id]
    stage.finish(node, old.id, RunState.CANCELLED)
    assert [run.payload for run in stage.take(node)] == ["new"]


def test_a_task_listens_at_once_though_its_run_is_claimed(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("build"), stage.node()
    stage.forward(minutes=10)
    claimed = stage.claim(node)
    stage.crontab.edit(task, {"schedule": "@on push"})
    assert [run.task for run in launching.emit("push").runs] == ["build"]
    stage.start(node, claimed)
    stage.plan()
    assert [run.trigger for run in stage.runs(task.id, RunState.WAITING)] == [Trigger.EVENT]


def test_a_task_that_listens_no_more_is_not_started(stage: Stage, launching: Triggers) -> None:
    removed, edited = stage.task("removed", "@on push"), stage.task("edited", "@on push")
    stage.crontab.remove(removed)
    stage.crontab.edit(edited, {"schedule": "@on tag"})
    assert list(launching.emit("push").runs) == []
    assert [run.task for run in launching.emit("tag").runs] == ["edited"]
    assert held_back(stage) == []


def test_an_event_for_every_node_starts_on_each(stage: Stage, launching: Triggers) -> None:
    task: Task = stage.task("reload", "@on config", every_node=True)
    nodes = [stage.node(f"web-{number}") for number in (1, 2)]
    launching.emit("config", payload="x")
    started = [run for node in nodes for run in stage.take(node)]
    assert [run.payload for run in started] == ["x", "x"]
    assert len(stage.runs(task.id)) == 2


def test_events_of_dcron_itself_cannot_be_sent_by_hand(stage: Stage) -> None:
    with pytest.raises(UsageError, match="dcron itself sends"):
        Triggers(stage.crontab).emit("dcron.failing")
