"""Catch-up: which missed occurrences run, and how the others are recorded."""

from datetime import date, timedelta

import pytest

from dcron.model import RunState, Task
from dcron.policy.forecast.start_times import starts_of
from dcron.schedule.calendars import Calendar
from dcron.services.calendars import Calendars
from tests.support.run_queries import held_back, reasons, times
from tests.support.stage import Stage, at


def run_all(stage: Stage, node: str) -> list[str]:
    """Run what is due, one after the other, until nothing is; return the times."""
    ran = []
    while found := stage.take(node):
        for run in found:
            ran.append(f"{run.scheduled_for:%H:%M}")
            stage.finish(node, run.id)
        assert len(ran) < 100
    return ran


@pytest.mark.parametrize(
    ("policy", "window", "ran", "missed"),
    [
        ("last", None, ["12:50"], ["12:40"]),
        ("last", 600.0, ["12:50"], ["12:40"]),
        ("last", 120.0, [], ["12:50"]),
        ("skip", None, [], ["12:50"]),
        ("all", None, ["12:10", "12:20", "12:30", "12:40", "12:50"], []),
        ("all", 1800.0, ["12:30", "12:40", "12:50"], ["12:20"]),
        ("all", 120.0, [], ["12:50"]),
    ],
)
def test_after_downtime(
    stage: Stage, policy: str, window: float | None, ran: list[str], missed: list[str]
) -> None:
    task = stage.task("backup", catch_up=policy, catch_up_window=window)
    stage.now = at("12:55")
    assert run_all(stage, stage.node()) == ran
    assert times(stage, task, RunState.SKIPPED) == missed, "one row has them all"
    assert times(stage, task, RunState.WAITING) == ["13:00"]


def test_what_is_passed_over_says_why_and_which(stage: Stage) -> None:
    skip = stage.task("skip", catch_up="skip")
    window = stage.task("window", catch_up="last", catch_up_window=60.0)
    last = stage.task("last")
    stage.now = at("12:35")
    run_all(stage, stage.node())
    message = "missed: no agent could start it"
    span = "(3 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:30:00Z)"
    assert reasons(stage, skip) == [f"{message}, and catch-up is skip {span}"]
    assert reasons(stage, window) == [f"{message} within the catch-up window of 1m {span}"]
    assert reasons(stage, last) == [
        f"{message} (2 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:20:00Z)"
    ]


def test_a_run_that_is_a_little_late_is_not_missed(stage: Stage) -> None:
    stage.task("backup", catch_up="skip")
    stage.now = at("12:11")
    assert run_all(stage, stage.node()) == ["12:10"]


def test_all_are_made_up_for_one_after_the_other_though_they_overlap(stage: Stage) -> None:
    task, node = stage.task("backup", catch_up="all"), stage.node()
    stage.now = at("12:35")
    for occurrence in ("12:10", "12:20", "12:30"):
        (run,) = stage.take(node)
        assert f"{run.scheduled_for:%H:%M}" == occurrence
        assert stage.take(node) == []
        assert len(held_back(stage, task)) == (occurrence != "12:30")
        stage.finish(node, run.id)
    assert reasons(stage, task) == []
    stage.now = at("12:40")
    stage.take(node)
    stage.now = at("12:50")
    assert stage.take(node) == []
    assert len(reasons(stage, task)) == 1, "what is on time overlaps as ever"


def test_the_backlog_ends_when_it_was_found(stage: Stage) -> None:
    """Else a task that runs longer than its period would catch up for ever."""
    task, node = stage.task("backup", catch_up="all"), stage.node()
    stage.now = at("12:35")
    (run,) = stage.take(node)
    (planned,) = stage.runs(task.id, RunState.WAITING)
    assert (run.scheduled_for, planned.backlog_until) == (at("12:10"), at("12:35"))
    stage.finish(node, run.id)
    stage.forward(minutes=30)
    assert run_all(stage, node) == ["12:20", "12:30", "12:40", "12:50", "13:00"]


def test_a_caught_up_run_that_its_node_released_is_recorded_once(stage: Stage) -> None:
    task, node = stage.task("backup"), stage.node()
    stage.now = at("12:35")
    for _ in range(3):
        assert [f"{run.scheduled_for:%H:%M}" for run in stage.claim(node)] == ["12:30"]
        stage.release(node)
    assert run_all(stage, node) == ["12:30"]
    assert times(stage, task, RunState.SKIPPED) == ["12:20"]


def test_a_week_of_downtime_is_two_rows_a_task(stage: Stage) -> None:
    lines: list[Task] = [stage.task(f"line-{number}") for number in range(5)]
    stage.forward(days=7)
    node = stage.node()
    assert len(stage.take(node, limit=3)) == 3, "no more than there are slots"
    assert len(stage.take(node)) == 2
    for task in lines:
        assert len(stage.runs(task.id)) == 3
        assert "more than 200 occurrences" in reasons(stage, task)[0]


def test_the_latest_occurrence_that_its_calendar_allows_is_made_up_for(stage: Stage) -> None:
    holidays = Calendar("holidays", dates=frozenset({date(2027, 6, 3), date(2027, 6, 4)}))
    Calendars(stage.crontab).put(holidays)
    task = stage.task("report", "0 9 * * *", except_calendar="holidays")
    stage.now = at("12:00").replace(day=4)
    (run,) = stage.take(stage.node())
    assert run.scheduled_for == at("09:00").replace(day=2)
    (message,) = reasons(stage, task)
    assert "(2 occurrences, 2027-06-03T09:00:00Z to 2027-06-04T09:00:00Z)" in message


def test_starts_are_spread_the_same_way_on_every_node_and_shown_before(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *", jitter=600.0)
    planned = stage.next_run(task)
    assert planned.scheduled_for == at("13:00")
    assert at("13:00") <= planned.due_at < at("13:10")
    assert stage.crontab.view("backup").next_run_at == planned.due_at
    node = stage.node()
    stage.now = planned.due_at - timedelta(microseconds=1)
    assert stage.take(node) == []
    stage.now = planned.due_at
    (run,) = stage.take(node)
    assert run.scheduled_for == at("13:00")


@pytest.mark.parametrize(("added_at", "first"), [("12:00", "13:00"), ("13:00:01", "14:00")])
def test_a_task_does_not_run_for_times_before_it_was_added(stage: Stage, added_at: str, first: str) -> None:
    """Also if its jitter would start the run later. The preview and the agents agree."""
    stage.now = at(added_at)
    stage.task("backup", "0 * * * *", jitter=3000.0)
    stage.now = at("13:00:01")
    row = stage.crontab.view("backup")
    start = next(starts_of(row.task, stage.now, settled_until=row.settled_until(stage.now)))
    assert row.next_run
    assert start.occurrence.at == row.next_run.scheduled_for == at(first)
    assert start.at == row.next_run.due_at


def test_jitter_is_not_lateness(stage: Stage) -> None:
    """While its share of the jitter holds a run back the next occurrences come and have their own runs."""
    task, node = stage.task("often", "* * * * *", jitter=300.0, catch_up="skip"), stage.node()
    ran = []
    for _ in range(40):
        stage.forward(seconds=15)
        ran += run_all(stage, node)
    assert ran == [f"12:{minute:02}" for minute in range(1, 1 + len(ran))]
    assert len(ran) >= 4
    assert reasons(stage, task) == []


def test_an_occurrence_held_back_by_jitter_is_recorded_when_a_pause_takes_it(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *", jitter=3000.0)
    stage.now = at("13:00:01")
    planned = stage.next_run(task)
    assert planned.due_at > stage.now
    task = stage.crontab.pause(task)
    stage.now = at("13:30")
    stage.crontab.resume(task)
    assert times(stage, task, RunState.SKIPPED, RunState.WAITING) == ["13:00", "14:00"]
