"""Agents walked through clock changes: what they started is what the preview had said."""

from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from dcron.errors import NotFound, Refused, UsageError
from dcron.model import RunState
from dcron.policy.starting import occurrences
from dcron.schedule.calendars import parse_calendar
from dcron.schedule.next_run import upcoming
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone
from dcron.services.calendars import Calendars
from tests.support.node import StandingClock, World

SCHEDULES = ("30 2 * * *", "0 */2 * * *", "*/20 1-3 * * *", "15 0,1,2,3 * * *", "@every 45m", "59 23 * * *")
CHANGES = {
    "Europe/Berlin": ("2027-03-28T01:00", "2027-10-31T01:00"),
    "America/New_York": ("2027-03-14T07:00", "2027-11-07T06:00"),
    "Australia/Lord_Howe": ("2027-10-02T15:30", "2027-04-03T15:00"),
    "Africa/Cairo": ("2027-04-29T22:00", "2027-10-28T21:00"),
    "America/Santiago": ("2027-09-05T04:00", "2027-04-04T03:00"),
}


@pytest.mark.parametrize("season", [0, 1], ids=["gap", "fold"])
@pytest.mark.parametrize(
    "timezone",
    [
        "Europe/Berlin",
        *(pytest.param(name, marks=pytest.mark.slow) for name in CHANGES if name != "Europe/Berlin"),
    ],
)
@pytest.mark.parametrize(
    "rules",
    [{}, pytest.param({"gap": "skip", "fold": "both"}, marks=pytest.mark.slow)],
    ids=["default", "skip and both"],
)
def test_agents_start_what_the_preview_says(
    world: World, clock: StandingClock, timezone: str, season: int, rules: dict[str, str]
) -> None:
    change = datetime.fromisoformat(CHANGES[timezone][season]).replace(tzinfo=UTC)
    begin, end = change - timedelta(hours=7), change + timedelta(hours=7)
    clock.now = begin
    lines = [world.add(f"task-{n}", text, timezone=timezone, **rules) for n, text in enumerate(SCHEDULES)]
    foretold = {
        (line.name, occurrence.at)
        for line in lines
        for occurrence in upcoming(
            parse(line.schedule, name=line.name), zone(timezone), begin, occurrences.rules_of(line), until=end
        )
    }
    node = world.node(slots=20, lease=1_000_000)
    while clock.now < end:
        clock.forward(minutes=5)
        node.finish(node.dispatch())
    started = [(run.task, run.scheduled_for) for run in world.runs(RunState.SUCCEEDED)]
    assert len(started) == len(set(started))
    assert set(started) == foretold
    assert world.runs(RunState.SKIPPED) == []


def test_an_occurrence_on_a_calendars_date_is_skipped_naming_it(world: World, clock: StandingClock) -> None:
    calendars = Calendars(world.crontab)
    calendars.put(parse_calendar("holidays", ["2026-11-21", "12-25"]))
    world.add("tick", "0 9 * * *", except_calendar="holidays")
    node = world.node(lease=1_000_000)
    view = world.crontab.view("tick")
    assert view.next_run_at == datetime(2026, 11, 22, 9, tzinfo=UTC)
    for _ in range(3):
        clock.forward(days=1)
        node.finish(node.dispatch())
    (skipped,) = world.runs(RunState.SKIPPED)
    assert (skipped.reason, skipped.scheduled_for.date()) == ("on calendar holidays", date(2026, 11, 21))
    assert [run.scheduled_for.day for run in world.runs(RunState.SUCCEEDED)] == [22, 23]


def test_only_the_dates_of_a_calendar_run_where_it_is_said(world: World, clock: StandingClock) -> None:
    Calendars(world.crontab).put(parse_calendar("paydays", ["2026-11-22"]))
    world.add("pay", "0 9 * * *", only_calendar="paydays")
    node = world.node(lease=1_000_000)
    for _ in range(3):
        clock.forward(days=1)
        node.finish(node.dispatch())
    assert [run.scheduled_for.day for run in world.runs(RunState.SUCCEEDED)] == [22]
    assert {run.reason for run in world.runs(RunState.SKIPPED)} == {"not on calendar paydays"}


def test_a_run_by_hand_is_not_a_calendars_business(world: World) -> None:
    Calendars(world.crontab).put(parse_calendar("today", ["2026-11-20"]))
    task = world.add("tick", "0 10 * * *", except_calendar="today")
    world.crontab.run(task)
    assert len(world.node().dispatch()) == 1


def test_an_edited_calendar_holds_from_the_next_occurrence_on(world: World, clock: StandingClock) -> None:
    calendars = Calendars(world.crontab)
    assert calendars.put(parse_calendar("days", [])) is False
    world.add("tick", "0 9 * * *", except_calendar="days")
    assert calendars.put(parse_calendar("days", ["2026-11-21"])) is True
    assert world.crontab.view("tick").next_run_at == datetime(2026, 11, 22, 9, tzinfo=UTC)
    clock.forward(days=1)
    assert world.node().dispatch() == []


def test_a_calendar_in_use_cannot_be_removed_nor_a_missing_one_be_named(world: World) -> None:
    calendars = Calendars(world.crontab)
    with pytest.raises(UsageError, match="there is no calendar 'holidays'"):
        world.add("tick", "0 9 * * *", except_calendar="holidays")
    assert world.runs() == []
    calendars.put(parse_calendar("holidays", ["12-25"]))
    world.add("tick", "0 9 * * *", except_calendar="holidays")
    with pytest.raises(Refused, match="used by tick"):
        calendars.remove("holidays")
    world.crontab.remove(world.crontab.get("tick"))
    calendars.remove("holidays")
    with pytest.raises(NotFound):
        calendars.remove("holidays")


def test_a_calendar_that_leaves_nothing_is_refused(world: World) -> None:
    Calendars(world.crontab).put(parse_calendar("always", ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]))
    with pytest.raises(UsageError, match="never fires"):
        world.add("tick", "0 9 * * *", except_calendar="always")


def test_a_window_bounds_the_occurrences(world: World, clock: StandingClock) -> None:
    begin, end = clock.now + timedelta(days=2), clock.now + timedelta(days=3)
    world.add("tick", "0 9 * * *", not_before=begin, not_after=end)
    node = world.node(lease=1_000_000)
    for _ in range(5):
        clock.forward(days=1)
        node.finish(node.dispatch())
    assert [run.scheduled_for for run in world.runs(RunState.SUCCEEDED)] == [begin, end]
    assert world.runs(RunState.WAITING) == []


def test_newer_time_zones_move_what_waits(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add("tick", "0 12 * * *", timezone="America/Vancouver")
    world.add("utc", "0 12 * * *")
    (before,) = [run.due_at for run in world.runs() if run.task == "tick"]
    wrong = before + timedelta(hours=1)
    with world.database.write() as connection:  # as a node with older zones would have planned it
        moved = {
            "wrong": wrong if world.database.product != "SQLite" else wrong.strftime("%Y-%m-%d %H:%M:%S.%f")
        }
        connection.execute(
            text(
                "UPDATE runs SET due_at = :wrong, scheduled_for = :wrong, tzdata = '2020a'"
                " WHERE task = 'tick'"
            ),
            moved,
        )
        from dcron.schedule.zones import tzdata_version
        from dcron.store.tasks import rows as tasks

        assert tasks.replan_older_zones(connection, tzdata_version()) == 1
    world.node().dispatch()
    assert [run.due_at for run in world.runs() if run.task == "tick"] == [before]
    assert "task tick: its next run moved" in caplog.text
