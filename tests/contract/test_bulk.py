"""Changes of many tasks: exactly those that were shown, a page at a time, in one batch."""

import pytest

from dcron.errors import Conflict, NotFound, Refused, UsageError
from dcron.policy.selectors import Selector
from dcron.services.changes import selected as bulk
from dcron.services.changes.selected import Bulk
from dcron.services.history import History
from tests.support.stage import Stage


@pytest.fixture
def shop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Seven tasks of the shop; a page has three."""
    monkeypatch.setattr(bulk, "PAGE", 3)
    for number in range(7):
        stage.task(f"t{number}", labels={"team": "shop"})
    return stage


SHOP = Selector.parse("team=shop")


def test_tasks_that_others_changed_meanwhile_are_left_alone(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    shop.crontab.edit(chosen[1], {"command": "other"})
    shop.crontab.remove(chosen[5])
    result = Bulk(shop.crontab.acting()).pause([(task, None) for task in chosen], "moving")
    assert [task.name for task in result.done] == ["t0", "t2", "t3", "t4", "t6"]
    assert {name: type(error) for name, error in result.left.items()} == {"t1": Conflict, "t5": NotFound}
    assert shop.saved(chosen[1].id).enabled
    paused = [change for change in History(shop.crontab).changes(20) if change.action == "pause"]
    assert len(paused) == 5
    assert len({change.batch for change in paused}) == 1


def test_one_that_is_refused_does_not_stop_the_others(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    result = Bulk(shop.crontab).edit(
        [(task, {"timeout": -1.0 if task.name == "t1" else 5.0}) for task in chosen]
    )
    assert len(result.done) == 6
    assert isinstance(result.left["t1"], UsageError)
    assert shop.saved(chosen[6].id).timeout == 5.0
    assert shop.saved(chosen[1].id).timeout is None


def test_upstream_tasks_are_removed_after_their_downstream_tasks(shop: Stage) -> None:
    shop.task("a-first", labels={"team": "shop"})
    shop.task("z-last", "@after a-first", labels={"team": "shop"})
    result = Bulk(shop.crontab).remove(shop.crontab.selected(SHOP))
    assert (len(result.done), result.left) == (9, {})
    shop.task("first", labels={"team": "shop"})
    shop.task("other", "@after first")
    result = Bulk(shop.crontab).remove(shop.crontab.selected(SHOP))
    assert isinstance(result.left["first"], Refused)


def test_runs_of_many_tasks_are_made(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    shop.crontab.edit(chosen[0], {"command": "other"})
    result = Bulk(shop.crontab).run(chosen, "hello")
    assert [run.task for run in result.done] == [f"t{number}" for number in range(1, 7)]
    assert {run.payload for run in result.done} == {"hello"}
    assert isinstance(result.left["t0"], Conflict)
