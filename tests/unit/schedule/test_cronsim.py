"""cronsim as a second opinion, wherever it is known to be sound: from its own reading of the text on."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given
from hypothesis import strategies as st

from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone

DAYS = ("*", "1", "13,29", "*/10", "L", "31", "28-31")
WEEKDAYS = ("*", "1-5", "0", "sat", "5L", "2#2", "*/2")
MONTHS = ("*", "2", "1-6/5", "jan,JUL")
TIMES = ("0 0", "30 2", "*/15 *", "5 */6", "0,30 1-3", "59 23")

expressions = st.builds(
    lambda time, day, month, weekday: f"{time} {day} {month} {weekday}",
    *map(st.sampled_from, (TIMES, DAYS, MONTHS, WEEKDAYS)),
)


@given(expressions, st.integers(0, 20 * 366))
def test_on_a_clock_without_changes_both_agree(text: str, days: int) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=days)
    try:
        second_opinion = CronSim(text, start)
    except CronSimError:  # it refuses 31 in February even where a weekday would do
        assume(False)
    schedule, instant = parse(text), start
    for expected in islice(second_opinion, 8):
        following = next_run(schedule, zone("UTC"), instant)
        assert following == expected
        instant = expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize(
    "text", ["0 9 * * *", "30 12 * * 1-5", "15 * * * *", "*/20 * * * *", "0 0 1 * *", "45 4 * * 0"]
)
def test_away_from_the_hours_of_change_both_agree_in_real_zones(text: str, name: str) -> None:
    """Two years, so four changes; cronsim's own rules inside a change are not ours."""
    here, start = zone(name), datetime(2027, 1, 1, tzinfo=UTC)
    schedule, instant, end = parse(text), start, start + timedelta(days=60 if "*" in text[:2] else 730)
    for expected in CronSim(text, start.astimezone(here)):
        following = next_run(schedule, here, instant)
        assert following is not None
        if expected.astimezone(UTC) > end:
            break
        assert following == expected.astimezone(UTC)
        instant = following
