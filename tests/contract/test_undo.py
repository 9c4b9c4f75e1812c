"""What was changed can be undone: the former state comes back as a new change."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from dcron.crontabfile import write
from dcron.errors import NotFound, Refused, UsageError
from dcron.model import RunState, Task
from dcron.policy.history import RecordedChange
from dcron.schedule.calendars import parse_calendar
from dcron.schema.tables import changes
from dcron.services.calendars import Calendars
from dcron.services.fleet import Fleet
from dcron.services.history import History
from dcron.services.runs.trials import Trials
from dcron.services.settings import SharedSettings
from dcron.services.undo import AlreadyUndone, LaterChanges, Undo
from dcron.store.tasks_deleted_by_sql import FindDeletions
from dcron.values.lists import RunFilter
from tests.support.stage import Stage, definition
from tests.support.statistics import do_round


def undo(stage: Stage, found: Sequence[RecordedChange], *, force: bool = False) -> None:
    Undo(stage.crontab.acting("undo")).undo(found, force=force)


def undo_last(stage: Stage, name: str, *, force: bool = False) -> None:
    undo(stage, Undo(stage.crontab).last_of(name), force=force)


def redo_last(stage: Stage, name: str) -> None:
    """Undo the undo that is the last change of this task."""
    last = next(iter(History(stage.crontab).changes(1, name)))
    assert last.undoes
    undo(stage, Undo(stage.crontab).change(last.id))


def edit(stage: Stage, task: str, **fields: object) -> Task:
    crontab = stage.crontab.acting()
    return crontab.edit(crontab.get(task), fields)


def batches(stage: Stage) -> list[str]:
    """Return the batches, the oldest first, without those of runs, which cannot be undone."""
    with stage.database.read() as connection:
        known = select(changes.c.batch).where(changes.c.kind != "run")
        rows = connection.scalars(known.order_by(changes.c.id))
        return list(dict.fromkeys(str(batch) for batch in rows))


def exported(stage: Stage) -> str:
    return write(stage.crontab.export_tasks())


def test_an_edit_is_undone_and_redone(stage: Stage) -> None:
    before = stage.task("a")
    after = edit(stage, "a", schedule="@hourly", timeout=60.0)
    undo_last(stage, "a")
    assert stage.crontab.get("a").definition() == before.definition()
    assert stage.crontab.get("a").version == after.version + 1
    redo_last(stage, "a")
    assert stage.crontab.get("a").definition() == after.definition()


def test_a_rename_is_undone(stage: Stage) -> None:
    task = stage.task("a")
    edit(stage, "a", name="b")
    undo_last(stage, "b")
    assert stage.crontab.get("a").id == task.id


def test_an_undone_pause_runs_again_and_an_undone_resume_is_paused_as_before(stage: Stage) -> None:
    task = stage.crontab.acting().pause(stage.task("a"), "patching", stage.now.replace(hour=20))
    undo_last(stage, "a")
    assert stage.crontab.get("a").enabled
    redo_last(stage, "a")
    paused = stage.crontab.get("a")
    assert (paused.enabled, paused.paused_reason, paused.paused_until) == (
        False,
        "patching",
        task.paused_until,
    )


def test_a_pause_whose_end_has_passed_is_not_restored(stage: Stage) -> None:
    paused = stage.crontab.acting().pause(stage.task("a"), None, stage.now.replace(hour=13))
    stage.crontab.acting().resume(paused)
    stage.forward(hours=2)
    with pytest.raises(Refused, match="nothing to undo"):
        undo_last(stage, "a")


@pytest.mark.slow
def test_a_removed_task_comes_back_with_its_id_its_history_and_its_dead_letters(stage: Stage) -> None:
    task = stage.task("a", "*/10 * * * *")
    node = stage.node(lease=36000)
    stage.forward(minutes=10)
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    history = stage.crontab.runs(RunFilter(task.id), 100)
    stage.crontab.acting().remove(stage.crontab.get("a"))
    stage.forward(hours=1)
    undo_last(stage, "a")
    again = stage.crontab.get("a")
    assert (again.id, again.definition()) == (task.id, task.definition())
    assert again.version > task.version
    now = {each.id: each for each in stage.crontab.runs(RunFilter(task.id), 100)}
    assert all(now[each.id] == each for each in history if each.state.is_final)
    assert stage.crontab.view("a").dead
    waiting = [each for each in now.values() if each.state is RunState.WAITING]
    assert [each.scheduled_for for each in waiting] == [stage.now.replace(minute=20)]
    stage.plan()
    assert len(stage.crontab.runs(RunFilter(task.id), 100)) == len(now)


def test_an_undone_addition_is_removed(stage: Stage) -> None:
    stage.task("a")
    undo_last(stage, "a")
    with pytest.raises(NotFound):
        stage.crontab.get("a")
    redo_last(stage, "a")
    assert stage.crontab.get("a")


@pytest.mark.slow
def test_a_later_change_is_not_lost(stage: Stage) -> None:
    stage.task("a")
    edit(stage, "a", timeout=60.0)
    later = edit(stage, "a", schedule="@hourly")
    (first,) = [each for each in History(stage.crontab).changes(9, "a") if each.fields == ["timeout"]]
    with pytest.raises(LaterChanges, match="a was changed since") as caught:
        undo(stage, [first])
    assert caught.value.exit_code == 5
    assert [each.fields for each in caught.value.later] == [["schedule"]]
    assert stage.crontab.get("a") == later
    undo(stage, [first], force=True)
    assert stage.crontab.get("a").timeout is None


def test_a_change_with_sql_is_not_lost_either(stage: Stage) -> None:
    task = stage.task("a")
    edit(stage, "a", timeout=60.0)
    stage.sql("UPDATE crontab SET command = 'x', version = version + 1 WHERE id = :id", id=task.id)
    with pytest.raises(LaterChanges):
        undo_last(stage, "a")
    stage.plan()
    undo_last(stage, "a")
    assert stage.crontab.get("a").command == task.command


@pytest.mark.slow
def test_a_deletion_with_sql_is_recorded_and_undone(stage: Stage) -> None:
    first, second = stage.task("a", env={"A": "1"}), stage.task("b")
    stage.sql("DELETE FROM crontab")
    undo_last(stage, "a")  # no agent has noticed it yet
    assert stage.crontab.get("a").definition() == first.definition()
    assert find_deletions(stage) == 1
    assert find_deletions(stage) == 0
    (removed, _) = History(stage.crontab).changes(9, "b")
    assert (removed.action, removed.via, removed.actor, removed.login) == ("rm", "sql", "sql", None)
    assert [task.name for task in History(stage.crontab).crontab_at(stage.now).tasks] == ["a"]
    undo_last(stage, "b")
    assert stage.crontab.get("b").id == second.id
    stage.crontab.remove(stage.crontab.get("a"))
    assert find_deletions(stage) == 0


def test_the_crontab_at_a_time_has_the_calendars_of_that_time(stage: Stage) -> None:
    calendars = Calendars(stage.crontab)
    calendars.put(parse_calendar("holidays", ["12-25"]))
    stage.task("a", except_calendar="holidays")
    times = [stage.now]
    for dates in (["12-25", "12-26"], ["01-01"]):
        stage.forward(hours=1)
        calendars.put(parse_calendar("holidays", dates))
        times.append(stage.now)
    past = [calendars_in(History(stage.crontab).crontab_at(at).tasks)["a"] for at in times]
    assert past == [
        parse_calendar("holidays", days).to_json() for days in (["12-25"], ["12-25", "12-26"], ["01-01"])
    ]


def test_a_batch_is_undone_wholly_or_not_at_all(stage: Stage) -> None:
    crontab = stage.crontab.acting()
    crontab.import_tasks([definition("up"), definition("down", "@after up"), definition("other")])
    edit(stage, "other", timeout=60.0)
    (imported, _) = batches(stage)
    text = exported(stage)
    with pytest.raises(LaterChanges):
        undo(stage, Undo(stage.crontab).batch(imported))
    assert exported(stage) == text
    undo_last(stage, "other")
    undo(stage, Undo(stage.crontab).batch(imported))
    assert stage.crontab.export_tasks() == []
    undo(stage, Undo(stage.crontab).batch(batches(stage)[-1]))
    assert [each.name for each in stage.crontab.export_tasks()] == ["down", "other", "up"]


@pytest.mark.slow
def test_an_undo_is_one_batch_and_names_what_it_undoes(stage: Stage) -> None:
    stage.task("a")
    edit(stage, "a", timeout=60.0)
    undo_last(stage, "a")
    undone, edited, _ = History(stage.crontab).changes(9, "a")
    assert (undone.via, undone.undoes, undone.action) == ("undo", edited.id, "set")


OTHERS: dict[str, tuple[Callable[[Stage], object], Callable[[Stage], object]]] = {
    "queue": (
        lambda stage: Fleet(stage.crontab).set_queue("mail", 3),
        lambda stage: [each.max_running for each in Fleet(stage.crontab).queues() if each.max_running],
    ),
    "setting": (
        lambda stage: SharedSettings(stage.crontab).set("timezone", "Europe/Berlin"),
        lambda stage: SharedSettings(stage.crontab).get("timezone").value,
    ),
    "calendar": (
        lambda stage: Calendars(stage.crontab).put(parse_calendar("holidays", ["12-25"])),
        lambda stage: [each.content for each in Calendars(stage.crontab).every()],
    ),
    "node": (
        lambda stage: Fleet(stage.crontab).drain("web-1"),
        lambda stage: [node.draining for node in stage.crontab.nodes()],
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_change_of_something_else_is_undone_and_redone(stage: Stage, kind: str) -> None:
    stage.node()
    do, read = OTHERS[kind]
    before = read(stage)
    do(stage)
    after = read(stage)
    (batch,) = batches(stage)
    undo(stage, Undo(stage.crontab).batch(batch))
    assert read(stage) == before
    undo(stage, Undo(stage.crontab).batch(batches(stage)[-1]))
    assert read(stage) == after


def test_what_is_undone_already_is_refused_and_not_redone(stage: Stage) -> None:
    crontab = stage.crontab.acting()
    crontab.import_tasks([definition("a"), definition("b")])
    (imported,) = batches(stage)
    for round_ in range(2):
        undo(stage, Undo(stage.crontab).batch(imported))
        assert stage.crontab.export_tasks() == []
        _, undone = batches(stage)[2 * round_ :]
        with pytest.raises(AlreadyUndone, match=f"undone already; `dcron undo --batch {undone}` is the redo"):
            Undo(stage.crontab).batch(imported)
        with pytest.raises(
            AlreadyUndone, match="the last change of a is an undo already; `dcron undo --change"
        ):
            Undo(stage.crontab).last_of("a")
        with pytest.raises(AlreadyUndone, match="change 1 is undone already; `dcron undo --change"):
            Undo(stage.crontab).change(1)
        undo(stage, Undo(stage.crontab).batch(undone))
        assert [each.name for each in stage.crontab.export_tasks()] == ["a", "b"]
        with pytest.raises(AlreadyUndone, match=f"batch {undone} is undone already"):
            Undo(stage.crontab).batch(undone)


def test_a_batch_of_which_one_change_is_undone_undoes_the_others(stage: Stage) -> None:
    crontab = stage.crontab.acting()
    crontab.import_tasks([definition("a"), definition("b")])
    undo(stage, Undo(stage.crontab).change(1))
    undo(stage, Undo(stage.crontab).batch(batches(stage)[0]))
    assert stage.crontab.export_tasks() == []


def test_changes_that_undo_each_other_by_hand_do_not_hang_the_undo(stage: Stage) -> None:
    stage.task("a")
    edit(stage, "a", timeout=60.0)
    stage.sql("UPDATE changes SET undoes = 3 - id")
    with pytest.raises(AlreadyUndone):
        Undo(stage.crontab).change(1)
    assert [each.id for each in Undo(stage.crontab).change(2)] == [2]


def test_a_run_is_not_undone(stage: Stage) -> None:
    stage.crontab.run(stage.task("a"))
    (change, *_) = History(stage.crontab).changes(9, "a")
    with pytest.raises(Refused, match="cannot be undone"):
        undo(stage, [change])


def test_a_name_that_is_taken_is_refused(stage: Stage) -> None:
    task = stage.task("a")
    stage.crontab.remove(task)
    found = Undo(stage.crontab).last_of("a")
    stage.task("a")
    with pytest.raises(Refused, match="there is a task 'a' already"):
        undo(stage, found)


# Random histories -------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
SCHEDULES = st.sampled_from(["*/10 * * * *", "@hourly", "30 2 * * *", "@after a", "@on push"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "schedule": SCHEDULES,
        "timeout": st.sampled_from([None, 60.0, 90.5]),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.text("xyz", max_size=3), max_size=2),
        "require": st.sampled_from([(), ("ssd", "eu")]),
        "tries": st.integers(1, 3),
        "describe": st.sampled_from([None, "nightly"]),
        "notify": st.sampled_from([(), ("ops",)]),
        "labels": st.dictionaries(st.sampled_from(["team", "tier"]), st.sampled_from(["shop", "gold"])),
        "except_calendar": st.sampled_from([None, "holidays"]),
    },
)
VERBS = st.one_of(
    st.tuples(st.just("add"), NAMES, SCHEDULES),
    st.tuples(st.just("set"), NAMES, FIELDS),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("rm"), st.lists(NAMES, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("pause"), NAMES),
    st.tuples(st.just("resume"), NAMES),
    st.tuples(st.just("import"), st.lists(NAMES, min_size=1, unique=True), FIELDS),
    st.tuples(st.just("sql"), NAMES),
    st.tuples(st.just("sql rm"), NAMES),
    st.tuples(st.just("calendar"), st.sampled_from(["12-25", "12-26"])),
    st.tuples(st.just("calendar rm")),
    st.tuples(st.just("run"), NAMES),
    st.tuples(st.just("trial"), NAMES),
    st.tuples(st.just("undo")),
)
_RUNS = count()


def act(stage: Stage, verb: str, *given: object) -> None:
    """Do what a person does with one command line."""
    crontab = stage.crontab.acting(f"cli {verb}")
    match verb, given:
        case "add", (str(name), str(schedule)):
            crontab.add(definition(name, schedule))
        case "set", (str(name), dict(fields)):
            crontab.edit(crontab.get(name), fields)
        case "rename", (str(name), str(other)):
            crontab.edit(crontab.get(name), {"name": other})
        case "rm", (list(names),):
            crontab.remove(*[crontab.get(name) for name in names])
        case "pause", (str(name),):
            crontab.pause(crontab.get(name), "why")
        case "resume", (str(name),):
            crontab.resume(crontab.get(name))
        case "import", (list(names), dict(fields)):
            fields.setdefault("schedule", "@daily")
            crontab.import_tasks([definition(name, **fields) for name in names])
        case "sql", (str(name),):
            task_id = crontab.get(name).id
            command = f"by-hand-{next(_RUNS)}"
            stage.sql(
                "UPDATE crontab SET command = :command, version = version + 1 WHERE id = :id",
                command=command,
                id=task_id,
            )
            stage.plan()
        case "sql rm", (str(name),):
            stage.sql("DELETE FROM crontab WHERE id = :id", id=crontab.get(name).id)
            find_deletions(stage)
        case "calendar", (str(day),):
            Calendars(crontab).put(parse_calendar("holidays", [day]))
        case "calendar rm", ():
            Calendars(crontab).remove("holidays")
        case "run", (str(name),):
            crontab.run(crontab.get(name))
        case "trial", (str(name),):
            Trials(crontab).run_changed(crontab.get(name), {"command": "tried", "env": {"A": "tried"}})
        case "undo", ():
            if done := batches(stage):
                undo(stage, Undo(crontab).batch(done[-1]))


def find_deletions(stage: Stage) -> int:
    """Do a round of the job that finds deletions with plain SQL."""
    return do_round(stage.database, FindDeletions())["deletions"]


def calendars_in(found: Iterable[Task]) -> dict[str, object]:
    """Return the content of the calendar that each task names, by task name."""
    return {task.name: task.except_content and json.loads(task.except_content) for task in found}


def states(stage: Stage) -> dict[int, object]:
    """Return all that people have decided about the tasks, by id; who paused one when does not count."""
    found = {task.id: task.state() for task in stage.crontab.tasks()}
    return {
        task_id: (state.definition, state.pause and (state.pause.reason, state.pause.until), state.once)
        for task_id, state in found.items()
    }


@settings(
    max_examples=max(2, settings().max_examples // 15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_past_is_known_and_comes_back(stage: Stage, data: st.DataObject) -> None:
    """After any acts: `export --at T` is the export taken at T, and undoing n batches leads back to it."""
    stage.sql("DELETE FROM crontab")
    stage.sql("DELETE FROM subscriptions")
    stage.sql("DELETE FROM changes")
    stage.sql("DELETE FROM calendars")
    stage.sql("DELETE FROM runs")
    taken = [(stage.now, exported(stage), states(stage), calendars_in(stage.crontab.tasks()))]
    for verb in data.draw(st.lists(VERBS, min_size=1, max_size=12)):
        stage.forward(seconds=1)
        known = len(batches(stage))
        try:
            act(stage, *verb)
        except (UsageError, Refused, NotFound):
            assert len(batches(stage)) == known
            continue
        new = len(batches(stage)) - known
        assert new <= 1
        if new:
            dates = calendars_in(stage.crontab.tasks())
            taken.append((stage.now, exported(stage), states(stage), dates))
        else:  # it changed nothing
            assert states(stage) == taken[-1][2]
    history = History(stage.crontab)
    for at, text, _, dates in taken:
        past = history.crontab_at(at)
        assert write(past.exported) == text
        assert calendars_in(past.tasks) == dates
    done = batches(stage)
    assert len(done) == len(taken) - 1
    for batch, (_, text, state, _) in zip(reversed(done), reversed(taken[:-1]), strict=True):
        stage.forward(seconds=1)
        undo(stage, Undo(stage.crontab).batch(batch))
        assert states(stage) == state
        assert exported(stage) == text
