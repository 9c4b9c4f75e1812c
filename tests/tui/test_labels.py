"""Labels on the screen: the filter by label, and groups of tasks."""

from typing import cast

import pytest

from dcron.errors import UsageError
from dcron.model import RunState
from dcron.store.tasks.search_terms import TASK_FIELDS
from dcron.tui.table.filters import parse_filter
from dcron.tui.views.tasks import TasksPane
from dcron.values.lists import Term
from tests.support.stage import Stage as Agents
from tests.support.tui import Stage


def fill(stage: Stage) -> None:
    """Two teams, one task without one; the task `a` has failed."""
    for name, labels in (("a", {"team": "shop"}), ("b", {"team": "api"}), ("c", {"team": "shop"}), ("d", {})):
        stage.add(name, labels=labels)
    agents = Agents(stage.url)
    agents.now = stage.crontab.now()
    stage.crontab.run(stage.crontab.get("a"))
    node = agents.node(lease=3600)
    agents.now = stage.crontab.now()
    for claimed in agents.take(node):
        agents.finish(node, claimed.id, RunState.FAILED, exit_code=3)
    agents.database.close()


def test_a_filter_takes_selectors() -> None:
    assert parse_filter("label:team=shop,tier!=gold", TASK_FIELDS) == (Term("label", "team=shop,tier!=gold"),)
    assert parse_filter("!label:team", TASK_FIELDS) == (Term("label", "team", negated=True),)
    with pytest.raises(UsageError, match="'Team' is not a label's key"):
        parse_filter("label:Team=x", TASK_FIELDS)


@pytest.mark.slow
async def test_the_filter_by_label_shows_its_tasks_and_is_completed(stage: Stage) -> None:
    fill(stage)
    async with stage.screen(size=(100, 24)) as screen:
        await screen.press("slash")
        await screen.type("label:te")
        await screen.press("tab", shows="label:team=")
        await screen.type("s")
        await screen.press("tab", shows="label:team=shop")
        await screen.press("enter")
        await screen.until(lambda: len(screen.table.ids) == 2)


async def test_tasks_are_grouped_by_a_label_and_groups_fold(stage: Stage) -> None:
    fill(stage)
    async with stage.screen(size=(100, 24)) as screen:
        await screen.press("b", shows="group by")
        await screen.enter("team", shows="team=shop: 2 tasks")
        assert "1 failed" in next(line for line in screen.lines() if "team=shop" in line)
        await screen.shows("no team: 1 task")
        assert len(screen.table.ids) == 7
        await screen.press("g", "enter")
        await screen.until(lambda: len(screen.table.ids) == 6)
        await screen.press("B")
        await screen.until(lambda: len(screen.table.ids) == 3)
        await screen.press("w", "h", "R", "e", "y", "space", "a", "l")  # they are for one task
        await screen.shows("this is a group")
        assert screen.app.screen is screen.app.main
        assert screen.table.marks == set()
        await screen.press("B")
        await screen.until(lambda: len(screen.table.ids) == 7)


@pytest.mark.slow
async def test_keys_on_the_head_of_a_group_ask_and_act_on_its_tasks(stage: Stage) -> None:
    fill(stage)

    def are_enabled() -> list[bool]:
        return [stage.crontab.get(name).enabled for name in "abcd"]

    async with stage.screen(size=(100, 30)) as screen:
        cast("TasksPane", screen.pane)._group_by("team")
        await screen.shows("team=shop: 2 tasks")
        await screen.press("B")
        await screen.until(lambda: len(screen.table.ids) == 3)
        screen.table.move_to(1)
        await screen.press("r", shows="run 2 tasks of team=shop now?")
        await screen.press("n", "D", shows="delete 2 tasks of team=shop?")
        await screen.press("n", "s", shows="pause 2 tasks of team=shop: why?")
        await screen.shows("a, c")
        await screen.press("enter")
        await screen.until(lambda: are_enabled() == [False, True, False, True])
        await screen.press("s", shows="resume 2 tasks of team=shop?")
        await screen.press("y")
        await screen.until(lambda: all(are_enabled()))
    assert len(list(stage.crontab.names("", 9))) == 4


@pytest.mark.slow
async def test_without_labels_there_is_nothing_to_group_by(stage: Stage) -> None:
    async with stage.screen("shop-mail", "shop-etl", size=(100, 24)) as screen:
        await screen.press("b", shows="no task has a label to group by")
        assert len(screen.table.ids) == 2
