"""Applying a source: its tasks become what its files say, and no other task is touched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from dcron.errors import Conflict, CrontabFileError, NotFound, Refused, UsageError
from dcron.model import Definition, RunState, Task
from dcron.policy.ownership import Decision, Permissions, digest
from dcron.schedule.calendars import parse_calendar
from dcron.schema.tables import changes
from dcron.services.calendars import Calendars
from dcron.services.changes import transactions
from dcron.services.changes.applied import Apply, Request
from dcron.services.changes.source_plan import Plan
from dcron.services.history import History
from dcron.services.undo import Undo
from dcron.sources import Place, SourceTask
from tests.support.stage import Stage, definition
from tests.support.task_fields import EXAMPLES

SHOP = "shop/cron"


def source(*definitions: Definition, was: Mapping[str, str] | None = None) -> list[SourceTask]:
    """Return the tasks of a file, one on each line. `was` has earlier names by name."""
    earlier = was or {}
    return [
        SourceTask(each, Place("shop.cron", line), earlier.get(each.name))
        for line, each in enumerate(definitions, 1)
    ]


def apply(
    stage: Stage,
    tasks: Sequence[SourceTask],
    name: str = SHOP,
    *,
    max_removed: int | None = None,
    force: bool = False,
    dry_run: bool = False,
    **allowed: Any,
) -> Plan:
    """Apply a source as one act; return what was planned."""
    service = Apply(stage.crontab.acting("apply"))
    plan = service.check(tasks, Request(name, Permissions(**allowed), max_removed, force))
    service.apply(plan, dry_run=dry_run)
    return plan


def names(planned: Iterable[Any]) -> list[str]:
    return [each.name for each in planned]


def edit(
    stage: Stage, name: str, *, actor: str = "bob@web-1", note: str | None = None, **fields: Any
) -> Task:
    """Change a task by hand."""
    crontab = stage.crontab.acting("cli set", note)
    crontab.author = replace(crontab.author, name=actor)
    return crontab.edit(crontab.get(name), fields)


def count_changes(stage: Stage) -> int:
    with stage.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(changes)) or 0


def undo_last_batch(stage: Stage) -> None:
    batch = next(iter(History(stage.crontab).changes(1))).batch
    assert batch
    Undo(stage.crontab.acting("undo")).undo(Undo(stage.crontab).batch(batch))


def owned(stage: Stage, *definitions: Definition, name: str = SHOP) -> list[Task]:
    apply(stage, source(*definitions), name)
    return [stage.crontab.get(each.name) for each in definitions]


def test_tasks_are_added_with_their_owner_and_their_first_runs(stage: Stage) -> None:
    plan = apply(stage, source(definition("a"), definition("b", "@daily")))
    assert names(plan.of(Decision.ADD)) == ["a", "b"]
    task = stage.crontab.get("a")
    assert (task.source, task.applied) == (SHOP, digest(task))
    assert stage.next_run(task)
    assert len({each.batch for each in History(stage.crontab).changes(10)}) == 1


def test_applying_twice_writes_nothing(stage: Stage) -> None:
    wanted = source(definition("a"), definition("b", "@after a"), definition("c", **EXAMPLES_FIT))
    apply(stage, wanted)
    before = count_changes(stage)
    plan = apply(stage, wanted)
    assert (names(plan.of(Decision.KEEP, Decision.NOTE)), plan.differs) == (["a", "b", "c"], False)
    assert count_changes(stage) == before


EXAMPLES_FIT = {
    name: value
    for name, value in EXAMPLES.items()
    if name
    not in ("argv", "except_calendar", "only_calendar", "every_node", "gap", "fold", "jitter", "overlap")
}


def test_what_the_database_stores_of_a_field_is_no_change_by_hand(stage: Stage) -> None:
    for calendar in ("holidays", "work"):
        Calendars(stage.crontab).put(parse_calendar(calendar, ["12-25", "2027-06-02"]))
    extra: dict[str, Any] = {"on_lost": {"tries": 3}, "argv": {"command": "tar c /srv"}}
    wanted = source(
        *(definition(f"t-{name}", **{name: value, **extra.get(name, {})}) for name, value in EXAMPLES.items())
    )
    apply(stage, wanted)
    assert not apply(stage, wanted).writes


def test_what_the_file_says_otherwise_is_changed_and_a_pause_stays(stage: Stage) -> None:
    (task,) = owned(stage, definition("a"))
    stage.crontab.acting().pause(task, "patching")
    plan = apply(stage, source(definition("a", timeout=60.0)))
    assert names(plan.of(Decision.CHANGE)) == ["a"]
    changed = stage.crontab.get("a")
    assert (changed.id, changed.timeout, changed.enabled, changed.paused_reason) == (
        task.id,
        60.0,
        False,
        "patching",
    )
    assert names(apply(stage, source(definition("a", timeout=60.0))).of(Decision.KEEP, Decision.NOTE)) == [
        "a"
    ]


def test_a_change_by_hand_is_a_conflict_that_names_who_when_and_why(stage: Stage) -> None:
    owned(stage, definition("a"), definition("b"))
    stage.forward(minutes=1)
    edit(stage, "a", note="hung twice", timeout=60.0)
    before = count_changes(stage)
    with pytest.raises(
        Conflict, match=r"a was changed by hand .*bob@web-1.*, 2027-06-01T12:01:00Z: hung twice"
    ):
        apply(stage, source(definition("a", timeout=5.0), definition("b", timeout=5.0)))
    assert count_changes(stage) == before
    assert stage.crontab.get("b").timeout is None


def test_a_task_renamed_by_hand_is_a_conflict_and_not_added_a_second_time(stage: Stage) -> None:
    apply(stage, source(definition("pay"), definition("map")))
    renamed = stage.crontab.edit(stage.crontab.get("pay"), {"name": "payments"})
    with pytest.raises(Conflict, match="changed by hand"):
        apply(stage, source(definition("pay"), definition("map")))
    assert [task.name for task in stage.crontab.tasks()] == ["map", "payments"]
    plan = apply(stage, source(definition("pay"), definition("map")), overwrite=True)
    assert names(plan.of(Decision.CHANGE)) == ["pay"]
    assert stage.crontab.get("pay").id == renamed.id


def test_a_conflict_shows_both_differences(stage: Stage) -> None:
    owned(stage, definition("a"))
    edit(stage, "a", timeout=60.0)
    stage.crontab.acting().pause(stage.crontab.get("a"))
    request = Request(SHOP)
    (conflict,) = (
        Apply(stage.crontab).check(source(definition("a", timeout=5.0)), request).of(Decision.CONFLICT)
    )
    assert any(line.startswith("+") and "1m" in line for line in conflict.hand_difference)
    assert any(line.startswith("+") and "5s" in line for line in conflict.change.difference())


def test_a_conflict_names_the_last_change_of_each_field(stage: Stage) -> None:
    (task,) = owned(stage, definition("a", queue="slow"))
    edit(stage, "a", actor="eve@web-2", timeout=60.0, queue="fast")
    edit(stage, "a", actor="bob@web-1", note="hung at 3", timeout=90.0)
    edit(stage, "a", actor="eve@web-2", queue="slow", tries=3)
    stage.set_task(task.id, command="false", version=task.version + 4)
    check = Apply(stage.crontab).check
    (conflict,) = check(source(definition("a", timeout=5.0)), Request(SHOP)).of(Decision.CONFLICT)
    assert conflict.edit
    found = {
        each.name: (
            each.applied,
            each.present,
            each.last and each.last.author.split()[0],
            each.last and each.last.note,
        )
        for each in conflict.edit.fields
    }
    assert found == {
        "timeout": (None, 90.0, "bob@web-1", "hung at 3"),
        "tries": (1, 3, "eve@web-2", None),
        "command": (task.command, "false", None, None),
    }


def test_a_change_with_plain_sql_is_a_conflict_too(stage: Stage) -> None:
    (task,) = owned(stage, definition("a"))
    stage.set_task(task.id, command="false")
    with pytest.raises(Conflict, match="plain SQL"):
        apply(stage, source(definition("a", timeout=5.0)))


def test_overwrite_discards_the_change_by_hand_and_undo_brings_it_back(stage: Stage) -> None:
    owned(stage, definition("a"))
    edit(stage, "a", timeout=60.0)
    apply(stage, source(definition("a", timeout=5.0)), overwrite=True)
    assert stage.crontab.get("a").timeout == 5.0
    undo_last_batch(stage)
    assert stage.crontab.get("a").timeout == 60.0
    with pytest.raises(Conflict):
        apply(stage, source(definition("a", timeout=5.0)))


def test_a_change_by_hand_that_the_file_has_too_is_noted(stage: Stage) -> None:
    owned(stage, definition("a"))
    edit(stage, "a", timeout=60.0)
    plan = apply(stage, source(definition("a", timeout=60.0)))
    assert (names(plan.of(Decision.KEEP, Decision.NOTE)), plan.differs) == (["a"], False)
    task = stage.crontab.get("a")
    assert task.applied == digest(task)
    assert not apply(stage, source(definition("a", timeout=60.0))).writes


def test_a_task_without_a_source_is_refused_unless_it_is_adopted(stage: Stage) -> None:
    stage.task("a")
    for same in (definition("a"), definition("a", timeout=5.0)):
        with pytest.raises(Refused, match="a that belongs to no source; --adopt"):
            apply(stage, source(same))
    apply(stage, source(definition("a")), adopt=True)
    assert stage.crontab.get("a").source == SHOP
    undo_last_batch(stage)
    task = stage.crontab.get("a")
    assert (task.source, task.applied) == (None, None)


def test_a_task_of_another_source_is_refused_unless_it_is_taken_from_it(stage: Stage) -> None:
    owned(stage, definition("a"), name="web/cron")
    with pytest.raises(Refused, match="a belongs to web/cron"):
        apply(stage, source(definition("a", timeout=5.0)), adopt=True, overwrite=True, take_from="other")
    plan = apply(stage, source(definition("a", timeout=5.0)), take_from="web/cron")
    assert names(plan.of(Decision.ADOPT)) == ["a"]
    assert stage.crontab.get("a").source == SHOP
    undo_last_batch(stage)
    assert stage.crontab.get("a").source == "web/cron"
    assert not apply(stage, source(definition("a")), "web/cron").differs


def test_an_import_is_another_source(stage: Stage) -> None:
    stage.crontab.import_tasks([definition("a")], "import:web-1:root:/etc/crontab")
    with pytest.raises(Refused, match="import:web-1"):
        apply(stage, source(definition("a")), adopt=True)
    apply(stage, source(definition("a", timeout=5.0)), take_from="import:web-1:root:/etc/crontab")
    assert stage.crontab.get("a").source == SHOP


@pytest.mark.slow
def test_an_import_that_adopts_a_task_takes_it_from_its_source(stage: Stage) -> None:
    owned(stage, definition("a"), definition("b"))
    edits = [definition("a", timeout=5.0), definition("b")]
    stage.crontab.acting("import").import_tasks(edits, "import:web-1:root:/f", adopt=True)
    for name in ("a", "b"):
        task = stage.crontab.get(name)
        assert (task.source, task.applied) == ("import:web-1:root:/f", None)
    undo_last_batch(stage)
    assert not apply(stage, source(definition("a"), definition("b"))).writes


def test_a_one_off_cannot_be_owned(stage: Stage) -> None:
    stage.crontab.add(definition("a"), once=True)
    with pytest.raises(Refused, match="a is a one-off"):
        apply(stage, source(definition("a")), adopt=True)


def test_tasks_that_the_file_lost_stay_without_prune_and_go_with_it(stage: Stage) -> None:
    owned(stage, definition("a"), definition("b", "@after a"), definition("c", "@after b"))
    stage.task("mine")
    owned(stage, definition("theirs"), name="web/cron")
    plan = apply(stage, source(definition("a")))
    assert (names(plan.of(Decision.EXTRA)), plan.differs) == (["b", "c"], False)
    plan = apply(stage, source(definition("a")), prune=True)
    assert names(plan.of(Decision.REMOVE)) == ["b", "c"]
    assert stage.crontab.names("", 9) == ["a", "mine", "theirs"]
    undo_last_batch(stage)
    assert not apply(
        stage, source(definition("a"), definition("b", "@after a"), definition("c", "@after b"))
    ).writes


def test_a_task_changed_by_hand_is_not_pruned_unless_overwritten(stage: Stage) -> None:
    owned(stage, definition("a"), definition("b"))
    edit(stage, "b", timeout=60.0)
    assert names(apply(stage, source(definition("a"))).of(Decision.EXTRA)) == ["b"]
    with pytest.raises(Conflict, match="b was changed by hand"):
        apply(stage, source(definition("a")), prune=True)
    assert names(apply(stage, source(definition("a")), prune=True, overwrite=True).of(Decision.REMOVE)) == [
        "b"
    ]


def test_many_removals_need_to_be_allowed(stage: Stage) -> None:
    many = [definition(f"t{number}") for number in range(12)]
    owned(stage, *many)
    with pytest.raises(
        Refused, match=r"11 of the 12 tasks of shop/cron, and 10 are allowed; --max-removed 11"
    ):
        apply(stage, source(many[0]), prune=True)
    with pytest.raises(Refused, match="2 are allowed"):
        apply(stage, source(*many[:9]), prune=True, max_removed=2)
    assert len(apply(stage, source(*many[:2]), prune=True).of(Decision.REMOVE)) == 10
    with pytest.raises(Refused, match="the files have no tasks"):
        apply(stage, [], prune=True, max_removed=99)
    assert names(apply(stage, []).of(Decision.EXTRA)) == ["t0", "t1"]
    assert len(apply(stage, [], prune=True, force=True).of(Decision.REMOVE)) == 2


def test_a_rename_keeps_the_history_and_may_be_said_for_ever(stage: Stage) -> None:
    (task,) = owned(stage, definition("old"))
    wanted = source(definition("new", timeout=5.0), was={"new": "old"})
    plan = apply(stage, wanted)
    assert [(each.name, each.change.kind == "renamed") for each in plan.of(Decision.CHANGE)] == [
        ("new", True)
    ]
    assert stage.crontab.get("new").id == task.id
    assert not apply(stage, wanted, prune=True).writes


def test_a_rename_leaves_tasks_of_others_alone(stage: Stage) -> None:
    stage.task("old")
    plan = apply(stage, source(definition("new"), was={"new": "old"}))
    assert names(plan.of(Decision.ADD)) == ["new"]
    assert stage.crontab.get("old").source is None


def test_a_renamed_task_and_the_tasks_that_wait_for_it_change_together_and_back(stage: Stage) -> None:
    owned(stage, definition("old"), definition("next", "@after old"), definition("end", "@after next"))
    wanted = source(
        definition("end", "@after next"),
        definition("next", "@after new"),
        definition("new"),
        was={"new": "old"},
    )
    apply(stage, wanted)
    assert stage.crontab.get("next").schedule == "@after new"
    undo_last_batch(stage)
    assert stage.crontab.get("next").schedule == "@after old"
    assert stage.crontab.get("old")
    apply(stage, wanted)


def test_a_renamed_task_that_another_waits_for_is_refused(stage: Stage) -> None:
    owned(stage, definition("old"))
    stage.task("mine", "@after old")
    with pytest.raises(Refused, match="mine comes after old"):
        apply(stage, source(definition("new"), was={"new": "old"}))
    assert stage.crontab.get("old")
    with pytest.raises(Refused, match="mine comes after old"):
        apply(stage, [], prune=True, force=True)


@pytest.mark.slow
def test_dependencies_may_be_in_any_order(stage: Stage) -> None:
    apply(stage, source(definition("c", "@after b"), definition("b", "@after a"), definition("a")))
    apply(stage, source(definition("a", "@after b"), definition("b", "@after c"), definition("c")))
    assert stage.crontab.get("a").schedule == "@after b"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ((definition("a", "@after nothing"),), r"shop.cron:1: a: @after nothing: there is no such task"),
        (
            (definition("a", "@after b"), definition("b", "@after a")),
            r"shop.cron:1: a: .*wait for each other",
        ),
        (
            (definition("a"), definition("b", except_calendar="x")),
            r"shop.cron:2: b: there is no calendar 'x'",
        ),
        ((definition("a", "0 0 30 2 *"), definition("b", tries=0)), r"1: a: (.|\n)*shop.cron:2: b: tries"),
    ],
)
def test_a_bad_task_is_reported_with_its_place_and_nothing_is_written(
    stage: Stage, wanted: Sequence[Definition], message: str
) -> None:
    with pytest.raises(CrontabFileError, match=message):
        apply(stage, source(*wanted))
    assert stage.crontab.names("", 9) == []


def test_a_task_whose_last_time_has_passed_is_applied_all_the_same(stage: Stage) -> None:
    past = definition("a", not_after=stage.now - timedelta(days=1))
    plan = apply(stage, source(past))
    assert names(plan.expired) == ["a"]
    assert not apply(stage, source(past)).writes


def test_a_dry_run_tries_the_writes_and_leaves_nothing(stage: Stage) -> None:
    owned(stage, definition("old"))
    before = count_changes(stage)
    apply(stage, source(definition("new"), definition("b", "@after new"), was={"new": "old"}), dry_run=True)
    with pytest.raises(CrontabFileError, match="wait for each other"):
        apply(stage, source(definition("a", "@after b"), definition("b", "@after a")), dry_run=True)
    assert stage.crontab.names("", 9) == ["old"]
    assert count_changes(stage) == before


@pytest.mark.slow
@pytest.mark.parametrize("other", ["set", "rm", "add", "source"])
def test_the_first_change_is_not_overwritten(stage: Stage, other: str) -> None:
    (task,) = owned(stage, definition("a"))
    service = Apply(stage.crontab.acting("apply"))
    plan = service.check(source(definition("a", timeout=5.0), definition("b")), Request(SHOP))
    match other:
        case "set":
            edit(stage, "a", timeout=60.0)
        case "rm":
            stage.crontab.acting().remove(task)
        case "add":
            stage.task("b")
        case "source":
            stage.set_task(task.id, source="web/cron")
    with pytest.raises((Conflict, NotFound)):
        service.apply(plan)
    assert {task.timeout for task in stage.crontab.tasks()} <= {None, 60.0}


@pytest.mark.slow
def test_a_pause_meanwhile_is_no_conflict(stage: Stage) -> None:
    (task,) = owned(stage, definition("a"))
    service = Apply(stage.crontab.acting("apply"))
    plan = service.check(source(definition("a", timeout=5.0)), Request(SHOP))
    stage.crontab.acting().pause(task)
    service.apply(plan)
    changed = stage.crontab.get("a")
    assert (changed.timeout, changed.enabled) == (5.0, False)


@pytest.mark.parametrize("name", ["", "import:web-1:root:/f", "a b", "-x", "x" * 101, "a\n"])
def test_not_every_text_can_name_a_source(stage: Stage, name: str) -> None:
    with pytest.raises(UsageError, match="--source"):
        Apply(stage.crontab).check([], Request(name))


def test_a_row_that_cannot_be_read_is_a_conflict_that_overwrite_repairs(stage: Stage) -> None:
    (task,) = owned(stage, definition("a"))
    stage.sql("UPDATE crontab SET env = '[1, 2]' WHERE id = :id", id=task.id)
    with pytest.raises(Conflict):
        apply(stage, source(definition("a")))
    apply(stage, source(definition("a")), overwrite=True)
    assert stage.crontab.get("a").env == {}


@pytest.mark.slow
def test_a_batch_of_several_transactions_is_undone_and_an_undo_that_stops_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MOST_AT_ONCE", 4), ("PAGE", 2), ("REST", 0)):
        monkeypatch.setattr(transactions, name, value)
    owned(stage, definition("old"), definition("next", "@after old"), definition("end", "@after next"))
    before = [task.definition() for task in stage.crontab.tasks()]
    wanted = source(
        definition("next", "@after new"),
        definition("new"),
        definition("end", "@after last"),
        definition("last"),
        definition("more", "@after end"),
        was={"new": "old"},
    )
    apply(stage, wanted)
    after = [task.definition() for task in stage.crontab.tasks()]
    batch = str(next(iter(History(stage.crontab).changes(1))).batch)
    undo = Undo(stage.crontab.acting("undo"))
    found = undo.batch(batch)
    undo.check(found)
    assert len(found) > transactions.MOST_AT_ONCE
    undo.undo([change for change in found if change.task == "more"])
    left = Undo(stage.crontab).batch(batch)
    assert sorted(str(change.task) for change in left) == ["end", "last", "new", "next"]
    undo.undo(left)
    assert [task.definition() for task in stage.crontab.tasks()] == before
    redo = Undo(stage.crontab.acting("undo"))
    redo.undo(redo.batch(str(undo.author.batch)))
    assert [task.definition() for task in stage.crontab.tasks()] == after


@pytest.mark.slow
def test_what_ran_stays(stage: Stage) -> None:
    (task,) = owned(stage, definition("a"))
    node = stage.node(lease=36000)
    stage.forward(minutes=10)
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    apply(stage, source(definition("b"), was={"b": "a"}))
    assert stage.crontab.view("b").dead
    assert [each.id for each in stage.runs(task.id, RunState.FAILED)] == [run.id]
