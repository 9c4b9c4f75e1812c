"""Times are computed before a lock is taken: dear schedules delay no other transaction."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from dcron.errors import UsageError
from dcron.model import RunState
from dcron.policy.starting import occurrences
from dcron.schedule import effort
from dcron.schedule.calendars import calendar_from_json, parse_calendar
from dcron.schedule.parser import parse
from dcron.schedule.recurrence import _days_of
from dcron.services.calendars import Calendars
from dcron.services.changes.imported import InvalidTasks
from tests.support.stage import Stage, at, definition

DEAR = "DTSTART:{year}{month:02}{day:02}T000000 RRULE:FREQ=DAILY;BYHOUR=12;COUNT=9999"
TOO_DEAR = "DTSTART:16000101T000000 RRULE:FREQ=DAILY;INTERVAL=60;BYHOUR=1,2,3;COUNT=9999"


def dear(number: int) -> str:
    """A schedule that takes some 60,000 steps: every day at noon, counted from some day in 2006."""
    return DEAR.format(year=2006, month=1 + number // 28, day=1 + number % 28)


@pytest.fixture
def stage(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A crontab whose transactions note how much was computed in them."""
    forget()
    stage = Stage(database_url)
    write = stage.database.write

    @contextmanager
    def noted(**options: bool) -> Iterator[Connection]:
        with write(**options) as connection:
            began = time.thread_time()
            try:
                yield connection
            finally:
                HELD.append(time.thread_time() - began)

    HELD.clear()
    monkeypatch.setattr(stage.database, "write", noted)
    yield stage
    stage.database.close()


HELD: list[float] = []
"""Seconds of processor time in each transaction that writes."""


def forget() -> None:
    """Be as a process that has just started."""
    for cached in (
        occurrences._answers,
        occurrences._exclusions,
        occurrences._read_schedule,
        occurrences._calendar,
        _days_of,
    ):
        cached.cache_clear()
    from dcron.schedule import parser

    parser._parse.cache_clear()


@pytest.mark.slow
def test_an_import_of_dear_schedules_computes_them_before_it_takes_the_lock(stage: Stage) -> None:
    began = time.thread_time()
    stage.crontab.import_tasks([definition(f"dear-{number}", dear(number)) for number in range(30)])
    took = time.thread_time() - began
    assert len(HELD) == 1
    assert HELD[0] < took / 3, "most of the work is done without the lock"
    assert {run.scheduled_for for run in stage.runs()} == {at("12:00") + timedelta(days=1)}


@pytest.mark.slow
def test_agents_compute_dear_schedules_without_the_lock_and_lose_no_run(stage: Stage) -> None:
    stage.crontab.import_tasks([definition(f"dear-{number}", dear(number)) for number in range(10)])
    node = stage.node(lease=10**6)
    forget()
    stage.forward(hours=24)
    taken = effort.unlocked(lambda: stage.claim(node, limit=10))
    assert len(stage.start(node, taken)) == 10
    turns = {run.scheduled_for for run in stage.runs(None, RunState.WAITING)}
    assert turns == {stage.now + timedelta(days=1)}
    in_claim = max(HELD[-12:])
    assert in_claim < 0.5, "the steps of one transaction are few, however slow this machine"


@pytest.mark.slow
def test_planning_gives_up_the_lock_for_what_is_dear(stage: Stage) -> None:
    for number in range(5):
        stage.insert_task(name=f"dear-{number}", schedule=dear(number))
    forget()
    HELD.clear()
    assert effort.unlocked(stage.plan) == 5
    assert len(HELD) == 6, "once for each, and then all of them at once"
    assert len(stage.runs(None, RunState.WAITING)) == 5


def test_what_takes_too_long_is_refused_by_every_way_in(stage: Stage) -> None:
    with pytest.raises(UsageError, match=r"more than 0\.1 s to compute"):
        stage.task("job", TOO_DEAR)
    task = stage.task("job")
    with pytest.raises(UsageError, match=r"more than 0\.1 s to compute"):
        stage.crontab.edit(task, {"schedule": TOO_DEAR})
    with pytest.raises(InvalidTasks, match=r"other: .*more than 0\.1 s to compute"):
        stage.crontab.import_tasks([definition("other", TOO_DEAR)])
    assert [each.name for each in stage.crontab.tasks()] == ["job"]


def test_a_task_that_takes_too_long_is_suspended_with_the_reason(stage: Stage) -> None:
    task_id = stage.insert_task(schedule=TOO_DEAR)
    assert effort.unlocked(stage.plan) == 1
    assert "more than 0.1 s to compute" in (stage.saved(task_id).error or "")
    assert stage.runs(task_id) == []
    assert not stage.has_to_plan()


def test_a_run_whose_successor_takes_too_long_is_the_last(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, node = stage.task("job", dear(1)), stage.node(lease=10**6)
    forget()
    stage.forward(hours=24)
    monkeypatch.setattr(effort, "MOST", 20_000)
    [run] = effort.unlocked(lambda: stage.take(node))
    stage.finish(node, run.id)
    assert "more than 0.1 s" in (stage.saved(task.id).error or "")
    assert stage.find_next_run(task) is None


def test_a_calendar_of_dear_rules_is_refused_and_one_of_many_cheap_ones_is_not(stage: Stage) -> None:
    calendars = Calendars(stage.crontab)
    lines = [f"DTSTART:{1600 + n}0101 RRULE:FREQ=WEEKLY;BYDAY=MO,TU;COUNT=9999" for n in range(60)]
    with pytest.raises(UsageError, match=r"calendar dear: its rules take more than 0\.1 s"):
        calendars.put(parse_calendar("dear", lines))
    holidays = [f"RRULE:FREQ=YEARLY;BYMONTH={1 + n % 12};BYMONTHDAY={1 + n % 28}" for n in range(84)]
    assert calendars.put(parse_calendar("holidays", holidays)) is False


def test_a_calendar_that_has_become_too_dear_skips_with_the_reason(stage: Stage) -> None:
    calendars = Calendars(stage.crontab)
    calendars.put(parse_calendar("holidays", ["12-25"]))
    task, node = stage.task("job", except_calendar="holidays"), stage.node(lease=10**6)
    rules = [
        {
            "rule": f"FREQ=WEEKLY;BYDAY=MO,TU;COUNT={9999 - n}",
            "start": "1600-01-01",
            "days": 1,
            "exceptions": [],
        }
        for n in range(60)
    ]
    assert calendar_from_json("holidays", {"recurring": rules})
    import json

    stage.sql("UPDATE calendars SET content = :content", content=json.dumps({"recurring": rules}))
    stage.now = at("12:10")
    assert effort.unlocked(lambda: stage.take(node)) == []
    [skipped] = stage.runs(task.id, RunState.SKIPPED)
    assert "more than 0.1 s" in (skipped.reason or "")
    assert parse("* * * * *")
