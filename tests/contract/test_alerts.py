"""Alerts are opened and closed in the transaction of the end that causes them."""

import json
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from dcron.database import open_database
from dcron.model import Alert, AlertKind, RunState, Task
from dcron.policy.conditions.rules import Rules
from dcron.schema.tables import alerts, events, notifications
from dcron.services.runs.dead_letters import DeadLetters
from dcron.services.settings import SharedSettings
from dcron.store.alerts import rows as store
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from tests.support.patience import PATIENCE
from tests.support.stage import Stage


def every(stage: Stage) -> list[Alert]:
    with stage.database.read() as connection:
        rows = connection.execute(select(*store.COLUMNS).order_by(alerts.c.id))
        return [Alert(**row._mapping) for row in rows]


def open_kinds(stage: Stage) -> list[str]:
    return [alert.kind for alert in every(stage) if alert.closed_at is None]


def sent(stage: Stage) -> list[tuple[str, str]]:
    """Return the kind and the channel of each notification."""
    with stage.database.read() as connection:
        rows = connection.execute(select(notifications).order_by(notifications.c.id))
        return [(row.kind, row.channel) for row in rows]


def run(stage: Stage, node: str, task: Task, *, ok: bool, **facts: Any) -> int:
    """Run the task once, with this end."""
    run_id = stage.crontab.run(task).id
    assert [each.id for each in stage.take(node)] == [run_id]
    stage.forward(seconds=1)
    stage.finish(node, run_id, RunState.SUCCEEDED if ok else RunState.FAILED, **facts)
    return run_id


def codes(stage: Stage, task: Task, *exit_codes: int) -> list[int]:
    node = stage.node(suffix=uuid4().hex[:8])
    return [run(stage, node, task, ok=code == 0) for code in exit_codes]


def test_a_failure_opens_an_alert_and_the_next_success_closes_it(stage: Stage) -> None:
    task = stage.task("backup", "@on never", notify=("ops",))
    first, second, third = codes(stage, task, 1, 1, 0)
    [alert] = every(stage)
    assert (alert.kind, alert.subject, alert.task) == (AlertKind.FAILING, f"task:{task.id}", "backup")
    assert (alert.run_id, alert.last_run_id, alert.times) == (first, second, 2)
    assert alert.closed_at == stage.now
    assert alert.notified_at is not None
    assert sent(stage) == [("opened", "ops"), ("closed", "ops")]
    assert third > second


def test_after_three_failures_in_a_row_there_is_one_alert_and_one_recovery(stage: Stage) -> None:
    task = stage.task("backup", "@on never", notify=("ops",), notify_after=3)
    codes(stage, task, 1, 1)
    assert every(stage) == []
    codes(stage, task, 1)
    assert open_kinds(stage) == ["failing"]
    codes(stage, task, 0)
    assert open_kinds(stage) == []
    assert sent(stage) == [("opened", "ops"), ("closed", "ops")]


def test_one_failure_of_three_is_nothing(stage: Stage) -> None:
    task = stage.task("backup", "@on never", notify=("ops",), notify_after=3)
    codes(stage, task, 1, 0, 1, 1, 0)
    assert (every(stage), sent(stage)) == ([], [])


def test_only_the_last_attempt_counts(stage: Stage) -> None:
    task = stage.task("backup", "@on never", tries=2, backoff=0.0, notify_after=2)
    node = stage.node()
    for ok in (False, False, False):
        stage.crontab.run(task)
        run_id = stage.take(node)[0].id
        stage.finish(node, run_id, RunState.FAILED)
        assert open_kinds(stage) == []
        retry = stage.take(node)[0].id
        stage.finish(node, retry, RunState.SUCCEEDED if ok else RunState.FAILED)
        if retry > 3:
            break
    assert open_kinds(stage) == ["failing"]


def test_settings_are_for_tasks_that_say_nothing(stage: Stage) -> None:
    settings = SharedSettings(stage.crontab)
    settings.set("notify.default", "ops,mailto:ann@example.org")
    settings.set("notify.after", "2")
    quiet = stage.task("quiet", "@on never", notify=("none",), notify_after=1)
    other = stage.task("other", "@on never", notify_on=("late",), notify_after=1)
    task = stage.task("backup", "@on never")
    codes(stage, quiet, 1)
    codes(stage, other, 1)
    codes(stage, task, 1)
    assert sent(stage) == []
    codes(stage, task, 1)
    assert sent(stage) == [("opened", "ops"), ("opened", "mailto:ann@example.org")]
    assert open_kinds(stage) == ["failing"] * 3


def test_a_cancelled_run_is_no_failure(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    node = stage.node()
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.crontab.cancel(run_id)
    stage.finish(node, run_id, RunState.FAILED)
    assert every(stage) == []


def test_runs_of_a_lost_node_count(stage: Stage) -> None:
    task = stage.task("backup", "@on never", max_running=3)
    node = stage.node()
    ids = [stage.crontab.run(task).id for _ in range(3)]
    stage.take(node)
    stage.forward(minutes=5)
    with stage.database.write() as connection:
        finishing.declare_lost(connection, stage.database, stage.now, [node], "died")
    [alert] = every(stage)
    assert (alert.kind, alert.times, alert.last_run_id) == ("failing", 3, ids[-1])


@pytest.mark.slow
def test_the_late_truth_of_a_lost_run_closes_its_alert(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    node = stage.node()
    run_id = stage.crontab.run(task).id
    stage.take(node)
    with stage.database.write() as connection:
        finishing.declare_lost(connection, stage.database, stage.now, [node], "died")
    assert open_kinds(stage) == ["failing"]
    stage.finish(node, run_id, RunState.SUCCEEDED)
    assert open_kinds(stage) == []


@pytest.mark.slow
def test_an_end_that_comes_late_opens_no_alert_for_the_past(stage: Stage) -> None:
    task = stage.task("backup", "@on never", max_running=2)
    node = stage.node()
    old, new = (stage.crontab.run(task).id for _ in range(2))
    stage.take(node)
    stage.finish(node, new, RunState.SUCCEEDED)
    stage.finish(node, old, RunState.FAILED)
    assert every(stage) == []


@pytest.mark.slow
def test_an_old_success_that_comes_late_closes_no_alert_of_a_later_run(stage: Stage) -> None:
    task = stage.task("backup", "@on never", max_running=2)
    node = stage.node()
    old, new = (stage.crontab.run(task).id for _ in range(2))
    stage.take(node)
    stage.finish(node, new, RunState.FAILED)
    stage.finish(node, old, RunState.SUCCEEDED)
    assert open_kinds(stage) == ["failing"]


def test_dismissing_the_last_dead_letter_closes_the_alert(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    first, second = codes(stage, task, 1, 1)
    letters = DeadLetters(stage.crontab)
    letters.dismiss(first)
    assert open_kinds(stage) == ["failing"]
    letters.dismiss(second)
    assert open_kinds(stage) == []


def test_a_retry_of_the_dead_letter_closes_it_when_it_succeeds(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    [failed] = codes(stage, task, 1)
    DeadLetters(stage.crontab).retry(failed)
    assert open_kinds(stage) == ["failing"]
    node = stage.node("web-9")
    stage.finish(node, stage.take(node)[0].id)
    assert open_kinds(stage) == []


def test_a_run_that_is_too_short_opens_an_alert(stage: Stage) -> None:
    task = stage.task("backup", "@on never", expect={"runtime": "1m..1h"}, notify=("ops",))
    node = stage.node()
    run(stage, node, task, ok=True, checks_runtime=True)
    [alert] = every(stage)
    assert (alert.kind, alert.facts) == ("too-short", {"seconds": 1.0, "expected": 60.0})
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(minutes=2)
    stage.finish(node, run_id, checks_runtime=True)
    assert open_kinds(stage) == []
    assert sent(stage) == [("opened", "ops"), ("closed", "ops")]


def test_a_learned_runtime_needs_enough_runs(stage: Stage) -> None:
    task = stage.task("backup", "@on never", expect={"runtime": "auto"})
    node = stage.node()
    for _ in range(10):
        run_id = stage.crontab.run(task).id
        stage.take(node)
        stage.forward(seconds=30)
        stage.renew(node)
        stage.finish(node, run_id, checks_runtime=True)
    assert every(stage) == []
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.finish(node, run_id, checks_runtime=True)
    assert open_kinds(stage) == ["too-short"]


@pytest.mark.slow
def test_two_ends_at_once_make_one_alert(stage: Stage, database_url: str) -> None:
    task = stage.task("backup", "@on never", max_running=None)
    node = stage.node()
    ids = [stage.crontab.run(task).id for _ in range(8)]
    stage.take(node)
    barrier = threading.Barrier(len(ids))
    failures: list[Exception] = []

    def end(run_id: int) -> None:
        own = open_database(database_url, clock=lambda: stage.now, patience=60)
        try:
            barrier.wait(PATIENCE)
            with own.write() as connection:
                finishing.finish(
                    connection, own, node, [RunResult(run_id, RunState.FAILED, stage.now)], stage.now
                )
        except Exception as error:
            failures.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=end, args=(run_id,)) for run_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    [alert] = every(stage)
    assert (alert.times, alert.last_run_id) == (8, max(ids))


def causes(task: Task, stage: Stage, kinds: Sequence[AlertKind]) -> list[store.Cause]:
    return [store.Cause.of_task(kind, task, stage.now, Rules(channels=("ops",))) for kind in kinds]


def test_an_alert_is_opened_once_however_often_its_cause_is_seen(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    for _ in range(3):
        with stage.database.write() as connection:
            found = causes(task, stage, [AlertKind.LATE, AlertKind.STALE])
            store.report(connection, stage.database, found, stage.now, counts=False)
        stage.forward(seconds=15)
    assert [alert.times for alert in every(stage)] == [1, 1]
    assert len(sent(stage)) == 2


def emitted(stage: Stage) -> list[tuple[str, str]]:
    with stage.database.read() as connection:
        rows = connection.execute(select(events.c.name, events.c.payload).order_by(events.c.id))
        return [(row.name, json.loads(row.payload)["task"]) for row in rows]


def test_a_task_can_wait_for_alerts_and_recoveries(stage: Stage) -> None:
    task = stage.task("backup", "@on never")
    codes(stage, task, 1, 0)
    assert emitted(stage) == []
    stage.task("page", "@on dcron.failing")
    stage.task("calm", "@on dcron.recovered")
    codes(stage, task, 1, 1, 0)
    assert emitted(stage) == [("dcron.failing", "backup"), ("dcron.recovered", "backup")]


def test_the_failure_of_a_handler_sends_no_event(stage: Stage) -> None:
    handler = stage.task("page", "@on dcron.failing")
    codes(stage, handler, 1)
    assert open_kinds(stage) == ["failing"]
    assert emitted(stage) == []


def test_a_reminder_is_due_after_a_day_by_default(stage: Stage) -> None:
    task = stage.task("backup", "@on never", notify=("ops",))
    other = stage.task("other", "@on never")
    codes(stage, task, 1)
    codes(stage, other, 1)
    assert [alert.remind_at for alert in every(stage)] == [
        stage.now - timedelta(seconds=1) + timedelta(days=1),
        None,
    ]
