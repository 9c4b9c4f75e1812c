"""What the rules at clock changes do to ordinary schedules, and in which words the preview says so."""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from dcron.schedule import zones
from dcron.schedule.calendars import parse_calendar
from dcron.schedule.next_run import clock_transitions, next_run, upcoming
from dcron.schedule.parser import parse
from dcron.schedule.rules import Rules
from dcron.schedule.transitions import PROBE, clock
from dcron.schedule.zones import zone, zone_names

GONE, ALL_GONE = "does not exist on 2027-03-28", "do not exist on 2027-03-28"
TWO = "comes twice on 2027-10-31"
TWICE = ["31 02:00+0200", "31 02:30+0200", "31 02:00+0100", "31 02:30+0100"]
BERLIN, APIA = zone("Europe/Berlin"), zone("Pacific/Apia")
SPRING, AUTUMN = datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC)


def shown(text: str, name: str, after: datetime, rules: Rules, count: int) -> list[str]:
    occurrences = upcoming(parse(text), zone(name), after, rules, count=count)
    return [f"{each.local:%d %H:%M%z}" for each in occurrences]


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        ("30 2 * * *", Rules(), ["28 03:00+0200", "29 02:30+0200"]),
        ("30 2 * * *", Rules(gap="skip"), ["29 02:30+0200", "30 02:30+0200"]),
        ("0,30 2,3 * * *", Rules(), ["28 03:00+0200", "28 03:30+0200"]),
        ("*/30 2 * * *", Rules(), ["29 02:00+0200", "29 02:30+0200"]),
        ("@at 2027-03-28T02:30", Rules(), ["28 03:00+0200"]),
        ("@at 2027-03-28T02:30", Rules(gap="skip"), []),
    ],
)
def test_in_spring(text: str, rules: Rules, expected: list[str]) -> None:
    assert shown(text, "Europe/Berlin", SPRING, rules, 2) == expected


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        ("30 2 * * *", Rules(), ["31 02:30+0200", "01 02:30+0100"]),
        ("30 2 * * *", Rules(fold="both"), ["31 02:30+0200", "31 02:30+0100"]),
        (
            "0,30 2 * * *",
            Rules(fold="both"),
            ["31 02:00+0200", "31 02:30+0200", "31 02:00+0100", "31 02:30+0100"],
        ),
        ("*/30 2 * * *", Rules(), ["31 02:00+0200", "31 02:30+0200", "31 02:00+0100", "31 02:30+0100"]),
        ("@at 2027-10-31T02:30", Rules(fold="both"), ["31 02:30+0200"]),
    ],
)
def test_in_autumn(text: str, rules: Rules, expected: list[str]) -> None:
    assert shown(text, "Europe/Berlin", AUTUMN, rules, len(expected)) == expected


def test_a_task_made_in_the_second_pass_waits_for_the_next_day() -> None:
    second_pass = datetime(2027, 10, 31, 1, 10, tzinfo=UTC)
    assert next_run(parse("30 2 * * *"), BERLIN, second_pass) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)
    both = next_run(parse("30 2 * * *"), BERLIN, second_pass, Rules(fold="both"))
    assert both == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


def test_a_date_that_does_not_exist_has_no_run() -> None:
    start = datetime(2011, 12, 29, 12, tzinfo=UTC)
    assert shown("0 9 * * *", "Pacific/Apia", start, Rules(), 3) == [
        "29 09:00-1000",
        "31 09:00+1400",
        "01 09:00+1400",
    ]
    assert shown("0 9 30 12 *", "Pacific/Apia", start, Rules(), 1) == ["30 09:00+1400"]
    assert next_run(parse("0 9 30 12 *"), APIA, start) == datetime(2012, 12, 29, 19, tzinfo=UTC)
    (change,) = clock_transitions(parse("0 9 * * *"), APIA, start, count=1)
    assert change.text == "09:00 does not exist on 2011-12-30: no run"


@pytest.mark.parametrize(
    ("text", "after", "rules", "notes"),
    [
        ("30 2 * * *", SPRING, Rules(), [f"02:30 {GONE}: runs at 03:00, CEST", None]),
        ("30 2 * * *", SPRING, Rules(gap="skip"), [f"02:30 {GONE}: no run", None]),
        ("30 2 * * 0", SPRING, Rules(gap="skip"), [f"02:30 {GONE}: no run", None]),
        (
            "30 2 * * * | */15 2 * * *",
            SPRING,
            Rules(),
            [f"02:30 {GONE}: runs at 03:00, CEST", f"02:00, 02:15, 02:30, … {ALL_GONE}: left out"],
        ),
        (
            "0,30 2 * * *",
            SPRING,
            Rules(),
            [f"02:00, 02:30 {ALL_GONE}: one run at 03:00, CEST", None],
        ),
        ("30 1 * * *", SPRING, Rules(), [None, None]),
        (
            "0 */2 * * *",
            SPRING + timedelta(hours=11),
            Rules(),
            [f"02:00 {GONE}: left out", None],
        ),
        (
            "30 2 * * *",
            AUTUMN,
            Rules(),
            [f"02:30 {TWO}: runs the first time only, CEST", None],
        ),
        (
            "30 2 * * *",
            AUTUMN,
            Rules(fold="both"),
            [
                "02:30 comes twice on 2027-10-31: this is the first, CEST",
                "02:30 comes twice on 2027-10-31: this is the second, CET",
                None,
            ],
        ),
        (
            "0 */2 * * *",
            AUTUMN + timedelta(hours=10),
            Rules(),
            [
                "02:00 comes twice on 2027-10-31: this is the first, CEST",
                "02:00 comes twice on 2027-10-31: this is the second, CET",
                None,
            ],
        ),
        ("@every 1h", AUTUMN + timedelta(hours=12), Rules(), [None, None, None]),
        (
            "* * * * * *",
            datetime(2027, 3, 28, 0, 59, 59, tzinfo=UTC),
            Rules(),
            ["02:00, 02:00:01, 02:00:02, … do not exist on 2027-03-28: left out", None],
        ),
    ],
)
def test_a_preview_explains_a_change(
    text: str, after: datetime, rules: Rules, notes: list[str | None]
) -> None:
    occurrences = upcoming(parse(text), BERLIN, after, rules, count=len(notes))
    assert [each.note for each in occurrences] == notes


@pytest.mark.parametrize(
    ("text", "name", "after", "lost"),
    [
        ("*/15 2 * * *", "Australia/Sydney", datetime(2027, 10, 2, 12, tzinfo=UTC), "2027-10-03: left out"),
        ("0 9 * * *", "Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC), "2011-12-30: no run"),
    ],
)
def test_what_is_lost_is_noted_in_every_zone(text: str, name: str, after: datetime, lost: str) -> None:
    first, second = upcoming(parse(text), zone(name), after, count=2)
    assert (first.note or "").endswith(lost)
    assert second.note is None


def test_a_gap_that_no_occurrence_notes_is_listed_beside_them() -> None:
    schedule, skip = parse("30 2 28 3,5 *"), Rules(gap="skip")
    shown = list(upcoming(schedule, BERLIN, SPRING, skip, count=2))
    assert [each.local.month for each in shown] == [5, 3]
    found = clock_transitions(schedule, BERLIN, SPRING, skip, shown=shown)
    assert [change.at.year for change in found] == [2027, 2032]
    daily = list(upcoming(parse("30 2 * * *"), BERLIN, SPRING, skip, count=2))
    beyond = clock_transitions(parse("30 2 * * *"), BERLIN, SPRING, skip, shown=daily)
    assert [f"{change.local:%Y-%m-%d}" for change in beyond] == ["2027-10-31", "2028-03-26"]


@pytest.mark.parametrize(
    "rules",
    [
        Rules(not_after=datetime(2026, 12, 1, tzinfo=UTC)),
        Rules(not_before=datetime(2040, 1, 1, tzinfo=UTC)),
        Rules(except_on=(parse_calendar("hol", ["sun"]),)),
        Rules(only_on=(parse_calendar("open", ["mon"]),)),
    ],
)
@pytest.mark.parametrize("text", ["30 2 * * *", "*/15 2 * * *"])
def test_a_change_that_nothing_would_run_at_is_passed_over(text: str, rules: Rules) -> None:
    assert clock_transitions(parse(text), BERLIN, datetime(2026, 11, 21, tzinfo=UTC), rules) == []
    occurrences = upcoming(parse(text), BERLIN, SPRING, rules, until=SPRING + timedelta(days=1))
    assert not any(each.note for each in occurrences)


def test_changes_ahead_are_listed_however_far_the_preview_reaches() -> None:
    changes = clock_transitions(parse("30 2 * * *"), BERLIN, datetime(2027, 1, 1, tzinfo=UTC))
    assert [change.text for change in changes] == [
        "02:30 does not exist on 2027-03-28: runs at 03:00, CEST",
        "02:30 comes twice on 2027-10-31: only the first time runs",
    ]
    assert changes[0].at == datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert changes[0].local.hour == 3
    sundays = clock_transitions(parse("30 2 * * 1"), BERLIN, datetime(2027, 1, 1, tzinfo=UTC))
    assert sundays == []
    assert clock_transitions(parse("30 2 * * *"), zone("UTC"), SPRING) == []
    assert clock_transitions(parse("@every 1h"), BERLIN, SPRING) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(zone_names())[::9])
def test_the_changes_found_are_those_of_the_zones_own_file(name: str) -> None:
    """And two are never closer than the search assumes."""
    start, end = datetime(1970, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)
    written = [change for change in written_changes(name) if start < change[0] <= end]
    found = [(change.at, change.old, change.new) for change in clock(zone(name)).transitions(start, end)]
    assert found[: len(written)] == written
    assert all(at > written[-1][0] for at, *_ in found[len(written) :])  # by the rule at the file's end
    for (one, *_), (other, *_) in pairwise(found):
        assert other - one >= timedelta(hours=167) > 2 * PROBE


def written_changes(name: str) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """The changes of offset in a TZif file (RFC 9636): instant, old and new offset."""
    data = (zones._WHEEL / "zoneinfo" / name).read_bytes()
    *_, times, types, letters = first = struct.unpack_from(">6l", data, 20)
    skipped = 44 + 5 * times + 6 * types + letters + 8 * first[2] + first[0] + first[1]
    *_, times, types, _ = struct.unpack_from(">6l", data, skipped + 20)
    begin = skipped + 44  # the second block has times of 64 bits
    instants = struct.unpack_from(f">{times}q", data, begin)
    kinds = struct.unpack_from(f">{times}B", data, begin + 8 * times)
    offsets = [struct.unpack_from(">l", data, begin + 9 * times + 6 * number)[0] for number in range(types)]
    offset = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != offset:
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=instant)
            yield at, timedelta(seconds=offset), timedelta(seconds=offsets[kind])
        offset = offsets[kind]


def test_a_zone_that_zoneinfo_reads_backwards_wrongly() -> None:
    """In Nuuk on 2023-10-28 zoneinfo takes 23:30 for 00:30Z, when the clock there shows 22:30."""
    nuuk, start = zone("America/Nuuk"), datetime(2023, 10, 28, 12, tzinfo=UTC)
    run = next_run(parse("30 23 * * *"), nuuk, start)
    assert run == datetime(2023, 10, 29, 1, 30, tzinfo=UTC)
    assert run.astimezone(nuuk).strftime("%d %H:%M") == "28 23:30"
