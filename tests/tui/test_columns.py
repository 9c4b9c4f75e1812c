"""The choice of columns, and groups by the beginnings of names."""

import asyncio
from pathlib import Path

import pytest

from dcron.services.dashboard import BY_PREFIX, Dashboard
from dcron.tui.state import TuiState
from tests.support.tui import Stage


def test_groups_by_what_names_begin_with(stage: Stage) -> None:
    ids = {name: stage.add(name).id for name in ("shop-mail", "shop.etl", "report", "etl-x")}
    groups = Dashboard(stage.crontab).task_groups((), "name", BY_PREFIX, reverse=False)
    assert [(group.value, set(group.ids)) for group in groups] == [
        ("shop", {ids["shop-mail"], ids["shop.etl"]}),
        (None, {ids["report"], ids["etl-x"]}),
    ]


@pytest.mark.slow
def test_a_hidden_column_stays_hidden_and_names_are_grouped(stage: Stage, tmp_path: Path) -> None:
    for name in ("shop-mail", "shop-etl", "report"):
        stage.add(name)
    path = tmp_path / "tui.json"

    async def hide() -> None:
        async with stage.screen(state_file=path) as screen:
            await screen.shows("schedule")
            await screen.press("c")
            await screen.shows("[x] schedule")
            choices = TuiState.load(path)
            assert not choices.hidden
            await screen.press("down", "enter")
            await screen.until(lambda: TuiState.load(path).hidden)
            (hidden,) = TuiState.load(path).hidden["tasks"]
            await screen.until(lambda: screen.table.column_x(hidden) == 0)

    async def see() -> None:
        async with stage.screen(state_file=path) as screen:
            (hidden,) = screen.app.state.hidden["tasks"]
            assert screen.table.column_x(hidden) == 0
            await screen.press("b")
            await screen.shows("name prefix")
            await screen.press("enter")
            await screen.shows("shop*: 2 tasks")
            await screen.shows("other names: 1 task")
            await screen.press("g")
            await screen.press("colon")
            await screen.type("why")
            await screen.press("enter")  # there is no task under the cursor
            await screen.shows("why needs TASK")

    asyncio.run(hide())
    asyncio.run(see())
