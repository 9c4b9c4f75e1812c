"""The view of alerts, and the line that says what is wrong now."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dcron.model import Alert, Task
from dcron.services.alerts import Alerts
from dcron.services.dashboard import Activity, Counts
from dcron.store.listings import LateTasks
from dcron.tui.frame.alert_line import fitting
from dcron.values.lists import UnacknowledgedAlerts
from tests.support.alerts import insert_alert
from tests.support.statistics import ended_run, insert_runs
from tests.support.tui import Screen, Stage

EVIL = "\x1b]52;c;aGk=\x1b\\[/nope][@click=app.quit]x[/]\u202e\x9b31m\x1b[2J\r\n"


def failing(stage: Stage, name: str, **values: Any) -> tuple[Task, int]:
    """A task with a failed run, and its alert."""
    task, now = stage.add(name), stage.crontab.now()
    row = ended_run(now, "failed", 10, task_id=task.id, task=name, exit_code=3)
    (run_id,) = insert_runs(stage.database, [row])
    return task, insert_alert(stage.database, now, task, run_id=run_id, last_run_id=run_id, **values)


async def open_alerts(screen: Screen) -> None:
    await screen.press("6")
    await screen.until(lambda: screen.pane.title == "Alerts" and screen.table.rows and screen.table.has_focus)


def known(stage: Stage) -> list[str | None]:
    return [each.alert.acknowledged_note for each in Alerts(stage.crontab).page()]


@pytest.mark.slow
async def test_open_alerts_are_shown_by_kind_and_lead_to_the_runs(stage: Stage) -> None:
    _, mail = failing(stage, "mail")
    _, etl = failing(stage, "etl")
    node = insert_alert(stage.database, stage.crontab.now(), kind="node-lost", subject="node:web-2")
    async with stage.screen() as screen:
        await screen.shows("node web-2 has been lost since ")
        await screen.shows(", and 2 other alerts")
        await open_alerts(screen)
        assert list(screen.table.ids) == [etl, mail, node]
        lines = screen.lines()
        assert any(" mail " in line and "failing (2)" in line and "exit 3" in line for line in lines)
        assert all(len(line) <= 80 for line in lines)
        await screen.press("l")
        await screen.until(lambda: type(screen.app.screen).__name__ == "LogScreen")
        await screen.press("escape", "enter")
        await screen.until(lambda: screen.app.main.crumbs() == ["Alerts", "etl"])


@pytest.mark.slow
async def test_a_reason_is_asked_for_and_the_line_goes(stage: Stage) -> None:
    failing(stage, "mail")
    async with stage.screen() as screen:
        await screen.shows("mail has been failing since ")
        await open_alerts(screen)
        await screen.press("A", shows="acknowledge mail: failing?")
        await screen.press("escape")
        await screen.shows_not("acknowledge mail")
        assert known(stage) == [None]
        await screen.press("A", shows="acknowledge mail: failing?")
        await screen.enter("on it", shows="dcron ack 1 -m 'on it'")
        assert known(stage) == ["on it"]
        await screen.shows_not("mail has been failing since ")
        await screen.shows("on it; exit 3")


@pytest.mark.slow
async def test_nothing_is_wrong(stage: Stage) -> None:
    async with stage.screen(awaited="no tasks") as screen:
        await screen.press("6", shows="nothing is wrong: there are no open alerts")
        await screen.press("A", shows="nothing is selected")


@pytest.mark.slow
async def test_readonly_acknowledges_nothing(stage: Stage) -> None:
    failing(stage, "mail")
    async with stage.screen(readonly=True) as screen:
        await open_alerts(screen)
        await screen.press("A", shows="--readonly")
        assert known(stage) == [None]


@pytest.mark.slow
async def test_a_command_acknowledges_and_a_small_screen_shows_the_line(stage: Stage) -> None:
    failing(stage, "mail")
    async with stage.screen(size=(40, 10)) as screen:
        await screen.shows("mail has been failing since ")
        await screen.press("colon")
        await screen.enter("ack mail", shows="acknowledge mail: failing?")


@pytest.mark.slow
async def test_hostile_alerts_do_not_reach_the_screen(stage: Stage) -> None:
    now = stage.crontab.now() - timedelta(minutes=1)
    values: dict[str, Any] = {"acknowledged_note": EVIL, "acknowledged_by": EVIL, "facts": {"reason": EVIL}}
    insert_alert(stage.database, now, kind=EVIL[:40], subject=f"node:{EVIL}", **values)
    async with stage.screen(size=(130, 24), awaited="no tasks") as screen:
        await screen.press("6", shows="[/nope]")
        await screen.press("A", shows="acknowledge node")
        for strip in screen.strips():
            for character in strip.text:
                assert character.isprintable(), ascii(character)


# The line in words -------------------------------------------------------------------------------------

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


def counts(alert: Alert | None, others: int = 0, late: int = 0, dead: int = 0) -> Counts:
    found = UnacknowledgedAlerts(1 + others, alert) if alert else None
    since = NOON - timedelta(minutes=14) if late else None
    return Counts(9, Activity(0, None, found), 0, 0, LateTasks(late, since), dead)


def alert(kind: str = "failing", times: int = 1, name: str = "digest") -> Alert:
    values = dict.fromkeys(Alert.__dataclass_fields__) | {"id": 1, "kind": kind, "times": times}
    about = {"subject": "task:1", "task_id": 1, "task": name, "facts": {}}
    times_of_it = {"opened_at": NOON - timedelta(hours=3), "last_at": NOON}
    return Alert(**(values | about | times_of_it))  # type: ignore[arg-type]


def line(found: Counts, room: int) -> str:
    return "; ".join(text for text, _ in fitting(found, UTC, NOON, room))


def test_what_is_wrong_is_said_in_words() -> None:
    assert (
        line(counts(alert(times=3), 0, 2, 5), 120)
        == "digest failed 3 times since 09:00; 2 tasks are late, the longest by 14m; 5 dead letters"
    )
    assert line(counts(alert("late"), 1), 120) == "digest has been late since 09:00, and 1 other alert"
    assert line(counts(alert("unserved")), 120) == "digest has not been served by any agent since 09:00"
    assert line(counts(None, late=1), 120) == "1 task is late by 14m"
    assert line(counts(None, dead=1000), 120) == "1,000+ dead letters"
    assert line(counts(None), 120) == ""


def test_a_narrow_line_loses_words_from_its_end_and_then_the_middle_of_the_name() -> None:
    found = counts(alert(times=3), 2, 2, 5)
    assert line(found, 80).endswith("09:00, and 2 other alerts; 2 late (14m); 5 dead")
    assert line(found, 60) == "digest failed 3 times since 09:00 (+2); 2 late (14m); 5 dead"
    found = counts(alert(times=3, name="nightly-digest-of-the-orders-of-all-shops"), 2, 2, 5)
    shown = line(found, 70)
    assert len(shown) == 70
    assert shown.startswith("nightly")
    assert shown.endswith("shops failed 3 times since 09:00 (+2); 2 late (14m); 5 dead")
    assert "…" in shown
