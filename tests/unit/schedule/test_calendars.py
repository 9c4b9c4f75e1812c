"""Calendars, and schedules that heed them."""

import json
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from dcron.errors import UsageError
from dcron.schedule.calendars import Calendar, calendar_from_ics, calendar_from_json, parse_calendar
from dcron.schedule.effort import TooMuchEffort
from dcron.schedule.next_run import next_run, until_next_run, upcoming
from dcron.schedule.parser import parse
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone

BERLIN = zone("Europe/Berlin")
NOW = datetime(2027, 12, 23, 12, tzinfo=UTC)

LINES = """
# Berlin
2027-12-24          # given day by day
12-25
12-26
sat
Sunday
RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=2SU
""".splitlines()
HOLIDAYS = parse_calendar("holidays", LINES)

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20270401
DTEND;VALUE=DATE:20270403
SUMMARY:Two days
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;VALUE=DATE:20201003
RRULE:FREQ=YEARLY
EXDATE;VALUE=DATE:20281003
SUMMARY:Every year but one
END:VEVENT
BEGIN:VEVENT
UID:3
DTSTART:20270510T220000Z
DTEND:20270511T020000Z
SUMMARY:Over midnight
END:VEVENT
BEGIN:VEVENT
UID:4
DTSTART;VALUE=DATE:20270601
STATUS:CANCELLED
END:VEVENT
BEGIN:VEVENT
UID:5
DTSTART;VALUE=DATE:20270705
RRULE:FREQ=WEEKLY;UNTIL=20270719T000000Z
END:VEVENT
BEGIN:VEVENT
UID:5
RECURRENCE-ID;VALUE=DATE:20270712
DTSTART;VALUE=DATE:20270714
END:VEVENT
BEGIN:VEVENT
UID:6
DTSTART;VALUE=DATE:20270801
DURATION:P3D
RDATE;VALUE=DATE:20270901
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize(
    ("day", "inside"),
    [
        ("2027-12-23", False),
        ("2027-12-24", True),
        ("2029-12-24", False),  # a Monday
        ("2030-12-25", True),
        ("2027-12-18", True),
        ("2027-12-19", True),
        ("2027-05-09", True),
        ("2027-05-10", False),
    ],
)
def test_a_calendar_holds_dates_anniversaries_weekdays_and_rules(day: str, inside: bool) -> None:
    assert HOLIDAYS.contains(date.fromisoformat(day)) is inside


@pytest.mark.parametrize(
    ("day", "inside"),
    [
        ("2027-03-31", False),
        ("2027-04-01", True),
        ("2027-04-02", True),
        ("2027-04-03", False),
        ("2019-10-03", False),
        ("2027-10-03", True),
        ("2028-10-03", False),
        ("2029-10-03", True),
        ("2027-05-10", True),
        ("2027-05-11", True),
        ("2027-05-12", False),
        ("2027-06-01", False),
        ("2027-07-05", True),
        ("2027-07-12", False),
        ("2027-07-14", True),
        ("2027-07-19", True),
        ("2027-07-26", False),
        ("2027-08-03", True),
        ("2027-08-04", False),
        ("2027-09-03", True),
    ],
)
def test_an_ics_file_is_the_dates_its_events_touch(day: str, inside: bool) -> None:
    calendar = calendar_from_ics("work", ICS)
    assert calendar.contains(date.fromisoformat(day)) is inside
    assert calendar_from_json("work", calendar.to_json()).contains(date.fromisoformat(day)) is inside


def test_a_calendar_survives_json() -> None:
    for calendar in (HOLIDAYS, calendar_from_ics("work", ICS), Calendar("empty")):
        text = json.dumps(calendar.to_json())
        assert calendar_from_json(calendar.name, json.loads(text)) == calendar


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2027-02-30", "calendar holidays, line 1: '2027-02-30' is not a date; write 2027-12-25"),
        ("13-01", "is not a date"),
        ("someday", "is not a date"),
        ("RRULE:FREQ=SOMETIMES", "FREQ must be one of"),
        ("20271225", "is not a date"),
        ("a monster", "is not a date"),
        ("monster", "is not a date"),
        ("sunny", "is not a date"),
        ("RRULE:FREQ=DAILY;COUNT=3", "calendar holidays, line 1: RRULE: COUNT needs something to count from"),
        ("RRULE:FREQ=DAILY;UNTIL=20270101T000000Z", "write UNTIL without Z"),
        ("RRULE:FREQ=MONTHLY;BYDAY=9MO", "BYDAY counts to 5"),
    ],
)
def test_other_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_calendar("holidays", [line])


def test_a_rule_of_a_calendar_may_have_a_start_of_its_own() -> None:
    calendar = parse_calendar("three", ["DTSTART:20270101 rrule:freq=daily;count=3"])
    assert dates_of(calendar) == ["01-01", "01-02", "01-03"]
    assert calendar_from_json("three", calendar.to_json()) == calendar


def dates_of(calendar: Calendar, first: str = "2027-01-01") -> list[str]:
    days = [date.fromisoformat(first) + timedelta(number) for number in range(40)]
    return [f"{day:%m-%d}" for day in days if calendar.contains(day)]


def file_of(*events: str) -> str:
    """An iCalendar file; the lines of an event are separated by blanks."""
    written = ["\n".join(("BEGIN:VEVENT", "UID:1", *event.split(), "END:VEVENT")) for event in events]
    return "\n".join(("BEGIN:VCALENDAR", *written, "END:VCALENDAR"))


NEW_YORK = "DTSTART;TZID=America/New_York:20270101T220000"


@pytest.mark.parametrize(
    ("events", "dates"),
    [
        ((f"{NEW_YORK} RRULE:FREQ=DAILY;UNTIL=20270104T045959Z",), "01-01 01-02 01-03"),
        ((f"{NEW_YORK} RRULE:FREQ=DAILY;UNTIL=20270104T030000Z",), "01-01 01-02 01-03"),
        ((f"{NEW_YORK} RRULE:FREQ=DAILY;UNTIL=20270104T025959Z",), "01-01 01-02"),
        (
            ("DTSTART;TZID=Asia/Tokyo:20270101T080000 RRULE:FREQ=DAILY;UNTIL=20270102T230000Z",),
            "01-01 01-02 01-03",
        ),
        (
            ("DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY;UNTIL=20270103T060000Z",),
            "01-01 01-02",
        ),
        ((f"{NEW_YORK} RRULE:FREQ=DAILY;COUNT=3 EXDATE:20270103T030000Z",), "01-01 01-03"),
        (
            (
                f"{NEW_YORK} RRULE:FREQ=DAILY;COUNT=3",
                f"RECURRENCE-ID:20270103T030000Z {NEW_YORK.replace('0101T', '0120T')}",
            ),
            "01-01 01-03 01-20",
        ),
        (
            ("DTSTART;TZID=Asia/Tokyo:20270105T220000 DTEND;TZID=Europe/Berlin:20270105T160000",),
            "01-05",
        ),
        (("DTSTART:20270101T200000 RRULE:FREQ=DAILY;INTERVAL=2;COUNT=4",), "01-01 01-03 01-05 01-07"),
        (("DTSTART;VALUE=DATE:16040105 RRULE:FREQ=YEARLY",), "01-05"),
        (
            (
                "DTSTART;VALUE=DATE:20270105 RDATE;VALUE=DATE:20270108,20270110,20270112 "
                "EXDATE;VALUE=DATE:20270108",
                "RECURRENCE-ID;VALUE=DATE:20270110 DTSTART;VALUE=DATE:20270120",
            ),
            "01-05 01-12 01-20",
        ),
        (
            (
                "DTSTART:20270105T090000Z DTEND:20270105T100000Z "
                "RDATE;VALUE=PERIOD:20270108T220000Z/PT5H,20270111T220000Z/20270112T000000Z",
            ),
            "01-05 01-08 01-09 01-11",
        ),
        (("DTSTART;VALUE=DATE:20250101 DTEND;VALUE=DATE:20270104",), "01-01 01-02 01-03"),
    ],
)
def test_the_times_of_an_event_are_on_the_clock_of_its_start(events: tuple[str, ...], dates: str) -> None:
    calendar = calendar_from_ics("work", file_of(*events))
    assert dates_of(calendar) == dates.split()
    assert dates_of(calendar_from_json("work", calendar.to_json())) == dates.split()


MONDAY, TUESDAY = ("DTSTART;VALUE=DATE:2027010" + day for day in "45")
LATER = "DTSTAMP:20270101T000001Z"
FIFTH = "RECURRENCE-ID;VALUE=DATE:20270105"


@pytest.mark.parametrize(
    ("events", "dates"),
    [
        ((f"SEQUENCE:1 {TUESDAY}", f"SEQUENCE:0 {LATER} {MONDAY}"), "01-05"),
        ((f"SEQUENCE:9 {MONDAY}", f"SEQUENCE:10 {TUESDAY}"), "01-05"),
        ((f"SEQUENCE:1 DTSTAMP:20270101T000000Z {MONDAY}", f"SEQUENCE:1 {LATER} {TUESDAY}"), "01-05"),
        ((f"SEQUENCE:1 {LATER} {MONDAY}", f"SEQUENCE:1 {LATER} {TUESDAY}"), "01-04 01-05"),
        ((MONDAY, f"SEQUENCE:1 STATUS:CANCELLED {MONDAY}"), ""),
        (
            (
                f"SEQUENCE:1 {MONDAY} RRULE:FREQ=DAILY;COUNT=3",
                f"{FIFTH} SEQUENCE:1 DTSTART;VALUE=DATE:20270110",
                f"{FIFTH} SEQUENCE:2 DTSTART;VALUE=DATE:20270112",
            ),
            "01-04 01-06 01-12",
        ),
    ],
)
def test_of_an_event_in_several_versions_the_latest_counts(events: tuple[str, ...], dates: str) -> None:
    assert dates_of(calendar_from_ics("work", file_of(*events))) == dates.split()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            "RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270112",
            "calendar work: 1 moves an occurrence and all after it",
        ),
        (
            "DTSTART;VALUE=DATE:20270101 DTEND;VALUE=DATE:20470101",
            "calendar work: an event from 2027-01-01 on lasts 7,305 days; 3,660 are the most",
        ),
        (
            "DTSTART;VALUE=DATE:15040105 RRULE:FREQ=YEARLY",
            "DTSTART must lie in the years 1600 to 9996, not 1504",
        ),
        ("DTSTART;VALUE=DATE:20270101 RRULE:FREQ=MONTHLY;BYDAY=53MO", "BYDAY counts to 5"),
    ],
)
def test_events_that_cannot_be_taken_whole_are_refused(event: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        calendar_from_ics("work", file_of(event))


NO_START = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR"


@pytest.mark.parametrize(
    "text", ["", "nonsense", NO_START, "x" * 3_000_000], ids=["empty", "words", "event", "big"]
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="calendar work"):
        calendar_from_ics("work", text)


def test_excluded_occurrences_are_shown_with_the_calendar_and_do_not_run() -> None:
    rules = Rules(except_on=(HOLIDAYS,))
    shown = list(upcoming(parse("0 9 * * *"), BERLIN, NOW, rules, count=2))
    assert [(each.local.day, each.reason) for each in shown] == [
        (24, "on calendar holidays"),
        (25, "on calendar holidays"),
        (26, "on calendar holidays"),
        (27, None),
        (28, None),
    ]
    assert next_run(parse("0 9 * * *"), BERLIN, NOW, rules) == shown[3].at
    assert list(until_next_run(parse("0 9 * * *"), BERLIN, NOW, rules)) == shown[:4]


def test_only_keeps_the_dates_of_any_of_its_calendars() -> None:
    rules = Rules(only_on=(parse_calendar("a", ["2027-12-31"]), parse_calendar("b", ["2028-01-02"])))
    shown = list(upcoming(parse("0 9 * * *"), BERLIN, datetime(2027, 12, 30, tzinfo=UTC), rules, count=2))
    assert [(each.local.day, each.reason) for each in shown] == [
        (30, "not on calendar a or b"),
        (31, None),
        (1, "not on calendar a or b"),
        (2, None),
    ]


def test_the_local_date_decides_not_the_one_in_utc() -> None:
    rules = Rules(except_on=(parse_calendar("one-day", ["2027-12-24"]),))
    following = next_run(parse("30 0 * * *"), BERLIN, NOW, rules)
    assert following == datetime(2027, 12, 24, 23, 30, tzinfo=UTC)


def test_a_far_date_is_reached_without_walking_through_every_minute() -> None:
    rules = Rules(only_on=(parse_calendar("far", ["2031-06-01"]),))
    following = next_run(parse("* * * * *"), BERLIN, NOW, rules)
    assert following == datetime(2031, 5, 31, 22, tzinfo=UTC)


def test_calendars_that_leave_nothing_end_the_search() -> None:
    rules = Rules(only_on=(parse_calendar("past", ["2020-06-01"]),))
    assert next_run(parse("0 9 * * *"), BERLIN, NOW, rules) is None


EVERY_DAY = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@pytest.mark.parametrize(
    ("schedule", "rules"),
    [
        ("0 9 * * *", Rules(only_on=(parse_calendar("past", ["2020-06-01"]),))),
        ("RRULE:FREQ=YEARLY;BYHOUR=3 | 8-41 22 * * *", Rules(only_on=(Calendar("empty"),))),
        ("* * * * *", Rules(except_on=(parse_calendar("all", EVERY_DAY),))),
    ],
    ids=["past", "empty", "weekdays"],
)
def test_nothing_left_is_found_out_quickly(schedule: str, rules: Rules) -> None:
    before = time.process_time()
    assert next_run(parse(schedule), BERLIN, NOW, rules) is None
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("schedule", "rules"),
    [
        ("0 9 * * *", Rules(except_on=(parse_calendar("all", ["RRULE:FREQ=DAILY"]),))),
        ("0 9 * * mon", Rules(only_on=(parse_calendar("other", ["sun", "RRULE:FREQ=DAILY;BYDAY=TU"]),))),
    ],
    ids=["rule", "never together"],
)
def test_a_search_through_fifty_years_for_nothing_is_given_up(schedule: str, rules: Rules) -> None:
    with pytest.raises(TooMuchEffort):
        next_run(parse(schedule), BERLIN, NOW, rules)


@pytest.mark.parametrize("first", ["2026-12-30", "2027-03-01", "2027-12-24"])
def test_the_next_date_is_the_first_that_the_calendar_contains(first: str) -> None:
    for calendar in (HOLIDAYS, calendar_from_ics("work", ICS), parse_calendar("leap", ["02-29"])):
        day = date.fromisoformat(first)
        found = next(later for days in range(1500) if calendar.contains(later := day + timedelta(days)))
        assert calendar.next_date(day) == found
    assert parse_calendar("past", ["2020-06-01"]).next_date(date.fromisoformat(first)) is None


def test_a_preview_does_not_strike_out_a_year_of_minutes() -> None:
    rules = Rules(only_on=(parse_calendar("far", ["2031-06-01"]),))
    shown = list(upcoming(parse("* * * * *"), BERLIN, NOW, rules, count=2))
    assert [each.reason for each in shown] == ["not on calendar far"] * 100 + [None] * 2
    assert shown[-2].at == datetime(2031, 5, 31, 22, tzinfo=UTC)
    past = Rules(only_on=(parse_calendar("past", ["2020-06-01"]),))
    assert len(list(upcoming(parse("* * * * *"), BERLIN, NOW, past, count=2))) == 100


def test_outside_the_window_nothing_runs_and_one_occurrence_shows_where_it_ends() -> None:
    rules = Rules(not_before=NOW + timedelta(days=10), not_after=datetime(2028, 1, 3, 8, tzinfo=UTC))
    shown = list(upcoming(parse("0 9 * * *"), BERLIN, NOW, rules))
    assert [(f"{each.local:%m-%d}", each.reason) for each in shown] == [
        ("12-24", "before --not-before"),
        ("01-03", None),
        ("01-04", "after --not-after"),
    ]
    assert next_run(parse("0 9 * * *"), BERLIN, NOW, rules) == rules.not_after
    assert next_run(parse("0 9 * * *"), BERLIN, shown[1].at, rules) is None
    assert list(until_next_run(parse("0 9 * * *"), BERLIN, shown[1].at, rules)) == []
    assert rules.not_before is not None
    exactly = Rules(not_before=shown[1].at)
    assert next_run(parse("0 9 * * *"), BERLIN, NOW, exactly) == shown[1].at


@pytest.mark.parametrize(
    "stored",
    [
        *({}, {"nope": 1}, {"dates": 5}, {"dates": [5]}, {"dates": "2027-12-25"}, {"annual": None}),
        *({"weekdays": [["sat"]]}, {"recurring": {}}, {"recurring": [5]}, {"recurring": [{}]}),
        {"recurring": [{"rule": "FREQ=DAILY", "start": "x", "days": 1, "exceptions": []}]},
        {"recurring": [{"rule": "FREQ=DAILY", "start": "2027-01-01", "days": 1e300, "exceptions": []}]},
        {"recurring": [{"rule": "FREQ=DAILY", "start": "2027-01-01", "days": 10**9, "exceptions": []}]},
        {"recurring": [{"rule": "FREQ=DAILY", "start": "2027-01-01", "days": 1, "exceptions": ["x"]}]},
        {"recurring": [{"rule": 5, "start": "2027-01-01", "days": 1, "exceptions": []}]},
        {"recurring": [{"rule": "FREQ=NEVER", "start": "2027-01-01", "days": 1, "exceptions": []}]},
    ],
)
def test_a_calendar_that_was_written_by_hand_is_read_or_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="calendar work"):
        calendar_from_json("work", stored)
