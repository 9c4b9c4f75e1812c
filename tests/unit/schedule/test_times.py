"""Durations and times as users type them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.errors import UsageError
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone
from dcron.values.quantities import format_duration, parse_duration

BERLIN = zone("Europe/Berlin")
NOW = datetime(2027, 3, 27, 12, 30, tzinfo=UTC)  # 13:30 in Berlin, a day before clocks go forward


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("0.25s", 0.25),
        (" 1m ", 60),
        ("0s", 0),
    ],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "1m1h", "1h1h", "-5m", "1.5h", "5min", "\u0665m", "9999999w", "5m" * 50_000]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a duration; write|longer than a century") as refusal:
        parse_duration(text)
    assert len(str(refusal.value)) < 250


@given(st.integers(0, 3_000_000_000_000).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_is_written_as_it_is_read(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=0.0005)


def test_durations_are_short() -> None:
    written = [format_duration(seconds) for seconds in (0, 0.25, 90, 5400, 86_400, 1_209_600, -90, 59.9996)]
    assert written == ["0s", "0.25s", "1m30s", "1h30m", "1d", "2w", "-1m30s", "1m"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2027-03-27T12:30Z"),
        ("+1h", "2027-03-27T13:30Z"),
        ("in 1h30m", "2027-03-27T14:00Z"),
        ("20s", "2027-03-27T12:30:20Z"),
        ("1h30m", "2027-03-27T14:00Z"),
        ("2027-01-01T09:00", "2027-01-01T08:00Z"),
        ("2027-01-01 09:00", "2027-01-01T08:00Z"),
        ("2027-01-01T09:00:05", "2027-01-01T08:00:05Z"),
        ("2027-01-01T09:00Z", "2027-01-01T09:00Z"),
        ("2027-01-01T09:00+05:30", "2027-01-01T03:30Z"),
        ("2027-07-01", "2027-06-30T22:00Z"),
        ("13:45", "2027-03-27T12:45Z"),
        ("13:30", "2027-03-28T11:30Z"),
        ("9:00", "2027-03-28T07:00Z"),
        ("today 09:00", "2027-03-27T08:00Z"),
        ("tomorrow 09:00", "2027-03-28T07:00Z"),
        ("Tomorrow", "2027-03-27T23:00Z"),
        ("mon 09:00", "2027-03-29T07:00Z"),
        ("Monday 09:00", "2027-03-29T07:00Z"),
        ("next monday", "2027-03-28T22:00Z"),
        ("sat 14:00", "2027-03-27T13:00Z"),
        ("sat 09:00", "2027-04-03T07:00Z"),
        ("next saturday", "2027-04-02T22:00Z"),
        ("next sat 14:00", "2027-04-03T12:00Z"),
        ("02:30", "2027-03-28T01:00Z"),  # does not exist: the end of the gap
        ("2027-10-31 02:30", "2027-10-31T00:30Z"),  # comes twice: the first
    ],
)
def test_times_are_read_on_the_clock_of_the_zone(text: str, expected: str) -> None:
    assert parse_time(text, BERLIN, NOW) == datetime.fromisoformat(expected)
    assert parse_time(text, BERLIN, NOW).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a time; write 2027-01-01T09:00"),
        ("soon", "'soon' is not a time; write"),
        ("2027-1-1", "is not a time"),
        ("2027-02-30", "does not exist: day is out of range for month"),
        ("2027-01-01T24:30", "24:30 is not a time of day"),
        ("25:00", "there is no 25:00 on the clock"),
        ("+soon", "'soon' is not a duration"),
        ("20", "'20' is not a time; write"),
        ("1m1h", "'1m1h' is not a time; write"),
        ("999999w", "longer than a century"),
        ("0001-01-01", "too far away"),
        ("9999-12-31T23:59", "too far away"),
        ("9999-12-31T23:59-14:00", "too far away"),
        ("x" * 100_000, "is not a time"),
    ],
)
def test_other_times_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_time(text, BERLIN, NOW)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 250
