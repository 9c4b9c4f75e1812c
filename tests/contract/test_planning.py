"""Planning: each active task has exactly one next run, after every kind of change."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from dcron.errors import DatabaseError
from dcron.model import RunState, Task
from dcron.store.planning import planning
from tests.support.stage import LEASE, NOON, Stage, at


def due_at(stage: Stage, task: Task) -> Any:
    planned = stage.find_next_run(task)
    return planned.due_at if planned else None


def reasons(stage: Stage, task: Task) -> list[str | None]:
    return [run.reason for run in stage.runs(task.id, RunState.SKIPPED)]


def test_a_new_task_has_its_next_run(stage: Stage) -> None:
    task = stage.task("backup", "30 * * * *")
    planned = stage.next_run(task)
    assert (planned.due_at, planned.scheduled_for, planned.trigger) == (at("12:30"), at("12:30"), "schedule")
    assert (planned.task, planned.spec) == ("backup", task.spec())
    assert task.planned_version == task.version
    assert not stage.has_to_plan()


def test_planning_again_changes_nothing(stage: Stage) -> None:
    task = stage.task("backup")
    before = stage.runs()
    stage.set_task(task.id, version=2)
    assert stage.plan() == 1
    assert stage.runs() == before
    assert stage.plan() == 0


def test_an_edit_of_the_command_keeps_the_next_run_even_one_that_is_due(stage: Stage) -> None:
    task = stage.task("backup", command="old")
    before = stage.next_run(task)
    stage.now = at("12:25")
    task = stage.crontab.edit(task, {"command": "new"})
    after = stage.next_run(task)
    assert before
    assert after
    assert (after.id, after.due_at) == (before.id, at("12:10"))
    assert after.spec["command"] == "new"


def test_an_edit_of_the_schedule_moves_the_next_run(stage: Stage) -> None:
    task = stage.task("backup")
    task = stage.crontab.edit(task, {"schedule": "45 * * * *"})
    assert due_at(stage, task) == at("12:45")
    assert len(stage.runs(task.id)) == 1


def test_an_edit_of_the_zone_moves_the_next_run(stage: Stage) -> None:
    task = stage.task("backup", "0 13 * * *")
    task = stage.crontab.edit(task, {"timezone": "Europe/Berlin"})
    assert due_at(stage, task) == at("11:00").replace(day=2)


def test_a_new_name_moves_a_run_whose_time_follows_from_it(stage: Stage) -> None:
    hashed, plain = stage.task("a", "H H * * *"), stage.task("b", "0 13 * * *")
    before = due_at(stage, hashed)
    assert due_at(stage, stage.crontab.edit(hashed, {"name": "quite-another"})) != before
    assert due_at(stage, stage.crontab.edit(plain, {"name": "c"})) == at("13:00")


def test_a_due_run_that_an_edit_overtakes_stays_on_record(stage: Stage) -> None:
    task = stage.task("backup")
    stage.now = at("12:12")
    task = stage.crontab.edit(task, {"schedule": "45 * * * *"})
    assert due_at(stage, task) == at("12:45")
    (skipped,) = stage.runs(task.id, RunState.SKIPPED)
    assert (skipped.scheduled_for, skipped.reason) == (at("12:10"), "replaced by an edit")


def test_what_downtime_left_is_in_the_record_when_an_edit_overtakes_it(stage: Stage) -> None:
    task = stage.task("backup")
    stage.now = at("12:41")
    task = stage.crontab.edit(task, {"schedule": "45 * * * *"})
    assert reasons(stage, task) == [
        "replaced by an edit (4 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:40:00Z)"
    ]


def test_a_pause_takes_the_next_run_away(stage: Stage) -> None:
    task = stage.crontab.pause(stage.task("backup"))
    assert stage.runs(task.id) == []
    assert not stage.has_to_plan()


def test_a_pause_leaves_a_due_run_on_record(stage: Stage) -> None:
    task = stage.task("backup")
    stage.now = at("12:12")
    task = stage.crontab.pause(task, reason="moving")
    assert reasons(stage, task) == ["paused by ann@desk: moving"]
    assert stage.find_next_run(task) is None


def test_the_end_of_a_pause_is_recorded_in_one_row(stage: Stage) -> None:
    task = stage.task("backup")
    stage.now = at("12:05")
    task = stage.crontab.pause(task, reason="moving")
    stage.now = at("12:35")
    task = stage.crontab.resume(task)
    assert due_at(stage, task) == at("12:40")
    assert reasons(stage, task) == [
        "paused by ann@desk: moving (3 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:30:00Z)"
    ]


def test_a_pause_without_an_occurrence_leaves_no_trace(stage: Stage) -> None:
    task = stage.crontab.pause(stage.task("backup"))
    stage.now = at("12:05")
    task = stage.crontab.resume(task)
    assert [run.state for run in stage.runs(task.id)] == [RunState.WAITING]


@pytest.mark.parametrize("pause_at", ["12:10", "12:09"])
@pytest.mark.parametrize("resume_at", ["12:30", "12:31"])
def test_no_occurrence_is_lost_or_recorded_twice_at_the_edges_of_a_pause(
    stage: Stage, pause_at: str, resume_at: str
) -> None:
    task = stage.task("backup")
    stage.now = at(pause_at)
    task = stage.crontab.pause(task)
    stage.now = at(resume_at)
    task = stage.crontab.resume(task)
    assert due_at(stage, task) == at("12:40")
    message = " ".join(str(reason) for reason in reasons(stage, task))
    expected = "3 occurrences" if pause_at == "12:09" else "2 occurrences"
    assert expected in message
    assert len(reasons(stage, task)) == (1 if pause_at == "12:09" else 2)


def test_a_pause_that_ends_by_itself_is_resumed_by_the_agents(stage: Stage) -> None:
    task = stage.crontab.pause(stage.task("backup"), until=at("12:35"))
    assert not stage.has_to_plan()
    stage.now = at("12:36")
    assert stage.has_to_plan()
    assert stage.plan() == 1
    task = stage.saved(task.id)
    assert (task.enabled, task.paused_at, task.paused_until, task.paused_by) == (True, None, None, None)
    assert due_at(stage, task) == at("12:40")
    assert "3 occurrences" in str(reasons(stage, task))
    assert not stage.has_to_plan()


def test_a_time_that_has_passed_leaves_the_task_without_a_next_run(stage: Stage) -> None:
    task = stage.task("once", "@at 2027-06-01T12:10:00Z")
    stage.take(stage.node())
    stage.now = at("12:30")
    stage.set_task(task.id, version=2)
    stage.set_task(task.id, command="echo")
    stage.plan()
    assert stage.saved(task.id).error is None
    assert due_at(stage, task) == at("12:10"), "a due run stays until a node claims it"
    stage.take(stage.node("web-2"))
    stage.set_task(task.id, version=3)
    stage.plan()
    assert stage.find_next_run(task) is None
    assert stage.saved(task.id).error is None


def test_a_reboot_task_waits_for_nodes_and_not_for_the_clock(stage: Stage) -> None:
    task = stage.task("greet", "@reboot")
    assert stage.runs(task.id) == []
    node = stage.node()
    assert start_node(stage, node) == 1
    (run,) = stage.runs(task.id)
    assert (run.for_node, run.trigger, run.due_at) == (node, "reboot", NOON)
    assert [claimed.id for claimed in stage.take(node)] == [run.id]
    assert stage.runs(task.id, RunState.WAITING) == [], "a reboot has no successor"


def test_a_paused_task_does_not_run_when_a_node_starts(stage: Stage) -> None:
    stage.crontab.pause(stage.task("greet", "@reboot"))
    assert start_node(stage, stage.node()) == 0


def test_a_task_that_is_edited_to_reboot_only_loses_its_next_run(stage: Stage) -> None:
    task = stage.crontab.edit(stage.task("backup"), {"schedule": "@reboot"})
    assert stage.runs(task.id) == []


def test_each_lane_knows_when_its_first_run_is_due(stage: Stage) -> None:
    task = stage.task("backup", "0 13 * * *")
    for minute in (3, 2, 4):
        stage.insert_run(task_id=task.id, due_at=at(f"12:0{minute}"))
    stage.insert_run(lane="mail priority=high", due_at=at("12:01"))
    stage.insert_run(lane="mail priority=high", due_at=at("12:00"), blocked="limit")
    stage.insert_run(lane="what is this", due_at=at("12:00"))
    with stage.database.read() as connection:
        heads = {str(head.lane): head.due_at for head in planning.heads(connection)}
    assert heads == {"default": at("12:02"), "mail priority=high": at("12:01")}


def test_lanes_beyond_a_look_are_found_by_the_next(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_LANES", 3)
    for number in range(7):
        stage.insert_run(lane=f"queue{number}", queue=f"queue{number}", due_at=at("12:00"))
    found, lane = [], ""
    with stage.database.read() as connection:
        for _ in range(3):
            heads, lane = planning.heads_after(connection, lane)
            found.append([head.lane.queue for head in heads])
    assert found == [["queue0", "queue1", "queue2"], ["queue3", "queue4", "queue5"], ["queue6"]]
    assert lane == "", "the look after that begins anew"


# Tasks written by hand -----------------------------------------------------------------------------


def test_a_task_inserted_by_hand_is_planned(stage: Stage) -> None:
    stage.sql("INSERT INTO crontab (name, schedule, command) VALUES ('typed', '*/15 * * * *', 'true')")
    assert stage.has_to_plan()
    assert stage.plan() == 1
    (run,) = stage.runs()
    assert (run.task, run.due_at, run.state) == ("typed", at("12:15"), RunState.WAITING)
    assert run.spec["command"] == "true"


def test_a_task_changed_by_hand_is_planned_anew_when_its_version_grows(stage: Stage) -> None:
    task = stage.task("backup")
    stage.sql("UPDATE crontab SET schedule = '45 * * * *', version = version + 1 WHERE name = 'backup'")
    assert stage.plan() == 1
    assert due_at(stage, task) == at("12:45")


POISON: dict[str, dict[str, Any]] = {
    "a schedule that cannot be read": {"schedule": "every now and then"},
    "a day that never comes": {"schedule": "61 * * * *"},
    "a zone that is not there": {"timezone": "Mars/Olympus"},
    "a zone that is a path": {"timezone": "../../etc/passwd"},
    "a zone that is nothing": {"timezone": ""},
    "no JSON in env": {"env": "A=1"},
    "half a JSON in env": {"env": '{"A": "1"'},
    "a list in env": {"env": '["A"]'},
    "a number in env": {"env": '{"A": 1}'},
    "a list within env": {"env": '{"A": []}'},
    "a name for no variable in env": {"env": '{"A=B": "1"}'},
    "an abyss in env": {"env": "[" * 100_000},
    "no JSON in argv": {"argv": "ls -l"},
    "an object in argv": {"argv": '{"ls": 1}'},
    "a text in argv": {"argv": '"ls"'},
    "a number in argv": {"argv": '["ls", 1]'},
    "NUL in env": {"env": '{"A": "\\u0000"}'},
    "half a character in argv": {"argv": '["\\ud800"]'},
    "an empty command": {"command": "  "},
    "a relative directory": {"cwd": "tmp"},
    "a relative shell": {"shell": "bash"},
    "reboot and nonsense": {"schedule": "@reboot @reboot maybe"},
    "forms that exclude each other": {"schedule": "@after a | @daily"},
    "a number in require": {"require": "[1]"},
    "no JSON in require": {"require": "ssd"},
    "an object in require": {"require": '{"ssd": 1}'},
    "two words in require": {"require": '["a b"]'},
    "a comma in require": {"require": '["a,b"]'},
    "a tag twice in require": {"require": '["a", "a"]'},
    "a text in need": {"need": '{"gpu": "x"}'},
    "no number in need": {"need": '{"gpu": NaN}'},
    "nothing in need": {"need": '{"gpu": 0}'},
    "less than nothing in need": {"need": '{"gpu": -1}'},
    "slots in need": {"need": '{"slots": 1}'},
    "two words in need": {"need": '{"a b": 1}'},
    "a list in need": {"need": '["gpu"]'},
    "no JSON in limit": {"limit": "no"},
    "a text in limit": {"limit": '{"files": "many"}'},
    "what cannot be limited": {"limit": '{"love": 1}'},
    "a lost run retried in one try": {"on_lost": "retry"},
    "no time to start": {"deadline": 0},
    "no jitter at all": {"jitter": 0},
    "a window of nothing": {"catch_up_window": 0},
}


MENDED = {
    **{"schedule": "*/10 * * * *", "timezone": "UTC", "command": "true", "shell": "/bin/sh", "env": {}},
    **dict.fromkeys(("argv", "cwd", "user", "stdin", "describe", "deadline", "jitter", "catch_up_window")),
    **{"require": (), "need": {}, "limit": {}, "on_lost": "dead"},
}


@pytest.mark.slow
def test_poisoned_tasks_are_suspended_and_stop_no_other(stage: Stage) -> None:
    poisoned = {what: stage.insert_task(name=named(what), **values) for what, values in POISON.items()}
    assert_harmless(stage, poisoned)


@pytest.mark.slow
def test_poisoned_tasks_whose_pause_ends_are_suspended(stage: Stage) -> None:
    poisoned = {what: stage.insert_task(name=named(what), **values) for what, values in POISON.items()}
    for task_id in poisoned.values():
        stage.set_task(task_id, enabled=False, paused_at=at("11:00"), paused_until=at("12:00"))
    assert_harmless(stage, poisoned)
    assert all(stage.saved(task_id).enabled for task_id in poisoned.values())


@pytest.mark.slow
def test_tasks_poisoned_while_agents_run_are_harmless_too(stage: Stage) -> None:
    """Their version does not grow: claims meet them, planning does not."""
    poisoned = {what: stage.task(named(what)).id for what in POISON}
    healthy, node = stage.task("healthy"), stage.node()
    for what, values in POISON.items():
        sets = ", ".join(f'"{name}" = :{name}' for name in values)
        stage.sql(f"UPDATE crontab SET {sets} WHERE id = :id", id=poisoned[what], **values)
    stage.now = at("12:10")
    assert len(stage.take(node, limit=100)) == len(POISON) + 1, "what was planned before still runs"
    assert [run.task for run in stage.runs(None, RunState.WAITING)] == [healthy.name]
    assert [what for what, task_id in poisoned.items() if not stage.saved(task_id).error] == []


NO_LINE: list[dict[str, Any]] = [
    *({"queue": queue} for queue in ("", "a b", "a,b", "x" * 101, None)),
    *({"tries": tries} for tries in (0, -1, 1001, "many", None)),
    *({"backoff": backoff} for backoff in (-1, 1e12, "long")),
    *({"backoff_factor": factor} for factor in (0.5, 1001)),
    *({column: -1} for column in ("backoff_max", "deadline", "catch_up_window", "jitter")),
    *({column: "now"} for column in ("overlap", "on_lost", "catch_up", "priority")),
    *({column: None} for column in ("overlap", "require", "need", "limit", "every_node")),
    {"jitter": 86_401},
    {"every_node": "perhaps"},
]


def test_what_no_task_can_be_the_database_itself_refuses(stage: Stage) -> None:
    for values in NO_LINE:
        with pytest.raises((IntegrityError, DatabaseError)):
            stage.insert_task(**values)
    assert list(stage.crontab.tasks()) == []


ONE_LINE = ("schedule", "timezone", "user")
"""Columns in which the database itself takes no control character."""


def test_a_nul_is_refused_where_a_text_stays_on_one_line(sqlite_stage: Stage) -> None:
    sqlite_stage.insert_task(name="one")
    for column in ONE_LINE:
        with pytest.raises((IntegrityError, DatabaseError)):
            sqlite_stage.sql(f"UPDATE crontab SET \"{column}\" = CAST(x'6100' AS TEXT)")


@pytest.mark.parametrize("poison", ["x'6100'", "x'ff'"], ids=["NUL", "not UTF-8"])
def test_texts_that_only_sqlite_takes_are_harmless(sqlite_stage: Stage, poison: str) -> None:
    columns = ["command", "stdin", "env", "argv", "describe", "cwd"]
    columns += [] if poison == "x'6100'" else ONE_LINE
    poisoned = {column: sqlite_stage.insert_task(name=column) for column in columns}
    for column in columns:
        sqlite_stage.sql(f"UPDATE crontab SET \"{column}\" = CAST({poison} AS TEXT) WHERE name = '{column}'")
    assert_harmless(sqlite_stage, poisoned)


def named(what: str) -> str:
    return what.replace(" ", "-")


def assert_harmless(stage: Stage, poisoned: dict[str, int]) -> None:
    """The tasks have errors and no next run; another one is planned and run; they can be repaired."""
    stage.insert_task(name="healthy")
    stage.plan()
    lines = {what: stage.saved(task_id) for what, task_id in poisoned.items()}
    assert [what for what, line in lines.items() if not line.error] == []
    assert [what for what, line in lines.items() if stage.find_next_run(line)] == []
    assert not stage.has_to_plan(), "a line that cannot be planned must not keep the agents busy"
    node = stage.node()
    start_node(stage, node)
    stage.now = at("12:10")
    assert [run.task.name for run in stage.take(node, limit=100)] == ["healthy"]
    assert len(list(stage.crontab.list_tasks())) == len(poisoned) + 1

    mended = {what: stage.crontab.edit(line, MENDED) for what, line in lines.items()}
    assert {what: line.error for what, line in mended.items() if line.error} == {}
    assert {due_at(stage, line) for line in mended.values()} == {at("12:20")}


def test_a_run_that_cannot_be_read_is_skipped_and_stops_no_other(stage: Stage) -> None:
    task, healthy, node = stage.task("poison"), stage.task("healthy"), stage.node()
    stage.sql("UPDATE runs SET spec = 'rm -rf' WHERE task = 'poison'")
    stage.now = at("12:10")
    assert [run.task.name for run in stage.take(node)] == [healthy.name]
    assert "not a JSON object" in str(reasons(stage, task))
    assert due_at(stage, task) == at("12:20")


def test_postgres_refuses_nul_and_says_so(database_url: str, stage: Stage) -> None:
    if database_url.startswith("sqlite"):
        assert_harmless(stage, {"NUL": stage.insert_task(name="poison", command="a\0b")})
        return
    with pytest.raises(DatabaseError, match="NUL"):
        stage.insert_task(name="poison", command="a\0b")


def test_unreadable_reboot_tasks_do_not_keep_a_node_from_starting(stage: Stage) -> None:
    stage.insert_task(name="poison", schedule="@reboot or so")
    stage.insert_task(name="fine", schedule="@reboot")
    assert start_node(stage, stage.node()) == 1


@pytest.mark.slow
def test_tasks_are_planned_a_batch_at_a_time_until_none_is_left(stage: Stage) -> None:
    stage.execute(
        text("INSERT INTO crontab (name, schedule, command) VALUES (:name, '@hourly', 'true')"),
        [{"name": f"line-{number}"} for number in range(250)],
    )
    assert [stage.plan(), stage.plan(), stage.plan(), stage.plan()] == [100, 100, 50, 0]
    assert len(stage.runs()) == 250


def test_a_task_whose_claimer_died_is_planned_when_it_is_reaped(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    stage.now = at("12:10")
    stage.claim(node)
    stage.crontab.edit(task, {"schedule": "45 * * * *"})
    assert not stage.has_to_plan()
    stage.forward(seconds=LEASE + 1)
    stage.reap()
    assert stage.plan() == 1
    assert due_at(stage, task) == at("12:45")


def start_node(stage: Stage, node_id: str) -> int:
    with stage.database.write() as connection:
        return planning.add_reboot_runs(connection, node_id, stage.now)
