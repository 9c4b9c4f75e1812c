"""When a task runs: its occurrences, its jitter, and its other triggers."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.errors import ScheduleError, ZoneError
from dcron.policy.starting import occurrences
from dcron.schedule.zones import zone
from tests.support.definitions import NOON, line, minutes


def test_the_next_occurrence_is_strictly_later() -> None:
    assert occurrences.next_occurrence(line(), NOON) == minutes(10)
    assert occurrences.next_occurrence(line(), NOON - timedelta(microseconds=1)) == NOON
    assert occurrences.next_occurrence(line("@at 2027-06-01T12:00:00Z"), NOON) is None
    assert occurrences.next_occurrence(line("@reboot"), NOON) is None


def test_the_next_occurrence_is_in_the_lines_zone() -> None:
    assert occurrences.next_occurrence(line("0 15 * * *", timezone="Europe/Berlin"), NOON) == minutes(60)


def test_what_cannot_be_read_has_no_occurrence() -> None:
    with pytest.raises(ScheduleError):
        occurrences.next_occurrence(line("nonsense"), NOON)
    with pytest.raises(ZoneError):
        occurrences.next_occurrence(line(timezone="Mars"), NOON)


def test_a_schedule_says_what_makes_it_run() -> None:
    assert occurrences.is_timed(line())
    assert not occurrences.is_timed(line("@reboot"))
    assert occurrences.starts_with_node(line("@reboot"))
    assert not occurrences.starts_with_node(line())


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"command": "false"}, True),
        ({"name": "other"}, True),
        ({"schedule": "*/20 * * * *"}, False),
        ({"timezone": "Europe/Berlin"}, False),
    ],
)
def test_a_planned_turn_stands_while_its_times_do(changes: dict[str, Any], same: bool) -> None:
    planned = line()
    assert occurrences.same_times(line(**changes), planned.name, planned.spec()) is same


def test_a_turn_whose_time_follows_from_the_name_falls_with_it() -> None:
    planned = line("H * * * *")
    assert occurrences.same_times(line("H * * * *"), "backup", planned.spec())
    assert not occurrences.same_times(line("H * * * *", name="other"), "backup", planned.spec())


def test_a_schedule_says_what_it_follows() -> None:
    assert occurrences.sources_of(line("@on deploy")) == [("event", "deploy")]
    assert occurrences.sources_of(line("@after a,b")) == [("task", "a"), ("task", "b")]
    assert occurrences.sources_of(line()) == []
    assert occurrences.delay_of(line("@delay 5m")) == timedelta(minutes=5)
    assert occurrences.delay_of(line("@every 5m")) is None


def test_jitter_spreads_starts_by_a_share_that_is_always_the_same() -> None:
    spread = [occurrences.due_at(line(jitter=600.0, name=f"task-{number}"), NOON) for number in range(200)]
    assert all(NOON <= due < minutes(10) for due in spread)
    assert len({due.minute for due in spread}) == 10, "over all of it"
    assert occurrences.due_at(line(jitter=600.0, name="task-7"), NOON) == spread[7]
    assert occurrences.due_at(line(jitter=600.0, name="task-7", command="other"), NOON) == spread[7]
    assert occurrences.due_at(line(), NOON) == NOON


def test_each_occurrence_has_a_share_of_its_own_whatever_zone_it_is_said_in() -> None:
    jittered = line(jitter=600.0)
    shares = {
        occurrences.due_at(jittered, minutes(10 * number)) - minutes(10 * number) for number in range(50)
    }
    assert len(shares) == 50
    elsewhere = NOON.astimezone(zone("Asia/Tokyo"))
    assert occurrences.due_at(jittered, elsewhere) == occurrences.due_at(jittered, NOON)


def test_a_rate_is_aligned_and_does_not_drift() -> None:
    every = line("@every 7m")
    occurrence = NOON
    for _ in range(100):
        following = occurrences.next_occurrence(every, occurrence)
        assert following
        assert following.timestamp() % 420 == 0
        occurrence = following + timedelta(seconds=13)


def test_it_is_too_late_a_deadline_after_a_run_is_due() -> None:
    assert occurrences.expiry_of(line(deadline=60.0), NOON) == minutes(1)
    assert occurrences.expiry_of(line(), NOON) is None
