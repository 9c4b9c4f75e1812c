"""The choice of columns, and a group's head under the cursor."""

from pathlib import Path

import pytest

from dcron.tui.look.state import TuiState
from tests.support.tui import Stage


@pytest.mark.slow
async def test_a_hidden_column_stays_hidden_and_a_group_is_no_task(stage: Stage, tmp_path: Path) -> None:
    for name, labels in (("shop-mail", {"team": "shop"}), ("shop-etl", {"team": "shop"}), ("report", {})):
        stage.add(name, labels=labels)
    path = tmp_path / "tui.json"
    async with stage.screen(state_file=path) as screen:
        await screen.shows("schedule")
        await screen.press("c", shows="[x] schedule")
        choices = TuiState.load(path)
        assert not choices.hidden
        await screen.press("down", "enter")
        await screen.until(lambda: TuiState.load(path).hidden)
        (hidden,) = TuiState.load(path).hidden["tasks"]
        await screen.until(lambda: screen.table.column_x(hidden) == 0)
    async with stage.screen(state_file=path) as screen:
        (hidden,) = screen.app.state.hidden["tasks"]
        assert screen.table.column_x(hidden) == 0
        await screen.press("b", shows="group by")
        await screen.press("enter", shows="team=shop: 2 tasks")
        await screen.shows("no team: 1 task")
        await screen.press("g")
        await screen.press("colon")
        await screen.type("why")
        await screen.press("enter")  # there is no task under the cursor
        await screen.shows("why needs TASK")
