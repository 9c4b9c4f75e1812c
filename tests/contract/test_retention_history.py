"""A generated history: what pruning shows beforehand, what a round deletes, and what the rules say."""

import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from dcron.schema.tables import (
    alerts,
    changes,
    daily_statistics,
    events,
    holds,
    nodes,
    notifications,
    runs,
)
from dcron.services.retention import Retention
from dcron.services.settings import SharedSettings
from dcron.store.retention.walk import Prune
from tests.support.retention import insert_history, prune, sum_up_all, with_output
from tests.support.stage import Stage

DAY = 86_400.0
KEPT = {
    "a": {"runs": 30.0, "bad": 180.0, "last": 3, "output": 14.0, "bad-output": 90.0},
    "b": {"runs": 10.0, "bad": 60.0, "last": 2, "output": 5.0, "bad-output": 20.0},
    "c": {"runs": 100.0, "bad": 50.0, "last": 0, "output": 200.0, "bad-output": 7.0},
    "removed": {"runs": 30.0, "bad": 180.0, "last": 0, "output": 14.0, "bad-output": 90.0},
}
"""Days; the first is as the settings say, and the last task has been removed."""
STATES = ("succeeded", "succeeded", "failed", "lost", "cancelled", "skipped")


@pytest.fixture
def tasks(stage: Stage) -> dict[str, int]:
    """Tasks with the ages of `KEPT`, and all days of the past summed up."""
    sum_up_all(stage)
    SharedSettings(stage.crontab).set("keep.last", "3")
    found = {"removed": 999}
    for name in "abc":
        own = {key: value if key == "last" else value * DAY for key, value in KEPT[name].items()}
        found[name] = stage.task(name, "@on never", keep={} if name == "a" else own).id
    return found


def generated(tasks: dict[str, int], seed: int, number: int = 400) -> list[dict[str, Any]]:
    """Runs of these tasks, from the oldest to the newest, of ages around those that decide."""
    chance = random.Random(seed)
    ages = sorted(
        chance.choice((3, 6, 12, 17, 25, 40, 55, 75, 95, 120, 170, 190, 250)) for _ in range(number)
    )
    return [
        {
            "task_id": tasks[name],
            "task": name,
            "days": age + chance.random(),
            "state": chance.choice(STATES),
            "bytes": chance.choice((0, 5, 9)),
        }
        for age in reversed(ages)
        for name in [chance.choice(sorted(tasks))]
    ]


def expected(rows: list[dict[str, Any]], ids: list[int], on_hold: set[int]) -> tuple[set[int], set[int]]:
    """Return the runs that stay, and those whose output stays, by the rules alone."""
    stay, with_text = set[int](), set[int]()
    for run_id, row in zip(ids, rows, strict=True):
        kept, is_bad = KEPT[row["task"]], row["state"] in ("failed", "lost")
        started = [
            other
            for other, each in zip(ids, rows, strict=True)
            if each["task"] == row["task"] and each["state"] != "skipped"
        ]
        is_last = run_id in started[len(started) - int(kept["last"]) :]
        is_old = row["days"] > kept["bad" if is_bad else "runs"]
        if run_id in on_hold or is_last or not is_old:
            stay.add(run_id)
            if row["bytes"] and (
                run_id in on_hold or row["days"] <= kept["bad-output" if is_bad else "output"]
            ):
                with_text.add(run_id)
    return stay, with_text


def ids_of(stage: Stage) -> set[int]:
    with stage.database.read() as connection:
        return set(connection.scalars(select(runs.c.id)))


@pytest.mark.parametrize("seed", range(3))
def test_a_day_of_rounds_leaves_what_four_ages_and_a_tasks_own_keep(
    stage: Stage, tasks: dict[str, int], seed: int
) -> None:
    rows = generated(tasks, seed)
    ids = insert_history(stage, rows)
    on_hold = set(random.Random(seed).sample(ids, 20))
    with stage.database.write() as connection:
        held = [{"task": "a", "reason": "audit", "run_id": run_id} for run_id in sorted(on_hold)]
        connection.execute(insert(holds), held)
    job = Prune(lambda: stage.now.timestamp())
    prune(stage, job)
    stay, with_text = expected(rows, ids, on_hold)
    assert (ids_of(stage), with_output(stage)) == (stay, with_text), "the first round reads the whole history"
    for _ in range(30):
        stage.forward(hours=1)
        sum_up_all(stage)
        for row in rows:
            row["days"] += 1 / 24
        prune(stage, job)
        stay_now, with_text_now = expected(rows, ids, on_hold)
        assert ids_of(stage) >= stay_now
        assert with_output(stage) >= with_text_now
    stage.forward(hours=25)
    sum_up_all(stage)
    for row in rows:
        row["days"] += 25 / 24
    prune(stage, job)
    assert (ids_of(stage), with_output(stage)) == expected(rows, ids, on_hold), "nothing is missed for a day"


def insert_other_rows(stage: Stage) -> None:
    """Insert rows of every kind that have an age, old and young."""
    for name in ("changes", "alerts", "notifications", "events", "nodes", "statistics"):
        SharedSettings(stage.crontab).set(f"keep.{name}", "30d")
    with stage.database.write() as connection:
        for days in (400, 50, 31, 29, 1):
            at = stage.now - timedelta(days=days)
            day = {"day": str(at.date()), "task": "a", "succeeded": 1}
            node = {"id": f"n-{days}", "name": "n", "host": "n", "pid": 1, "slots": 1, "version": "1"}
            node |= {
                "tzdata": "2026a",
                "started_at": at,
                "alive_until": at,
                "died_at": at,
                "died_how": "dead",
            }
            alert = {"kind": "failing", "subject": f"task:{days}", "opened_at": at, "last_at": at}
            note = {"channel": "ops", "kind": "opened", "created_at": at, "due_at": at}
            change = {"at": at, "actor": "ann", "kind": "task"}
            for table, row in (
                (changes, change | {"action": "edit"}),
                (changes, change | {"action": "clock"}),
                (alerts, alert | {"closed_at": at}),
                (alerts, alert | {"closed_at": None}),
                (notifications, note | {"sent_at": at}),
                (notifications, note | {"sent_at": None}),
                (events, {"name": "e", "created_at": at, "handled_at": at}),
                (events, {"name": "e", "created_at": at, "handled_at": None}),
                (nodes, node),
                (nodes, node | {"id": f"alive-{days}", "died_at": None, "died_how": None}),
                (daily_statistics, day | {"task_id": 1}),
                (daily_statistics, day | {"task_id": 2}),
            ):
                connection.execute(insert(table), row)


@pytest.mark.parametrize("seed", range(3))
def test_a_dry_run_shows_what_a_round_deletes(stage: Stage, tasks: dict[str, int], seed: int) -> None:
    ids = insert_history(stage, generated(tasks, seed))
    stage.execute(insert(holds).values(task="a", reason="audit", run_id=ids[0]))
    never = stage.task("letters", "@on never", keep={"bad": "none", "bad-output": "none"}).id
    at = stage.now - timedelta(days=400)
    letter = {"task_id": never, "task": "letters", "days": 400, "state": "failed", "dead_at": at}
    insert_history(stage, [letter] * 3 + [letter | {"dead_at": stage.now}] * 2)
    flow = {"task_id": tasks["b"], "task": "b", "days": 200, "flow": 7, "bytes": 4}
    insert_history(stage, [flow, flow | {"flow": 8}])
    insert_other_rows(stage)
    shown = Retention(stage.crontab).preview()
    gone = Retention(stage.crontab).prune()
    others = {kind: number for kind, number in gone.others.items() if kind != "pages"}
    assert (shown.runs, shown.outputs, shown.bytes) == (gone.runs, gone.outputs, gone.bytes)
    assert shown.others == others
    kinds = {"dismissed", "changes", "alerts", "notifications", "events", "nodes", "statistics"}
    assert set(others) == kinds
    assert min(gone.runs, gone.outputs, gone.bytes, *others.values()) > 0
    assert Retention(stage.crontab).preview().is_nothing
