"""Filters with `|`, and saved filters as tabs."""

from pathlib import Path
from typing import Any

import pytest

from dcron.errors import UsageError
from dcron.services.dashboard import TASK_TERMS, Dashboard
from dcron.tui.table.filter_counts import FilterCount, FilterCounts
from dcron.tui.table.filters import MOST_TERMS, parse_filter, with_errors
from dcron.values.lists import Term
from tests.support.tui import Screen, Stage


def found(stage: Stage, text: str) -> list[str]:
    board = Dashboard(stage.crontab)
    ids = board.task_ids(parse_filter(text, TASK_TERMS), "name", reverse=False)
    tasks = board.crontab.tasks_by_id(ids)
    return [tasks[task_id].name for task_id in ids]


def names(screen: Screen) -> list[str]:
    return [screen.table.rows[each].task.name for each in screen.table.ids if each in screen.table.rows]


def test_a_bar_between_words_means_or(stage: Stage) -> None:
    for name in ("shop-mail", "shop-etl", "report", "backup"):
        stage.add(name)
    stage.crontab.pause(stage.crontab.get("backup"))
    assert found(stage, "shop mail | report") == ["report", "shop-mail"]
    assert found(stage, "shop !mail | paused") == ["backup", "shop-etl"]
    assert found(stage, "report |") == found(stage, "| report") == ["report"]
    assert found(stage, "|") == found(stage, "")
    assert found(stage, "name: | report") == ["backup", "report", "shop-etl", "shop-mail"]


def test_all_words_of_a_filter_count() -> None:
    assert parse_filter("late", TASK_TERMS) == (Term("late"),)
    assert parse_filter("a | b", TASK_TERMS)[0].alternatives == ((Term("text", "a"),), (Term("text", "b"),))
    with pytest.raises(UsageError, match="the limit is"):
        parse_filter(" | ".join("x" * (MOST_TERMS + 1)), TASK_TERMS)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_saved_filter_is_a_tab_also_in_the_next_session(
    stage: Stage, tmp_path: Path, size: tuple[int, int]
) -> None:
    for name in ("shop-mail", "report", "backup"):
        stage.add(name)
    settings: dict[str, Any] = {"state_file": tmp_path / "tui.json", "unicode": size[0] > 80}
    async with stage.screen(size=size, **settings) as screen:
        await screen.press("f", shows="no filter is saved here")
        await screen.press("slash")
        await screen.enter("report | shop")
        await screen.shows_not("backup")
        await screen.press("F", shows="save the filter report | shop as")
        await screen.enter("week", shows=" all  week 2")
    async with stage.screen(size=size, **settings) as screen:
        await screen.shows(" all  week 2")
        await screen.press("f")
        await screen.until(lambda: names(screen) == ["report", "shop-mail"])
        await screen.press("f")
        await screen.until(lambda: len(screen.table.ids) == 3)
        await screen.pilot.click(screen.app.main.query_one("FilterTabs"), offset=(7, 0))
        await screen.until(lambda: names(screen) == ["report", "shop-mail"])
        await screen.press("F")
        await screen.shows_not(" all  week")


async def test_a_long_filter_leaves_room_for_the_number_of_rows(stage: Stage) -> None:
    for number in range(3):
        stage.add(f"shop-{number}")
    async with stage.screen(readonly=True) as screen:
        screen.app.filter_rows("name:shop | name:mail | command:report-of-the-orders")
        await screen.shows("/nam~ders 1/3")
        (tabs,) = (line for line in screen.lines() if "6 Alerts" in line)
        assert tabs.endswith("/nam~ders 1/3")
        screen.app.filter_rows("shop")
        await screen.shows("/shop 1/3")


def test_errors_only_has_a_word_in_filters(stage: Stage) -> None:
    for name in ("shop", "mail"):
        stage.add(name)
    assert with_errors("") == "errors"
    assert with_errors("| shop | mail |") == "shop errors | mail errors"
    assert found(stage, "errors") == []
    assert found(stage, "!errors") == ["mail", "shop"]


@pytest.mark.slow
async def test_the_view_of_errors_only_is_saved_as_a_filter(stage: Stage, tmp_path: Path) -> None:
    async with stage.screen("shop", "mail", state_file=tmp_path / "tui.json") as screen:
        await screen.press("x", "F", shows="save the filter errors as")
        await screen.enter("bad", shows=" all  bad")
        await screen.press("f")  # it is in force: the next one is all rows
        await screen.until(lambda: len(screen.table.ids) == 2)
        await screen.press("f")
        await screen.until(lambda: screen.pane.filter_text == "errors" and not screen.table.ids)
        await screen.press("F")
        await screen.shows_not(" all  bad")
        await screen.press("4", "F", shows="filters are not saved on this page")


def test_counts_are_bounded_and_taken_in_turn() -> None:
    assert [str(FilterCount(*each)) for each in ((12,), (12, True), (100,))] == ["12", "12+", "99+"]
    counts, texts = FilterCounts(), ["a", "b"]
    assert counts.next_due("tasks", texts, 5.0) == "a"
    counts.take("tasks", "a", FilterCount(3), 0.001, 5.0)
    assert counts.next_due("tasks", texts, 5.0) == "b"
    counts.take("tasks", "b", None, 1.0, 5.0)
    assert counts.next_due("tasks", texts, 30.0) is None
    assert counts.next_due("tasks", texts, 36.0) == "a"
    assert counts.of_view("tasks") == {"a": FilterCount(3)}
    assert counts.of_view("runs") == {}


def test_tasks_are_counted_up_to_a_number(stage: Stage) -> None:
    for name in ("shop-mail", "shop-etl", "report"):
        stage.add(name)
    board = Dashboard(stage.crontab)
    assert [board.count_tasks(parse_filter("shop", TASK_TERMS), most) for most in (100, 1)] == [2, 1]
