"""Advice: each code where it belongs, and silence elsewhere."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from dcron.schedule.calendars import parse_calendar
from dcron.schedule.lint import advise, advise_all
from dcron.schedule.parser import parse
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone

NOW = datetime(2027, 1, 1, tzinfo=UTC)
BERLIN, UTC_ZONE = zone("Europe/Berlin"), zone("UTC")
EVERY_MINUTE = ",".join(map(str, range(60)))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("0 9 * * mon-fri", []),
        ("30 2 * * *", []),
        ("*/5 * * * *", []),
        ("*/15 9-17 * * 1-5", []),
        ("0 0 * * *", []),
        ("0 0 */1 * 1", []),
        ("@every 90s", []),
        ("@delay 5s", []),
        ("@reboot", []),
        ("@hourly", []),
        ("0 0 1,15 * 1", ["day-or-weekday"]),
        ("0 0 13 * 5 | 0 9 * * *", ["day-or-weekday"]),
        ("*/7 * * * *", ["uneven-step"]),
        ("0 0 */2 * *", ["uneven-step"]),
        ("*/90 * * * *", ["uneven-step"]),
        ("0 */2 * * *", ["hours-at-change"]),
        ("0 */3 * * *", ["hours-at-change"]),
        ("0 */3 * * mon-fri", []),
        ("0 */24 * * *", []),
        ("0 H/2 * * *", ["hours-at-change"]),
        ("*/15 2 * * *", ["lost-in-gap"]),
        ("0,15 2 * * *", []),
        ("0 0 30 2 *", ["never-fires"]),
        ("@at 2020-01-01", ["never-fires"]),
        ("0 0 29 2 *", ["leap-day-only"]),
        ("0 0 29 2,3 *", []),
        ("0 0 29 2 1", ["day-or-weekday"]),
        ("0-59 3 * * *", ["covers-everything"]),
        ("0 0 1-31 * 1", ["covers-everything"]),
        ("* 3 * * *", ["every-minute-of-hour"]),
        ("* 3-5 * * *", []),
        ("@every 10s", ["sub-minute"]),
        ("*/10 * * * * *", ["sub-minute"]),
        ("30 * * * * *", []),
        ("0,1 * * * * *", ["sub-minute"]),
        ("0 * * * * * | 30 * * * * *", ["sub-minute"]),
        ("* 0 9 * * *", ["sub-minute"]),
        ("*/10 30 3 1 1 *", []),
        ("* * * * * | @every 60s", []),
        ("* * * * * *", ["sub-minute"]),
        (f"RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE={EVERY_MINUTE};BYSECOND=0,30", ["sub-minute"]),
        ("0 0 29-31 2 *", ["leap-day-only"]),
        ("0 0 29,30 2 *", ["leap-day-only"]),
        ("0 0 28,29 2 *", []),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["leap-day-only"]),
        ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1", []),
        ("1-59/7 * * * *", ["uneven-step"]),
        ("0-59/7 * * * *", ["uneven-step"]),
        ("5-59/15 * * * *", []),
        ("0 9-17/3 * * *", []),
        ("*/1 3 * * *", ["every-minute-of-hour"]),
        ("0 9 * * * | 0 0 30 2 *", ["never-fires"]),
        ("0 9 * * * | @at 2020-01-01T00:00", ["never-fires"]),
        ("@reboot | 0 0 30 2 *", ["never-fires"]),
    ],
)
def test_codes(text: str, codes: list[str]) -> None:
    assert sorted({advice.code for advice in advise(parse(text), BERLIN, NOW)}) == codes


def test_clock_changes_are_named_with_their_date() -> None:
    spring, autumn = advise(parse("0 */2 * * *"), BERLIN, NOW)
    assert spring.message == "02:00 does not exist on 2027-03-28: left out; hours are uneven that day"
    assert autumn.message == "02:00 comes twice on 2027-10-31: both times run; hours are uneven that day"
    (lost,) = advise(parse("*/15 2 * * *"), BERLIN, NOW)
    assert "on 2027-03-28 the clock leaves out all its times" in lost.message


def test_hours_are_uneven_also_where_no_time_is_lost() -> None:
    spring, autumn = advise(parse("0 */3 * * *"), BERLIN, NOW)
    assert spring.message == "clocks go forward by 1 hour on 2027-03-28; hours are uneven that day"
    assert autumn.message == "clocks go back by 1 hour on 2027-10-31; hours are uneven that day"


@pytest.mark.parametrize(
    ("text", "name", "instead"),
    [
        ("*/15 2 * * *", "Europe/Berlin", "minute */15"),
        ("*/10 30 2 * * *", "Europe/Berlin", "second */10"),
        ("30 */24 * * *", "Africa/Cairo", "hour */24"),
        ("*/10 */10 2 * * *", "Europe/Berlin", "second */10 and minute */10"),
    ],
)
def test_what_is_lost_in_a_gap_names_the_field_to_change(text: str, name: str, instead: str) -> None:
    (lost,) = [each for each in advise(parse(text), zone(name), NOW) if each.code == "lost-in-gap"]
    assert f"with a list in place of {instead} it would" in lost.message


def test_calendars_and_windows_count() -> None:
    closed = Rules(except_on=(parse_calendar("closed", ["sun"]),))
    ended = Rules(not_after=datetime(2027, 2, 1, tzinfo=UTC))
    for text in ("*/15 2 * * *", "0 */2 * * *", "0 */3 * * *"):
        assert advise(parse(text), BERLIN, NOW) != []
        assert advise(parse(text), BERLIN, NOW, closed) == []
        assert advise(parse(text), BERLIN, NOW, ended) == []


@pytest.mark.parametrize(
    ("text", "often"),
    [
        ("0,1 * * * * *", "2 times"),
        ("0 * * * * * | 30 * * * * *", "2 times"),
        ("@every 45s", "1.3 times"),
        ("* * * * * *", "60 times"),
    ],
)
def test_how_often_is_counted(text: str, often: str) -> None:
    (advice,) = advise(parse(text), UTC_ZONE, NOW)
    assert advice.message.startswith(f"runs about {often} a minute")


def test_a_dead_part_is_named() -> None:
    dead = advise(parse("0 9 * * * | 0 0 30 2 * | @at 2020-01-01T00:00"), UTC_ZONE, NOW)
    assert [advice.message.partition(":")[0] for advice in dead] == [
        "'0 0 30 2 *' never fires",
        "'@at 2020-01-01T00",
    ]


def test_a_step_from_a_hash_starts_anew_at_the_hash() -> None:
    messages = [advice.message for advice in advise(parse("0 H/7 * * *"), UTC_ZONE, NOW)]
    assert messages == [
        "hour H/7 does not divide 24: it starts again every day, so the last step is shorter; "
        "@every 7h is even"
    ]


def test_without_clock_changes_there_is_nothing_to_say_of_them() -> None:
    assert advise(parse("0 */2 * * *"), UTC_ZONE, NOW) == []
    assert advise(parse("*/15 2 * * *"), UTC_ZONE, NOW) == []


def test_other_forms_of_a_step_are_suggested() -> None:
    (minute,) = advise(parse("*/7 * * * *"), UTC_ZONE, NOW)
    assert minute.message.endswith("@every 7m is even")
    (day,) = advise(parse("0 0 */2 * *"), UTC_ZONE, NOW)
    assert day.message.endswith("@every 2d is even")


def test_many_tasks_on_one_minute_are_advised_to_spread() -> None:
    def unmoved(occurrence: datetime) -> datetime:
        return occurrence

    same = [(f"task-{number}", parse("0 3 * * *"), UTC_ZONE, unmoved) for number in range(12)]
    spread = [
        (f"task-{number}", parse("H H * * *", name=f"task-{number}"), UTC_ZONE, unmoved)
        for number in range(200)
    ]
    often = [(f"often-{number}", parse("* * * * *"), UTC_ZONE, unmoved) for number in range(12)]
    (advice,) = advise_all(same + spread + often, NOW)
    assert advice.code == "same-minute"
    assert advice.message.startswith("12 tasks start at 2027-01-01 03:00 UTC (task-0, task-1, task-10, …)")
    assert advise_all(same[:9] + spread + often, NOW) == []
    assert advise_all(same[:9], NOW, many=9) != []


def test_what_its_jitter_spreads_gets_no_advice_to_spread() -> None:
    def moved(minutes: int) -> Callable[[datetime], datetime]:
        return lambda occurrence: occurrence + timedelta(minutes=minutes)

    daily = parse("0 3 * * *")
    assert advise_all([(f"task-{number}", daily, UTC_ZONE, moved(number)) for number in range(12)], NOW) == []
    (advice,) = advise_all([(f"task-{number}", daily, UTC_ZONE, moved(7)) for number in range(12)], NOW)
    assert advice.message.startswith("12 tasks start at 2027-01-01 03:07 UTC")
