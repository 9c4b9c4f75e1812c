"""Decisions on values: catching up, passing over, overlapping."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dcron import policy
from dcron.errors import ScheduleError, ZoneError
from dcron.model import Definition, Task
from dcron.policy import COUNT_LIMIT, CatchUp, PassedOver

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
QUICK = 1.0
"""Seconds; each of these takes a few milliseconds, and took minutes when written carelessly."""


def line(schedule: str = "*/10 * * * *", name: str = "backup", **fields: Any) -> Definition:
    return Definition(**{"name": name, "schedule": schedule, "timezone": "UTC", "command": "true", **fields})


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def test_the_next_occurrence_is_strictly_later() -> None:
    assert policy.next_occurrence(line(), NOON) == minutes(10)
    assert policy.next_occurrence(line(), NOON - timedelta(microseconds=1)) == NOON
    assert policy.next_occurrence(line("@at 2027-06-01T12:00:00Z"), NOON) is None
    assert policy.next_occurrence(line("@reboot"), NOON) is None


def test_the_next_occurrence_is_in_the_lines_zone() -> None:
    assert policy.next_occurrence(line("0 15 * * *", timezone="Europe/Berlin"), NOON) == minutes(60)


def test_what_cannot_be_read_has_no_occurrence() -> None:
    with pytest.raises(ScheduleError):
        policy.next_occurrence(line("nonsense"), NOON)
    with pytest.raises(ZoneError):
        policy.next_occurrence(line(timezone="Mars"), NOON)


def test_a_schedule_says_what_makes_it_run() -> None:
    assert policy.is_timed(line())
    assert not policy.is_timed(line("@reboot"))
    assert policy.starts_with_node(line("@reboot"))
    assert not policy.starts_with_node(line())


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"command": "false"}, True),
        ({"name": "other"}, True),
        ({"schedule": "*/20 * * * *"}, False),
        ({"timezone": "Europe/Berlin"}, False),
    ],
)
def test_a_planned_turn_stands_while_its_times_do(changes: dict[str, Any], same: bool) -> None:
    planned = line()
    assert policy.same_times(line(**changes), planned.name, planned.spec()) is same


def test_a_turn_whose_time_follows_from_the_name_falls_with_it() -> None:
    planned = line("H * * * *")
    assert policy.same_times(line("H * * * *"), "backup", planned.spec())
    assert not policy.same_times(line("H * * * *", name="other"), "backup", planned.spec())


@pytest.mark.parametrize("now", [10, 10.5, 19.99])
def test_a_turn_that_is_on_time_passes_nothing_over(now: float) -> None:
    assert policy.catch_up(line(), minutes(10), minutes(now)) == CatchUp(minutes(10), None, minutes(20))


def test_of_two_due_turns_the_last_runs() -> None:
    caught = policy.catch_up(line(), minutes(10), minutes(20))
    assert caught == CatchUp(minutes(20), PassedOver(minutes(10), minutes(10), 1, counted=True), minutes(30))
    assert str(caught.passed_over) == "1 occurrence"


def test_of_many_due_turns_the_last_runs() -> None:
    caught = policy.catch_up(line(), minutes(10), minutes(65))
    assert caught.run_for == minutes(60)
    assert caught.successor == minutes(70)
    assert str(caught.passed_over) == "5 occurrences, 2027-06-01T12:10:00Z to 2027-06-01T12:50:00Z"


def test_the_last_turn_of_all_is_run_and_followed_by_none() -> None:
    at = "@at 2027-06-01T12:10:00Z"
    assert policy.catch_up(line(at), minutes(10), minutes(600)) == CatchUp(minutes(10), None, None)


def test_turns_across_a_change_of_clocks_are_counted_in_real_time() -> None:
    nightly = line("30 2 * * *", timezone="Europe/Berlin")
    first = policy.next_occurrence(nightly, datetime(2027, 3, 26, 12, tzinfo=UTC))
    assert first
    caught = policy.catch_up(nightly, first, datetime(2027, 3, 30, 12, tzinfo=UTC))
    assert caught.passed_over
    assert caught.passed_over.count == 3
    assert caught.run_for == datetime(2027, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("schedule", ["* * * * *", "*/2 * * * *", "@every 1m", "* 0 1 1 *", "0 0 28 2 *"])
def test_a_year_of_downtime_is_caught_up_quickly(schedule: str) -> None:
    sparse = line(schedule)
    first = policy.next_occurrence(sparse, NOON - timedelta(days=365))
    assert first
    began = time.monotonic()
    caught = policy.catch_up(sparse, first, NOON + timedelta(seconds=30))
    assert time.monotonic() - began < QUICK
    assert caught.successor == policy.next_occurrence(sparse, NOON + timedelta(seconds=30))
    assert caught.run_for <= NOON + timedelta(seconds=30)
    following = policy.next_occurrence(sparse, caught.run_for)
    assert following
    assert following == caught.successor or following > NOON, "none was left out after the one that runs"


def test_no_more_than_the_limit_are_counted_but_the_span_is_whole() -> None:
    minutely = line("* * * * *")
    span = policy.passed_over_between(minutely, NOON, minutes(COUNT_LIMIT + 1))
    assert span == PassedOver(NOON, minutes(COUNT_LIMIT), COUNT_LIMIT, counted=False)
    assert str(span).startswith(f"more than {COUNT_LIMIT} occurrences, 2027-06-01T12:00:00Z to ")


def test_up_to_the_limit_all_are_counted() -> None:
    minutely = line("* * * * *")
    exact = policy.passed_over_between(minutely, NOON, minutes(COUNT_LIMIT - 1))
    assert exact == PassedOver(NOON, minutes(COUNT_LIMIT - 2), COUNT_LIMIT - 1, counted=True)


def test_nothing_is_passed_over_in_no_time() -> None:
    assert policy.passed_over_between(line(), minutes(10), minutes(10)) is None
    assert policy.passed_over_between(line(), minutes(20), minutes(10)) is None


def test_what_was_planned_tells_what_was_passed_over_though_its_line_has_changed() -> None:
    spec = line().spec()
    span = policy.passed_over_as_planned("backup", spec, minutes(10), minutes(31))
    assert span == PassedOver(minutes(10), minutes(30), 3, counted=True)
    assert policy.passed_over_as_planned("backup", {}, minutes(10), minutes(31)) is None


@pytest.mark.parametrize(
    ("max_running", "alive", "reason"),
    [
        (1, 0, None),
        (1, 1, "overlap: the previous run is still alive"),
        (3, 2, None),
        (3, 3, "overlap: 3 runs are still alive"),
        (1, 2, "overlap: 2 runs are still alive"),
        (None, 99, None),
    ],
)
def test_a_run_starts_while_fewer_are_alive_than_may_be(
    max_running: int | None, alive: int, reason: str | None
) -> None:
    known: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    task = Task(**{**known, **vars(line()), "max_running": max_running})
    assert policy.refuse_to_start(task, alive) == reason
