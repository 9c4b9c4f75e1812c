"""The ways to change tasks, side by side: what each does when another user was first, and whom it asks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dcron.errors import Conflict, DcronError, NotFound, Refused
from dcron.model import Definition, Task
from dcron.policy.ownership import Permissions
from dcron.services.bulk_edit import BulkEdit
from dcron.services.changes.applied import Apply, Request
from dcron.services.changes.changeset import ALONE, Change, edited, paused
from dcron.services.changes.restored import DumpService
from dcron.services.crontab import Crontab
from dcron.services.settings import SharedSettings
from dcron.services.undo import Undo
from dcron.sources import Place, SourceTask
from dcron.sources.dump import DumpedTask
from dcron.tui.forms import saving
from tests.contract.test_crontab import change_log, other
from tests.support.stage import Stage, definition

SHOP = "shop/cron"
Write = Callable[[], object]
Prepare = Callable[[Crontab, Task], Write]
"""Makes ready a change of a task, as it is read now, and returns what writes it."""


def _source(*definitions: Definition, **was: str) -> list[SourceTask]:
    return [
        SourceTask(each, Place("f", line), was.get(each.name)) for line, each in enumerate(definitions, 1)
    ]


def _changed(task: Task) -> Definition:
    return replace(task.definition(), command="changed")


def _import(crontab: Crontab, task: Task) -> Write:
    agreed = crontab.import_tasks([_changed(task)], "import:web", adopt=True, dry_run=True)
    return lambda: crontab.import_tasks([_changed(task)], "import:web", adopt=True, agreed=agreed)


def _apply(crontab: Crontab, task: Task) -> Write:
    service, allowed = Apply(crontab), Permissions(adopt=True, overwrite=True)
    plan = service.check(_source(_changed(task)), Request(SHOP, allowed))
    return lambda: service.apply(plan)


def _edit(crontab: Crontab, task: Task) -> Write:
    editing = BulkEdit(crontab, "UTC")
    draft = editing.text([task.name])
    changes = editing.check(draft, draft.text.replace(" true", " changed"))
    return lambda: editing.apply(changes)


def _restore(crontab: Crontab, task: Task) -> Write:
    service = DumpService(crontab)
    dump = service.dump()
    wanted = replace(dump.tasks[task.name].state, definition=_changed(task))
    dump = replace(dump, tasks={task.name: DumpedTask(state=wanted)})
    agreed = service.compare(dump)
    return lambda: service.apply(dump, agreed)


def _undo(crontab: Crontab, task: Task) -> Write:
    """Undo the change that gave the task its command `true`."""
    service = Undo(crontab)
    found = service.last_of(task.name)
    service.check(found)
    return lambda: service.undo(found)


def _alone(crontab: Crontab, change: Change) -> Write:
    return lambda: crontab.change([change], ALONE).require_all()


def _form(crontab: Crontab, task: Task) -> Write:
    return lambda: saving.change(crontab, task, _changed(task))


ACTS: dict[str, Prepare] = {
    "import": _import,
    "apply": _apply,
    "edit": _edit,
    "restore": _restore,
    "undo": _undo,
    "set -l": lambda crontab, task: _alone(crontab, edited(task, {"command": "changed"})),
    "rm -l": lambda crontab, task: _alone(crontab, Change(task, None)),
    "pause -l": lambda crontab, task: _alone(crontab, paused(task, None, None, crontab.actor)),
    "set": lambda crontab, task: lambda: crontab.edit(task, {"command": "changed"}),
    "rm": lambda crontab, task: lambda: crontab.remove(task),
    "pause": lambda crontab, task: lambda: crontab.pause(task),
    "form": _form,
}
ASK_THE_OWNER = ("import", "edit", "set -l", "rm -l", "set", "rm", "form")
NAME_WHO_WAS_FIRST = tuple(act for act in ACTS if act not in ("import", "restore", "undo"))


def _task(stage: Stage) -> Task:
    """A task whose last change is one of its command, to `true`."""
    stage.crontab.add(definition("a", command="before"))
    return stage.crontab.acting().edit(stage.crontab.get("a"), {"command": "true"})


def _owned(stage: Stage) -> Task:
    """The same of a source."""
    stage.set_task(_task(stage).id, source=SHOP)
    wanted = definition("a", command="before")
    service = Apply(stage.crontab)
    service.apply(service.check(_source(wanted), Request(SHOP, Permissions(overwrite=True))))
    return stage.crontab.acting().edit(stage.crontab.get("a"), {"command": "true"})


@pytest.mark.parametrize("act", ASK_THE_OWNER)
def test_some_acts_ask_whether_owned_tasks_may_be_changed(stage: Stage, act: str) -> None:
    task = _owned(stage)
    SharedSettings(stage.crontab).set("edits.owned", "refuse")
    with pytest.raises(Refused, match=r"a belongs to shop/cron.*edits.owned refuses"):
        ACTS[act](stage.crontab.acting(), task)()
    assert stage.saved(task.id) == task


@pytest.mark.parametrize("act", [act for act in ACTS if act not in ASK_THE_OWNER])
def test_other_acts_change_owned_tasks_all_the_same(stage: Stage, act: str) -> None:
    task = _owned(stage)
    SharedSettings(stage.crontab).set("edits.owned", "refuse")
    ACTS[act](stage.crontab.acting(), task)()
    assert stage.saved(task.id) != task


@pytest.mark.parametrize("act", ACTS)
def test_a_pause_meanwhile_is_a_conflict_for_all_but_apply(stage: Stage, act: str) -> None:
    task = _task(stage)
    write = ACTS[act](stage.crontab.acting(), task)
    paused = other(stage).pause(task, "broken disk")
    if act == "apply":
        write()
        assert (stage.saved(task.id).command, stage.saved(task.id).paused_reason) == (
            "changed",
            "broken disk",
        )
        return
    with pytest.raises(Conflict) as refused:
        write()
    assert ("bob@laptop" in str(refused.value)) == (act in NAME_WHO_WAS_FIRST)
    assert stage.saved(task.id) == paused


@pytest.mark.parametrize("act", ACTS)
def test_a_change_meanwhile_is_not_lost(stage: Stage, act: str) -> None:
    task = _task(stage)
    write = ACTS[act](stage.crontab.acting(), task)
    changed = other(stage).edit(task, {"timeout": 5.0})
    with pytest.raises(Conflict) as refused:
        write()
    assert ("bob@laptop" in str(refused.value)) == (act in NAME_WHO_WAS_FIRST)
    assert stage.saved(task.id) == changed


@pytest.mark.parametrize("act", [act for act in ACTS if act != "import"])
def test_a_task_that_was_removed_meanwhile_stays_removed(stage: Stage, act: str) -> None:
    task = _task(stage)
    write = ACTS[act](stage.crontab.acting(), task)
    other(stage).remove(task)
    with pytest.raises(DcronError) as refused:
        write()
    by_id = act in ("set -l", "rm -l", "pause -l", "set", "rm", "pause")
    assert isinstance(refused.value, NotFound if by_id else Conflict)
    assert list(stage.crontab.tasks()) == []


def test_an_import_adds_a_task_that_was_removed_meanwhile(stage: Stage) -> None:
    task = _task(stage)
    write = _import(stage.crontab.acting(), task)
    other(stage).remove(task)
    write()
    assert stage.crontab.get("a").command == "changed"


def test_a_batch_of_renames_is_undone_in_any_order(stage: Stage) -> None:
    tasks = [stage.task("a"), stage.task("b")]
    crontab = stage.crontab.acting()
    crontab.edit(tasks[1], {"name": "c"})
    crontab.edit(tasks[0], {"name": "b"})
    undo = Undo(stage.crontab.acting("undo"))
    undo.undo(undo.batch(crontab.author.batch))
    assert [stage.crontab.get(name).id for name in ("a", "b")] == [task.id for task in tasks]
    redo = Undo(stage.crontab.acting("undo"))
    redo.undo(redo.batch(undo.author.batch))
    assert [stage.crontab.get(name).id for name in ("b", "c")] == [task.id for task in tasks]


def test_a_restore_checks_no_dependencies(stage: Stage) -> None:
    stage.task("first")
    stage.task("second", "@after first")
    service = DumpService(stage.crontab)
    dump = service.dump()
    wanted = replace(dump.tasks["second"].state, definition=definition("second", "@after gone"))
    dump = replace(dump, tasks={"second": DumpedTask(state=wanted)})
    service.apply(dump, service.compare(dump))
    assert stage.crontab.get("second").schedule == "@after gone"


@pytest.mark.parametrize("act", ["edit", "set -l", "set", "form", "undo", "apply"])
def test_a_change_is_recorded_once_by_its_author(stage: Stage, act: str) -> None:
    task = _task(stage)
    before = len(change_log(stage))
    ACTS[act](stage.crontab.acting(), task)()
    actor = stage.crontab.actor
    assert change_log(stage)[before:] == [(actor, "set", "a")]
