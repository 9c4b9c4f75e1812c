"""Backfill: run past occurrences that never succeeded, on request."""

import pytest

from dcron.errors import Refused, UsageError
from dcron.model import Block, RunState, Trigger
from dcron.schedule.calendars import Calendar
from dcron.services.calendars import Calendars
from dcron.services.runs.triggers import MOST_OCCURRENCES, Triggers
from tests.support.run_queries import held_back, times
from tests.support.stage import Stage, at


@pytest.fixture
def launching(stage: Stage) -> Triggers:
    return Triggers(stage.crontab)


def clock_times(occurrences: object) -> list[str]:
    return [f"{moment:%H:%M}" for moment in occurrences]  # type: ignore[attr-defined]


def test_only_what_never_succeeded_is_made_up_for(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("load"), stage.node()
    for occurrence, state in (
        ("12:10", RunState.SUCCEEDED),
        ("12:20", RunState.FAILED),
        ("12:30", RunState.CANCELLED),
    ):
        stage.now = at(occurrence)
        (run,) = stage.take(node)
        stage.finish(node, run.id, state)
    stage.now = at("12:40")
    (running,) = stage.take(node)
    stage.now = at("12:55")
    dry = launching.backfill(task, at("11:50"), at("12:55"), dry_run=True)
    assert clock_times(dry.occurrences) == ["11:50", "12:00", "12:20", "12:30"]
    assert dry.already_done == 3, "one succeeded, one runs, one waits"
    before = len(stage.runs())
    assert launching.backfill(task, at("11:50"), at("12:55")) == dry
    assert len(stage.runs()) == before + 4
    again = launching.backfill(task, at("11:50"), at("12:55"))
    assert (list(again.occurrences), again.already_done) == ([], 7)
    assert running.scheduled_for == at("12:40")


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (3, 3), (None, 6)])
def test_they_run_in_order_as_far_as_the_limit_goes_behind_todays_work(
    stage: Stage, launching: Triggers, limit: int | None, at_once: int
) -> None:
    task, node = stage.task("load", max_running=limit), stage.node()
    launching.backfill(task, at("11:00"), at("11:50"))
    other = stage.task("today", "0 0 1 1 *")
    stage.crontab.run(other)
    assert [run.task.name for run in stage.take(node, limit=1)] == ["today"]
    ran: list[str] = []
    while found := stage.take(node):
        assert len(found) <= at_once
        assert {run.trigger for run in found} == {Trigger.BACKFILL}
        ran += clock_times(run.scheduled_for for run in found)
        for run in found:
            stage.finish(node, run.id)
    assert ran == ["11:00", "11:10", "11:20", "11:30", "11:40", "11:50"]
    assert held_back(stage) == []


def test_they_wait_instead_of_being_left_out(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("load"), stage.node()
    stage.now = at("12:10")
    (run,) = stage.take(node)
    launching.backfill(task, at("11:00"), at("11:50"))
    assert len(held_back(stage, task)) == 6
    assert stage.take(node) == []
    stage.finish(node, run.id)
    assert len(stage.take(node)) == 1
    assert stage.runs(task.id, RunState.SKIPPED) == []


def test_the_deadline_of_the_past_is_over_and_counts_no_more(stage: Stage, launching: Triggers) -> None:
    task = stage.task("load", deadline=60.0)
    launching.backfill(task, at("11:00"), at("11:00"))
    stage.now = at("12:05")
    assert stage.expire() == 0
    assert [run.scheduled_for for run in stage.take(stage.node())] == [at("11:00")]


def test_calendars_and_the_task_s_window_are_respected(stage: Stage, launching: Triggers) -> None:
    Calendars(stage.crontab).put(Calendar("rest", weekdays=frozenset({5, 6})))
    window = at("09:00").replace(month=5, day=27)
    task = stage.task("report", "0 9 * * *", except_calendar="rest", not_before=window)
    found = launching.backfill(task, window.replace(day=20), at("12:00"))
    assert [moment.day for moment in found.occurrences] == [27, 28, 31, 1]


@pytest.mark.slow
def test_too_many_are_refused_and_none_is_made(stage: Stage, launching: Triggers) -> None:
    task = stage.task("load", "* * * * *")
    with pytest.raises(Refused, match="more than 10,000 occurrences"):
        launching.backfill(task, at("00:00").replace(month=1, day=1), at("12:00"))
    assert len(stage.runs()) == 1
    assert MOST_OCCURRENCES == 10_000


def test_a_large_one_is_let_go_some_at_a_time(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("load", "* * * * *"), stage.node()
    found = launching.backfill(task, at("00:00"), at("11:59"))
    assert len(found.occurrences) == 720
    assert len(held_back(stage, task)) == 719
    for _ in range(3):
        (run,) = stage.take(node)
        stage.finish(node, run.id)
    assert len(held_back(stage, task)) == 716


@pytest.mark.parametrize("schedule", ["@on push", "@reboot", "@delay 5m"])
def test_what_has_no_times_has_none_to_make_up_for(stage: Stage, launching: Triggers, schedule: str) -> None:
    with pytest.raises(UsageError, match="has no occurrences to backfill"):
        launching.backfill(stage.task("load", schedule), at("11:00"), at("12:00"))


def test_a_span_that_ends_before_it_begins_is_refused(stage: Stage, launching: Triggers) -> None:
    task = stage.task("load")
    with pytest.raises(UsageError):
        launching.backfill(task, at("12:00"), at("11:00"))
    with pytest.raises(UsageError):
        launching.backfill(task, at("13:00"), at("14:00"))


def test_a_paused_task_s_backfill_waits_for_it(stage: Stage, launching: Triggers) -> None:
    task = stage.crontab.pause(stage.task("load", "0 * * * *"))
    launching.backfill(task, at("10:00"), at("11:00"))
    node = stage.node()
    assert stage.take(node) == []
    stage.crontab.resume(task)
    assert len(stage.take(node)) == 1
    assert times(stage, task, RunState.RUNNING) == ["10:00"]


def test_one_that_fails_is_tried_again_behind_todays_work(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("load", "0 * * * *", tries=2, backoff=0.0), stage.node()
    launching.backfill(task, at("11:00"), at("11:00"))
    (run,) = stage.take(node)
    stage.finish(node, run.id, RunState.FAILED)
    (retry,) = stage.take(node)
    assert (retry.scheduled_for, retry.lane.priority) == (at("11:00"), "low")


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_run_of_today_goes_before_a_backfill(stage: Stage, launching: Triggers, overlap: str) -> None:
    task, node = stage.task("load", overlap=overlap), stage.node(lease=3600.0)
    launching.backfill(task, at("11:00"), at("11:55"))
    (past,) = stage.take(node)
    assert past.trigger is Trigger.BACKFILL
    stage.now = at("12:10")
    assert stage.take(node) == []
    stage.finish(node, past.id)
    (run,) = stage.take(node)
    assert (run.trigger, run.scheduled_for) == (Trigger.SCHEDULE, at("12:10"))
    stage.finish(node, run.id)
    (past,) = stage.take(node)
    assert past.trigger is Trigger.BACKFILL
    assert times(stage, task, RunState.SKIPPED) == []


def test_a_paused_task_s_backfill_waits_for_the_end_of_the_pause(stage: Stage, launching: Triggers) -> None:
    task, node = stage.task("load"), stage.node()
    task = stage.crontab.pause(task, "maintenance")
    launching.backfill(task, at("11:00"), at("11:25"))
    assert {run.blocked for run in held_back(stage, task)} == {Block.PAUSED}
    assert stage.take(node) == []
    stage.crontab.resume(stage.saved(task.id))
    (run,) = stage.take(node)
    assert run.trigger is Trigger.BACKFILL
    assert {each.blocked for each in held_back(stage, task)} == {Block.LIMIT}
