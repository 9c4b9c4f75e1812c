"""The schema itself refuses invalid rows, for every writer."""

from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError, StatementError

from tests.support.stage import NOON, Stage

OWNED = {"owner": "web-1-00000000", "claimed_at": NOON}
ENDED = {"finished_at": NOON}


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("runs_state_known", {"state": "dreaming"}),
        ("runs_trigger_known", {"trigger": "whim"}),
        ("runs_attempt_positive", {"attempt": 0}),
        ("runs_alive_owned", {"state": "claimed"}),
        ("runs_alive_owned", {"state": "claimed", "owner": "web-1-00000000"}),
        ("runs_alive_owned", {"state": "running", "started_at": NOON}),
        ("runs_running_started", {"state": "running", **OWNED}),
        ("runs_waiting_free", {"state": "waiting", "owner": "web-1-00000000"}),
        ("runs_final_finished", {"state": "succeeded", **OWNED}),
        ("runs_final_finished", {"state": "lost", **OWNED}),
        ("runs_final_finished", {"state": "cancelled"}),
        ("runs_final_finished", {"state": "waiting", **ENDED}),
        ("runs_final_finished", {"state": "running", "started_at": NOON, **OWNED, **ENDED}),
        ("runs_skipped_reason", {"state": "skipped", **ENDED}),
        ("runs_dead_failed", {"state": "succeeded", "dead_at": NOON, **ENDED}),
        ("runs_dead_failed", {"state": "waiting", "dead_at": NOON}),
    ],
)
def test_a_run_that_contradicts_itself_is_refused(stage: Stage, rule: str, values: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match=rule):
        stage.insert_run(**values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"state": "claimed", **OWNED},
        {"state": "running", "started_at": NOON, **OWNED},
        {"state": "succeeded", "started_at": NOON, **OWNED, **ENDED},
        {"state": "failed", "dead_at": NOON, **OWNED, **ENDED},
        {"state": "lost", "dead_at": NOON, **OWNED, **ENDED},
        {"state": "skipped", "reason": "overlap", **ENDED},
        {"state": "cancelled", **ENDED},
    ],
)
def test_every_state_of_the_chart_can_be_written(stage: Stage, values: dict[str, Any]) -> None:
    assert stage.insert_run(**values) > 0


@pytest.mark.parametrize("second", [{}, {"state": "claimed", **OWNED}])
def test_a_task_has_one_next_run(stage: Stage, second: dict[str, Any]) -> None:
    stage.insert_run(trigger="schedule", task_id=7)
    with pytest.raises(IntegrityError):
        stage.insert_run(trigger="schedule", task_id=7, **second)


def test_beside_its_next_run_a_task_has_any_number_of_others(stage: Stage) -> None:
    stage.insert_run(trigger="schedule", task_id=7)
    stage.insert_run(trigger="schedule", task_id=7, state="running", started_at=NOON, **OWNED)
    stage.insert_run(trigger="schedule", task_id=7, state="succeeded", **ENDED)
    stage.insert_run(trigger="manual", task_id=7)
    stage.insert_run(trigger="manual", task_id=7)
    assert len(stage.runs(7)) == 5


def test_a_run_is_retried_once(stage: Stage) -> None:
    failed = stage.insert_run(state="failed", **ENDED)
    stage.insert_run(retry_of=failed, attempt=2)
    with pytest.raises(IntegrityError):
        stage.insert_run(retry_of=failed, attempt=2)


def test_run_ids_are_never_used_again_for_they_are_fencing_tokens(stage: Stage) -> None:
    first = stage.insert_run()
    stage.sql("DELETE FROM runs")
    assert stage.insert_run() > first


@pytest.mark.parametrize(
    "values",
    [
        {"name": ""},
        {"name": "n" * 101},
        {"name": "two words"},
        {"name": "line\nbreak"},
        {"name": "ends-in-newline\n"},
        {"name": "esc\x1b[c"},
        {"name": "naïve"},
        {"schedule": ""},
        {"schedule": "*" * 257},
        {"command": ""},
        {"timeout": 0},
        {"timeout": -1.5},
        {"timeout": 1e12},
        {"max_running": 0},
        {"paused_at": "2027-06-01 12:00:00"},
        {"paused_until": "2027-06-01 12:00:00"},
        {"env": None},
    ],
)
def test_a_task_that_makes_no_sense_is_refused(stage: Stage, values: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError):
        stage.insert_task(**values)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("max_running", "'many'"),
        ("timeout", "'soon'"),
        ("version", "'x'"),
        ("planned_version", "1.5"),
        ("enabled", "'perhaps'"),
        ("changed_at", "'yesterday'"),
        ("changed_at", "'2027-06-01T12:00:00'"),
        ("changed_at", "'2027-02-30 12:00:00'"),
        ("changed_at", "'2027-06-01 12:00:00+02:00'"),
        ("changed_at", "12"),
        ("command", "x'00ff'"),
        ("command", "NULL"),
    ],
)
def test_sqlite_takes_only_values_it_can_read_again(sqlite_stage: Stage, column: str, value: str) -> None:
    with pytest.raises(IntegrityError):
        sqlite_stage.sql(f"INSERT INTO crontab (name, schedule, {column}) VALUES ('a', '@daily', {value})")


@pytest.mark.parametrize(
    "moment", ["2027-06-01 12:00:00", "2027-06-01 12:00:00.5", "2027-06-01 23:59:59.999999"]
)
def test_sqlite_takes_times_as_people_and_as_dcron_write_them(sqlite_stage: Stage, moment: str) -> None:
    task_id = sqlite_stage.insert_task(changed_at=moment)
    assert sqlite_stage.saved(task_id).changed_at.isoformat(sep=" ").startswith(moment)


def test_a_node_is_either_alive_or_ended_somehow(stage: Stage) -> None:
    node_id = stage.node()
    for change in ("died_at = alive_until", "died_how = 'dead'", "slots = 0"):
        with pytest.raises(IntegrityError):
            stage.sql(f"UPDATE nodes SET {change} WHERE id = :id", id=node_id)
    with pytest.raises(IntegrityError):
        stage.sql("UPDATE nodes SET died_at = alive_until, died_how = 'bored' WHERE id = :id", id=node_id)


def test_output_has_one_chunk_at_each_place(stage: Stage) -> None:
    add = (
        "INSERT INTO output (run_id, byte_offset, stream, at, lines, data)"
        " VALUES (1, 0, :stream, CURRENT_TIMESTAMP, 0, '')"
    )
    with pytest.raises(IntegrityError, match="output_stream_known"):
        stage.sql(add, stream="side")
    stage.sql(add, stream="out")
    with pytest.raises(IntegrityError):
        stage.sql(add, stream="err")


def test_a_time_without_a_zone_is_never_written(stage: Stage) -> None:
    with pytest.raises(StatementError, match="has no time zone"):
        stage.insert_run(due_at=NOON.replace(tzinfo=None))


def test_names_differ_by_case(stage: Stage) -> None:
    assert stage.insert_task(name="Backup") != stage.insert_task(name="backup")
