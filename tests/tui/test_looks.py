"""What must be readable: the cursor row in every theme, and failures without colours."""

import asyncio
from typing import Any

import pytest
from textual.filter import Monochrome

from dcron.tui.theme import THEMES
from tests.support.tui import Screen, Stage

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def play(stage: Stage, do: Any, **settings: Any) -> None:
    stage.add("backup")
    stage.add("report")

    async def look() -> None:
        async with stage.screen(**settings) as screen:
            await do(screen)

    asyncio.run(look())


@pytest.mark.parametrize("theme", THEMES)
def test_the_cursor_row_differs_from_its_ground_as_much_as_any_other(stage: Stage, theme: str) -> None:
    async def do(screen: Screen) -> None:
        for look in ("ok", "failed", "quiet"):
            style = screen.table._style(f"cell--{look}", "table--cursor")
            assert style.color
            assert style.bgcolor
            if theme.startswith("ansi"):  # the terminal's own two colours, changed round
                assert style.color.is_default
                assert style.bgcolor.is_default
                assert style.reverse
            else:
                one, other = (sum(each.get_truecolor()) for each in (style.color, style.bgcolor))
                assert abs(one - other) > 250

    play(stage, do, theme=theme)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_without_colours_failures_are_not_dimmer_than_what_is_well(
    stage: Stage, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def do(screen: Screen) -> None:
        from textual.color import Color

        grey = {}
        assert any(isinstance(each, Monochrome) for each in screen.app._filters)
        for look in ("ok", "failed", "lost", "error", "late"):
            style = screen.table._style(f"cell--{look}")
            assert style.color
            assert style.bgcolor
            colour, ground = (Color(*each.get_truecolor()) for each in (style.color, style.bgcolor))
            grey[look] = abs(colour.brightness - ground.brightness)
            assert look == "ok" or style.bold
            assert look in ("ok", "late") or style.reverse
        assert min(grey.values()) == grey["ok"]

    play(stage, do, theme=theme)


@pytest.mark.slow
def test_ctrl_c_says_what_quits(stage: Stage) -> None:
    async def do(screen: Screen) -> None:
        await screen.press("ctrl+c")
        await screen.shows("ctrl+q quits")
        screen.app.clear_notifications()
        await screen.press("n", "ctrl+c")  # in a field, too, where nothing is chosen to be copied
        await screen.shows("ctrl+q quits")
        await screen.press("escape")

    play(stage, do)


def test_the_header_knows_of_runs_as_soon_as_the_rows_do(stage: Stage) -> None:
    from tests.support.stage import Stage as Agents

    async def do(screen: Screen) -> None:
        await screen.shows("R0  no agent is running")
        agents = Agents(stage.url)
        stage.crontab.run(stage.crontab.get("backup"))
        agents.now = stage.crontab.now()
        assert agents.take(agents.node("web-1"))
        await screen.shows("running")
        await screen.shows("R1")
        assert "no agent is running" not in screen.lines()[0]
        agents.database.close()

    play(stage, do)
