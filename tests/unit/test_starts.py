"""The starts of a crontab, by the minute and in cells: the same as a list of all occurrences gives."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dcron.model import Definition, Freeze
from dcron.policy.forecast.start_times import (
    MOST_IN_CELL,
    Minutes,
    StartSpan,
    filled,
    merged,
    minute_of,
    minutes_of,
    starts_of,
    until_ran,
)
from dcron.policy.starting import catch_up, occurrences
from dcron.policy.starting.freezes import FrozenTime
from dcron.schedule.next_run import upcoming
from dcron.schedule.zones import zone

NIGHT = datetime(2027, 3, 27, 20, tzinfo=UTC)
"""The clocks of Berlin go forward in it, at 01:00 UTC."""
SPAN = StartSpan(NIGHT, timedelta(minutes=30), 50)
SCHEDULES = (
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "0,1 */3 * * *",
    "@every 90s",
    "@delay 5m",
    "H * * * *",
)


def line(schedule: str, **fields: Any) -> Definition:
    plain = Definition(name="backup", schedule=schedule, timezone="Europe/Berlin", command="true")
    return replace(plain, **fields)


def listed(of: Definition) -> list[datetime]:
    """When it starts in the span, from the plain list of its occurrences."""
    schedule, early = occurrences.schedule_of(of), timedelta(seconds=of.jitter or 0)
    found = upcoming(schedule, zone(of.timezone), NIGHT - early - catch_up.INSTANT, until=SPAN.end)
    due = (occurrences.due_at(of, each.at) for each in found)
    return sorted(each for each in due if SPAN.begin <= each < SPAN.end)


@pytest.mark.parametrize("jitter", [None, 600.0])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cells_and_minutes_hold_what_the_occurrences_say(schedule: str, jitter: float | None) -> None:
    of = line(schedule, jitter=jitter)
    expected = Counter(SPAN.position(each) for each in listed(of))
    for position, cell in enumerate(filled(of, SPAN)):
        assert cell.has_more or len(cell.starts) == expected[position]
        if cell.has_more:
            assert len(cell.starts) == MOST_IN_CELL < expected[position]
    assert sorted(minutes_of(of, SPAN.begin, SPAN.end)) == sorted({minute_of(each) for each in listed(of)})


def test_a_task_of_every_second_is_read_a_little_in_each_cell() -> None:
    cells = filled(line("* * * * * *"), SPAN)
    assert all(cell.has_more and len(cell.starts) == MOST_IN_CELL for cell in cells)
    assert len(minutes_of(line("* * * * * *"), SPAN.begin, SPAN.end)) == 25 * 60


def test_what_a_pause_or_a_window_holds_back_is_passed_over() -> None:
    hourly = line("0 * * * *")
    until = NIGHT + timedelta(hours=2)
    cells = filled(hourly, SPAN, paused_until=until)
    assert [cell.skipped for cell in cells[:6]] == [True, False, True, False, False, False]
    assert cells[0].starts == ()
    assert cells[4].starts == (until,)
    windowed = filled(replace(hourly, not_before=until), SPAN)
    assert not any(cell.starts for cell in windowed[:4])
    assert windowed[4].starts == (until,)


def test_the_busiest_minutes_are_found_and_of_equal_ones_the_earliest() -> None:
    minutes = Minutes()
    for schedule in ("30 2 * * *", "*/30 * * * *", "0 22 * * *"):
        minutes.add(minutes_of(line(schedule, timezone="UTC"), SPAN.begin, SPAN.end))
    half_past_two, ten = datetime(2027, 3, 28, 2, 30, tzinfo=UTC), datetime(2027, 3, 27, 22, tzinfo=UTC)
    assert minutes.busiest(2) == [(ten, 2), (half_past_two, 2)]
    assert Minutes().busiest(1) == []


def test_the_starts_of_many_tasks_come_in_one_order_and_end_with_those_that_run() -> None:
    lines = [
        replace(line(schedule), name=name) for name, schedule in (("b", "*/20 * * * *"), ("a", "@hourly"))
    ]
    found = list(merged((starts_of(each, NIGHT, None) for each in lines), 4, 100))
    assert [(each.at.minute, each.task) for each in found] == [(20, "b"), (40, "b"), (0, "a"), (0, "b")]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_with_jitter_the_occurrences_come_as_they_start(schedule: str) -> None:
    of = line(schedule, jitter=600.0)
    found = list(starts_of(of, NIGHT - catch_up.INSTANT, SPAN.end - catch_up.INSTANT))
    assert [each.at for each in found] == listed(of)
    assert all(each.at == occurrences.due_at(of, each.occurrence.at) for each in found)


def test_an_occurrence_whose_time_is_past_and_whose_start_is_not_is_still_to_come() -> None:
    of = line("0 20 * * *", timezone="UTC", jitter=3600.0)
    first = next(starts_of(of, NIGHT + timedelta(seconds=1)))
    assert (first.occurrence.at, first.at) == (NIGHT, occurrences.due_at(of, NIGHT))
    assert first.at > NIGHT + timedelta(seconds=1)


@pytest.mark.parametrize("jitter", [None, 20.0])
def test_a_freeze_is_left_after_a_hundred_starts(jitter: float | None) -> None:
    each_second = line("@every 1s", jitter=jitter)
    begin, end = NIGHT + timedelta(minutes=1), NIGHT + timedelta(days=30)
    facts: dict[str, Any] = {"selector": None, "reason": None, "created_at": NIGHT, "created_by": None}
    for until in (end, None):
        freeze = Freeze(id=1, from_at=begin, until_at=until, thawed_at=None, thawed_by=None, **facts)
        found = list(until_ran(starts_of(each_second, NIGHT, frozen=FrozenTime([freeze])), 120))
        reasons = [start.occurrence.reason for start in found]
        assert (len(found), sum(map(bool, reasons))) == (220 if until else len(found), 100)
        assert any(start.at >= end for start in found) == bool(until)
        assert found == sorted(found)
