"""Changes of many tasks: exactly those that were shown, a page at a time, in one batch."""

import pytest

from dcron.errors import Conflict, NotFound, Refused, UsageError
from dcron.policy.selectors import Selector
from dcron.services.changes import transactions
from dcron.services.changes.changeset import ALONE, Change, edited, paused
from dcron.services.history import History
from tests.support.stage import Stage


@pytest.fixture
def shop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Seven tasks of the shop; a page has three."""
    monkeypatch.setattr(transactions, "CHOSEN", 3)
    for number in range(7):
        stage.task(f"t{number}", labels={"team": "shop"})
    return stage


SHOP = Selector.parse("team=shop")


def test_tasks_that_others_changed_meanwhile_are_left_alone(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    shop.crontab.edit(chosen[1], {"command": "other"})
    shop.crontab.remove(chosen[5])
    pauses = [paused(task, "moving", None, "ann") for task in chosen]
    result = shop.crontab.acting().change(pauses, ALONE)
    assert [task.name for task in result.tasks] == ["t0", "t2", "t3", "t4", "t6"]
    assert {name: type(error) for name, error in result.left.items()} == {"t1": Conflict, "t5": NotFound}
    assert shop.saved(chosen[1].id).enabled
    recorded = [change for change in History(shop.crontab).changes(20) if change.action == "pause"]
    assert len(recorded) == 5
    assert len({change.batch for change in recorded}) == 1


def test_one_that_is_refused_does_not_stop_the_others(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    edits = [edited(task, {"timeout": -1.0 if task.name == "t1" else 5.0}) for task in chosen]
    result = shop.crontab.change(edits, ALONE)
    assert len(result.done) == 6
    assert isinstance(result.left["t1"], UsageError)
    assert shop.saved(chosen[6].id).timeout == 5.0
    assert shop.saved(chosen[1].id).timeout is None


def test_upstream_tasks_are_removed_after_their_downstream_tasks(shop: Stage) -> None:
    shop.task("a-first", labels={"team": "shop"})
    shop.task("z-last", "@after a-first", labels={"team": "shop"})
    result = shop.crontab.change([Change(task, None) for task in shop.crontab.selected(SHOP)], ALONE)
    assert (len(result.done), result.left) == (9, {})
    shop.task("first", labels={"team": "shop"})
    shop.task("other", "@after first")
    result = shop.crontab.change([Change(task, None) for task in shop.crontab.selected(SHOP)], ALONE)
    assert isinstance(result.left["first"], Refused)


def test_runs_of_many_tasks_are_made(shop: Stage) -> None:
    chosen = shop.crontab.selected(SHOP)
    shop.crontab.edit(chosen[0], {"command": "other"})
    made, left = shop.crontab.run_chosen(chosen, "hello")
    assert [run.task for run in made] == [f"t{number}" for number in range(1, 7)]
    assert {run.payload for run in made} == {"hello"}
    assert isinstance(left["t0"], Conflict)
