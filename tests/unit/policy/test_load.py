"""The queueing simulation: what waits, what is skipped, and where it runs."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import pytest

from dcron.model import Freeze, Node, SkipCode
from dcron.policy.forecast.load import (
    LiveRun,
    Load,
    LoadFleet,
    LoadTask,
    PlayedRun,
    play,
)
from dcron.policy.starting.freezes import FrozenTime
from tests.support.definitions import NOON, definition

MINUTE = timedelta(minutes=1)
UNTIL = NOON + timedelta(hours=1)


def at(minutes: float) -> datetime:
    return NOON + minutes * MINUTE


def task(name: str, *minutes: float, seconds: float | None = 60.0, **fields: Any) -> LoadTask:
    upstream, delay = fields.pop("upstream", ()), fields.pop("delay", None)
    made = definition(name=name, **fields)
    took = () if seconds is None else (seconds,)
    return LoadTask(made, [at(each) for each in minutes], took, upstream, delay)


def node(name: str = "web-1", slots: int = 1, *, draining: bool = False, **facts: Any) -> Node:
    known: dict[str, Any] = dict.fromkeys(Node.__dataclass_fields__)
    values = {"tags": (), "queues": (), "channels": (), "capacity": {}, "name": name, **facts}
    return Node(**{**known, **values, "id": f"{name}-00000000", "slots": slots, "draining": draining})


def played(*tasks: LoadTask, nodes: tuple[Node, ...] = (), **fleet: Any) -> Load:
    return play(tasks, LoadFleet(nodes or (node(),), **fleet), NOON, UNTIL)


def starts(load: Load) -> dict[str, list[float]]:
    """Return the minutes in which the runs of each task start."""
    found: dict[str, list[float]] = {}
    for run in sorted(load.runs, key=lambda run: run.started_at):
        found.setdefault(run.task, []).append((run.started_at - NOON) / MINUTE)
    return found


def skipped(load: Load) -> list[tuple[str, SkipCode, float]]:
    return [(each.task, each.code, (each.scheduled_for - NOON) / MINUTE) for each in load.skipped]


def test_runs_wait_for_a_slot_in_the_order_of_their_due_times() -> None:
    load = played(task("a", 1), task("b", 1.5), task("c", 1.25))
    assert starts(load) == {"a": [1], "c": [2], "b": [3]}
    assert [run.wait for run in load.runs] == [0, 45, 90]


def test_priority_goes_first_and_two_slots_take_two() -> None:
    tasks = (task("a", 1), task("low", 2, priority="low"), task("b", 2), task("high", 2, priority="high"))
    assert starts(played(*tasks)) == {"a": [1], "high": [2], "b": [3], "low": [4]}
    assert starts(played(*tasks, nodes=(node(slots=2),)))["b"] == [2]


def test_an_overlapping_run_is_skipped_only_when_a_slot_is_free_for_it() -> None:
    load = played(task("a", 1, 2, 3, 4, seconds=90), nodes=(node(slots=2),))
    assert starts(load) == {"a": [1, 3]}
    assert skipped(load) == [("a", SkipCode.OVERLAP, 2), ("a", SkipCode.OVERLAP, 4)]


def test_overlapping_runs_queue_or_replace() -> None:
    two = (node(slots=2),)
    queued = played(task("a", 1, 2, 3, seconds=90, overlap="queue"), nodes=two)
    assert starts(queued) == {"a": [1, 2.5, 4]}
    replaced = played(task("a", 1, 2, 3, seconds=90, overlap="replace"), nodes=two)
    assert starts(replaced) == {"a": [1, 2, 3]}
    assert [(run.ended_at - run.started_at) / MINUTE for run in replaced.runs] == [1, 1, 1.5]


def test_occurrences_that_pass_while_the_run_waits_for_a_slot_are_caught_up_as_the_task_says() -> None:
    busy = task("busy", 0.5, seconds=300)
    last = played(busy, task("a", 1, 2, 3, seconds=1))
    assert starts(last)["a"] == [5.5]
    assert [code for _, code, _ in skipped(last)] == [SkipCode.MISSED, SkipCode.MISSED]
    every = played(busy, task("a", 1, 2, 3, seconds=60, catch_up="all"))
    assert starts(every)["a"] == [5.5, 6.5, 7.5]
    none = played(busy, task("a", 1, 2, 3, seconds=1, catch_up="skip"))
    assert "a" not in starts(none)


def test_a_run_that_comes_too_late_for_its_deadline_is_skipped() -> None:
    load = played(task("busy", 0.5, seconds=300), task("a", 1, deadline=60.0))
    assert skipped(load) == [("a", SkipCode.EXPIRED, 1)]


def test_a_queue_starts_no_more_runs_than_its_limit() -> None:
    tasks = [task(name, 1, queue="mail") for name in "abc"]
    load = played(*tasks, task("d", 1), nodes=(node(slots=8),), queue_limits={"mail": 2})
    assert starts(load) == {"a": [1], "b": [1], "c": [2], "d": [1]}


def test_runs_start_only_where_tags_and_capacity_are() -> None:
    nodes = (node("web-1", 8), node("web-2", 8, tags=("gpu",), capacity={"mem": 3.0}))
    tasks = [task(name, 1, require=("gpu",), need={"mem": 2.0}) for name in "ab"]
    load = played(*tasks, task("c", 1, require=("eu",)), task("d", 1), nodes=nodes)
    assert starts(load) == {"a": [1], "b": [2], "d": [1]}
    assert load.unserved == {"c": "no agent has the tag eu"}


def test_a_draining_node_takes_nothing() -> None:
    load = played(task("a", 1), nodes=(node(draining=True),))
    assert load.unserved == {"a": "every agent is draining"}


def test_every_node_gets_a_run_of_its_own() -> None:
    load = played(task("a", 1, every_node=True), nodes=(node("web-1"), node("web-2"), node("web-3")))
    assert starts(load) == {"a": [1, 1, 1]}


def test_a_run_follows_when_all_its_upstream_tasks_have_succeeded() -> None:
    load = played(
        task("a", 1, seconds=60),
        task("b", 1, seconds=120),
        task("c", upstream=("a", "b")),
        task("d", upstream=("c",)),
        nodes=(node(slots=4),),
    )
    assert starts(load) == {"a": [1], "b": [1], "c": [3], "d": [4]}


def test_a_delay_counts_from_the_end_of_the_run_before() -> None:
    load = played(task("a", 1, seconds=60, delay=20 * MINUTE))
    assert starts(load) == {"a": [1, 22, 43]}


def test_runs_that_are_alive_keep_their_slots_for_as_long_as_such_runs_take() -> None:
    alive = [LiveRun("a", "web-1-00000000", 90.0)]
    load = played(task("a", 10, seconds=240), task("b", 1), alive=alive)
    assert starts(load) == {"b": [2.5], "a": [10]}
    assert [(run.task, (run.ended_at - NOON) / MINUTE) for run in load.alive] == [("a", 2.5)]


def test_a_run_that_is_overdue_goes_first() -> None:
    load = played(task("a", -5), task("b", 0.5))
    assert starts(load) == {"a": [0], "b": [1]}


def test_runs_of_unknown_duration_take_no_time() -> None:
    load = played(task("a", 1, seconds=None), task("b", 1))
    assert starts(load) == {"a": [1], "b": [1]}


@pytest.mark.parametrize("number", [2, 5, 50])
def test_all_durations_of_the_history_come_equally_often(number: int) -> None:
    seconds = [float(each) for each in range(number)]
    about = LoadTask(definition(name="a"), [at(each / 100) for each in range(10 * number)], seconds)
    fast = play([about], LoadFleet([node()]), NOON, UNTIL)
    assert len(fast.runs) + len(fast.skipped) == 10 * number
    unlimited = LoadTask(definition(name="a", max_running=None), about.starts, seconds)
    load = play([unlimited], LoadFleet([node(slots=1000)]), NOON, UNTIL)
    took = sum((run.ended_at - run.started_at).total_seconds() for run in load.runs)
    assert took / len(load.runs) == pytest.approx(sum(seconds) / number, rel=0.05)


def freeze(begin: float, end: float | None) -> FrozenTime:
    known: dict[str, Any] = dict.fromkeys(Freeze.__dataclass_fields__)
    until = None if end is None else at(end)
    return FrozenTime([Freeze(**{**known, "id": 1, "from_at": at(begin), "until_at": until})])


@pytest.mark.parametrize(
    ("fields", "started", "frozen"),
    [
        ({}, [5, 30, 35], 3),
        ({"catch_up": "all"}, [5, 30, 30, 30, 30, 35], 0),
        ({"catch_up": "skip"}, [5, 35], 4),
        ({"catch_up_window": 600.0, "catch_up": "all"}, [5, 30, 30, 35], 2),
        ({"catch_up_window": 60.0}, [5, 35], 4),
    ],
)
def test_runs_in_frozen_time_are_caught_up_when_it_ends(
    fields: dict[str, Any], started: list[float], frozen: int
) -> None:
    load = played(task("a", 5, 10, 15, 20, 25, 35, seconds=None, **fields), frozen=freeze(8, 30))
    assert starts(load)["a"] == started
    assert [run.wait for run in load.runs] == [0] * len(started)
    assert [code for _, code, _ in skipped(load)] == [SkipCode.FROZEN] * frozen


def test_nothing_starts_while_no_end_of_a_freeze_is_known() -> None:
    load = played(task("a", 5, 10, 15), frozen=freeze(8, None))
    assert (starts(load), skipped(load)) == (
        {"a": [5]},
        [("a", SkipCode.FROZEN, 10), ("a", SkipCode.FROZEN, 15)],
    )


def test_up_to_its_jitter_an_occurrence_is_not_missed() -> None:
    spread = task("spread", *range(0, 40, 10), seconds=1, jitter=1200.0)
    load = played(task("busy", 0.5, seconds=900), spread)
    assert skipped(load) == []
    assert len(starts(load)["spread"]) == 4


def test_a_run_after_another_task_replaces_none() -> None:
    often = task("often", 1, 2, seconds=1)
    load = played(
        often, task("after", upstream=("often",), seconds=90, overlap="replace"), nodes=(node(slots=2),)
    )
    assert starts(load)["after"] == pytest.approx([1 + 1 / 60, 2.5 + 1 / 60])


def most_at_once(runs: Sequence[PlayedRun]) -> int:
    changes = sorted([(run.started_at, 1) for run in runs] + [(run.ended_at, -1) for run in runs])
    return max(accumulate(change for _, change in changes), default=0)


@pytest.mark.parametrize("seed", range(20))
def test_no_limit_is_exceeded_and_every_occurrence_is_accounted_for(seed: int) -> None:
    chance = random.Random(seed)
    tasks = [
        task(
            f"task-{number}",
            *sorted(chance.sample(range(60), chance.randint(1, 30))),
            seconds=chance.choice([None, 1.0, 50.0, 200.0, 900.0]),
            overlap=chance.choice(["skip", "queue", "replace"]),
            catch_up=chance.choice(["skip", "last", "all"]),
            max_running=chance.choice([1, 1, 2, None]),
            priority=chance.choice(["high", "normal", "low"]),
            queue=chance.choice(["default", "mail"]),
            deadline=chance.choice([None, 300.0]),
            need=chance.choice([{}, {"mem": 1.0}]),
        )
        for number in range(8)
    ]
    nodes = [node("web-1", chance.randint(1, 3), capacity={"mem": 2.0}), node("web-2", chance.randint(1, 3))]
    load = played(*tasks, nodes=tuple(nodes), queue_limits={"mail": 2})
    for each in tasks:
        own = [run for run in load.runs if run.task == each.name]
        skips = [skip for skip in load.skipped if skip.task == each.name]
        assert len(own) + len(skips) == len(each.occurrences)
        assert all(run.due_at <= run.started_at <= run.ended_at for run in own)
        assert most_at_once(own) <= (each.task.max_running or 99)
    assert most_at_once(load.runs) <= sum(each.slots for each in nodes)
    of_queue = {each.name for each in tasks if each.task.queue == "mail"}
    assert most_at_once([run for run in load.runs if run.task in of_queue]) <= 2
    needing = {each.name for each in tasks if each.task.need}
    assert most_at_once([run for run in load.runs if run.task in needing]) <= 2
