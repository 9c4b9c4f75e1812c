"""Every change is on record: who made it, by which way, why, and which changes belong together."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from sqlalchemy import select

from dcron.model import RunState
from dcron.policy.history import RecordedChange
from dcron.schedule.calendars import parse_calendar
from dcron.schema.tables import changes
from dcron.services.calendars import Calendars
from dcron.services.fleet import Fleet
from dcron.services.history import History
from dcron.services.retention import Retention
from dcron.services.runs.dead_letters import DeadLetters
from dcron.services.settings import SharedSettings
from dcron.store.tasks import rows as tasks
from tests.support.stage import Stage, definition


def recorded(stage: Stage, name: str | None = None) -> list[RecordedChange]:
    """Return the changes, the oldest first."""
    return list(History(stage.crontab).changes(1000, name))[::-1]


ACTS: dict[str, tuple[str, str, Callable[[Stage], object]]] = {
    "add": ("task", "add", lambda stage: stage.task("b")),
    "set": ("task", "set", lambda stage: stage.crontab.edit(stage.crontab.get("a"), {"timeout": 60.0})),
    "pause": ("task", "pause", lambda stage: stage.crontab.pause(stage.crontab.get("a"), "patching")),
    "rm": ("task", "rm", lambda stage: stage.crontab.remove(stage.crontab.get("a"))),
    "import": ("task", "add", lambda stage: stage.crontab.import_tasks([definition("b"), definition("c")])),
    "run": ("run", "run", lambda stage: stage.crontab.run(stage.crontab.get("a"))),
    "cancel": ("run", "cancel", lambda stage: stage.crontab.cancel(1)),
    "queue set": ("queue", "set", lambda stage: Fleet(stage.crontab).set_queue("mail", 3)),
    "calendar add": (
        "calendar",
        "add",
        lambda stage: Calendars(stage.crontab).put(parse_calendar("holidays", ["12-25"])),
    ),
    "config set": (
        "setting",
        "config",
        lambda stage: SharedSettings(stage.crontab).set("timezone", "Europe/Berlin"),
    ),
    "hold": ("run", "hold", lambda stage: Retention(stage.crontab).hold_task(stage.crontab.get("a"), "why")),
}


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_one_batch_with_its_author(stage: Stage, act: str) -> None:
    stage.task("a")
    kind, action, do = ACTS[act]
    known = {change.id for change in recorded(stage)}
    stage.crontab = stage.crontab.acting("cli test", "because")
    do(stage)
    new = [change for change in recorded(stage) if change.id not in known]
    assert len({change.batch for change in new}) == 1
    assert {(c.kind, c.action, c.actor, c.via, c.note) for c in new} == {
        (kind, action, "ann@desk", "cli test", "because")
    }


def test_a_dismissed_dead_letter_of_a_removed_task_is_on_record(stage: Stage) -> None:
    task = stage.task("a")
    node = stage.node()
    stage.forward(minutes=10)
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    stage.crontab.remove(task)
    DeadLetters(stage.crontab).dismiss(run.id)
    assert [(each.action, each.task_id) for each in recorded(stage, "a")][-1] == ("dismiss", task.id)


def test_a_removed_task_keeps_its_history_also_beside_a_new_one_of_its_name(stage: Stage) -> None:
    first = stage.task("a")
    stage.crontab.remove(first)
    assert [each.action for each in recorded(stage, "a")] == ["add", "rm"]
    stage.task("a")
    assert [each.action for each in recorded(stage, "a")] == ["add", "rm", "add"]


def test_an_adopted_task_is_on_record_with_its_source(stage: Stage) -> None:
    task = stage.task("a")
    stage.crontab.acting("import").import_tasks([task.definition()], "import:web-1:ann:-", adopt=True)
    (adopted, _) = History(stage.crontab).changes(9, "a")
    assert (adopted.action, adopted.via, adopted.fields) == ("set", "import", ["source"])


def test_changes_are_found_by_author_time_and_batch(stage: Stage) -> None:
    stage.task("a")
    later = stage.forward(hours=1)
    other = type(stage.crontab)(stage.database, "eve@far")
    other.edit(other.get("a"), {"timeout": 60.0})
    history = History(stage.crontab)
    assert [each.actor for each in history.changes(9, by="eve")] == ["eve@far"]
    assert [each.action for each in history.changes(9, since=later)] == ["set"]
    (edit,) = history.changes(9, by="eve@far")
    assert edit.batch
    assert list(history.changes(9, batch=edit.batch)) == [edit]
    assert list(history.changes(9, batch=str(edit.id))) == [edit]


def test_changes_are_read_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.services.history.PAGE", 2)
    for number in range(5):
        stage.task(f"t{number}")
    assert [each.task for each in History(stage.crontab).changes(4)] == ["t4", "t3", "t2", "t1"]


def test_an_edit_with_sql_is_recorded_when_an_agent_plans_the_task(stage: Stage) -> None:
    task = stage.task("a")
    stage.sql("UPDATE crontab SET command = 'other', version = version + 1 WHERE id = :id", id=task.id)
    stage.plan()
    stage.plan()
    added, edited = recorded(stage, "a")
    assert (edited.action, edited.via, edited.actor, edited.login) == ("set", "sql", "sql", None)
    assert edited.before == added.after
    assert edited.fields == ["command"]
    assert edited.version == task.version + 1


def test_a_task_added_with_sql_is_recorded_once(stage: Stage) -> None:
    stage.insert_task(name="by-hand")
    stage.plan()
    stage.set_task(stage.crontab.get("by-hand").id, planned_version=0)
    stage.plan()
    assert [(each.action, each.via, each.before) for each in recorded(stage, "by-hand")] == [
        ("add", "sql", None)
    ]


def test_an_edit_with_sql_that_no_agent_has_planned_is_recorded_before_the_next_change(stage: Stage) -> None:
    task = stage.task("a")
    stage.sql("UPDATE crontab SET command = 'other', version = version + 1 WHERE id = :id", id=task.id)
    stage.crontab.edit(stage.crontab.get("a"), {"timeout": 60.0})
    states = recorded(stage, "a")
    assert [(each.action, each.via, each.fields) for each in states] == [
        ("add", None, []),
        ("set", "sql", ["command"]),
        ("set", None, ["timeout"]),
    ]
    assert all(earlier.after == later.before for earlier, later in pairwise(states))


def test_a_task_whose_changes_were_pruned_is_not_taken_for_one_made_with_sql(stage: Stage) -> None:
    task = stage.task("a")
    stage.sql("DELETE FROM changes")
    stage.set_task(task.id, planned_version=0)
    stage.plan()
    assert recorded(stage) == []


def test_a_one_off_that_leaves_the_crontab_is_on_record(stage: Stage) -> None:
    stage.crontab.add(definition("once", "@at 2027-06-01T12:10Z"), once=True)
    node = stage.node()
    stage.forward(minutes=10)
    (run,) = stage.take(node)
    stage.finish(node, run.id)
    with stage.database.write() as connection:
        tasks.retire_once(connection, stage.now, 10)
    last = recorded(stage, "once")[-1]
    assert (last.action, last.actor, last.via, last.after) == ("retire", "dcron", "agent", None)
    assert last.state_before
    assert last.state_before.once


def test_the_kind_of_earlier_changes_is_by_their_action(stage: Stage) -> None:
    task = stage.task("a")
    stage.crontab.run(task)
    with stage.database.read() as connection:
        rows = connection.execute(select(changes.c.action, changes.c.kind))
        kinds = {row.action: row.kind for row in rows}
    assert kinds == {"add": "task", "run": "run"}


@pytest.mark.parametrize(
    "written", ["[]", '"x"', "7", '{"schedule": 7, "pause": 3}', '{"schedule": "@daily"}']
)
def test_a_change_that_was_written_by_hand_is_shown_as_it_is(stage: Stage, written: str) -> None:
    task = stage.task("a")
    stage.sql("UPDATE changes SET after = :written WHERE task_id = :id", written=written, id=task.id)
    (change,) = recorded(stage, "a")
    assert change.state_after is None
    assert (change.subject, change.fields) == ("a", [])
    assert History(stage.crontab).crontab_at(stage.now).tasks == []


def test_the_crontab_of_a_time_leaves_out_a_task_whose_change_cannot_be_read(stage: Stage) -> None:
    task, other = stage.task("a"), stage.task("b")
    stage.sql("UPDATE changes SET after = '[]' WHERE task_id = :id", id=task.id)
    added = stage.now
    edited_at = stage.forward(minutes=5)
    stage.crontab.edit(stage.crontab.get("a"), {"timeout": 60.0})
    history = History(stage.crontab)
    assert [each.name for each in history.crontab_at(added).tasks] == ["b"]
    assert [each.name for each in history.crontab_at(edited_at).tasks] == ["a", "b"]
    # Of a task without a change up to then, its first change has what was there.
    stage.sql("DELETE FROM changes WHERE action = 'add'")
    stage.sql("UPDATE changes SET before = '7' WHERE task_id = :id", id=task.id)
    stage.sql("DELETE FROM crontab WHERE id = :id", id=other.id)
    assert history.crontab_at(added).tasks == []


def test_the_crontab_of_a_time_has_what_sql_changed_from_when_it_was_noticed(stage: Stage) -> None:
    task = stage.task("a")
    stage.sql("UPDATE crontab SET command = 'other', version = version + 1 WHERE id = :id", id=task.id)
    before = stage.forward(minutes=20)
    noticed = stage.forward(minutes=20)
    stage.plan()
    later = stage.forward(minutes=20)
    stage.crontab.edit(stage.crontab.get("a"), {"timeout": 60.0})
    then = [History(stage.crontab).crontab_at(each).tasks[0] for each in (before, noticed, later)]
    assert [(each.command, each.timeout) for each in then] == [
        (task.command, None),
        ("other", None),
        ("other", 60.0),
    ]
