"""What a key makes the screen draw: no more than what changes."""

from typing import Any

import pytest
from textual.screen import Screen as TextualScreen
from textual.scrollbar import ScrollBar

from tests.support.tui import Stage, many


@pytest.mark.parametrize("size", [(80, 24)])
async def test_the_thumb_is_drawn_where_it_belongs(stage: Stage, size: tuple[int, int]) -> None:
    many(stage)
    async with stage.screen(size=size) as screen:
        bar = screen.table.vertical_scrollbar
        for key in ("pagedown", "j", "pagedown", "pageup", "end", "k", "home"):
            await screen.press(key)
            shown = _drawn(screen, bar)
            bar.refresh()
            await screen.pilot.pause()
            assert shown == _drawn(screen, bar), key


def _drawn(screen: Any, bar: ScrollBar) -> list[str]:
    strips = screen.strips()
    column = bar.region.x
    return [repr(list(strip.crop(column, column + 1))) for strip in strips]


@pytest.mark.parametrize("size", [(120, 40)])
async def test_other_details_do_not_place_the_widgets_anew(
    stage: Stage, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("short", "@every 1h")
    stage.add("with-labels", "*/5 * * * *", labels={"team": "shop"}, describe="Bills\nof the shop")
    layouts = 0
    async with stage.screen(size=size) as screen:
        await screen.shows("every hour")
        await screen.until(lambda: screen.app.counts)
        place = TextualScreen._refresh_layout

        def counted(self: TextualScreen[Any], *arguments: Any, **options: Any) -> None:
            nonlocal layouts
            layouts += 1
            place(self, *arguments, **options)

        monkeypatch.setattr(TextualScreen, "_refresh_layout", counted)
        await screen.press("j", shows="of the shop")
        await screen.press("k", shows="every hour")
    assert layouts == 0


@pytest.mark.parametrize("size", [(80, 24)])
async def test_a_page_draws_each_row_once(
    stage: Stage, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    many(stage)
    drawn: list[int] = []
    async with stage.screen(size=size) as screen:
        table = screen.table
        await screen.until(lambda: all(i in table.rows for i in table.visible_ids(margin=20)))
        await screen.pilot.pause()
        row = type(table)._row

        def noted(self: Any, position: int) -> Any:
            drawn.append(position)
            return row(self, position)

        monkeypatch.setattr(table, "tick", lambda: None)
        monkeypatch.setattr(type(table), "_row", noted)
        await screen.press("pagedown")
        await screen.until(lambda: table.cursor > 0)
        await screen.pilot.pause()
        assert sorted(drawn) == sorted(set(drawn))
        assert len(drawn) <= len(table.visible_ids())
