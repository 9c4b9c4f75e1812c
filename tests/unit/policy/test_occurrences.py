"""When a task runs: its occurrences, its jitter, and its other triggers."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.errors import ScheduleError, ZoneError
from dcron.policy.starting import occurrences
from dcron.schedule.zones import zone
from tests.support.definitions import NOON, definition, minutes


def test_the_next_occurrence_is_strictly_later() -> None:
    assert occurrences.next_occurrence(definition(), NOON) == minutes(10)
    assert occurrences.next_occurrence(definition(), NOON - timedelta(microseconds=1)) == NOON
    assert occurrences.next_occurrence(definition("@at 2027-06-01T12:00:00Z"), NOON) is None
    assert occurrences.next_occurrence(definition("@reboot"), NOON) is None


def test_the_next_occurrence_is_in_the_task_s_zone() -> None:
    assert occurrences.next_occurrence(definition("0 15 * * *", timezone="Europe/Berlin"), NOON) == minutes(
        60
    )


def test_what_cannot_be_read_has_no_occurrence() -> None:
    with pytest.raises(ScheduleError):
        occurrences.next_occurrence(definition("nonsense"), NOON)
    with pytest.raises(ZoneError):
        occurrences.next_occurrence(definition(timezone="Mars"), NOON)


def test_a_schedule_says_what_makes_it_run() -> None:
    assert occurrences.is_timed(definition())
    assert not occurrences.is_timed(definition("@reboot"))
    assert occurrences.starts_with_node(definition("@reboot"))
    assert not occurrences.starts_with_node(definition())


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
def test_a_planned_run_stays_while_its_times_do(changes: dict[str, Any], same: bool) -> None:
    planned = definition()
    assert occurrences.same_times(definition(**changes), planned.name, planned.spec()) is same


def test_a_run_whose_time_follows_from_the_name_goes_with_it() -> None:
    planned = definition("H * * * *")
    assert occurrences.same_times(definition("H * * * *"), "backup", planned.spec())
    assert not occurrences.same_times(definition("H * * * *", name="other"), "backup", planned.spec())


def test_a_schedule_says_what_it_follows() -> None:
    assert occurrences.sources_of(definition("@on deploy")) == [("event", "deploy")]
    assert occurrences.sources_of(definition("@after a,b")) == [("task", "a"), ("task", "b")]
    assert occurrences.sources_of(definition()) == []
    assert occurrences.delay_of(definition("@delay 5m")) == timedelta(minutes=5)
    assert occurrences.delay_of(definition("@every 5m")) is None


def test_jitter_spreads_starts_by_a_share_that_is_always_the_same() -> None:
    spread = [
        occurrences.due_at(definition(jitter=600.0, name=f"task-{number}"), NOON) for number in range(200)
    ]
    assert all(NOON <= due < minutes(10) for due in spread)
    assert len({due.minute for due in spread}) == 10, "over all of it"
    assert occurrences.due_at(definition(jitter=600.0, name="task-7"), NOON) == spread[7]
    assert occurrences.due_at(definition(jitter=600.0, name="task-7", command="other"), NOON) == spread[7]
    assert occurrences.due_at(definition(), NOON) == NOON


def test_each_occurrence_has_a_share_of_its_own_whatever_zone_it_is_said_in() -> None:
    jittered = definition(jitter=600.0)
    shares = {
        occurrences.due_at(jittered, minutes(10 * number)) - minutes(10 * number) for number in range(50)
    }
    assert len(shares) == 50
    elsewhere = NOON.astimezone(zone("Asia/Tokyo"))
    assert occurrences.due_at(jittered, elsewhere) == occurrences.due_at(jittered, NOON)


def test_a_rate_is_aligned_and_does_not_drift() -> None:
    every = definition("@every 7m")
    occurrence = NOON
    for _ in range(100):
        following = occurrences.next_occurrence(every, occurrence)
        assert following
        assert following.timestamp() % 420 == 0
        occurrence = following + timedelta(seconds=13)


def test_it_is_too_late_a_deadline_after_a_run_is_due() -> None:
    assert occurrences.expiry_of(definition(deadline=60.0), NOON) == minutes(1)
    assert occurrences.expiry_of(definition(), NOON) is None
