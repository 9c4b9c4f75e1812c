"""Routes: which node may take which run, and the report about a run that none may take."""

from typing import Any

import pytest

from dcron.model import Node
from dcron.services.fleet import Fleet
from tests.support.stage import Stage, at

NEVER = "0 0 1 1 *"


@pytest.mark.parametrize(
    ("asked", "offered", "taken"),
    [
        ({"require": ("ssd",)}, {"tags": ("ssd", "eu")}, True),
        ({"require": ("ssd",)}, {"tags": ("hdd",)}, False),
        ({"require": ("ssd", "zone=eu-1")}, {"tags": ("zone=eu-1", "ssd")}, True),
        ({"require": ("zone=eu-1",)}, {"tags": ("zone=eu-2", "zone")}, False),
        ({"require": ("ssd",)}, {}, False),
        ({}, {"tags": ("ssd",)}, True),
        ({"queue": "mail"}, {}, True),
        ({"queue": "mail"}, {"queues": ("mail", "default")}, True),
        ({"queue": "mail"}, {"queues": ("default",)}, False),
        ({}, {"queues": ("mail",)}, False),
    ],
)
def test_a_run_goes_where_its_tags_and_queue_are_served(
    stage: Stage, asked: dict[str, Any], offered: dict[str, Any], taken: bool
) -> None:
    stage.crontab.run(stage.task("job", NEVER, **asked))
    assert len(stage.take(stage.node(), **offered)) == int(taken)


def test_what_a_node_may_not_take_does_not_block_it(stage: Stage) -> None:
    for number in range(30):
        stage.task(f"gpu-{number}", require=("gpu",))
    stage.task("plain")
    stage.now = at("12:11")
    assert [run.task.name for run in stage.take(stage.node(), limit=2)] == ["plain"]


def test_an_edit_sends_what_waits_where_the_task_says_now(stage: Stage) -> None:
    task, node = stage.task("job", NEVER, require=("gpu",)), stage.node()
    run = stage.crontab.run(task)
    assert stage.take(node) == []
    stage.crontab.edit(task, {"require": ()})
    assert [each.id for each in stage.take(node)] == [run.id]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"require": ("gpu",)}, "no agent has the tag gpu"),
        ({"require": ("gpu", "zone=mars")}, "no agent has the tags gpu, zone=mars"),
        ({"queue": "mail"}, "no agent serves the queue mail"),
        ({"need": {"gpu": 3}}, "no agent has the capacity for gpu=3"),
        (
            {"require": ("eu",), "need": {"gpu": 2}},
            "no agent has all it asks for: its queue, its tags and its needs",
        ),
        ({"require": ("eu",), "queue": "default"}, None),
        ({"need": {"gpu": 2}}, None),
    ],
)
def test_a_run_that_no_node_can_take_says_so(
    stage: Stage, asked: dict[str, Any], message: str | None
) -> None:
    stage.node("web-1", tags=("eu",), queues=("default",))
    stage.node("web-2", queues=("default",), capacity={"gpu": 2})
    stage.task("job", **asked)
    assert stage.crontab.view("job").unserved == message


def test_without_agents_or_with_all_of_them_draining_that_is_said(stage: Stage) -> None:
    stage.task("job")
    assert stage.crontab.view("job").unserved == "no agent is running"
    stage.node("web-1", lease=60)
    assert stage.crontab.view("job").unserved is None
    Fleet(stage.crontab).drain("web-1")
    assert stage.crontab.view("job").unserved == "every agent is draining"
    stage.forward(seconds=61)
    assert stage.crontab.view("job").unserved == "no agent is running"


def test_that_the_one_agent_that_could_take_it_drains_is_said(stage: Stage) -> None:
    stage.task("job")
    stage.node("web-1", queues=("mail",))
    node = stage.node("web-2")
    Fleet(stage.crontab).drain("web-2")
    message = f"the one agent that could take it, {node}, is draining"
    assert stage.crontab.view("job").unserved == message


def test_a_drained_node_is_marked_and_others_of_its_name_too(stage: Stage) -> None:
    fleet = Fleet(stage.crontab)
    node = stage.node("web-1")
    other = stage.node("web-2")
    assert [each.id for each in fleet.drain("web-1")] == [node]
    draining: dict[str, Node] = {each.id: each for each in fleet.living()}
    assert (draining[node].draining, draining[other].draining) == (True, False)


def test_a_run_of_an_unreadable_lane_waits_and_does_no_harm(stage: Stage) -> None:
    task, node = stage.task("job", NEVER, max_running=None), stage.node()
    odd = ("what is this", "default priority=sudden", "default need=gpu:lots", "default  ", "x need=a")
    unread = [stage.insert_run(task_id=task.id, task=task.name, lane=lane) for lane in odd]
    nothing = stage.insert_run(task_id=task.id, task=task.name, lane="default need=gpu:0")
    run = stage.crontab.run(task)
    assert sorted(each.id for each in stage.take(node)) == [nothing, run.id]
    stage.crontab.edit(task, {"priority": "low"})
    assert sorted(each.id for each in stage.take(node)) == unread, "an edit gives them a lane again"


@pytest.mark.parametrize(
    ("user", "accounts", "taken"),
    [
        (None, ("deploy", "1001"), True),
        ("deploy", ("deploy", "1001"), True),
        ("1001", ("deploy", "1001"), True),
        ("backup", ("deploy", "1001"), False),
        ("backup", None, True),
        (r"CORP\ann b=c,d %x", (r"CORP\ann b=c,d %x", "7"), True),
        (r"CORP\ann b=c,d %x", ("ann", "7"), False),
    ],
)
def test_a_run_goes_where_commands_run_as_its_account(
    stage: Stage, user: str | None, accounts: tuple[str, ...] | None, taken: bool
) -> None:
    stage.crontab.run(stage.task("job", NEVER, user=user))
    assert len(stage.take(stage.node(), accounts=accounts)) == int(taken)


def test_an_account_that_no_living_agent_has_is_named(stage: Stage) -> None:
    stage.node("web-1", account="www", uid=33, any_account=False)
    stage.task("job", user="deploy")
    assert stage.crontab.view("job").unserved == "no living agent runs commands as deploy"
    stage.node("web-2", account="deploy", uid=1001, any_account=False)
    assert stage.crontab.view("job").unserved is None


@pytest.mark.parametrize("facts", [{"account": "root", "uid": 0, "any_account": True}, {}])
def test_root_and_silent_agents_run_commands_as_any_account(stage: Stage, facts: dict[str, Any]) -> None:
    stage.node("web-1", **facts)
    stage.task("job", user="deploy")
    assert stage.crontab.view("job").unserved is None


def test_an_edit_of_the_account_leaves_what_waits_with_the_account_it_has_copied(stage: Stage) -> None:
    task, node = stage.task("job", NEVER, user="deploy", priority="low"), stage.node()
    run = stage.crontab.run(task)
    stage.crontab.edit(task, {"user": "www", "priority": "normal"})
    assert stage.take(node, accounts=("www", "33")) == []
    assert [each.id for each in stage.take(node, accounts=("deploy", "1001"))] == [run.id]
