"""The terminal's cursor for magnifiers, and rows that do not move while a user acts on them."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.tui import app as app_module
from dcron.tui.views import tasks
from dcron.tui.views.runs import RunsPane
from dcron.tui.views.tasks import TasksPane
from tests.support.tui import Screen, Stage

FIRST_ROW = 3
"""Below bar, tabs and titles."""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_cursor_of_the_terminal_is_on_the_row(stage: Stage) -> None:
    async with stage.screen("a", "b", "c") as screen:
        assert screen.app.cursor_position.y == FIRST_ROW
        await screen.press("j", "j")
        await screen.until(lambda: screen.app.cursor_position == (0, FIRST_ROW + 2))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_rows_are_not_sorted_just_after_a_key(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SETTLED", 0.0)
    monkeypatch.setattr(tasks, "IDS_SHARE", 0)
    asked = []
    async with stage.screen("a") as screen:
        screen.pane.sort_by("last")
        await screen.until(lambda: not screen.app.is_typing)
        monkeypatch.setattr(screen.pane, "reload", lambda: asked.append(screen.app.is_typing))
        screen.pane.refresh_data()
        assert asked == [False]
        monkeypatch.setattr(app_module, "TYPING_SECONDS", 1000.0)
        await screen.press("j")
        screen.pane.refresh_data()
        assert asked == [False]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_name_of_a_node_is_inert_in_the_breadcrumb(stage: Stage) -> None:
    async with stage.screen(awaited="no tasks yet") as screen:
        screen.app.main.drill(RunsPane(node_id="n", title="web\x1b[2J\u202e1"))
        await screen.shows("> web\N{REPLACEMENT CHARACTER}1")


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_panel_goes_on_with_the_clock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.screen("a", size=(130, 30)) as screen:
        await screen.shows("changed")
        health = screen.app.health
        health.paused = True  # nothing is read any more
        begun = health.now()
        for minutes in (2, 3, 4):
            monkeypatch.setattr(health, "now", lambda by=minutes + 0.5: begun + timedelta(minutes=by))
            await screen.shows(f"changed   {minutes}m ago by ann@desk")
        assert isinstance(screen.pane, TasksPane)
        drawn: list[int] = []
        monkeypatch.setattr(screen.pane.facts, "refresh", lambda: drawn.append(1))
        screen.pane.tick()
        assert not drawn  # what says the same is not drawn again


def row_differs(screen: Screen, before: str) -> bool:
    return screen.lines()[3] != before


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_rows_go_on_with_the_clock_and_those_that_rest_cost_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("a", "@every 4h")
    async with stage.screen() as screen:
        health = screen.app.health
        health.paused = True  # nothing is read any more
        begun = health.now()
        for seconds in (61, 122, 3700):
            monkeypatch.setattr(health, "now", lambda by=seconds: begun + timedelta(seconds=by))
            before = screen.lines()[3]
            await screen.until(partial(row_differs, screen, before))
        await screen.until(lambda: not screen.table._lively)
        drawn: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(screen.table, "_drawn", drawn.append)
            screen.table._ticks = 0
            screen.pane.tick()
        assert not drawn


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_pane_shows_when_a_task_starts_by_its_jitter(stage: Stage) -> None:
    stage.add("a", "30 2 * * *", jitter=600.0)
    async with stage.screen(size=(130, 30)) as screen:
        await screen.shows("by its jitter")


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_calendar_that_takes_out_many_days_leaves_room_for_the_rest(stage: Stage) -> None:
    today = datetime.now(UTC).date()
    days = [f"{today + timedelta(days=number)}" for number in range(-1, 6)]
    Calendars(stage.crontab).put(parse_calendar("summer", days))
    stage.add("a", "@hourly", except_calendar="summer")
    async with stage.screen(size=(130, 30)) as screen:
        await screen.shows("on calendar summer")
        await screen.shows("by ann@desk")
