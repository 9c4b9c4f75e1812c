"""What may come after what: refused when it is written, by names."""

import pytest

from dcron.errors import Refused, ScheduleError, UsageError
from dcron.services.crontab import BadLines
from tests.contract.stage import Stage, definition


def circle(stage: Stage) -> None:
    stage.task("a", "0 0 1 1 *")
    stage.task("b", "@after a")
    stage.task("c", "@after b")


def test_a_cycle_is_refused_by_its_names_and_nothing_is_written(stage: Stage) -> None:
    circle(stage)
    with pytest.raises(ScheduleError, match="a -> b -> c -> a"):
        stage.crontab.edit(stage.crontab.get("a"), {"schedule": "@after c"})
    with pytest.raises(ScheduleError, match="b -> c -> b"):
        stage.crontab.edit(stage.crontab.get("b"), {"schedule": "@after a,c"})
    with pytest.raises(UsageError, match="cannot come after itself"):
        stage.task("d", "@after d")
    assert stage.crontab.get("a").schedule == "0 0 1 1 *"
    assert stage.crontab.around(stage.crontab.get("a")) == {"a": (), "b": ("a",), "c": ("b",)}


def test_a_cycle_is_refused_though_the_lines_turn_is_claimed_just_now(stage: Stage) -> None:
    circle(stage)
    task, node = stage.task("d"), stage.node()
    stage.task("e", "@after d")
    stage.forward(minutes=10)
    assert len(stage.claim(node)) == 1
    with pytest.raises(ScheduleError, match="d -> e -> d"):
        stage.crontab.edit(task, {"schedule": "@after e"})


def test_a_cycle_in_a_file_is_refused(stage: Stage) -> None:
    lines = [definition("x", "@after z"), definition("y", "@after x"), definition("z", "@after y")]
    with pytest.raises(BadLines, match="x -> y -> z -> x"):
        stage.crontab.import_lines(lines)
    assert list(stage.crontab.tasks()) == []
    lines[0] = definition("x", "0 0 1 1 *")
    stage.crontab.import_lines(lines[::-1])
    with pytest.raises(UsageError, match="->"):
        stage.crontab.import_lines([definition("x", "@after z")])


def test_what_comes_after_nothing_is_refused(stage: Stage) -> None:
    with pytest.raises(ScheduleError, match="@after nobody: there is no such task"):
        stage.task("a", "@after nobody")
    with pytest.raises(BadLines, match="@after nobody"):
        stage.crontab.import_lines([definition("a", "@after nobody")])


def test_what_others_come_after_is_neither_removed_nor_renamed(stage: Stage) -> None:
    circle(stage)
    with pytest.raises(Refused, match="b comes after a"):
        stage.crontab.remove(stage.crontab.get("a"))
    with pytest.raises(Refused, match="c comes after b"):
        stage.crontab.edit(stage.crontab.get("b"), {"name": "other"})
    with pytest.raises(Refused, match="b comes after a"):
        stage.crontab.edit(stage.crontab.get("a"), {"every_node": True})
    stage.crontab.edit(stage.crontab.get("c"), {"schedule": "@after a"})
    stage.crontab.remove(stage.crontab.get("b"))
    stage.crontab.edit(stage.crontab.get("c"), {"name": "last"})


def test_nothing_comes_after_what_runs_on_every_node(stage: Stage) -> None:
    stage.task("everywhere", every_node=True)
    with pytest.raises(ScheduleError, match="runs on every node"):
        stage.task("b", "@after everywhere")
