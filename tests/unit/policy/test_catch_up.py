"""Catch-up: which missed occurrences run, and how the others are counted."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dcron.policy.starting import occurrences, skip_reasons
from dcron.policy.starting.catch_up import (
    COUNT_LIMIT,
    CatchUp,
    MissedRange,
    catch_up,
    missed_as_planned,
    missed_between,
)
from tests.support.definitions import NOON, definition, minutes

QUICK = 1.0
"""Seconds; each of these takes a few milliseconds, and took minutes when written carelessly."""


@pytest.mark.parametrize("now", [10, 10.5, 19.99])
def test_a_run_on_time_misses_nothing(now: float) -> None:
    assert catch_up(definition(), minutes(10), minutes(now)) == CatchUp(minutes(10), None, minutes(20))


def test_of_two_due_occurrences_the_last_runs() -> None:
    caught = catch_up(definition(), minutes(10), minutes(20))
    assert caught == CatchUp(minutes(20), MissedRange(minutes(10), minutes(10), 1, counted=True), minutes(30))
    assert str(caught.missed) == "1 occurrence"


def test_of_many_due_occurrences_the_last_runs() -> None:
    caught = catch_up(definition(), minutes(10), minutes(65))
    assert caught.runs_at == minutes(60)
    assert caught.successor == minutes(70)
    assert str(caught.missed) == "5 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:50:00Z"


def test_the_last_occurrence_of_all_is_run_and_followed_by_none() -> None:
    at = "@at 2027-06-01T12:10:00Z"
    assert catch_up(definition(at), minutes(10), minutes(600)) == CatchUp(minutes(10), None, None)


def test_occurrences_across_a_change_of_clocks_are_counted_in_real_time() -> None:
    nightly = definition("30 2 * * *", timezone="Europe/Berlin")
    first = occurrences.next_occurrence(nightly, datetime(2027, 3, 26, 12, tzinfo=UTC))
    assert first
    caught = catch_up(nightly, first, datetime(2027, 3, 30, 12, tzinfo=UTC))
    assert caught.missed
    assert caught.missed.count == 3
    assert caught.runs_at == datetime(2027, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("schedule", ["* * * * *", "*/2 * * * *", "@every 1m", "* 0 1 1 *", "0 0 28 2 *"])
def test_a_year_of_downtime_is_caught_up_quickly(schedule: str) -> None:
    sparse = definition(schedule)
    first = occurrences.next_occurrence(sparse, NOON - timedelta(days=365))
    assert first
    began = time.process_time()
    caught = catch_up(sparse, first, NOON + timedelta(seconds=30))
    assert time.process_time() - began < QUICK
    assert caught.successor == occurrences.next_occurrence(sparse, NOON + timedelta(seconds=30))
    assert caught.runs_at
    assert caught.runs_at <= NOON + timedelta(seconds=30)
    following = occurrences.next_occurrence(sparse, caught.runs_at)
    assert following
    assert following == caught.successor or following > NOON, "none was left out after the one that runs"


def test_no_more_than_the_limit_are_counted_but_the_span_is_whole() -> None:
    minutely = definition("* * * * *")
    span = missed_between(minutely, NOON, minutes(COUNT_LIMIT + 1))
    assert span == MissedRange(NOON, minutes(COUNT_LIMIT), COUNT_LIMIT, counted=False)
    assert str(span).startswith(f"more than {COUNT_LIMIT} occurrences, 2027-06-01T12:00:00Z to ")


def test_up_to_the_limit_all_are_counted() -> None:
    minutely = definition("* * * * *")
    exact = missed_between(minutely, NOON, minutes(COUNT_LIMIT - 1))
    assert exact == MissedRange(NOON, minutes(COUNT_LIMIT - 2), COUNT_LIMIT - 1, counted=True)


def test_nothing_is_passed_over_in_no_time() -> None:
    assert missed_between(definition(), minutes(10), minutes(10)) is None
    assert missed_between(definition(), minutes(20), minutes(10)) is None


def test_what_was_planned_says_what_was_missed_though_its_task_has_changed() -> None:
    spec = definition().spec()
    span = missed_as_planned("backup", spec, minutes(10), minutes(31))
    assert span == MissedRange(minutes(10), minutes(30), 3, counted=True)
    assert missed_as_planned("backup", {}, minutes(10), minutes(31)) is None


def span(first: float, last: float, count: int) -> MissedRange:
    return MissedRange(minutes(first), minutes(last), count, counted=True)


@pytest.mark.parametrize(
    ("fields", "runs_at", "missed", "backlog"),
    [
        ({"catch_up": "last"}, 50, span(10, 40, 4), None),
        ({"catch_up": "last", "catch_up_window": 300.0}, 50, span(10, 40, 4), None),
        ({"catch_up": "last", "catch_up_window": 299.0}, None, span(10, 50, 5), None),
        ({"catch_up": "all"}, 10, None, 55),
        ({"catch_up": "all", "catch_up_window": 1500.0}, 30, span(10, 20, 2), 55),
        ({"catch_up": "all", "catch_up_window": 1499.0}, 40, span(10, 30, 3), 55),
        ({"catch_up": "all", "catch_up_window": 60.0}, None, span(10, 50, 5), None),
        ({"catch_up": "skip"}, None, span(10, 50, 5), None),
    ],
)
def test_of_five_missed_occurrences(
    fields: dict[str, Any], runs_at: float | None, missed: MissedRange | None, backlog: float | None
) -> None:
    caught = catch_up(definition(**fields), minutes(10), minutes(55))
    assert caught.runs_at == (None if runs_at is None else minutes(runs_at))
    assert caught.missed == missed
    assert caught.backlog_until == (None if backlog is None else minutes(backlog))
    following = minutes(60) if runs_at in (None, 50) else minutes((runs_at or 0) + 10)
    assert caught.successor == following


@pytest.mark.parametrize(("late", "runs"), [(60.0, True), (60.001, False)])
def test_with_skip_an_occurrence_is_missed_after_a_minute(late: float, runs: bool) -> None:
    now = minutes(10) + timedelta(seconds=late)
    caught = catch_up(definition(catch_up="skip"), minutes(10), now)
    assert (caught.runs_at is not None) is runs
    assert caught.successor == minutes(20)


def test_with_skip_what_comes_more_often_than_every_minute_is_made_up_for_by_its_last() -> None:
    caught = catch_up(definition("@every 10s", catch_up="skip"), NOON, minutes(0.55))
    assert caught.runs_at == minutes(0.5)
    assert caught.missed


def test_a_backlog_is_worked_off_one_by_one_whatever_the_catch_up() -> None:
    for policy_name in ("skip", "last", "all"):
        caught = catch_up(definition(catch_up=policy_name), minutes(10), minutes(55), minutes(30))
        assert caught == CatchUp(minutes(10), None, minutes(20), minutes(30))
    beyond = catch_up(definition(), minutes(40), minutes(55), minutes(30))
    assert beyond.runs_at == minutes(50)


def test_what_its_jitter_holds_back_is_not_late() -> None:
    jittered = definition("* * * * *", jitter=600.0)
    assert catch_up(jittered, minutes(10), minutes(20)).runs_at == minutes(10)
    assert catch_up(jittered, minutes(10), minutes(22)).runs_at == minutes(12)
    assert catch_up(definition(jitter=600.0, catch_up="skip"), minutes(10), minutes(20.5)).runs_at


def test_the_reason_names_the_policy_that_passed_over() -> None:
    message = "missed: no agent could start it"
    missed = MissedRange(minutes(10), minutes(20), 2, counted=True)
    covered = " (2 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:20:00Z)"
    assert skip_reasons.missed_skip(definition(), missed, too_old=False).text == message + covered
    skip = definition(catch_up="skip")
    assert skip_reasons.missed_skip(skip, missed, too_old=True).reason == f"{message}, and catch-up is skip"
    windowed = definition(catch_up_window=3600.0)
    reason = skip_reasons.missed_skip(windowed, missed, too_old=True).reason
    assert reason == f"{message} within the catch-up window of 1h"


def test_the_end_of_a_window_ends_the_making_up() -> None:
    closed = definition(not_after=minutes(30))
    assert catch_up(closed, minutes(10), minutes(55)) == CatchUp(minutes(30), span(10, 20, 2), None)
    missed = catch_up(definition(not_after=minutes(30), catch_up="skip"), minutes(10), minutes(55))
    assert missed == CatchUp(None, span(10, 30, 3), None)
