"""The view of alerts, and the line that says what is wrong now."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dcron.model import Task
from dcron.services.alerts import Alerts
from tests.support.alerts import insert_alert
from tests.support.statistics import ended_run, insert_runs
from tests.support.tui import Screen, Stage

EVIL = "\x1b]52;c;aGk=\x1b\\[/nope][@click=app.quit]x[/]\u202e\x9b31m\x1b[2J\r\n"


def play(look: Callable[[], Any]) -> None:
    asyncio.run(look())


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
def test_open_alerts_are_shown_by_kind_and_lead_to_the_runs(stage: Stage) -> None:
    _, mail = failing(stage, "mail")
    _, etl = failing(stage, "etl")
    node = insert_alert(stage.database, stage.crontab.now(), kind="node-lost", subject="node:web-2")

    async def look() -> None:
        async with stage.screen() as screen:
            await screen.shows("node web-2: lost since ")
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

    play(look)


@pytest.mark.slow
def test_a_reason_is_asked_for_and_the_line_goes(stage: Stage) -> None:
    failing(stage, "mail")

    async def look() -> None:
        async with stage.screen() as screen:
            await screen.shows("mail: failing since ")
            await open_alerts(screen)
            await screen.press("A")
            await screen.shows("acknowledge mail: failing?")
            await screen.press("escape")
            await screen.shows_not("acknowledge mail")
            assert known(stage) == [None]
            await screen.press("A")
            await screen.shows("acknowledge mail: failing?")
            await screen.type("on it")
            await screen.press("enter")
            await screen.shows("dcron ack 1 -m 'on it'")
            assert known(stage) == ["on it"]
            await screen.shows_not("mail: failing since ")
            await screen.shows("on it; exit 3")

    play(look)


@pytest.mark.slow
def test_nothing_is_wrong(stage: Stage) -> None:
    async def look() -> None:
        async with stage.screen(awaited="no tasks") as screen:
            await screen.press("6")
            await screen.shows("nothing is wrong: there are no open alerts")
            await screen.press("A")
            await screen.shows("nothing is selected")

    play(look)


@pytest.mark.slow
def test_readonly_acknowledges_nothing(stage: Stage) -> None:
    failing(stage, "mail")

    async def look() -> None:
        async with stage.screen(readonly=True) as screen:
            await open_alerts(screen)
            await screen.press("A")
            await screen.shows("--readonly")
            assert known(stage) == [None]

    play(look)


@pytest.mark.slow
def test_a_command_acknowledges_and_a_small_screen_shows_the_line(stage: Stage) -> None:
    failing(stage, "mail")

    async def look() -> None:
        async with stage.screen(size=(40, 10)) as screen:
            await screen.shows("mail: failing since ")
            await screen.press("colon")
            await screen.type("ack mail")
            await screen.press("enter")
            await screen.shows("acknowledge mail: failing?")

    play(look)


@pytest.mark.slow
def test_hostile_alerts_reach_no_line_of_the_screen(stage: Stage) -> None:
    now = stage.crontab.now() - timedelta(minutes=1)
    values: dict[str, Any] = {"acknowledged_note": EVIL, "acknowledged_by": EVIL, "facts": {"reason": EVIL}}
    insert_alert(stage.database, now, kind=EVIL[:40], subject=f"node:{EVIL}", **values)

    async def look() -> None:
        async with stage.screen(size=(130, 24), awaited="no tasks") as screen:
            await screen.press("6")
            await screen.shows("[/nope]")
            await screen.press("A")
            await screen.shows("acknowledge node")
            for strip in screen.app.screen._compositor.render_strips():
                for character in strip.text:
                    assert character.isprintable(), ascii(character)

    play(look)
