"""Totals add up in any order, and percentiles are right to within a class."""

import math
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.model import RunState
from dcron.policy.statistics import (
    CLASSES,
    FACTOR,
    SHORTEST,
    Durations,
    Span,
    Statistics,
    Totals,
    day_of,
    last_settled_day,
    ordered,
    percentile,
    span_since,
    start_of,
    sum_of,
)

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
durations = st.integers(0, 400_000_000)
ends = st.builds(
    lambda state, late, took, started: (
        state,
        NOON,
        NOON + timedelta(milliseconds=late) if started else None,
        NOON + timedelta(milliseconds=late + took),
    ),
    st.sampled_from([state for state in RunState if state.is_final]),
    durations,
    durations,
    st.booleans(),
)


def totals(*runs: tuple[RunState, datetime, datetime | None, datetime]) -> Totals:
    made = Totals()
    for run in runs:
        made.add(*run)
    return made


@given(st.lists(ends), st.lists(ends))
def test_totals_add_up_and_can_be_taken_away(one: list[object], other: list[object]) -> None:
    both = totals(*one, *other)  # type: ignore[arg-type]
    merged = sum_of([totals(*other), totals(*one)])  # type: ignore[arg-type]
    assert merged == both
    merged.merge(totals(*other), -1)  # type: ignore[arg-type]
    rest = totals(*one)  # type: ignore[arg-type]
    merged.took.longest = merged.late.longest = rest.took.longest = rest.late.longest = 0
    assert merged == rest


@given(st.lists(durations, min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_in_the_class_of_the_exact_one(values: list[int], share: float) -> None:
    found = Durations()
    for value in values:
        found.add(value)
    exact = sorted(values)[math.ceil(share * len(values)) - 1] / 1000
    estimate = found.percentile(share)
    assert estimate is not None
    if exact < SHORTEST / 1000:
        assert estimate < SHORTEST / 1000
    elif exact < SHORTEST / 1000 * FACTOR ** (CLASSES - 2):
        assert 1 / FACTOR - 0.06 < estimate / exact < FACTOR + 0.06


@pytest.mark.parametrize(
    ("number", "share", "found"), [(1, 0.95, 1), (10, 0.5, 5), (19, 0.95, 19), (20, 0.95, 19), (100, 0.01, 1)]
)
def test_a_percentile_is_the_smallest_value_at_its_share(number: int, share: float, found: int) -> None:
    assert percentile(range(1, number + 1), share) == found


def test_equal_durations_have_an_exact_percentile() -> None:
    found = Durations()
    for _ in range(7):
        found.add(90_123)
    assert (found.percentile(0.5), found.percentile(0.95), found.longest) == (90.123, 90.123, 90_123)
    assert Durations().percentile(0.5) is None


def test_only_successes_have_durations_and_only_started_runs_are_late() -> None:
    found = totals(
        (RunState.SUCCEEDED, NOON, NOON + timedelta(seconds=1), NOON + timedelta(seconds=11)),
        (RunState.FAILED, NOON, NOON, NOON + timedelta(seconds=2)),
        (RunState.LOST, NOON, NOON, NOON + timedelta(seconds=3)),
        (RunState.CANCELLED, NOON, None, NOON),
        (RunState.SKIPPED, NOON, None, NOON),
    )
    assert (found.runs, found.failures, found.skipped, found.success_rate) == (4, 2, 1, 1 / 3)
    assert (found.work, found.took.count, found.late.count, found.longest) == (15_000, 1, 3, 10.0)
    assert totals((RunState.SKIPPED, NOON, None, NOON)).success_rate is None


def test_a_clock_that_goes_back_makes_no_negative_duration() -> None:
    found = totals((RunState.SUCCEEDED, NOON, NOON - timedelta(hours=1), NOON - timedelta(hours=2)))
    assert (found.work, found.late.longest, found.longest) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("now", "day"), [("06:00", date(2027, 5, 31)), ("05:59", date(2027, 5, 30)), ("23:59", date(2027, 5, 31))]
)
def test_a_day_is_summed_up_six_hours_after_its_end(now: str, day: date) -> None:
    assert last_settled_day(datetime.fromisoformat(f"2027-06-01T{now}+00:00")) == day


def test_a_day_is_that_of_utc() -> None:
    assert day_of(datetime.fromisoformat("2027-06-01T01:00+02:00")) == date(2027, 5, 31)


def test_a_long_span_begins_with_a_day_and_a_short_one_does_not() -> None:
    month = span_since(NOON - timedelta(days=30), NOON)
    assert month == Span(start_of(date(2027, 5, 2)), NOON)
    assert len(month.days) == 31
    assert month.before == Span(start_of(date(2027, 4, 1)), start_of(date(2027, 5, 2)))
    hours = span_since(NOON - timedelta(hours=2), NOON)
    assert hours == Span(NOON - timedelta(hours=2), NOON)
    assert hours.before == Span(NOON - timedelta(hours=4), NOON - timedelta(hours=2))
    assert hours.days == [date(2027, 6, 1)]


def of(name: str, now: int, before: int, failures: int = 0) -> Statistics:
    """Return the statistics of ten runs of `now` seconds, after ten of `before`."""
    spans = []
    for seconds in (now, before):
        ended = NOON + timedelta(seconds=seconds)
        spans.append(totals(*[(RunState.SUCCEEDED, NOON, NOON, ended)] * 10))
    spans[0].failed = failures
    return Statistics(name, spans[0], spans[1])


def test_the_worst_comes_first_in_each_order() -> None:
    steady, slower, failing = of("c", 300, 300), of("b", 200, 100), of("a", 1, 1, failures=3)
    found = [steady, slower, failing]
    assert [each.name for each in ordered(found, None)] == ["a", "b", "c"]
    assert ordered(found, "slow")[0] is steady
    assert ordered(found, "trend")[0] is slower
    assert ordered(found, "failing")[0] is failing
    assert (slower.trend, slower.has_changed, steady.has_changed) == (2.0, True, False)


def test_few_runs_are_not_compared() -> None:
    few = Statistics("a", totals((RunState.SUCCEEDED, NOON, NOON, NOON)), Totals())
    assert few.trend is None
    assert not few.has_changed
