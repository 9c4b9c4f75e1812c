"""Lanes: the requirements of runs as one text, and which node may take them."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.model import Node, Trigger
from dcron.policy.starting.lanes import (
    HEAD_START,
    Lane,
    fits,
    lane_of,
    read_lane,
    served_by,
    why_unschedulable,
)
from tests.support.definitions import NOON, definition

FULL = "mail priority=high require=eu,ssd need=gpu:1,mem:8589934592 node=web-1-3f9c2a7e"


def node(node_id: str = "web-1-3f9c2a7e", *, draining: bool = False, **facts: Any) -> Node:
    known: dict[str, Any] = dict.fromkeys(Node.__dataclass_fields__)
    values = {"id": node_id, "draining": draining, "tags": (), "queues": (), "capacity": {}, **facts}
    return Node(**{**known, **values})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "default"),
        ({"queue": "mail"}, "mail"),
        ({"priority": "low"}, "default priority=low"),
        ({"require": ("ssd", "eu")}, "default require=eu,ssd"),
        ({"require": ("zone=eu-1",)}, "default require=zone=eu-1"),
        ({"need": {"mem": 8 * 2**30, "cpu": 0.5}}, "default need=cpu:0.5,mem:8589934592"),
    ],
)
def test_a_lane_is_one_text_that_reads_back(fields: dict[str, Any], text: str) -> None:
    lane = lane_of(definition(**fields))
    assert str(lane) == text
    assert read_lane(text) == lane


def test_a_full_lane_reads_back_and_may_be_one_nodes_own() -> None:
    lane = read_lane(FULL)
    assert lane
    assert lane == Lane(
        "mail", "high", ("eu", "ssd"), (("gpu", 1.0), ("mem", 8589934592.0)), "web-1-3f9c2a7e"
    )
    assert str(lane) == FULL
    assert str(lane.on(None)) == FULL.removesuffix(" node=web-1-3f9c2a7e")


def test_the_lane_of_a_trial_has_its_own_text_and_keeps_what_the_task_requires() -> None:
    lane = lane_of(definition(queue="mail", require=("ssd",), user="deploy"))
    trial = lane.after_refusals(["web-2-1c0ffee5"]).for_trial("web-1-3f9c2a7e", "root")
    assert str(trial) == "mail require=ssd user=root node=web-1-3f9c2a7e trial"
    assert read_lane(str(trial)) == trial
    assert str(lane_of(definition()).for_trial(None, None)) == "default trial"


@pytest.mark.parametrize(
    "text",
    ["default need=gpu", "default need=gpu:x", "default priority=soon", "a b", "default  ", "default zeal=1"],
)
def test_an_unreadable_lane_is_none(text: str) -> None:
    assert read_lane(text) is None


def test_a_backfill_has_the_lowest_priority() -> None:
    assert lane_of(definition(priority="high"), Trigger.BACKFILL).priority == "low"
    assert lane_of(definition(priority="high"), Trigger.EVENT).priority == "high"


def test_tasks_written_by_hand_have_a_lane_too() -> None:
    odd = definition(require=("ok", 1), need={"gpu": "x", "cpu": 1})
    assert str(lane_of(odd)) == "default require=ok need=cpu:1"


def test_an_urgent_run_has_a_head_start_and_no_more() -> None:
    high, normal, low = (Lane(priority=each) for each in ("high", "normal", "low"))
    assert high.rank(NOON) < normal.rank(NOON) < low.rank(NOON)
    aged = NOON + HEAD_START["normal"] - HEAD_START["low"]
    assert low.rank(NOON) == normal.rank(aged), "what is low ranks level with what is due then"
    assert low.rank(NOON) < high.rank(aged + HEAD_START["high"] + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("free", "room"),
    [({"gpu": 1, "mem": 8}, True), ({"gpu": 2, "mem": 7}, False), ({"mem": 8}, False), ({}, False)],
)
def test_a_lane_fits_where_there_is_enough_of_everything(free: dict[str, float], room: bool) -> None:
    assert fits(Lane(need=(("gpu", 1.0), ("mem", 8.0))), free) is room
    assert fits(Lane(), free)


@pytest.mark.parametrize(
    ("lane", "facts", "served"),
    [
        (Lane(), {}, True),
        (Lane(queue="mail"), {"queues": ()}, True),
        (Lane(queue="mail"), {"queues": ("mail",)}, True),
        (Lane(), {"queues": ("mail",)}, False),
        (Lane(require=("eu", "ssd")), {"tags": ("ssd", "eu", "big")}, True),
        (Lane(require=("eu", "ssd")), {"tags": ("ssd",)}, False),
        (Lane(require=("zone=eu",)), {"tags": ("zone=us",)}, False),
        (Lane(need=(("gpu", 2.0),)), {"capacity": {"gpu": 1}}, False),
        (Lane(node="web-1-3f9c2a7e"), {}, True),
        (Lane(node="web-2-3f9c2a7e"), {}, False),
        (Lane(user="deploy"), {}, True),
        (Lane(user="deploy"), {"account": "root", "uid": 0, "any_account": True}, True),
        (Lane(user="deploy"), {"account": "deploy", "uid": 7, "any_account": False}, True),
        (Lane(user="7"), {"account": "deploy", "uid": 7, "any_account": False}, True),
        (Lane(user="root"), {"account": "deploy", "uid": 7, "any_account": False}, False),
        (Lane(), {"account": "deploy", "uid": 7, "any_account": False}, True),
        (Lane(refused_by=("web-1-3f9c2a7e",)), {}, False),
        (Lane(refused_by=("web-2-3f9c2a7e",)), {}, True),
    ],
)
def test_a_node_serves_a_lane_when_it_has_all_it_needs(
    lane: Lane, facts: dict[str, Any], served: bool
) -> None:
    each = node(**facts)
    assert served_by(lane, each) is served


def test_that_a_lane_is_not_served_is_said_by_what_is_missing() -> None:
    nodes = [node("a-00000000", tags=("eu",), queues=("default",)), node("b-00000000", capacity={"gpu": 1})]
    assert why_unschedulable(Lane(), nodes) is None
    assert why_unschedulable(Lane(require=("us",)), nodes) == "no agent has the tag us"
    assert why_unschedulable(Lane(require=("eu", "us")), nodes) == "no agent has the tags eu, us"
    assert why_unschedulable(Lane(queue="mail"), nodes[:1]) == "no agent serves the queue mail"
    assert why_unschedulable(Lane(need=(("gpu", 2.0),)), nodes) == "no agent has the capacity for gpu=2"
    both = Lane(require=("eu",), need=(("gpu", 1.0),))
    assert why_unschedulable(both, nodes) == "no agent has all it asks for: its queue, its tags and its needs"
    assert why_unschedulable(Lane(node="c-00000000"), nodes) == "its node c-00000000 is gone"


def test_a_draining_node_that_could_take_it_is_named() -> None:
    leaving = node("b-00000000", tags=("us",), capacity={"gpu": 1}, draining=True)
    nodes = [node("a-00000000", queues=("mail",)), leaving]
    for lane in (Lane(), Lane(queue="mail", require=("us",)), Lane(queue="mail", need=(("gpu", 1.0),))):
        message = "the one agent that could take it, b-00000000, is draining"
        assert why_unschedulable(lane, nodes) == message
    assert why_unschedulable(Lane(need=(("gpu", 2.0),)), [leaving, node("c-00000000")]) == (
        "no agent has the capacity for gpu=2"
    )
    nodes.append(node("c-00000000", draining=True))
    assert (
        why_unschedulable(Lane(), nodes)
        == "all agents that could take it are draining: b-00000000, c-00000000"
    )


def test_no_node_at_all_is_not_the_same_as_all_draining() -> None:
    assert why_unschedulable(Lane(), []) == "no agent is running"
    draining = node("a-00000000", draining=True)
    assert why_unschedulable(Lane(), iter([draining])) == "every agent is draining"
    own = Lane(node="a-00000000")
    assert why_unschedulable(own, [draining, node("b-00000000")]) == "its node a-00000000 is draining"


@pytest.mark.parametrize("user", ["deploy", "", "7", r"CORP\ann", "a b,c=d %25 é", "x" * 100])
def test_any_account_reads_back_from_its_lane(user: str) -> None:
    lane = Lane(require=("eu",), user=user, node="web-1-3f9c2a7e").after_refusals(
        ("b-00000000", "a-00000000")
    )
    assert read_lane(str(lane)) == lane
    assert lane.refused_by == ("a-00000000", "b-00000000")
    assert str(lane).count(" ") == 4
