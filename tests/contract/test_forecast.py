"""Forecasts of a crontab with history, on both databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from dcron.errors import NotFound, UsageError
from dcron.policy.forecast.start_times import starts_of
from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.services.fleet import Fleet
from dcron.services.forecast import Forecast
from dcron.store.runs import durations
from tests.support.stage import NOON, Stage, definition
from tests.support.statistics import ended_run, insert_runs

HOUR = timedelta(hours=1)


def add_history(stage: Stage, name: str, *seconds: float, state: str = "succeeded") -> None:
    """Insert finished runs of the task, the oldest first."""
    task_id = stage.crontab.get(name).id
    rows = [ended_run(NOON, state, each, task_id=task_id, task=name) for each in seconds]
    insert_runs(stage.database, rows)


def read_durations(stage: Stage, name: str) -> list[float]:
    task_id = stage.crontab.get(name).id
    with stage.database.read() as connection:
        return durations.of_tasks(connection, [task_id]).get(task_id, [])


def test_durations_are_those_of_the_last_successes_sorted(stage: Stage) -> None:
    stage.task("a")
    assert read_durations(stage, "a") == []
    add_history(stage, "a", 9000, *range(60, 10, -1))
    add_history(stage, "a", *[5] * 30, state="failed")
    assert read_durations(stage, "a") == list(range(11, 61))


def test_a_task_that_always_fails_is_not_read_as_a_whole(stage: Stage) -> None:
    stage.task("a")
    add_history(stage, "a", 60)
    add_history(stage, "a", *[1] * 200, state="failed")
    assert read_durations(stage, "a") == []


def test_the_forecast_plays_the_history_against_the_nodes(stage: Stage) -> None:
    for name in "abcd":
        stage.task(name, "5 * * * *")
        add_history(stage, name, *[60] * 10)
    stage.node("web-1", slots=1)
    stage.node("web-2", slots=1)
    found = Forecast(stage.crontab).of(NOON + HOUR)
    assert (found.agents, found.slots, found.starts) == (2, 2, 4)
    assert found.worst
    assert found.worst.wait == 60
    alone = Forecast(stage.crontab).of(NOON + HOUR, without=["web-2"])
    assert alone.worst
    assert (alone.slots, alone.worst.wait) == (1, 180)
    many = Forecast(stage.crontab).of(NOON + HOUR, slots=4)
    assert many.worst
    assert (many.slots, many.worst.wait) == (8, 0)


def test_without_agents_nothing_is_served_unless_slots_are_assumed(stage: Stage) -> None:
    stage.task("a", "5 * * * *", require=("gpu",), need={"mem": 1e9})
    unserved = Forecast(stage.crontab).of(NOON + HOUR)
    assert (unserved.unserved, unserved.starts) == ([("a", "no agent is running")], 1)
    times = Forecast(stage.crontab).quiet(NOON + HOUR, 1200).times
    assert [each.begin for each in times] == [NOON + timedelta(minutes=5)]
    found = Forecast(stage.crontab).of(NOON + HOUR, slots=3)
    assert (found.unserved, found.starts, found.slots) == ([], 1, 3)


def test_queue_limits_and_live_runs_count(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.task(name, "5 * * * *", queue="mail")
        add_history(stage, name, *[60] * 10)
    Fleet(stage.crontab).set_queue("mail", 1)
    stage.task("long", "0 0 1 1 *", queue="mail")
    add_history(stage, "long", *[600] * 10)
    node_id = stage.node("web-1", slots=8)
    task_id = stage.crontab.get("long").id
    alive = {"state": "running", "owner": node_id, "task_id": task_id, "task": "long", "queue": "mail"}
    stage.insert_run(**alive, claimed_at=NOON, started_at=NOON - timedelta(minutes=1))
    found = Forecast(stage.crontab).of(NOON + HOUR)
    assert found.worst
    assert found.worst.wait == 5 * 60


def test_durations_may_be_expected_and_the_timeout_cuts_them(stage: Stage) -> None:
    stage.task("expects", "5 * * * *", expect={"runtime": "2m..4m"}, timeout=180.0)
    stage.task("unknown", "5 * * * *")
    stage.node(slots=1)
    found = Forecast(stage.crontab).of(NOON + HOUR)
    assert found.unknown == ["unknown"]
    situation = Forecast(stage.crontab).situation(NOON + HOUR)
    assert list(situation.tasks[0].seconds) == [120, 180, 180]


def test_an_unknown_duration_is_the_median_of_the_crontab_or_the_timeout(stage: Stage) -> None:
    stage.task("short", "5 * * * *", timeout=20.0)
    stage.task("unknown", "5 * * * *")

    def assumed() -> dict[str, list[float]]:
        tasks = Forecast(stage.crontab).situation(NOON + HOUR).tasks
        return {each.name: list(each.seconds) for each in tasks if each.is_assumed}

    assert assumed() == {"short": [20], "unknown": []}
    for name, *seconds in (("a", 10, 30, 50), ("b", 60), ("c", 70, 70, 70)):
        stage.task(str(name), "5 * * * *")
        add_history(stage, str(name), *map(int, seconds))
    assert assumed() == {"short": [20], "unknown": [60]}
    stage.node(slots=1)
    found = Forecast(stage.crontab).of(NOON + HOUR)
    assert (found.unknown, found.assumed) == (["short", "unknown"], 60)
    assert found.worst
    assert found.worst.wait > 100
    without = replace(stage.crontab.get("c"), name="d")
    comparison = Forecast(stage.crontab).compare(
        [(stage.crontab.get("b"), None), (None, without)], NOON + HOUR
    )
    assert (comparison.before.assumed, comparison.after.assumed) == (60, 60)


def test_a_forecast_names_no_start_that_preview_does_not(stage: Stage) -> None:
    Calendars(stage.crontab).put(parse_calendar("tuesdays", ["tue"]))
    stage.task("excluded", except_calendar="tuesdays")
    stage.task("hashed", "H/7 * * * *", jitter=600.0)
    stage.task("berlin", "30 * * * *", timezone="Europe/Berlin")
    stage.task("paused", "* * * * *")
    stage.crontab.pause(stage.crontab.get("paused"))
    stage.task("after", "@after berlin")
    stage.forward(minutes=7)
    found = Forecast(stage.crontab).situation(stage.now + 4 * HOUR)
    tasks = [task for task in stage.crontab.tasks() if task.enabled]
    planned = stage.crontab.planned_occurrences([task.id for task in tasks if task.jitter])
    settled = {task.id: planned[task.id] - timedelta(microseconds=1) for task in tasks if task.jitter}
    shown = {
        (start.task, start.at)
        for task in tasks
        for start in starts_of(task, stage.now, found.until, settled_until=settled.get(task.id))
        if start.occurrence.reason is None
    }
    assert {(name, at) for name, starts in found.starts.items() for at in starts} == shown
    assert found.left_out.paused == 1


def test_what_cannot_be_computed_or_foreseen_is_named(stage: Stage) -> None:
    stage.task("event", "@on push")
    stage.task("reboot", "@reboot")
    broken = stage.task("broken")
    stage.set_task(broken.id, timezone="Nowhere/Land")
    left_out = Forecast(stage.crontab).of(NOON + HOUR).left_out
    assert left_out.unforeseen == ["event", "reboot"]
    assert [name for name, _ in left_out.unreadable] == ["broken"]


def test_edits_are_compared_with_the_crontab_as_it_is(stage: Stage) -> None:
    a, b = stage.task("a", "5 * * * *"), stage.task("b", "15 * * * *")
    gone = stage.task("gone", "20 * * * *")
    for name in "ab":
        add_history(stage, name, *[120] * 10)
    stage.node(slots=1)
    moved = replace(b, schedule="5 * * * *")
    often = replace(a, id=-1, name="often", schedule="* * * * *", expect={"runtime": "90s.."})
    gpu = replace(a, id=-2, name="gpu", schedule="40 * * * *", require=("gpu",))
    edits = [(b, moved), (gone, None), (None, often), (None, gpu)]
    found = Forecast(stage.crontab).compare(edits, NOON + HOUR)
    assert [(each.task, len(each.before), len(each.after)) for each in found.moved] == [
        ("b", 1, 1),
        ("gone", 1, 0),
        ("gpu", 0, 1),
        ("often", 0, 60),
    ]
    assert found.before.crowded == []
    assert NOON + timedelta(minutes=5) in [each.at for each in found.crowded]
    assert found.unserved == [("gpu", "no agent has the tag gpu")]
    assert found.after.unknown == []


def test_a_task_that_will_overlap_is_new_in_the_comparison(stage: Stage) -> None:
    task = stage.task("a", "*/30 * * * *")
    add_history(stage, "a", *[400] * 10)
    stage.node()
    found = Forecast(stage.crontab).compare([(task, replace(task, schedule="*/5 * * * *"))], NOON + HOUR)
    assert [(each.task, each.count) for each in found.overlaps] == [("a", 6)]
    same = Forecast(stage.crontab).compare([], NOON + HOUR)
    assert (same.moved, same.overlaps, same.crowded, same.unserved) == ([], [], [], [])


@pytest.mark.parametrize("until", [timedelta(0), timedelta(days=32)])
def test_the_end_is_within_a_month(stage: Stage, until: timedelta) -> None:
    with pytest.raises(UsageError, match="within the next 31 days"):
        Forecast(stage.crontab).of(NOON + until)


def test_a_node_that_is_missing_is_an_error(stage: Stage) -> None:
    with pytest.raises(NotFound, match="no living node 'web-9'"):
        Forecast(stage.crontab).of(NOON + HOUR, without=["web-9"])


@contextmanager
def statements(stage: Stage) -> Iterator[list[str]]:
    """Collect the statements that are sent."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    engine = stage.database.engine
    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


def test_nothing_is_written_and_a_page_of_tasks_takes_three_statements(stage: Stage) -> None:
    stage.crontab.import_tasks([definition(f"task-{number}", "5 * * * *") for number in range(20)])
    add_history(stage, "task-1", 1, 2)
    stage.node()
    with stage.database.read() as connection:
        before = connection.execute(text("SELECT count(*), max(id) FROM runs")).one()
    with statements(stage) as sent:
        Forecast(stage.crontab).of(NOON + HOUR)
        Forecast(stage.crontab).quiet(NOON + HOUR, 60)
    assert not [each for each in sent if each.split()[0] in ("INSERT", "UPDATE", "DELETE")]
    selects = [each for each in sent if each.startswith("SELECT")]
    assert len(selects) <= 2 * 8
    with stage.database.read() as connection:
        assert connection.execute(text("SELECT count(*), max(id) FROM runs")).one() == before


def test_quiet_times_of_the_crontab(stage: Stage) -> None:
    stage.task("a", "*/30 * * * *")
    add_history(stage, "a", *[600] * 10)
    stage.node()
    found = Forecast(stage.crontab).quiet(NOON + HOUR, 1200)
    assert [(each.begin, each.end) for each in found.times] == [
        (NOON, NOON + HOUR / 2),
        (NOON + HOUR / 2, NOON + HOUR),
    ]
    assert [run.task for run in found.times[1].running] == ["a"]
    assert Forecast(stage.crontab).quiet(NOON + HOUR, 3000).times == []
