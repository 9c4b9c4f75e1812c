"""The crontab service, method by method: what it does, what it refuses, and what it records."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from dcron.cli.asking.task_options import command_text
from dcron.errors import Conflict, ExitCode, NotFound, Refused, ScheduleError, UsageError
from dcron.model import Definition, Run, RunState, Task, Trigger
from dcron.schedule.calendars import Calendar
from dcron.schema.tables import changes
from dcron.services.calendars import Calendars
from dcron.services.crontab import Crontab
from dcron.services.name_prefix import NotExact
from dcron.services.runs.dead_letters import DeadLetters
from dcron.store.runs import output
from dcron.values.lists import Chunk, RunFilter, Term
from tests.support.stage import NOON, Stage, at, definition

FULL = Definition(
    name="full",
    schedule="*/10 8-18 * * 1-5",
    timezone="Europe/Berlin",
    command="tar c /srv",
    argv=("tar", "c", "/srv"),
    shell="/bin/bash",
    stdin="ünï",
    env={"LANG": "C", "EMPTY": ""},
    cwd="/srv",
    user="backup",
    timeout=90.5,
    max_running=None,
    describe="All of it",
)


def change_log(stage: Stage) -> list[tuple[str, str, str | None]]:
    """Who did what to which task, the oldest first."""
    with stage.database.read() as connection:
        rows = connection.execute(
            select(changes.c.actor, changes.c.action, changes.c.task).order_by(changes.c.id)
        )
        return [(row.actor, row.action, row.task) for row in rows]


def shown(run: Run | None) -> Run | None:
    """The run as lists show it, without what it executes."""
    return run and replace(run, spec={})


def other(stage: Stage) -> Crontab:
    """The same crontab, used by another person."""
    return Crontab(stage.database, "bob@laptop")


def test_a_task_comes_back_as_it_was_written(stage: Stage) -> None:
    task = stage.crontab.add(FULL)
    assert task.definition() == FULL
    assert stage.crontab.get("full") == task
    assert (task.version, task.enabled, task.changed_by, task.changed_at) == (1, True, "ann@desk", NOON)


def test_a_taken_name_is_refused_and_nothing_is_written(stage: Stage) -> None:
    task = stage.task("backup")
    with pytest.raises(Refused, match="there is a task 'backup' already"):
        stage.task("backup", "@daily")
    assert stage.crontab.get("backup") == task
    assert len(stage.runs()) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", "nonsense"),
        ("timezone", "Mars"),
        ("command", " "),
        ("name", "a b"),
        ("schedule", "0 0 30 2 *"),
    ],
)
def test_a_task_that_agents_cannot_run_is_refused(stage: Stage, field: str, value: str) -> None:
    with pytest.raises(UsageError):
        stage.crontab.add(replace(definition(), **{field: value}))  # type: ignore[arg-type]
    task = stage.task("backup")
    with pytest.raises(UsageError):
        stage.crontab.edit(task, {field: value})
    assert stage.crontab.get("backup") == task


def test_a_name_may_be_shortened_while_it_means_one_task(stage: Stage) -> None:
    web, database = stage.task("backup-web"), stage.task("backup-db")
    assert stage.crontab.find("backup-w") == web
    assert stage.crontab.find("backup-db") == database
    with pytest.raises(
        UsageError, match="'backup' begins several names: backup-db, backup-web; write more of it"
    ):
        stage.crontab.find("backup")


def test_a_whole_name_wins_over_longer_ones(stage: Stage) -> None:
    short = stage.task("backup")
    stage.task("backup-web")
    assert stage.crontab.find("backup") == short


def test_too_many_names_are_not_all_listed(stage: Stage) -> None:
    for number in range(8):
        stage.task(f"line-{number}")
    with pytest.raises(UsageError, match="line-4, …; write more"):
        stage.crontab.find("line")


def test_what_is_to_be_changed_is_named_in_full(stage: Stage) -> None:
    web, _ = stage.task("backup-web"), stage.task("backup-db")
    assert stage.crontab.get("backup-web") == web
    for begun, names in (("backup", ["backup-db", "backup-web"]), ("backup-w", ["backup-web"])):
        with pytest.raises(NotExact) as refused:
            stage.crontab.get(begun)
        assert refused.value.names == names
        assert refused.value.exit_code == ExitCode.NOT_FOUND
    with pytest.raises(NotFound, match="there is no task 'nix'"):
        stage.crontab.get("nix")


def test_a_name_that_is_not_there_is_not_found(stage: Stage) -> None:
    with pytest.raises(NotFound, match="there is no task 'nix'") as failure:
        stage.crontab.get("nix")
    assert failure.value.exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("name", ["", "%", "a b", "x\0y", "\udcff", "n" * 101])
def test_what_can_be_no_name_is_refused(stage: Stage, name: str) -> None:
    stage.task("backup")
    with pytest.raises(UsageError, match="cannot be a task's name"):
        stage.crontab.get(name)


def test_a_view_shows_the_next_the_last_and_the_living_run(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    view = stage.crontab.view("backup")
    assert (view.task, view.next_run, view.last_run, view.alive) == (
        task,
        shown(stage.find_next_run(task)),
        None,
        (),
    )
    stage.now = at("12:10")
    (run,) = stage.take(node)
    view = stage.crontab.view("backup")
    assert view.last_run
    assert (view.last_run.id, [each.id for each in view.alive]) == (run.id, [run.id])
    stage.finish(node, run.id, RunState.FAILED)
    stage.now = at("12:20")
    view = stage.crontab.view("backup")
    assert view.last_run
    assert (view.last_run.state, view.alive) == (RunState.FAILED, ())
    assert view.next_run
    assert view.next_run.due_at == at("12:20")


def test_a_skipped_run_is_not_the_last_run(stage: Stage) -> None:
    stage.task("backup")
    stage.now = at("12:10")
    (run,) = stage.take(stage.node())
    stage.now = at("12:20")
    stage.take(stage.node("web-2"))
    assert stage.crontab.last_run("backup").id == run.id
    view = stage.crontab.view("backup")
    assert view.last_run
    assert view.last_run.id == run.id


def test_views_come_in_the_order_of_names_on_all_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.services.tasks.tasks.PAGE", 3)
    names = ["B", "a", "a-1", "a.1", "a1", "b", "z"]
    for name in reversed(names):
        stage.task(name)
    shown = [view.task.name for view in stage.crontab.list_tasks()]
    assert shown == sorted(names)
    assert [view.next_run is not None for view in stage.crontab.list_tasks()] == [True] * len(names)


def test_views_can_be_of_the_paused_or_the_failed_only(stage: Stage) -> None:
    stage.task("fine")
    stage.crontab.pause(stage.task("paused"))
    stage.task("failing", "5 * * * *")
    stage.now = at("12:05")
    node = stage.node()
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    assert [view.task.name for view in stage.crontab.list_tasks([Term("paused")])] == ["paused"]
    assert [view.task.name for view in stage.crontab.list_tasks([Term("failed")])] == ["failing"]


def test_the_second_of_two_editors_learns_who_was_first(stage: Stage) -> None:
    task = stage.task("backup")
    stage.forward(minutes=1)
    other(stage).edit(task, {"command": "theirs"})
    with pytest.raises(Conflict) as failure:
        stage.crontab.edit(task, {"command": "mine"})
    assert re.fullmatch(
        r"backup was changed meanwhile \(bob@laptop \(as \w+\), 2027-06-01T12:01:00Z, set\);"
        " look at it again and repeat your change",
        str(failure.value),
    )
    assert failure.value.exit_code == ExitCode.CONFLICT
    assert stage.crontab.get("backup").command == "theirs"


def test_a_conflict_names_a_task_that_has_another_name_now(stage: Stage) -> None:
    task = stage.task("backup")
    other(stage).edit(task, {"name": "renamed"})
    with pytest.raises(Conflict, match=r"bob@laptop \(as \w+\), 2027-06-01T12:00:00Z, set"):
        stage.crontab.remove(task)


@pytest.mark.parametrize(
    ("act", "action"),
    [
        (lambda service, task: service.pause(task), "pause"),
        (lambda service, task: service.edit(task, {"describe": "x"}), "set"),
    ],
)
def test_every_change_is_refused_when_the_task_has_changed(stage: Stage, act: Any, action: str) -> None:
    task = stage.task("backup")
    act(other(stage), task)
    for attempt in (
        lambda: stage.crontab.edit(task, {"command": "mine"}),
        lambda: stage.crontab.pause(task),
        lambda: stage.crontab.remove(task),
    ):
        with pytest.raises(Conflict, match=rf"bob@laptop \(as \w+\), 2027-06-01T12:00:00Z, {action}"):
            attempt()


def test_a_task_that_was_removed_meanwhile_is_not_found(stage: Stage) -> None:
    task = stage.task("backup")
    other(stage).remove(task)
    with pytest.raises(NotFound, match=r"backup was removed meanwhile \(bob@laptop \(as \w+\), .*, rm\)"):
        stage.crontab.edit(task, {"command": "mine"})


def test_an_edit_that_changes_nothing_is_no_change(stage: Stage) -> None:
    task = stage.task("backup")
    assert stage.crontab.edit(task, {"command": task.command}) == task
    assert change_log(stage) == [("ann@desk", "add", "backup")]


def test_a_task_keeps_its_history_under_a_new_name(stage: Stage) -> None:
    task, node = stage.task("old"), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.crontab.edit(task, {"name": "new"})
    stage.plan()
    assert stage.crontab.task_id("new") == task.id
    assert stage.crontab.last_run("new").id == run.id
    planned = stage.next_run(task)
    assert planned.task == "new"
    assert stage.task("old").id != task.id


def test_a_name_that_another_task_has_is_refused(stage: Stage) -> None:
    stage.task("taken")
    task = stage.task("backup")
    with pytest.raises(Refused, match="there is a task 'taken' already"):
        stage.crontab.edit(task, {"name": "taken"})
    assert stage.crontab.get("backup") == task


def test_removing_a_task_removes_what_waits_and_leaves_what_runs(stage: Stage) -> None:
    task, node = stage.task("backup", max_running=None), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    by_hand = stage.crontab.run(task)
    stage.crontab.remove(task)
    with pytest.raises(NotFound):
        stage.crontab.get("backup")
    found = {each.id: each for each in stage.runs(task.id)}
    assert set(found) == {run.id, by_hand.id}
    assert found[run.id].state is RunState.RUNNING
    assert found[by_hand.id].reason == "no longer wanted: removed by ann@desk"
    assert stage.finish(node, run.id) == {run.id}


def test_the_history_of_a_removed_task_is_found_by_its_name(stage: Stage) -> None:
    task = stage.task("backup")
    stage.crontab.remove(task)
    assert stage.crontab.task_id("backup") == task.id
    again = stage.task("backup")
    assert stage.crontab.task_id("backup") == again.id != task.id
    with pytest.raises(NotFound):
        stage.crontab.task_id("never-was")


def test_a_pause_says_who_and_why_and_is_not_repeated(stage: Stage) -> None:
    task = stage.crontab.pause(stage.task("backup"), reason="moving", until=at("13:00"))
    assert (task.enabled, task.paused_reason, task.paused_by) == (False, "moving", "ann@desk")
    assert (task.paused_at, task.paused_until) == (NOON, at("13:00"))
    with pytest.raises(Refused, match="backup is paused already: moving"):
        stage.crontab.pause(task)
    resumed = stage.crontab.resume(task)
    assert (resumed.enabled, resumed.paused_reason, resumed.paused_by) == (True, None, None)
    assert (resumed.paused_at, resumed.paused_until) == (None, None)
    with pytest.raises(Refused, match="backup is not paused"):
        stage.crontab.resume(resumed)


@pytest.mark.parametrize(
    ("reason", "until"), [("a\0b", None), ("\udcff", None), (None, "12:00"), (None, "11:59")]
)
def test_a_pause_that_makes_no_sense_is_refused(stage: Stage, reason: str | None, until: str | None) -> None:
    task = stage.task("backup")
    with pytest.raises(UsageError):
        stage.crontab.pause(task, reason, at(until) if until else None)
    assert stage.crontab.get("backup") == task


def test_a_run_by_hand_is_due_at_once_though_the_task_is_paused(stage: Stage) -> None:
    task = stage.crontab.pause(stage.task("backup"))
    run = stage.crontab.run(task, payload="x")
    assert (run.trigger, run.state, run.due_at, run.payload) == (Trigger.MANUAL, RunState.WAITING, NOON, "x")
    assert run.spec == task.spec()
    assert stage.crontab.find_run(run.id) == run


@pytest.mark.parametrize("payload", ["a\0b", "\udcff"])
def test_a_payload_that_no_command_can_be_given_is_refused(stage: Stage, payload: str) -> None:
    task = stage.task("backup")
    with pytest.raises(UsageError, match="payload"):
        stage.crontab.run(task, payload)


def test_a_task_that_agents_cannot_run_is_not_run_by_hand_either(stage: Stage) -> None:
    task = stage.saved(stage.insert_task(env="A=1"))
    with pytest.raises(UsageError, match="env: 'A=1' is not JSON"):
        stage.crontab.run(task)


def test_a_run_that_is_not_there_is_not_found(stage: Stage) -> None:
    for call in (stage.crontab.find_run, stage.crontab.cancel):
        with pytest.raises(NotFound, match="there is no run 99"):
            call(99)
    stage.task("backup")
    with pytest.raises(NotFound, match="backup has not run yet"):
        stage.crontab.last_run("backup")


def test_runs_are_listed_the_newest_first_as_wanted(stage: Stage) -> None:
    elsewhere = stage.insert_run(task_id=999, task="gone", state="failed", finished_at=at("11:00"))
    task, node = stage.task("backup"), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    stage.finish(node, run.id)
    (waiting,) = stage.runs(task.id, RunState.WAITING)
    assert listed(stage, RunFilter()) == [waiting.id, run.id, elsewhere]
    assert listed(stage, RunFilter(task_id=task.id)) == [waiting.id, run.id]
    assert listed(stage, RunFilter(states=[RunState.FAILED, RunState.SUCCEEDED])) == [run.id, elsewhere]
    assert listed(stage, RunFilter(since=at("12:00"))) == [waiting.id, run.id]
    assert listed(stage, RunFilter(before_id=run.id)) == [elsewhere]
    assert [each.id for each in stage.crontab.runs(RunFilter(), limit=1)] == [waiting.id]


def listed(stage: Stage, expected: RunFilter) -> list[int]:
    return [run.id for run in stage.crontab.runs(expected, limit=10)]


def test_a_cancelled_run_makes_room_for_the_next_one(stage: Stage) -> None:
    task = stage.task("backup")
    planned = stage.next_run(task)
    run = stage.crontab.cancel(planned.id)
    assert (run.state, run.reason, run.finished_at) == (RunState.CANCELLED, "cancelled by ann@desk", NOON)
    following = stage.next_run(task)
    assert following.due_at == at("12:20")


def test_a_cancelled_run_that_was_long_due_is_followed_by_one_to_come(stage: Stage) -> None:
    task = stage.task("backup")
    planned = stage.next_run(task)
    stage.now = at("13:05")
    stage.crontab.cancel(planned.id)
    following = stage.next_run(task)
    assert following.due_at == at("13:10")


def test_a_cancelled_run_by_hand_leaves_the_next_run_alone(stage: Stage) -> None:
    task = stage.task("backup")
    before = stage.next_run(task)
    run = stage.crontab.cancel(stage.crontab.run(task).id)
    assert run.state is RunState.CANCELLED
    assert stage.next_run(task) == before


def test_a_run_of_a_task_that_cannot_be_read_can_be_cancelled(stage: Stage) -> None:
    task = stage.task("backup")
    stage.set_task(task.id, schedule="nonsense")
    (planned,) = stage.runs(task.id)
    assert stage.crontab.cancel(planned.id).state is RunState.CANCELLED
    assert stage.saved(task.id).error


def test_the_owner_of_a_running_run_is_asked_to_stop_it(stage: Stage) -> None:
    stage.task("backup")
    stage.now = at("12:10")
    node = stage.node()
    (claimed,) = stage.take(node)
    run = stage.crontab.cancel(claimed.id)
    assert (run.state, run.cancel_requested_by) == (RunState.RUNNING, "ann@desk")
    assert stage.cancel_requests(node) == {run.id: "ann@desk"}
    assert stage.cancel_requests(stage.node("web-2")) == {}
    stage.finish(node, run.id, RunState.CANCELLED, reason="cancelled by ann@desk")
    assert stage.cancel_requests(node) == {}
    with pytest.raises(Refused, match=f"run {run.id} of backup is over: cancelled"):
        stage.crontab.cancel(run.id)


def test_a_cancelled_claim_is_stopped_as_soon_as_it_runs(stage: Stage) -> None:
    stage.task("backup")
    stage.now = at("12:10")
    node = stage.node()
    claimed = stage.claim(node)
    stage.crontab.cancel(claimed[0].id)
    assert stage.cancel_requests(node) == {}
    stage.start(node, claimed)
    assert stage.cancel_requests(node) == {claimed[0].id: "ann@desk"}


def test_what_a_run_printed_is_read_from_any_place_on(stage: Stage) -> None:
    chunks = [Chunk(1, 0, "out", NOON, b"one\n"), Chunk(1, 4, "err", NOON, b"two\n")]
    with stage.database.write() as connection:
        output.append(connection, stage.database, chunks)
        output.append(connection, stage.database, chunks)  # delivered twice, after a lost answer
        assert output.size(connection, 1) == 8
        assert output.size(connection, 2) == 0
    assert stage.crontab.output(1, 0) == chunks
    assert stage.crontab.output(1, 4) == chunks[1:]
    assert stage.crontab.output(2, 0) == []


def test_of_too_much_output_head_and_tail_are_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "HEAD_BYTES", 20)
    monkeypatch.setattr(output, "TAIL_BYTES", 20)
    with stage.database.write() as connection:
        for offset in range(0, 100, 10):
            output.append(connection, stage.database, [Chunk(1, offset, "out", NOON, b"0123456789")])
    assert [chunk.byte_offset for chunk in stage.crontab.output(1, 0)] == [0, 10, 80, 90]


def test_nodes_are_shown_while_they_live_and_for_a_day_after(stage: Stage) -> None:
    ended, living = stage.node("ended"), stage.node("living")
    stage.sign_off(ended)
    shown = [(node.id, node.state(stage.now)) for node in stage.crontab.nodes()]
    assert shown == [(ended, "stopped"), (living, "alive")]
    stage.forward(hours=25)
    assert [(node.id, node.state(stage.now)) for node in stage.crontab.nodes()] == [(living, "late")]


def test_an_import_adds_and_rewrites_and_removes_nothing(stage: Stage) -> None:
    stage.task("kept")
    stage.task("changed", "@daily")
    lines = [definition("changed", "@hourly"), definition("added"), stage.crontab.get("kept").definition()]
    first = stage.crontab.import_tasks(lines[:2])
    assert (first.added, first.changed, first.unchanged) == (["added"], ["changed"], [])
    assert [task.name for task in stage.crontab.export_tasks()] == ["added", "changed", "kept"]


def test_importing_twice_changes_nothing(stage: Stage) -> None:
    lines = [FULL, definition("once", "@at 2027-06-01T12:05:00Z"), definition("backup")]
    stage.crontab.import_tasks(lines)
    before, log = stage.runs(), change_log(stage)
    stage.now = at("12:10")  # what was for 12:05 has passed, and still is no change
    again = stage.crontab.import_tasks(lines)
    assert (again.added, again.changed) == ([], [])
    assert again.unchanged == ["full", "once", "backup"]
    assert (stage.runs(), change_log(stage)) == (before, log)


def test_an_export_can_be_imported_elsewhere(stage: Stage) -> None:
    stage.crontab.import_tasks([FULL, definition("backup")])
    exported = stage.crontab.export_tasks()
    assert exported == [definition("backup"), FULL]
    for line in exported:
        stage.crontab.remove(stage.crontab.get(line.name))
    stage.crontab.import_tasks(exported)
    assert stage.crontab.export_tasks() == exported


@pytest.mark.parametrize("bad", [{"schedule": "nonsense"}, {"name": "a b"}, {"timezone": "Mars"}])
def test_an_import_is_done_wholly_or_not_at_all(stage: Stage, bad: dict[str, str]) -> None:
    stage.task("old")
    lines = [definition("new"), definition("old", "@daily"), replace(definition("bad"), **bad)]  # type: ignore[arg-type]
    before, log = stage.runs(), change_log(stage)
    with pytest.raises(UsageError):
        stage.crontab.import_tasks(lines)
    assert [line.name for line in stage.crontab.export_tasks()] == ["old"]
    assert (stage.runs(), change_log(stage)) == (before, log)


def test_a_dry_import_shows_and_does_nothing(stage: Stage) -> None:
    stage.task("old")
    message = stage.crontab.import_tasks([definition("new"), definition("old", "@daily")], dry_run=True)
    assert (message.added, message.changed) == (["new"], ["old"])
    assert [line.name for line in stage.crontab.export_tasks()] == ["old"]


def test_a_one_off_is_not_exported(stage: Stage) -> None:
    stage.crontab.add(definition("once", "@at 2027-06-01T13:00:00Z"), once=True)
    assert stage.crontab.export_tasks() == []


def test_every_change_is_recorded_with_who_did_it(stage: Stage) -> None:
    task = stage.task("backup")
    task = other(stage).edit(task, {"name": "copy"})
    task = stage.crontab.pause(task, reason="moving")
    task = other(stage).resume(task)
    stage.crontab.run(task)
    stage.crontab.remove(task)
    assert change_log(stage) == [
        ("ann@desk", "add", "backup"),
        ("bob@laptop", "set", "copy"),
        ("ann@desk", "pause", "copy"),
        ("bob@laptop", "resume", "copy"),
        ("ann@desk", "run", "copy"),
        ("ann@desk", "rm", "copy"),
    ]
    with stage.database.read() as connection:
        edit = connection.execute(select(changes).where(changes.c.action == "set")).one()
    assert (edit.before["name"], edit.after["name"]) == ("backup", "copy")
    assert (edit.task_id, edit.at) == (task.id, NOON)


def test_the_service_says_what_time_the_database_has(stage: Stage) -> None:
    assert stage.crontab.now() == NOON


def test_one_word_is_a_shell_line_and_several_are_not() -> None:
    assert command_text(["echo $HOME | wc"]) == ("echo $HOME | wc", None)
    assert command_text(["echo", "two words"]) == ("echo 'two words'", ("echo", "two words"))


def test_a_task_is_its_definition_and_what_is_known_of_it(stage: Stage) -> None:
    task = stage.crontab.add(FULL)
    assert isinstance(task, Task)
    assert replace(task.definition(), name="other") == replace(FULL, name="other")


def test_a_one_off_whose_time_is_past_can_be_corrected(stage: Stage) -> None:
    stage.crontab.add(definition("once", "@at 2027-06-01T12:10:00Z", command="exit 3"), once=True)
    node = stage.node(lease=3600)
    stage.forward(minutes=10)
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    mended = stage.crontab.edit(stage.crontab.get("once"), {"command": "true", "tries": 2})
    assert (mended.command, mended.error, stage.find_next_run(mended)) == ("true", None, None)
    assert DeadLetters(stage.crontab).retry(run.id).spec["command"] == "true"
    with pytest.raises(ScheduleError, match="never fires"):
        stage.crontab.edit(mended, {"schedule": "@at 2027-06-01T12:05:00Z"})
    with pytest.raises(ScheduleError, match="never fires"):
        stage.crontab.add(definition("late", "@at 2027-06-01T12:05:00Z"), once=True)


def test_a_task_whose_window_is_over_can_be_described(stage: Stage) -> None:
    Calendars(stage.crontab).put(Calendar("rest", weekdays=frozenset([5])))
    task = stage.task("season", not_after=NOON + timedelta(minutes=30), except_calendar="rest")
    stage.forward(hours=1)
    described = stage.crontab.edit(task, {"describe": "of last season"})
    with pytest.raises(ScheduleError, match="never fires"):
        stage.crontab.edit(described, {"except_calendar": None, "timezone": "Europe/Berlin"})
