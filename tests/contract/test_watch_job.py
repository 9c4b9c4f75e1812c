"""The maintenance job `watch` finds what did not happen, once, and sees when it is over."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, select, update

from dcron.model import RunState
from dcron.schedule.calendars import Calendar
from dcron.schema.tables import crontab, maintenance_jobs, nodes, notifications
from dcron.services.alerts import Alerts
from dcron.services.calendars import Calendars
from dcron.services.settings import SharedSettings
from dcron.store.alerts import notifications as outbox
from dcron.store.alerts import watching as watch
from tests.support.watching import WatchedStage, stage

__all__ = ["stage"]


def test_nothing_is_wrong_with_a_crontab_that_works(stage: WatchedStage) -> None:
    task = stage.task("backup", notify=("ops",))
    node = stage.node()
    assert stage.look() == []
    stage.forward(minutes=10)
    stage.renew(node)
    for run in stage.take(node):
        stage.finish(node, run.id)
    stage.forward(seconds=15)
    assert stage.look() == []
    assert (stage.number(), stage.sent(), task.id) == (0, [], 1)


def test_a_run_that_no_agent_starts_is_late_until_one_does(stage: WatchedStage) -> None:
    task = stage.task("backup", notify=("ops",), expect={"start": 900.0})
    stage.look()
    stage.forward(minutes=20)
    assert stage.look() == []  # due ten minutes ago
    stage.forward(minutes=6)
    assert stage.look() == [f"late task:{task.id}"]
    stage.forward(seconds=15)
    assert stage.look() == [f"late task:{task.id}"]
    assert stage.sent() == ["opened"]
    node = stage.node()
    [run] = stage.take(node)
    stage.forward(seconds=15)
    assert stage.look() == [f"missed task:{task.id}"]
    assert stage.sent() == ["opened", "opened", "closed"]
    stage.finish(node, run.id)
    assert stage.open() == []


@pytest.mark.parametrize("pause", [True, False])
def test_paused_tasks_and_excluded_dates_are_not_late(stage: WatchedStage, pause: bool) -> None:
    if pause:
        stage.crontab.pause(stage.task("backup"))
    else:
        Calendars(stage.crontab).put(Calendar("all", weekdays=frozenset(range(7))))
        stage.insert_task(except_calendar="all")
        stage.plan()
    stage.forward(hours=1)
    assert stage.look() == []


def test_a_task_can_expect_nothing(stage: WatchedStage) -> None:
    stage.task("backup", expect={"start": "none"})
    stage.forward(hours=1)
    assert stage.look() == []


def test_a_run_beyond_its_runtime_is_reported_while_it_runs(stage: WatchedStage) -> None:
    task = stage.task("backup", "@on never", expect={"runtime": "..1m"}, notify=("ops",))
    node = stage.node(lease=3600)
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(seconds=45)
    assert stage.look() == []
    stage.forward(seconds=30)
    assert stage.look() == [f"too-long task:{task.id}"]
    stage.forward(seconds=1)
    stage.finish(node, run_id, checks_runtime=True)
    assert stage.open() == [f"too-long task:{task.id}"]
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(seconds=59)
    stage.finish(node, run_id, checks_runtime=True)
    assert stage.open() == []
    assert stage.sent() == ["opened", "closed"]


def test_a_learned_runtime(stage: WatchedStage) -> None:
    SharedSettings(stage.crontab).set("expect.runtime", "auto")
    task = stage.task("backup", "@on never")
    node = stage.node(lease=36_000)
    for _ in range(10):
        run_id = stage.crontab.run(task).id
        stage.take(node)
        stage.forward(seconds=100)
        stage.finish(node, run_id)
    stage.crontab.run(task)
    stage.take(node)
    stage.forward(seconds=290)
    assert stage.look() == []
    stage.forward(seconds=20)
    assert stage.look() == [f"too-long task:{task.id}"]


def test_a_task_without_a_success_is_stale(stage: WatchedStage) -> None:
    task = stage.task("backup", "@on never", expect={"success": 3600.0})
    node = stage.node(lease=36_000)
    stage.forward(minutes=50)
    assert stage.look() == []
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.finish(node, run_id)
    stage.forward(minutes=50)
    assert stage.look() == []
    stage.forward(minutes=20)
    assert stage.look() == [f"stale task:{task.id}"]
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.finish(node, run_id)
    assert stage.open() == []
    assert stage.look() == []


def test_a_node_that_dies_is_lost_until_one_of_its_name_is_back(stage: WatchedStage) -> None:
    node = stage.node("web-1")
    stopped = stage.node("web-2")
    stage.look()
    with stage.database.write() as connection:
        for node_id, how in ((node, "dead"), (stopped, "stopped")):
            died = update(nodes).where(nodes.c.id == node_id)
            connection.execute(died.values(died_at=stage.now, died_how=how))
    stage.forward(seconds=15)
    assert stage.look() == ["node-lost node:web-1"]
    stage.forward(seconds=15)
    stage.node("web-1", suffix="1" * 8)
    assert stage.look() == []
    stage.forward(seconds=15)
    assert stage.look() == []
    assert stage.number() == 1


def test_a_wrong_clock_is_reported(stage: WatchedStage) -> None:
    stage.node("web-1", lease=3600)
    stage.execute(update(nodes).values(clock_offset=-3.5))
    assert stage.look() == ["clock node:web-1"]
    stage.execute(update(nodes).values(clock_offset=0.1))
    assert stage.look() == []


def test_a_task_that_no_node_can_take_is_unserved_after_a_while(stage: WatchedStage) -> None:
    stage.node("web-1", lease=36_000)
    task = stage.task("backup", "@daily", require=("gpu",))
    assert stage.look() == []
    stage.forward(minutes=6)
    assert stage.look() == [f"unserved task:{task.id}"]
    stage.node("gpu-1", lease=36_000, tags=("gpu",))
    assert stage.look() == []


def test_a_maintenance_job_that_fails_or_is_behind_is_reported(stage: WatchedStage) -> None:
    job: dict[str, Any] = {"position": {}, "done": {}}
    failed = {"name": "archive", "due_at": stage.now, "error": "no bucket", **job}
    behind = {"name": "prune", "due_at": stage.now - timedelta(hours=2), "error": None, **job}
    stage.execute(insert(maintenance_jobs), [failed, behind])
    assert stage.look() == ["maintenance-behind job:archive", "maintenance-behind job:prune"]
    stage.execute(update(maintenance_jobs).values(error=None, due_at=stage.now))
    assert stage.look() == []


def test_alerts_of_a_removed_task_close(stage: WatchedStage) -> None:
    task = stage.task("backup", "@on never")
    node = stage.node()
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.finish(node, run_id, RunState.FAILED)
    assert stage.look() == [f"failing task:{task.id}"]
    stage.crontab.remove(stage.crontab.get("backup"))
    assert stage.look() == []


def test_reminders_are_written_until_the_alert_is_acknowledged(stage: WatchedStage) -> None:
    task = stage.task("backup", notify=("ops",))
    stage.forward(minutes=30)
    assert stage.look() == [f"late task:{task.id}"]
    stage.forward(hours=25)
    stage.look()
    stage.look()
    assert stage.sent() == ["opened", "reminder"]
    service = Alerts(stage.crontab)
    service.acknowledge(service.find("backup"), duration=timedelta(hours=30))
    stage.forward(hours=25)
    stage.look()
    assert stage.sent() == ["opened", "reminder"]
    stage.forward(hours=6)
    stage.look()
    assert stage.sent() == ["opened", "reminder", "reminder"]
    service.acknowledge(service.find("backup"))
    stage.forward(hours=25)
    stage.look()
    assert stage.sent() == ["opened", "reminder", "reminder"]


def statements(stage: WatchedStage) -> int:
    """Return how many statements a round sends."""
    seen: list[str] = []

    def count(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)

    engine = stage.database.engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        stage.look()
    finally:
        event.remove(engine, "before_cursor_execute", count)
    return len(seen)


def test_a_round_sends_few_statements_however_many_tasks_there_are(stage: WatchedStage) -> None:
    stage.node(lease=36_000)
    for number in range(30):
        stage.task(f"task-{number}", expect={"runtime": "..1h", "success": 86_400.0, "start": 60.0})
    assert statements(stage) <= 13


@pytest.mark.slow
def test_many_late_tasks_are_found_page_by_page(stage: WatchedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAGE", 7)
    for number in range(30):
        stage.task(f"task-{number}")
    stage.forward(hours=1)
    assert len(stage.look()) == 30
    node = stage.node(lease=3600)
    assert len(stage.take(node, 100)) == 30
    for _ in range(10):
        still = [each for each in stage.look() if each.startswith("late")]
    assert still == []


def insert_tasks(stage: WatchedStage, count: int, **values: Any) -> None:
    """Insert tasks that run at no time."""
    common = {"schedule": "@on never", "command": "true", "changed_at": stage.now, **values}
    with stage.database.write() as connection:
        for first in range(0, count, 1000):
            rows = [{"name": f"t{number:06}", **common} for number in range(first, first + 1000)]
            connection.execute(insert(crontab), rows)


@pytest.mark.slow
def test_one_stale_task_of_20_000_is_found_in_the_next_round(stage: WatchedStage) -> None:
    insert_tasks(stage, 20_000, expect={"success": 86_400.0}, labels={"team": "shop"})
    late = stage.crontab.find("t017654")
    stage.set_task(late.id, expect={"success": 3600.0})
    assert stage.look() == []
    stage.forward(hours=2)
    assert stage.look() == [f"stale task:{late.id}"]
    stage.forward(hours=1)
    assert stage.look() == [f"stale task:{late.id}"]


@pytest.mark.slow
def test_many_stale_tasks_are_found_step_by_step(
    stage: WatchedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "STALE_PAGE", 700)
    monkeypatch.setattr(watch, "_MOST_STALE", 300)
    insert_tasks(stage, 1000, expect={"success": 60.0})
    stage.forward(hours=1)
    assert len(stage.look()) == 1000
    stage.forward(seconds=15)
    assert len(stage.look()) == stage.number() == 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "position",
    [
        *({"since": 5}, {"since": "x"}, {"late": [1]}, {"late": ["a", "b", 1]}, {"stale": -1}),
        *({"stale": "x"}, {"open": [1, 2]}, {"unserved": []}, {"unserved": {"default": 5}}, {"steps": "x"}),
    ],
)
def test_a_position_written_by_hand_does_no_harm(stage: WatchedStage, position: Mapping[str, Any]) -> None:
    stage.task("backup")
    stage.forward(hours=1)
    stage.position = position
    assert stage.look() == ["late task:1"]


@pytest.mark.slow
def test_what_no_node_can_send_is_given_up_after_a_day(stage: WatchedStage) -> None:
    with stage.database.write() as connection:
        outbox.add(connection, outbox.for_channels(["ops", "post"], "opened", stage.now))
    stage.forward(hours=23)
    assert stage.look() == []
    stage.forward(hours=2)
    assert stage.look() == ["undeliverable channel:ops", "undeliverable channel:post"]
    stage.forward(hours=2)
    assert len(stage.look()) == 2
    assert stage.number() == 2


def test_what_settings_expect_of_tasks_with_a_label_is_watched(stage: WatchedStage) -> None:
    settings = SharedSettings(stage.crontab)
    settings.set("expect.success[team=shop]", "1h")
    settings.set("notify[team=shop]", "ops-shop")
    settings.set("expect.start", "none")
    task = stage.task("a", labels={"team": "shop"})
    stage.task("b")
    stage.task("c", labels={"team": "shop"}, expect={"success": "none"})
    stage.node(lease=100_000)
    stage.forward(hours=2)
    assert stage.look() == [f"stale task:{task.id}"]
    with stage.database.read() as connection:
        assert list(connection.scalars(select(notifications.c.channel))) == ["ops-shop"]
    settings.unset("expect.success[team=shop]")
    assert stage.look() == []
