"""Recurrence rules, against dateutil stepping through them from their start."""

import re
import time
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from dcron.errors import ScheduleError
from dcron.schedule.next_run import next_run, upcoming
from dcron.schedule.parser import parse
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rrule import read_recurrence
from dcron.schedule.zones import zone

UTC_ZONE, BERLIN = zone("UTC"), zone("Europe/Berlin")
NOW = datetime(2027, 1, 1, tzinfo=UTC)

BY_PARTS = {
    "YEARLY": (
        "BYMONTH=3,7",
        "BYWEEKNO=1,20,53",
        "BYYEARDAY=1,100,-1",
        "BYMONTHDAY=13",
        "BYDAY=FR",
        "BYDAY=20MO",
        "BYMONTH=2,11;BYDAY=-1FR,5MO",
    ),
    "MONTHLY": ("BYMONTHDAY=1,-1", "BYDAY=2MO,-1FR", "BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "BYMONTH=2"),
    "WEEKLY": ("BYDAY=MO,WE,SU", "BYDAY=SU;WKST=SU", "BYMONTH=12", "BYDAY=MO,WE,FR;BYSETPOS=1,-1"),
    "DAILY": ("BYDAY=MO,TU", "BYMONTHDAY=31", "BYHOUR=2,14;BYMINUTE=30", "BYHOUR=1,9;BYSETPOS=2"),
}


@st.composite
def rules(draw: st.DrawFn) -> str:
    frequency = draw(st.sampled_from(sorted(BY_PARTS)))
    part = draw(st.sampled_from(("", *BY_PARTS[frequency])))
    interval = draw(st.integers(1, 12))
    return ";".join(filter(None, (f"FREQ={frequency}", f"INTERVAL={interval}", part)))


_FROM = datetime.fromisoformat("1999-01-01")
starts = st.integers(0, 5 * 366 * 86_400).map(lambda seconds: _FROM + timedelta(seconds=seconds))
CENTURIES = 200
"""Years of a rule with COUNT that `effort` accepts in any case."""
LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)


def from_dateutil(rule: str, start: datetime, count: int) -> list[datetime]:
    """Return the first local times; none if INTERVAL and the BY… parts exclude each other."""
    try:
        return list(islice(rrulestr(f"RRULE:{rule}", dtstart=start), count))
    except ValueError:
        return []


@given(rule=rules(), start=starts, ahead=st.integers(0, 40))
def test_any_place_in_a_rule_is_found_without_walking_there(rule: str, start: datetime, ahead: int) -> None:
    expected = from_dateutil(rule, start, ahead + 3)
    schedule = parse(f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule}")
    if not expected:
        assert next_run(schedule, UTC_ZONE, LONG_AGO) is None
        return
    place = expected[ahead].replace(tzinfo=UTC)
    found = [each.at.replace(tzinfo=None) for each in upcoming(schedule, UTC_ZONE, place, count=2)]
    assert found == expected[ahead + 1 : ahead + 3]
    before = next_run(schedule, UTC_ZONE, LONG_AGO)
    assert before == expected[0].replace(tzinfo=UTC)  # also backwards


@given(rule=rules(), start=starts, count=st.integers(1, 30))
def test_count_counts_from_the_start(rule: str, start: datetime, count: int) -> None:
    expected = from_dateutil(f"{rule};COUNT={count}", start, count + 1)
    schedule = parse(f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule};COUNT={count}")
    if expected and expected[-1].year - start.year > CENTURIES:
        return  # every process would have to walk through them all: `effort` may refuse that
    found = [each.at.replace(tzinfo=None) for each in upcoming(schedule, UTC_ZONE, LONG_AGO)]
    assert found == expected


def test_a_count_that_lasts_for_centuries_is_refused() -> None:
    schedule = parse("DTSTART:19990101T000000 RRULE:FREQ=MONTHLY;INTERVAL=11;BYMONTH=2;COUNT=21")
    with pytest.raises(ScheduleError, match="smaller COUNT"):
        list(upcoming(schedule, UTC_ZONE, LONG_AGO))


def test_a_rule_is_on_the_local_clock_with_fixed_times() -> None:
    schedule = parse("RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=30")
    spring = upcoming(schedule, BERLIN, datetime(2027, 3, 27, tzinfo=UTC), count=3)
    assert [f"{each.local:%d %H:%M}" for each in spring] == ["27 02:30", "28 03:00", "29 02:30"]
    autumn = upcoming(schedule, BERLIN, datetime(2027, 10, 30, 12, tzinfo=UTC), count=2)
    assert [each.at for each in autumn] == [
        datetime(2027, 10, 31, 0, 30, tzinfo=UTC),
        datetime(2027, 11, 1, 1, 30, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20270103", "2027-01-03T02:30"),
        ("20270103T023000", "2027-01-03T02:30"),
        ("20270103T022959", "2027-01-02T02:30"),
        ("20270103T013000Z", "2027-01-03T02:30"),
        ("20270103T012959Z", "2027-01-02T02:30"),
    ],
)
def test_until_is_local_or_with_z_in_utc(until: str, last: str) -> None:
    schedule = parse(f"RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL={until}")
    found = [each.local.replace(tzinfo=None) for each in upcoming(schedule, BERLIN, NOW)]
    assert found[-1] == datetime.fromisoformat(last)


def test_without_a_start_a_rule_is_counted_from_1970_everywhere() -> None:
    schedule = parse("RRULE:FREQ=WEEKLY;INTERVAL=2")
    first = next_run(schedule, UTC_ZONE, NOW)
    assert first is not None
    assert first.weekday() == 3
    assert (first - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(weeks=2) == timedelta(0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("RRULE:", "a recurrence is written RRULE:FREQ="),
        ("DTSTART:20270101", "a recurrence is written RRULE:FREQ="),
        ("RRULE:FREQ=FORTNIGHTLY", "FREQ must be one of YEARLY"),
        ("RRULE:INTERVAL=2", "FREQ must be one of YEARLY"),
        ("RRULE:FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
        ("RRULE:FREQ=DAILY;BYEASTER=1", "'BYEASTER' is not a part of a rule"),
        ("RRULE:FREQ=DAILY;INTERVAL=0", "INTERVAL is a number from 1 to 10000, not '0'"),
        ("RRULE:FREQ=DAILY;COUNT=3", "COUNT needs something to count from"),
        ("DTSTART:20270101 RRULE:FREQ=DAILY;COUNT=3;UNTIL=20280101", "exclude each other"),
        ("DTSTART:20270101T090000Z RRULE:FREQ=DAILY", "write it without Z"),
        ("DTSTART:2027-01-01 RRULE:FREQ=DAILY", "DTSTART is written 20270101T090000"),
        ("RRULE:FREQ=DAILY;UNTIL=20270230", "UNTIL is written 20270101T090000"),
        ("RRULE:FREQ=DAILY;BYHOUR=24", "BYHOUR takes 0 to 23, not '24'"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY takes 1 to 31, or -1 to -31 from the end, not '0'"),
        ("RRULE:FREQ=YEARLY;BYMONTH=13", "BYMONTH takes 1 to 12, not '13'"),
        ("RRULE:FREQ=YEARLY;BYMONTH=0", "BYMONTH takes 1 to 12, not '0'"),
        ("RRULE:FREQ=MONTHLY;BYDAY=XX", "BYDAY takes MO to SU"),
        ("RRULE:FREQ=MONTHLY;BYDAY=0MO", "BYDAY takes MO to SU"),
        ("RRULE:FREQ=MONTHLY;BYDAY=9MO", "BYDAY counts to 5, or back to -5, within a month"),
        ("RRULE:FREQ=MONTHLY;BYDAY=1MO,-6MO", "BYDAY counts to 5, or back to -5, within a month"),
        ("RRULE:FREQ=YEARLY;BYMONTH=12;BYDAY=6MO", "BYDAY counts to 5, or back to -5, within a month"),
        ("RRULE:FREQ=WEEKLY;BYDAY=2MO", "BYDAY with a number is for FREQ=MONTHLY and YEARLY"),
        ("RRULE:FREQ=WEEKLY;BYMONTHDAY=2", "BYMONTHDAY is not for FREQ=WEEKLY"),
        ("RRULE:FREQ=MONTHLY;BYWEEKNO=2", "BYWEEKNO is for FREQ=YEARLY"),
        ("RRULE:FREQ=DAILY;BYYEARDAY=2", "BYYEARDAY is not for"),
        ("RRULE:FREQ=DAILY;BYSETPOS=2", "BYSETPOS picks from what another BY"),
    ],
)
def test_other_rules_are_refused(rule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        parse(rule)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("rule", "instead"),
    [
        ("FREQ=HOURLY", "0 * * * *"),
        ("FREQ=HOURLY;INTERVAL=6", "0 */6 * * *"),
        ("FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=15,45", "15,45 9,10 * * *"),
        ("FREQ=HOURLY;BYDAY=SA,SU;BYMONTH=12", "0 * * 12 sat,sun"),
        ("FREQ=MINUTELY;INTERVAL=10;BYHOUR=9,10", "*/10 9,10 * * *"),
        ("FREQ=MINUTELY;BYSECOND=5,35;BYMONTHDAY=31", "5,35 * * 31 * *"),
        ("FREQ=SECONDLY;INTERVAL=20;BYHOUR=3;BYMINUTE=0", "*/20 0 3 * * *"),
    ],
)
def test_a_rule_within_a_day_is_refused_with_an_equal_cron_expression(rule: str, instead: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(f"as a schedule, write {instead!r}")):
        parse(f"RRULE:{rule}")
    found = upcoming(parse(instead), UTC_ZONE, NOW - timedelta(seconds=1), count=200)
    expected = from_dateutil(rule, NOW.replace(tzinfo=None), 200)
    assert [each.at.replace(tzinfo=None) for each in found] == expected


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("RRULE:FREQ=MINUTELY;INTERVAL=90", "'@every 90m'"),
        ("RRULE:FREQ=HOURLY;INTERVAL=5;BYHOUR=9,10", "a cron expression, as in"),
        ("RRULE:FREQ=HOURLY;BYMONTHDAY=13;BYDAY=FR", "a cron expression, as in"),
        ("RRULE:FREQ=HOURLY;BYMONTHDAY=-1", "a cron expression, as in"),
        ("RRULE:FREQ=HOURLY;BYHOUR=25", "a cron expression, as in"),
        ("RRULE:FREQ=HOURLY;UNTIL=20300101", "a cron expression, as in"),
        ("DTSTART:20270101T091500 RRULE:FREQ=HOURLY", "a cron expression, as in"),
        ("rrule:freq=secondly;bysetpos=2;bymonth=2", "a cron expression, as in"),
    ],
)
def test_no_cron_expression_is_named_that_means_something_else(text: str, instead: str) -> None:
    with pytest.raises(ScheduleError, match=f"more often than daily; as a schedule, write {instead}"):
        parse(text)


def test_what_dateutil_fails_at_is_an_error_of_the_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumbling(*_: object, **__: object) -> object:
        raise IndexError("list index out of range")

    rule = read_recurrence("RRULE:FREQ=MONTHLY;BYDAY=2MO")
    monkeypatch.setattr("dateutil.rrule.rrule", stumbling)
    for _ in range(2):
        with pytest.raises(ScheduleError, match="cannot be computed for the year 2027: list index"):
            rule.next_local_time(datetime(2027, 1, 1))  # noqa: DTZ001 a local time


RARE = [
    ("FREQ=DAILY;INTERVAL=61;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3;BYMINUTE=3;BYSECOND=3", 2048),
    ("FREQ=DAILY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29", 2052),
    ("FREQ=DAILY;BYMONTHDAY=-21,31;BYMONTH=4;BYDAY=TH;BYHOUR=13,23", 2031),
    ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", None),
    ("FREQ=DAILY;BYHOUR=3;BYSETPOS=2", None),
    ("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2", None),
    ("FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6", None),
]


@pytest.mark.parametrize(("rule", "year"), RARE)
def test_a_rule_that_fires_rarely_or_never_is_answered_quickly(rule: str, year: int | None) -> None:
    before = time.process_time()
    found = read_recurrence(f"RRULE:{rule}").next_local_time(NOW.replace(tzinfo=None))
    assert time.process_time() - before < 2  # some milliseconds; dateutil takes minutes
    assert (found and found.year) == year


def test_a_rule_that_never_fires_is_not_searched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    years = []
    search = Recurrence.local_times_of

    def counting(rule: Recurrence, year: int, begin: datetime) -> object:
        years.append(year)
        return search(rule, year, begin)

    monkeypatch.setattr(Recurrence, "local_times_of", counting)
    rule = read_recurrence("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30")
    for days in range(1_000):
        assert rule.next_local_time(datetime(2027, 1, 1) + timedelta(days=days)) is None  # noqa: DTZ001 a local time
    assert years == list(range(2027, 2080))


def test_a_rule_without_a_match_for_50_years_has_none() -> None:
    rule = read_recurrence("RRULE:FREQ=YEARLY;INTERVAL=60")
    assert rule.next_local_time(datetime(2029, 12, 31)) == datetime(2030, 1, 1)  # noqa: DTZ001 local times
    assert rule.next_local_time(datetime(2030, 1, 1)) is None  # noqa: DTZ001 a local time
    assert rule.next_local_time(datetime(2040, 1, 1)) == datetime(2090, 1, 1)  # noqa: DTZ001 local times


def test_count_goes_on_through_the_century() -> None:
    schedule = parse("DTSTART:19490101 RRULE:FREQ=YEARLY;COUNT=100")
    assert next_run(schedule, UTC_ZONE, NOW) == datetime(2028, 1, 1, tzinfo=UTC)
    assert next_run(schedule, UTC_ZONE, datetime(2048, 1, 1, tzinfo=UTC)) is None
