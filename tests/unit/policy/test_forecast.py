"""The summary of a simulated load, quiet times, and what would help."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dcron.model import SkipCode
from dcron.policy.forecast import summary as forecast
from dcron.policy.forecast.load import Load, LoadFleet, LoadTask, PlayedRun, play
from dcron.policy.forecast.relief import Relief, reliefs
from dcron.policy.forecast.start_times import allowed_occurrences, starts_of
from dcron.schedule.zones import zone
from tests.support.definitions import NOON, definition
from tests.unit.policy.test_load import MINUTE, at, node, task

BERLIN = zone("Europe/Berlin")


def run(name: str, due: float, waited: float = 0, took: float = 60) -> PlayedRun:
    """Return a run by its due time in minutes, and by seconds."""
    started = at(due) + timedelta(seconds=waited)
    return PlayedRun(name, at(due), started, started + timedelta(seconds=took))


def test_hours_have_their_starts_busiest_minute_slots_and_waits() -> None:
    runs = [run("a", 1), run("b", 1, 90), run("c", 1.5, 20), run("d", 70)]
    first, second, third = forecast.by_hour(Load(runs), NOON, at(130), UTC)
    assert (first.begin, first.end, first.starts) == (NOON, at(60), 3)
    assert (first.busiest, first.busiest_starts, first.peak) == (at(1), 3, 2)
    assert (first.wait_p95, first.worst, first.late) == (90, runs[1], ["b", "c"])
    assert (second.starts, second.late, third.starts, third.busiest) == (1, [], 0, None)
    assert forecast.crowded_minutes(Load(runs), NOON) == [forecast.CrowdedMinute(at(1), 3, 90)]


def test_a_slot_stays_occupied_over_the_hour() -> None:
    found = forecast.by_hour(Load([run("a", 30, took=7200)]), NOON, at(240), UTC)
    assert [hour.peak for hour in found] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        (datetime(2027, 3, 28, tzinfo=BERLIN), ["00", "01", "03", "04"]),
        (datetime(2027, 10, 31, tzinfo=BERLIN), ["00", "01", "02", "02", "03"]),
        (datetime(2027, 4, 4, tzinfo=zone("Australia/Lord_Howe")), ["00", "01", "01", "02", "03", "04"]),
    ],
)
def test_hours_are_those_of_the_local_clock_when_it_changes(day: datetime, hours: list[str]) -> None:
    begin = day.astimezone(UTC)
    bounds = forecast.hour_bounds(begin, begin + timedelta(hours=len(set(hours)) + 0.5), day.tzinfo or UTC)
    assert [f"{each.astimezone(day.tzinfo):%H}" for each in bounds][: len(hours)] == hours


def test_overlaps_are_counted_by_task() -> None:
    often = task("etl", *range(0, 60, 5), seconds=360)
    load = play([often], LoadFleet([node(slots=4)]), NOON, at(60))
    (found,) = forecast.skips(load, [often])
    assert (found.task, found.code, found.count, found.occurrences) == ("etl", SkipCode.OVERLAP, 6, 12)
    assert (found.every, found.p95) == (300, 360)


def test_quiet_times_are_those_between_starts_with_what_still_runs() -> None:
    load = Load([run("a", 10, took=1500), run("b", 40, 60), run("c", 45)])
    tasks = [task("a", seconds=1800), task("b")]
    times, longest = forecast.quiet_times(load, tasks, NOON, at(60), 900)
    assert [(each.begin, each.end) for each in times] == [(at(10), at(41)), (at(45), at(60))]
    assert [(each.task, each.ends_by) for each in times[0].running] == [("a", at(40))]
    assert longest == times[0]
    none, longest = forecast.quiet_times(load, tasks, NOON, at(60), 3600)
    assert (none, longest.seconds) == ([], 31 * 60)
    all_of_it, _ = forecast.quiet_times(Load(), [], NOON, at(60), 60)
    assert [(each.begin, each.end) for each in all_of_it] == [(NOON, at(60))]


def test_runs_that_no_node_takes_count_as_starts() -> None:
    gpu = task("gpu", -5, 10, 20, require=("gpu",))
    tasks = [
        gpu,
        task("free", 15),
        task("later", upstream=["gpu"]),
        task("@delay", 0, delay=15 * MINUTE),
    ]
    load = play(tasks, LoadFleet([node()]), NOON, at(60))
    (hour,) = forecast.by_hour(load, NOON, at(60), UTC)
    assert (hour.starts, hour.peak, hour.wait_p95) == (9, 1, 0)
    assert load.unserved == {"gpu": "no agent has the tag gpu"}
    times, _ = forecast.quiet_times(load, tasks, NOON, at(60), 0)
    assert [each.begin for each in times] == [at(each) for each in (0, 1, 10, 11, 15, 16, 20, 21, 32, 48)]
    without_agents = play(tasks, LoadFleet([]), NOON, at(60))
    assert forecast.by_hour(without_agents, NOON, at(60), UTC)[0].starts == 9
    assert forecast.quiet_times(without_agents, tasks, NOON, at(60), 0)[0][0].end == at(1)


# What helps -------------------------------------------------------------------------------------------


def crowd(number: int, schedule: str, seconds: float = 30) -> list[LoadTask]:
    definitions = [definition(schedule, f"task-{each}") for each in range(number)]
    return [LoadTask(each, allowed_occurrences(each, NOON, at(300)), [seconds]) for each in definitions]


def found_reliefs(tasks: Sequence[LoadTask], slots: int) -> dict[str, Relief]:
    fleet = LoadFleet([node(slots=slots)])
    load = play(tasks, fleet, NOON, at(300))
    worst = forecast.worst_run(load.runs)
    assert worst
    return {each.kind: each for each in reliefs(tasks, fleet, load, worst)}


def test_a_crowd_is_helped_by_another_minute_and_by_slots() -> None:
    found = found_reliefs(crowd(40, "0 14 * * *"), slots=8)
    assert set(found) == {"minute", "slots"}
    assert all(each.after <= each.before / 2 for each in found.values())
    assert found["minute"].minute == at(120)
    assert len(found["minute"].tasks) == 40
    assert found["minute"].after <= 15


def test_what_helps_is_true_by_the_same_simulation() -> None:
    minute = found_reliefs(crowd(40, "0 14 * * *"), slots=8)["minute"]
    load = play(crowd(40, "H 14 * * *"), LoadFleet([node(slots=8)]), NOON, at(300))
    assert max(each.wait for each in load.runs) == minute.after


def test_a_label_of_exactly_these_tasks_is_named() -> None:
    labels = {"tier": "bronze", "team": "shop"}
    dumps = [replace(each, task=replace(each.task, labels=labels)) for each in crowd(40, "0 14 * * *")]
    other = LoadTask(definition("5 13 * * *", "other", labels={"team": "shop"}), [at(65)], [30.0])
    found = found_reliefs([*dumps, other], slots=8)
    assert (found["minute"].label, found["slots"].label) == ("tier=bronze", None)


def test_another_minute_is_not_proposed_for_tasks_that_start_every_few_minutes() -> None:
    assert set(found_reliefs(crowd(40, "*/5 * * * *"), slots=8)) == {"slots"}


def test_nothing_is_proposed_against_a_task_that_waits_for_its_own_run() -> None:
    queued = [task("a", *range(1, 50), seconds=120, overlap="queue")]
    assert found_reliefs(queued, slots=8) == {}


# Starts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": "*/7 * * * *"},
        {"schedule": "30 2 * * *", "fold": "both"},
        {"schedule": "H/20 * * * *", "jitter": 1500.0},
        {"schedule": "@every 90s"},
        {"schedule": "RRULE:FREQ=DAILY;BYHOUR=0,4,13,14,15,16;BYMINUTE=3,33"},
        {"schedule": "0 * * * *", "not_before": NOON + timedelta(hours=3)},
        {"schedule": "@at 2027-06-01T15:00"},
    ],
)
@pytest.mark.parametrize("begin", [NOON, datetime(2027, 10, 30, 23, tzinfo=UTC)])
def test_starts_are_those_that_preview_shows(fields: dict[str, Any], begin: datetime) -> None:
    each, until = definition(**fields), begin + timedelta(hours=6)
    shown = [
        start.at
        for start in starts_of(each, begin, until, settled_until=begin)
        if start.occurrence.reason is None
    ]
    starts = LoadTask(each, allowed_occurrences(each, begin, until)).starts
    assert [at for at in starts if at <= until] == shown
