"""Advice: each code where it belongs, and silence elsewhere."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from dcron.schedule import advise, advise_all, parse, zone

NOW = datetime(2027, 1, 1, tzinfo=UTC)
BERLIN, UTC_ZONE = zone("Europe/Berlin"), zone("UTC")


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
        ("0 */3 * * *", []),
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


def test_without_clock_changes_there_is_nothing_to_say_of_them() -> None:
    assert advise(parse("0 */2 * * *"), UTC_ZONE, NOW) == []
    assert advise(parse("*/15 2 * * *"), UTC_ZONE, NOW) == []


def test_other_forms_of_a_step_are_suggested() -> None:
    (minute,) = advise(parse("*/7 * * * *"), UTC_ZONE, NOW)
    assert minute.message.endswith("@every 7m is even")
    (day,) = advise(parse("0 0 */2 * *"), UTC_ZONE, NOW)
    assert day.message.endswith("@every 2d is even")


def test_many_tasks_on_one_minute_are_told_to_spread() -> None:
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


def test_what_its_jitter_spreads_need_not_be_told_to_spread() -> None:
    def moved(minutes: int) -> Callable[[datetime], datetime]:
        return lambda occurrence: occurrence + timedelta(minutes=minutes)

    daily = parse("0 3 * * *")
    assert advise_all([(f"task-{number}", daily, UTC_ZONE, moved(number)) for number in range(12)], NOW) == []
    (advice,) = advise_all([(f"task-{number}", daily, UTC_ZONE, moved(7)) for number in range(12)], NOW)
    assert advice.message.startswith("12 tasks start at 2027-01-01 03:07 UTC")
