"""How alerts end: recovered, removed or paused; what takes too long; and tasks that flap."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select, text, update

from dcron.agent.notifier import alert_items
from dcron.model import Alert, ClosedAs, RunState, Task
from dcron.presentation.alert_message import compose
from dcron.schema.conditions import UNSENT
from dcron.schema.tables import events, notifications
from dcron.services.settings import SharedSettings
from dcron.store.alerts import listing as alert_list
from dcron.store.alerts import notifications as outbox
from tests.support.watching import WatchedStage, stage

__all__ = ["stage"]
LEASE = 10_000_000


def run(stage: WatchedStage, node: str, task: Task, seconds: float = 1, *, ok: bool = True) -> int:
    """Run the task once, for this long."""
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(seconds=seconds)
    state = RunState.SUCCEEDED if ok else RunState.FAILED
    stage.finish(node, run_id, state, checks_runtime="runtime" in task.expect)
    return run_id


def every(stage: WatchedStage) -> list[Alert]:
    with stage.database.read() as connection:
        return alert_list.page(connection, closed=True)[::-1]


def ends(stage: WatchedStage) -> list[tuple[str, str | None]]:
    return [(alert.kind, alert.closed_as) for alert in every(stage)]


def subjects(stage: WatchedStage) -> list[str]:
    """Return the subjects of the messages that wait, and send them."""
    with stage.database.write() as connection:
        query = select(*outbox.COLUMNS).where(text(UNSENT)).order_by(notifications.c.id)
        rows = [outbox.from_row(row) for row in connection.execute(query)]
        items = alert_items(connection, rows, stage.now)
        connection.execute(update(notifications).values(sent_at=stage.now))
    return [compose([item]).subject.removeprefix("[dcron] ") for item in items]


def waiting(stage: WatchedStage) -> list[str]:
    with stage.database.read() as connection:
        query = select(notifications.c.kind).where(text(UNSENT)).order_by(notifications.c.id)
        return list(connection.scalars(query))


# Removed and paused ---------------------------------------------------------------------------------------


def test_the_alert_of_a_removed_task_is_closed_as_removed(stage: WatchedStage) -> None:
    handler = stage.task("calm", "@on dcron.recovered")
    stage.task("gone", "@on dcron.removed")
    run(stage, stage.node(lease=LEASE), stage.task("backup", "@on never", notify=("ops",)), ok=False)
    assert subjects(stage) == ["backup FAILING: failed (run 1)"]
    stage.look()
    stage.crontab.remove(stage.crontab.get("backup"))
    stage.forward(minutes=5)
    assert stage.look() == []
    assert ends(stage) == [("failing", ClosedAs.REMOVED)]
    assert subjects(stage) == ["backup REMOVED while failing after 5m 0s"]
    with stage.database.read() as connection:
        assert list(connection.scalars(select(events.c.name))) == ["dcron.removed"]
    assert handler.enabled


def test_many_removed_tasks_are_not_said_to_have_recovered(stage: WatchedStage) -> None:
    node = stage.node(lease=LEASE, slots=40)
    tasks = [stage.task(f"t{number:02}", "@on never", notify=("ops",)) for number in range(25)]
    for task in tasks:
        run(stage, node, task, ok=False)
    for task in tasks:
        stage.crontab.remove(task)
    stage.look()
    with stage.database.read() as connection:
        closed = select(*outbox.COLUMNS).where(notifications.c.kind == "closed")
        rows = [outbox.from_row(row) for row in connection.execute(closed)]
        message = compose(alert_items(connection, rows, stage.now))
    assert message.subject == "[dcron] 25 tasks REMOVED while failing"
    assert message.text.startswith("25 tasks removed while failing since 2027-")
    assert "recovered" not in message.text.lower()


def test_the_alert_of_a_task_that_is_paused_is_closed_as_paused(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("backup", "@on never", notify=("ops",))
    run(stage, node, task, ok=False)
    subjects(stage)
    stage.forward(minutes=5)
    stage.crontab.pause(stage.crontab.get("backup"))
    assert stage.look() == []
    assert ends(stage) == [("failing", ClosedAs.PAUSED)]
    assert subjects(stage) == ["backup PAUSED while failing after 5m 0s"]
    stage.forward(minutes=5)
    run(stage, node, stage.crontab.get("backup"), ok=False)  # by hand, in the pause
    assert stage.look() == ["failing task:1"]


def test_a_run_that_takes_too_long_does_so_in_a_pause_too(stage: WatchedStage) -> None:
    task = stage.task("backup", "@on never", expect={"runtime": "..1m"})
    node = stage.node(lease=LEASE)
    stage.crontab.run(task)
    stage.take(node)
    stage.forward(minutes=2)
    assert stage.look() == ["too-long task:1"]
    stage.forward(seconds=15)
    stage.crontab.pause(stage.crontab.get("backup"))
    assert stage.look() == ["too-long task:1"]


# Too long ---------------------------------------------------------------------------------------------------


def test_a_run_that_no_round_has_seen_is_too_long_at_its_end(stage: WatchedStage) -> None:
    task = stage.task("probe", "@on never", expect={"runtime": "..5s"}, notify=("ops",))
    node = stage.node(lease=LEASE)
    for _ in range(4):
        run(stage, node, task, 8)
    [alert] = every(stage)
    assert (alert.kind, alert.times, alert.closed_at, alert.facts["expected"]) == ("too-long", 4, None, 5)
    stage.look()
    assert stage.open() == ["too-long task:1"]
    run(stage, node, task, 8, ok=False)
    run(stage, node, task, 2, ok=False)
    assert stage.open() == ["failing task:1", "too-long task:1"]
    run(stage, node, task, 2)
    assert (stage.open(), stage.sent()) == ([], ["opened", "opened", "closed", "closed"])


def test_a_run_that_was_reported_while_it_ran_is_counted_once(stage: WatchedStage) -> None:
    task = stage.task("probe", "@on never", expect={"runtime": "..1m"})
    node = stage.node(lease=LEASE)
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(minutes=2)
    stage.look()
    stage.finish(node, run_id, checks_runtime=True)
    assert [(alert.times, alert.closed_at) for alert in every(stage)] == [(1, None)]
    assert stage.look() == ["too-long task:1"]


@pytest.mark.parametrize("expects", [True, False])
def test_a_setting_lasts_to_the_next_good_time_too(stage: WatchedStage, expects: bool) -> None:
    SharedSettings(stage.crontab).set("expect.runtime", "..1m")
    task = stage.task("probe", "@on never", expect={"runtime": "..1m"} if expects else {})
    node = stage.node(lease=LEASE)
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(minutes=2)
    stage.look()
    stage.finish(node, run_id, checks_runtime=expects)
    assert stage.look() == ["too-long task:1"]
    run(stage, node, task, 2)
    assert stage.open() == []


def test_a_cancelled_run_takes_too_long_no_more(stage: WatchedStage) -> None:
    task = stage.task("probe", "@on never", expect={"runtime": "..1m"})
    node = stage.node(lease=LEASE)
    run_id = stage.crontab.run(task).id
    stage.take(node)
    stage.forward(minutes=2)
    assert stage.look() == ["too-long task:1"]
    stage.finish(node, run_id, RunState.CANCELLED, checks_runtime=True)
    assert stage.open() == []


def test_what_is_expected_no_more_is_not_too_long(stage: WatchedStage) -> None:
    task = stage.task("probe", "@on never", expect={"runtime": "..5s"})
    run(stage, stage.node(lease=LEASE), task, 8)
    assert stage.look() == ["too-long task:1"]
    stage.crontab.edit(stage.crontab.get("probe"), {"expect": {}})
    assert stage.look() == []


# One cause, one alert -------------------------------------------------------------------------------------


def test_a_late_run_that_no_node_can_take_is_unserved_alone(stage: WatchedStage) -> None:
    stage.node("web-1", lease=LEASE)
    task = stage.task("backup", require=("gpu",), expect={"start": 60.0})
    stage.look()
    stage.forward(minutes=11, seconds=30)
    assert stage.look() == [f"unserved task:{task.id}"], "sooner than after five minutes: it is late"
    stage.forward(minutes=30)
    assert stage.look() == [f"unserved task:{task.id}"]
    assert [alert.times for alert in every(stage)] == [1]


def test_a_late_run_stays_late_when_its_node_goes(stage: WatchedStage) -> None:
    task = stage.task("backup", expect={"start": 60.0})
    stage.node("web-1", lease=LEASE, tags=("other",))
    with_mail = stage.node("web-2", lease=LEASE)
    stage.forward(minutes=12)
    assert stage.look() == [f"late task:{task.id}"]
    stage.sign_off(with_mail)
    stage.set_task(task.id, require=["gpu"])
    for _ in range(3):
        stage.forward(minutes=6)
        assert stage.look() == [f"late task:{task.id}"]


# A renamed task -------------------------------------------------------------------------------------------


def test_alerts_have_the_present_name_of_a_task(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("backup", "@on never", notify=("ops",))
    stage.task("calm", "@on dcron.recovered")
    run(stage, node, task, ok=False)
    renamed = stage.crontab.edit(task, {"name": "copy"})
    assert [alert.task for alert in every(stage)] == ["copy"]
    assert subjects(stage)[0].startswith("copy FAILING")
    run(stage, node, renamed)
    with stage.database.read() as connection:
        assert '"task": "copy"' in str(connection.scalar(select(events.c.payload)))
    stage.crontab.remove(renamed)
    assert [alert.task for alert in every(stage)] == ["backup"]


# Flapping -------------------------------------------------------------------------------------------------


def alternate(stage: WatchedStage, node: str, task: Task, times: int, minutes: float = 1) -> None:
    for _ in range(times):
        for ok in (False, True):
            run(stage, node, task, ok=ok)
            stage.forward(minutes=minutes)
            stage.look()


def test_a_task_that_alternates_opens_one_alert_until_it_is_quiet(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("flap", "@on never", notify=("ops",))
    alternate(stage, node, task, 2)
    assert stage.open() == []
    alternate(stage, node, task, 20)
    assert stage.open() == ["flapping task:1"]
    assert waiting(stage) == ["opened", "closed"] * 2 + ["opened"]
    shown = subjects(stage)
    assert shown[-1].startswith("flap FLAPPING")
    [alert] = [each for each in every(stage) if each.kind == "flapping"]
    assert (alert.times, alert.facts) == (20, {"kind": "failing", "opened": 3, "within": 3600.0})
    stage.forward(minutes=50)
    assert stage.look() == ["flapping task:1"]
    stage.forward(minutes=15)
    assert stage.look() == []
    assert subjects(stage) == ["flap no longer flapping after 1h 45m"]
    run(stage, node, task, ok=False)
    assert stage.open() == ["failing task:1"]
    assert waiting(stage) == ["opened"]


def test_a_slow_alternation_stays_flapping(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("flap", "@on never", notify=("ops",))
    alternate(stage, node, task, 3)
    subjects(stage)
    alternate(stage, node, task, 4, minutes=25)
    assert (stage.open(), waiting(stage)) == (["flapping task:1"], [])


def test_what_fails_for_good_is_reported_when_it_flaps_no_more(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("flap", "@on never", notify=("ops",))
    alternate(stage, node, task, 4)
    run(stage, node, task, ok=False)
    subjects(stage)
    stage.forward(minutes=30)
    assert (stage.look(), waiting(stage)) == (["failing task:1", "flapping task:1"], [])
    stage.forward(minutes=31)
    assert stage.look() == ["failing task:1"]
    first, second = sorted(subjects(stage))
    assert (first.partition(":")[0], second) == ("flap FAILING", "flap no longer flapping after 1h 5m")
    run(stage, node, task)
    assert waiting(stage) == ["closed"]


def test_another_kind_is_reported_beside(stage: WatchedStage) -> None:
    node = stage.node(lease=LEASE)
    task = stage.task("flap", "@on never", notify=("ops",), expect={"runtime": "..5s"})
    alternate(stage, node, task, 4)
    subjects(stage)
    run(stage, node, task, 8)
    assert stage.open() == ["flapping task:1", "too-long task:1"]
    assert len(subjects(stage)) == 1


@pytest.mark.parametrize(
    ("settings", "fields", "sent"),
    [
        ({"notify.flapping": "none"}, {}, ["opened", "closed"] * 5),
        ({"notify.flapping": "3m"}, {}, ["opened", "closed"] * 5),
        ({"notify.on": "failing"}, {}, ["opened", "closed"] * 2 + ["opened"]),
        ({}, {"notify_on": ("late",)}, []),
        ({}, {"notify_on": ("flapping",)}, ["opened"]),
    ],
)
def test_settings_say_what_flaps(
    stage: WatchedStage, settings: dict[str, str], fields: dict[str, Any], sent: Sequence[str]
) -> None:
    for name, value in settings.items():
        SharedSettings(stage.crontab).set(name, value)
    node, task = stage.node(lease=LEASE), stage.task("flap", "@on never", notify=("ops",), **fields)
    alternate(stage, node, task, 5)
    assert stage.sent() == sent


def test_a_pause_ends_the_flapping_and_is_none_itself(stage: WatchedStage) -> None:
    node, task = stage.node(lease=LEASE), stage.task("flap", "@on never", notify=("ops",))
    for _ in range(4):
        run(stage, node, stage.crontab.get(task.name), ok=False)
        stage.forward(minutes=1)
        stage.crontab.pause(stage.crontab.get(task.name))
        stage.look()
        stage.crontab.resume(stage.crontab.get(task.name))
    assert ends(stage) == [("failing", "paused")] * 4
    alternate(stage, node, stage.crontab.get(task.name), 3)
    assert stage.open() == ["flapping task:1"]
    stage.crontab.pause(stage.crontab.get(task.name))
    assert stage.look() == []


def test_a_reminder_of_a_flapping_task_is_sent_where_the_alert_was(stage: WatchedStage) -> None:
    SharedSettings(stage.crontab).set("notify.again", "10m")
    node = stage.node(lease=LEASE)
    task = stage.task("flap", "@on never", notify=("ops",), notify_on=("failing",))
    alternate(stage, node, task, 3)
    subjects(stage)
    stage.forward(minutes=11)
    stage.look()
    assert waiting(stage) == ["reminder"]
