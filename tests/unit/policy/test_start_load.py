"""What the starts of a schedule meet."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dcron.model import Definition
from dcron.policy.forecast.start_load import SPAN, OtherStarts, start_load
from dcron.policy.forecast.start_times import Minutes, minutes_of
from dcron.tui.forms.schedule_preview import load_lines

BEGIN = datetime(2027, 6, 1, 12, 34, tzinfo=UTC)


def task(schedule: str, timezone: str = "UTC") -> Definition:
    return Definition(name="t", schedule=schedule, timezone=timezone, command="true")


def others(**numbers: int) -> OtherStarts:
    minutes = Minutes()
    for schedule, number in numbers.items():
        found = minutes_of(task(schedule.replace("_", " ")), BEGIN, BEGIN + SPAN)
        for _ in range(number):
            minutes.add(found)
    return OtherStarts(BEGIN, minutes)


def lines(schedule: str, found: OtherStarts, timezone: str = "UTC") -> list[str]:
    return [text for text, _ in load_lines(start_load(task(schedule, timezone), found), ZoneInfo(timezone))]


def test_a_crowded_minute_has_a_better_one() -> None:
    found = others(**{"0 9 * * *": 61, "1-6 9 * * *": 2})
    assert lines("0 9 * * *", found) == [
        "1 start in 24 hours; at 09:00 61 other tasks start, too; 09:07 is free",
        "! it makes the busiest minute busier: 62 starts",
    ]
    assert lines("0 11 * * *", found, "Europe/Berlin")[0].endswith(
        "at 11:00 61 other tasks start, too; 11:07 is free"
    )


def test_a_free_minute_is_left_as_it_is() -> None:
    assert lines("30 3 * * *", others(**{"0 9 * * *": 61})) == [
        "1 start in 24 hours; no other task starts in the same minutes"
    ]


def test_many_starts_are_counted_by_the_hour_and_moved_within_their_gaps() -> None:
    found = others(**{"*/5 * * * *": 4, "1-59/5 * * * *": 3})
    assert lines("*/5 * * * *", found)[0].startswith(
        "12 starts an hour; at 12:35 4 other tasks start, too; 12:37 is free"
    )
    assert start_load(task("* * * * *"), found).better is None


def test_a_time_that_is_only_less_crowded_says_so() -> None:
    found = others(**{"0 9 * * *": 60, "* 9 * * *": 2})
    load = start_load(task("0 9 * * *"), found)
    assert (load.others, load.better, load.better_others) == (
        62,
        BEGIN.replace(hour=9, minute=1) + timedelta(days=1),
        2,
    )


def test_nothing_is_said_of_a_schedule_without_starts() -> None:
    assert lines("0 9 29 2 *", others(**{"0 9 * * *": 3})) == []
