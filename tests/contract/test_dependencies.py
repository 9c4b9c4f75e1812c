"""What may come after what: refused when it is written, by names."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from dcron.database import open_database
from dcron.errors import Conflict, Refused, ScheduleError, UsageError
from dcron.services.bulk_edit import BulkEdit
from dcron.services.changes import dependency_rules
from dcron.services.changes.imported import InvalidTasks
from dcron.services.crontab import Crontab
from dcron.store.planning import dependencies
from tests.support.patience import PATIENCE
from tests.support.stage import Stage, definition


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
    assert stage.crontab.dependency_graph(stage.crontab.get("a")) == {"a": (), "b": ("a",), "c": ("b",)}


def test_a_cycle_is_refused_though_the_task_s_run_is_claimed_just_now(stage: Stage) -> None:
    circle(stage)
    task, node = stage.task("d"), stage.node()
    stage.task("e", "@after d")
    stage.forward(minutes=10)
    assert len(stage.claim(node)) == 1
    with pytest.raises(ScheduleError, match="d -> e -> d"):
        stage.crontab.edit(task, {"schedule": "@after e"})


def test_a_cycle_in_a_file_is_refused(stage: Stage) -> None:
    lines = [definition("x", "@after z"), definition("y", "@after x"), definition("z", "@after y")]
    with pytest.raises(InvalidTasks, match="x -> y -> z -> x"):
        stage.crontab.import_tasks(lines)
    assert list(stage.crontab.tasks()) == []
    lines[0] = definition("x", "0 0 1 1 *")
    stage.crontab.import_tasks(lines[::-1])
    with pytest.raises(UsageError, match="->"):
        stage.crontab.import_tasks([definition("x", "@after z")])


def test_what_comes_after_nothing_is_refused(stage: Stage) -> None:
    with pytest.raises(ScheduleError, match="@after nobody: there is no such task"):
        stage.task("a", "@after nobody")
    with pytest.raises(InvalidTasks, match="@after nobody"):
        stage.crontab.import_tasks([definition("a", "@after nobody")])


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


def test_more_tasks_than_one_flow_may_have_are_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MOST_TASKS", 4)
    chain = [definition("a"), *(definition(each, f"@after {up}") for up, each in pairwise("abcd"))]
    stage.crontab.import_tasks(chain)
    with pytest.raises(ScheduleError, match="more than 4 tasks would be connected"):
        stage.task("e", "@after d")
    with pytest.raises(InvalidTasks, match="more than 4 tasks"):
        stage.crontab.import_tasks([definition("e"), definition("f", "@after a,e")])
    stage.task("e")
    with pytest.raises(ScheduleError, match="more than 4 tasks"):
        stage.crontab.edit(stage.crontab.get("a"), {"schedule": "@after e"})
    stage.crontab.edit(stage.crontab.get("d"), {"schedule": "@daily"})
    stage.task("f", "@after c")


# Two people at once ---------------------------------------------------------------------------------


@pytest.fixture
def people(database_url: str, stage: Stage) -> Iterator[list[Crontab]]:
    """Two of them, with connections of their own."""
    databases = [open_database(database_url, clock=lambda: stage.now) for _ in range(2)]
    yield [Crontab(database, f"person-{number}") for number, database in enumerate(databases)]
    for database in databases:
        database.close()


@pytest.fixture
def slow_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that has read the order of tasks goes on only after a while."""
    for name in ("problem_of", "require_no_downstream"):
        check = getattr(dependency_rules, name)

        def then_wait(*given: object, check: Callable[..., object] = check) -> object:
            found = check(*given)
            time.sleep(0.2)
            return found

        monkeypatch.setattr(dependency_rules, name, then_wait)


def at_once(*errands: Callable[[], object]) -> int:
    """How many of these were refused."""
    barrier = threading.Barrier(len(errands), timeout=PATIENCE)

    def refused(errand: Callable[[], object]) -> bool:
        barrier.wait()
        try:
            errand()
        except (Refused, UsageError, Conflict):
            return True
        return False

    with ThreadPoolExecutor(len(errands)) as pool:
        return sum(pool.map(refused, errands))


@pytest.mark.usefixtures("slow_checks")
def test_two_at_once_do_not_close_a_circle(stage: Stage, people: list[Crontab]) -> None:
    ann, ben = people
    x, y = stage.task("x"), stage.task("y")
    assert (
        at_once(lambda: ann.edit(x, {"schedule": "@after y"}), lambda: ben.edit(y, {"schedule": "@after x"}))
        == 1
    )


@pytest.mark.slow
@pytest.mark.usefixtures("slow_checks")
@pytest.mark.parametrize("what", ["remove", "rename", "every_node", "text"])
def test_what_a_task_was_put_behind_meanwhile_stays(stage: Stage, people: list[Crontab], what: str) -> None:
    ann, ben = people
    up, _ = stage.task("up"), stage.task("other")
    editing = BulkEdit(ann, "UTC")
    draft = editing.text()
    changes = editing.check(draft, draft.text.replace("name=up", "name=above"))
    assert changes.changes
    errands = {
        "remove": lambda: ann.remove(up),
        "rename": lambda: ann.edit(up, {"name": "above"}),
        "every_node": lambda: ann.edit(up, {"every_node": True}),
        "text": lambda: editing.apply(changes),
    }
    assert at_once(errands[what], lambda: ben.add(definition("dn", "@after up"))) == 1


@pytest.mark.usefixtures("slow_checks")
def test_a_file_that_is_imported_meanwhile_closes_no_circle(stage: Stage, people: list[Crontab]) -> None:
    ann, ben = people
    stage.task("x")
    y = stage.task("y")
    assert (
        at_once(
            lambda: ann.import_tasks([definition("x", "@after y")]),
            lambda: ben.edit(y, {"schedule": "@after x"}),
        )
        == 1
    )


def test_a_task_of_a_standing_circle_may_be_paused(stage: Stage) -> None:
    circle(stage)
    stage.sql("UPDATE crontab SET schedule = '@after c', version = version + 1 WHERE name = 'a'")
    stage.plan()
    assert not stage.crontab.pause(stage.crontab.get("a")).enabled
