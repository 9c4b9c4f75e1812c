"""Pruning deletes what is old enough, and never what must be kept."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from dcron.agent.maintenance import Maintenance
from dcron.errors import DatabaseError
from dcron.model import Definition
from dcron.policy.retention import MOST_BAD
from dcron.schema.tables import (
    alerts,
    changes,
    crontab,
    daily_statistics,
    events,
    holds,
    nodes,
    notifications,
    runs,
    summed_days,
)
from dcron.services.settings import SharedSettings
from dcron.store import maintenance
from dcron.store.maintenance import HOLD, Hold
from dcron.store.retention.history import EARLIEST, Deleted, History
from dcron.store.retention.walk import Prune
from dcron.store.statistics.finished_runs import Place
from tests.support.retention import (
    Restless,
    insert_history,
    job_row,
    left,
    prune,
    sum_up_all,
    trust_clock,
    with_output,
)
from tests.support.stage import Stage

NO_LAST = {"last": 0}


@pytest.fixture(autouse=True)
def summed(stage: Stage) -> None:
    """All days of the past are summed up."""
    stage.crontab.now()
    sum_up_all(stage)


def task(stage: Stage, name: str = "a", keep: dict[str, Any] | None = None, **fields: Any) -> int:
    return stage.task(name, "@on never", keep=keep if keep is not None else NO_LAST, **fields).id


def hold(stage: Stage, **values: Any) -> None:
    stage.execute(insert(holds).values(task="a", reason="audit", **values))


def test_good_runs_go_after_30_days_and_failed_ones_after_180(stage: Stage) -> None:
    a = task(stage)
    ages = (29, 31, 179, 181)
    good = insert_history(stage, [{"task_id": a, "days": days} for days in ages])
    bad = insert_history(stage, [{"task_id": a, "days": days, "state": "failed"} for days in ages])
    lost = insert_history(stage, [{"task_id": a, "days": days, "state": "lost"} for days in ages])
    skipped = insert_history(stage, [{"task_id": a, "days": days, "state": "skipped"} for days in ages])
    assert prune(stage) == {"runs": 3 + 1 + 1 + 3}
    assert left(stage) == [good[0], *bad[:3], *lost[:3], skipped[0]]


def test_output_goes_before_its_run(stage: Stage) -> None:
    a = task(stage)
    good = insert_history(stage, [{"task_id": a, "days": days, "bytes": 9} for days in (13, 15, 31)])
    bad = insert_history(
        stage, [{"task_id": a, "days": days, "bytes": 9, "state": "failed"} for days in (89, 91, 181)]
    )
    assert prune(stage) == {"runs": 2, "outputs": 2}
    assert with_output(stage) == {good[0], bad[0]}
    assert left(stage) == [*good[:2], *bad[:2]]


def test_the_last_started_runs_of_a_task_stay_whatever_their_age(stage: Stage) -> None:
    yearly, three = task(stage, "yearly", {}), task(stage, "three", {"last": 3})
    old = insert_history(stage, [{"task_id": yearly, "days": 365 * n} for n in range(19, 0, -1)])
    many = insert_history(stage, [{"task_id": three, "days": 400 - n} for n in range(10)])
    never = insert_history(stage, [{"task_id": three, "days": 100, "state": "skipped"}] * 5)
    removed = insert_history(stage, [{"task_id": 999, "task": "gone", "days": 40}] * 5)
    assert prune(stage) == {"runs": 7 + 5 + 5}
    assert left(stage) == [*old, *many[-3:]]
    assert not {*never, *removed} & {*left(stage)}


def test_a_task_keeps_what_it_says_now(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": days} for days in (400, 20, 8, 6)])
    stage.set_task(a, keep={"last": 0, "runs": "none"})
    assert prune(stage) == {}
    stage.set_task(a, keep={"last": 0, "runs": 7 * 86400})
    assert prune(stage) == {"runs": 3}
    assert left(stage) == ids[-1:]


def test_a_setting_applies_to_runs_that_ended_before_it_was_made(stage: Stage) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": days} for days in (25, 3)])
    assert prune(stage) == {}
    SharedSettings(stage.crontab).set("keep.runs", "2d")
    assert prune(stage) == {"runs": 2}


def test_zero_seconds_keep_only_the_last_ones(stage: Stage) -> None:
    a = task(stage, keep={"runs": 0, "last": 2})
    ids = insert_history(stage, [{"task_id": a, "days": days} for days in (3, 2.5, 2, 1.7, 1.6)])
    assert prune(stage) == {"runs": 3}
    assert left(stage) == ids[-2:]


def test_runs_of_days_that_are_not_summed_up_stay(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": days, "bytes": 5} for days in (50, 45, 40)])
    with stage.database.write() as connection:
        day = str((stage.now - timedelta(days=45)).date())
        connection.execute(summed_days.delete().where(summed_days.c.day == day))
    assert prune(stage) == {"runs": 2, "outputs": 1}
    assert left(stage) == [ids[1]]
    stage.execute(summed_days.delete())
    insert_history(stage, [{"task_id": a, "days": 60}])
    stage.forward(days=2)
    assert prune(stage) == {}


def test_without_any_day_summed_up_no_run_goes(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": 60}] * 3)
    stage.execute(summed_days.delete())
    assert prune(stage) == {}
    assert left(stage) == ids


def test_a_pruned_day_is_marked(stage: Stage) -> None:
    insert_history(stage, [{"task_id": task(stage), "days": 60}])
    prune(stage)
    with stage.database.read() as connection:
        query = select(summed_days.c.day).where(summed_days.c.pruned_at.is_not(None))
        assert list(connection.scalars(query)) == [str((stage.now - timedelta(days=60)).date())]


def test_runs_that_wait_or_live_stay(stage: Stage) -> None:
    long_ago = stage.now - timedelta(days=400)
    node = stage.node()
    waiting = stage.insert_run(scheduled_for=long_ago, due_at=long_ago)
    running = stage.insert_run(
        state="running", owner=node, claimed_at=long_ago, started_at=long_ago, due_at=long_ago
    )
    assert prune(stage) == {}
    assert left(stage) == [waiting, running]


def test_dead_letters_stay_for_a_year_and_are_then_dismissed(stage: Stage) -> None:
    a = task(stage)
    ages = [stage.now - timedelta(days=days) for days in (364, 366)]
    rows = [{"task_id": a, "days": 370, "state": "failed", "dead_at": at} for at in ages]
    ids = insert_history(stage, rows)
    assert prune(stage) == {"dismissed": 1, "runs": 1}
    assert left(stage) == ids[:1]
    with stage.database.read() as connection:
        found = connection.execute(select(changes).where(changes.c.action == "dismiss")).one()
    assert (found.task, found.actor, found.after["runs"]) == ("a", "dcron", 1)


@pytest.mark.slow
def test_a_task_keeps_its_newest_1000_dead_letters(stage: Stage) -> None:
    a, extra = task(stage), 2500
    rows = [{"task_id": a, "days": 5, "state": "failed", "dead_at": stage.now}] * (MOST_BAD + extra)
    ids = insert_history(stage, rows)
    assert prune(stage) == {"dismissed": extra}
    with stage.database.read() as connection:
        query = select(runs.c.id).where(runs.c.dead_at.is_not(None)).order_by(runs.c.id)
        assert list(connection.scalars(query)) == ids[-MOST_BAD:]


@pytest.mark.slow
def test_a_task_keeps_1000_old_failed_runs_at_most(stage: Stage) -> None:
    a = task(stage)
    rows = [{"task_id": a, "days": 100, "state": "failed"}] * (MOST_BAD + 50)
    ids = insert_history(stage, rows)
    job = Prune(lambda: stage.now.timestamp())
    assert prune(stage, job) == {}
    sum_up_all(stage)
    stage.forward(days=1, minutes=1)
    assert prune(stage, job) == {"runs": 50}
    assert left(stage) == ids[-MOST_BAD:]


def test_what_is_on_hold_stays(stage: Stage) -> None:
    a, b = task(stage), task(stage, "b")
    ids = insert_history(stage, [{"task_id": a, "days": 60, "bytes": 5}] * 3)
    held = insert_history(stage, [{"task_id": b, "task": "b", "days": 400, "bytes": 5}] * 2)
    old = stage.now - timedelta(days=400)
    [letter] = insert_history(stage, [{"task_id": b, "days": 400, "state": "failed", "dead_at": old}])
    hold(stage, run_id=ids[1])
    hold(stage, task_id=b)
    assert prune(stage) == {"runs": 2}
    assert left(stage) == [ids[1], *held, letter]
    assert with_output(stage) == {ids[1], *held}
    stage.execute(holds.delete())
    stage.forward(days=1, minutes=1)
    assert prune(stage) == {"dismissed": 1, "runs": 4}


def test_a_flow_with_a_dead_letter_stays_whole(stage: Stage) -> None:
    a, b = task(stage), task(stage, "b")
    flow = {"flow": 77, "days": 60}
    ids = insert_history(
        stage,
        [
            {"task_id": a, **flow},
            {"task_id": b, "task": "b", **flow, "state": "failed", "dead_at": stage.now, "trigger": "after"},
            {"task_id": a, "days": 50, "flow": 99},
            {"task_id": b, "task": "b", "days": 50, "flow": 99, "trigger": "after"},
            {"task_id": a, "days": 20, "flow": 111},
            {"task_id": b, "task": "b", "days": 20, "flow": 111, "trigger": "after"},
        ],
    )
    assert prune(stage) == {"runs": 2}
    assert left(stage) == [*ids[:2], *ids[4:]]
    stage.execute(update(runs).where(runs.c.id == ids[1]).values(dead_at=None, state="succeeded"))
    stage.forward(days=1, minutes=1)
    assert prune(stage) == {"runs": 2}


def test_the_newest_flow_of_a_task_stays_for_the_tasks_that_join_it(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(
        stage, [{"task_id": a, "days": 60, "flow": 5}, {"task_id": a, "days": 50, "flow": 9}]
    )
    assert prune(stage) == {"runs": 1}
    assert left(stage) == ids[1:]


def test_a_run_whose_retry_waits_stays(stage: Stage) -> None:
    a = task(stage)
    [first] = insert_history(stage, [{"task_id": a, "days": 400, "state": "failed"}])
    retry = stage.insert_run(task_id=a, trigger="retry", retry_of=first, attempt=2)
    assert prune(stage) == {}
    stage.sql("UPDATE runs SET state = 'cancelled', finished_at = due_at WHERE id = :id", id=retry)
    stage.forward(days=1, minutes=1)
    assert prune(stage) == {"runs": 1}


def test_what_settles_an_occurrence_of_the_future_stays(stage: Stage) -> None:
    a = task(stage)
    ahead = stage.now + timedelta(days=100)
    [cancelled] = insert_history(
        stage, [{"task_id": a, "days": 60, "state": "cancelled", "scheduled_for": ahead}]
    )
    assert prune(stage) == {}
    assert left(stage) == [cancelled]


def test_what_was_settled_during_a_pause_stays_until_it_ends(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": days} for days in (70, 50)])
    values = {"enabled": False, "paused_at": stage.now - timedelta(days=60)}
    stage.set_task(a, **values)
    assert prune(stage) == {"runs": 1}
    assert left(stage) == ids[1:]


def test_a_renamed_task_keeps_its_history_and_a_removed_one_does_not(stage: Stage) -> None:
    renamed, removed = task(stage, "a", {}), task(stage, "b", {})
    rows = [{"task_id": id, "days": 400} for id in (renamed, removed)]
    first, _ = insert_history(stage, rows)
    stage.crontab.edit(stage.crontab.get("a"), {"name": "other"})
    stage.crontab.remove(stage.crontab.get("b"))
    assert prune(stage) == {"runs": 1}
    assert first in left(stage)


def test_events_nodes_and_statistics_go_when_they_are_old(stage: Stage) -> None:
    old, young = stage.now - timedelta(days=31), stage.now - timedelta(days=29)
    with stage.database.write() as connection:
        for at in (old, young):
            connection.execute(insert(events).values(name="x", created_at=at, handled_at=at))
        connection.execute(insert(events).values(name="x", created_at=old))
        for day in ("2020-01-01", "2027-01-01"):
            connection.execute(insert(daily_statistics).values(task_id=1, day=day, task="a"))
    for name, at in (("web-1", old), ("web-2", young), ("web-3", old)):
        node = stage.node(name)
        with stage.database.write() as connection:
            ended = update(nodes).where(nodes.c.id == node)
            connection.execute(ended.values(died_at=at, died_how="dead"))
    stage.insert_run(for_node="web-3-00000000")
    assert prune(stage) == {"events": 1, "nodes": 1, "statistics": 1}
    with stage.database.read() as connection:
        assert connection.execute(select(events.c.handled_at)).all() == [(young,), (None,)]
        assert set(connection.scalars(select(nodes.c.name))) == {"web-2", "web-3"}


def test_the_audit_log_goes_only_if_a_setting_says_so(stage: Stage) -> None:
    with stage.database.write() as connection:
        for action in ("set", "epoch"):
            at = stage.now - timedelta(days=90)
            connection.execute(insert(changes).values(at=at, actor="x", action=action))
    assert prune(stage) == {}
    SharedSettings(stage.crontab).set("keep.changes", "60d")
    assert prune(stage) == {"changes": 1}


@pytest.mark.slow
def test_a_second_round_finds_nothing(stage: Stage) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": 60, "bytes": 5}] * 1500)
    job = Prune(lambda: stage.now.timestamp())
    assert prune(stage, job) == {"runs": 1500}
    assert prune(stage, job) == {}
    stage.forward(days=2)
    assert prune(stage, job) == {}


def test_the_cost_of_a_run_does_not_grow_with_the_runs_of_its_task(sqlite_stage: Stage) -> None:
    sum_up_all(sqlite_stage)
    a = task(sqlite_stage)
    insert_history(sqlite_stage, [{"task_id": a, "days": 60}] * 100)
    few = steps_of_a_look(sqlite_stage)
    insert_history(sqlite_stage, [{"task_id": a, "days": 1}] * 2000)
    assert steps_of_a_look(sqlite_stage) < 2 * few


def steps_of_a_look(stage: Stage) -> int:
    """Hundreds of steps of SQLite's machine for judging the runs that are older than 30 days."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with stage.database.read() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(count, 100)
        history, before = History({}), stage.now - timedelta(days=30)
        assert len(history.look(connection, Place(EARLIEST, 0), before, stage.now, 500).candidates)
        driver.set_progress_handler(None, 0)
    return steps


def test_after_a_failed_batch_the_next_one_is_smaller(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": 60}] * 120)
    delete, sizes, most = History.delete, list[int](), 20

    def full(history: History, connection: Any, batch: Sequence[Any], now: datetime) -> Deleted:
        sizes.append(len(batch))
        if len(batch) > most:
            raise DatabaseError("database or disk is full")
        return delete(history, connection, batch, now)

    monkeypatch.setattr(History, "delete", full)
    assert prune(stage) == {"runs": 120}
    assert sizes[:2] == [50, 20]
    most = 19
    insert_history(stage, [{"task_id": a, "days": 60}] * 120)
    stage.forward(days=2)
    with pytest.raises(AssertionError):
        prune(stage)


@pytest.mark.slow
def test_many_runs_that_ended_at_one_time_are_walked(stage: Stage) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": 60, "flow": 5}] * 700)
    insert_history(stage, [{"task_id": 999, "days": 60}] * 700)
    assert prune(stage) == {"runs": 700}


def test_runs_that_could_not_go_are_met_again_within_a_day(stage: Stage) -> None:
    a = task(stage, keep={"last": 1})
    insert_history(stage, [{"task_id": a, "days": 60}])
    job = Prune(lambda: stage.now.timestamp())
    assert prune(stage, job) == {}
    insert_history(stage, [{"task_id": a, "days": 0}])
    assert prune(stage, job) == {}, "it was left out before"
    stage.forward(hours=25)
    assert prune(stage, job) == {"runs": 1}


@pytest.mark.slow
def test_nothing_goes_while_the_clock_may_have_been_set_forward(stage: Stage) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": 1}] * 3)
    boottime = stage.now.timestamp()
    job = Prune(lambda: boottime)
    prune(stage, job)

    def round_after(**duration: float) -> dict[str, int]:
        stage.forward(**duration)
        Maintenance(stage.database, "web-1", []).do(job, Restless())
        return dict(job_row(stage).done)

    boottime += 660
    assert round_after(minutes=11) == {}
    sum_up_all(stage, first=5)
    stage.forward(days=400)
    sum_up_all(stage, first=500)
    boottime += 660
    assert round_after(minutes=11) == {}
    assert len(left(stage)) == 3
    for _ in range(23):
        boottime += 3600
        assert round_after(hours=1) == {}
    boottime += 3700
    assert round_after(seconds=3700) == {"runs": 3}


def test_another_process_waits_a_day_after_more_than_a_day_without_a_round(stage: Stage) -> None:
    prune(stage)
    insert_history(stage, [{"task_id": task(stage), "days": 60}])
    stage.forward(hours=26)
    sum_up_all(stage)
    Maintenance(stage.database, "web-2", []).do(Prune(), Restless())
    assert len(left(stage)) == 1
    assert "wait_until" in job_row(stage).position


def test_a_node_continues_the_round_of_another(stage: Stage) -> None:
    a = task(stage)
    insert_history(stage, [{"task_id": a, "days": 60}] * 900)
    trust_clock(stage)
    with stage.database.write() as connection:
        position = maintenance.take(connection, "prune", "web-9", stage.now)
    assert position is not None
    dead, job = Hold("prune", "web-9"), Prune(lambda: stage.now.timestamp())
    for _ in range(6):
        step = job.step(stage.database, dead, position)
        assert step.position is not None
        position = step.position
    before = len(left(stage))
    assert 0 < before < 900
    stage.forward(seconds=HOLD + 1)
    sum_up_all(stage)
    prune(stage, Prune(lambda: stage.now.timestamp()))
    assert left(stage) == []


def test_a_late_end_between_look_and_deletion_keeps_the_run(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": 200, "state": "lost"}] * 2)
    history = History({})
    with stage.database.read() as connection:
        before = stage.now - timedelta(days=30)
        page = history.look(connection, Place(EARLIEST, 0), before, stage.now, 100)
    assert [each.id for each in page.candidates] == ids
    stage.sql(
        "UPDATE runs SET state = 'succeeded', finished_at = :at WHERE id = :id", id=ids[0], at=str(stage.now)
    )
    hold(stage, run_id=ids[1])
    with stage.database.write() as connection:
        assert history.delete(connection, page.candidates, stage.now).runs == 0
    assert left(stage) == ids


def test_a_keep_that_cannot_be_read_keeps_everything(stage: Stage) -> None:
    a = task(stage)
    ids = insert_history(stage, [{"task_id": a, "days": 400, "bytes": 5}])
    for text in ('{"runs": "soon"}', "[]", "{", '{"runs": -5, "output": null, "last": 1e400}'):
        stage.sql("UPDATE crontab SET keep = :text WHERE id = :id", text=text, id=a)
        stage.forward(days=1, minutes=1)
        sum_up_all(stage)
        done = prune(stage)
        assert "runs" not in done, text
    assert left(stage) == ids


def test_waiting_rows_are_never_read(stage: Stage) -> None:
    stage.crontab.add(Definition(name="w", schedule="* * * * *", timezone="UTC", command="true"))
    before = left(stage)
    assert prune(stage) == {}
    assert left(stage) == before
    with stage.database.read() as connection:
        assert connection.scalar(select(crontab.c.id)) is not None


def test_old_alerts_and_notifications_are_pruned_when_they_are_over(stage: Stage) -> None:
    now, old = stage.now, stage.now - timedelta(days=400)
    alert = {"kind": "failing", "opened_at": old, "last_at": old, "facts": {}}
    notification = {"channel": "ops", "kind": "opened", "created_at": old, "due_at": old, "facts": {}}
    with stage.database.write() as connection:
        for subject, closed_at in (("task:1", old), ("task:2", None), ("task:3", now)):
            connection.execute(insert(alerts).values(alert | {"subject": subject, "closed_at": closed_at}))
        for sent_at, gave_up_at in ((old, None), (None, old), (None, None)):
            connection.execute(
                insert(notifications).values(notification | {"sent_at": sent_at, "gave_up_at": gave_up_at})
            )
    assert prune(stage) == {"alerts": 1, "notifications": 2}
