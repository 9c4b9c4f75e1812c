"""The timeline: its scale and its header, the row of a task, and what the keys do there."""

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from dcron.database import open_database
from dcron.model import RunState, Task
from dcron.schedule.calendars import parse_calendar
from dcron.schedule.zones import zone
from dcron.schema.tables import runs
from dcron.services.calendars import Calendars
from dcron.services.crontab import Crontab
from dcron.tui.timeline.scale import CELLS, cell_for, cells_of, header, span_at
from dcron.tui.views import timeline
from tests.support.stage import Stage as Agents
from tests.support.tui import Screen, Stage

EVENING = datetime(2027, 3, 27, 20, 5, 7, tzinfo=UTC)
"""A Saturday; at 01:00 UTC the clocks of Berlin go forward."""
HALF_HOUR = timedelta(minutes=30)
BERLIN = zone("Europe/Berlin")


class Evening:
    """A crontab of which every clock shows EVENING."""

    def __init__(self, stage: Stage) -> None:
        self.agents = Agents(stage.url)
        self.agents.now = EVENING
        self.stage = stage

    def add(self, name: str, schedule: str, **fields: Any) -> Task:
        return self.agents.task(name, schedule, **fields)

    def screen(self, **options: Any) -> AbstractAsyncContextManager[Screen]:
        def connect() -> Crontab:
            return Crontab(open_database(self.stage.url, clock=lambda: EVENING), "bob@desk")

        return self.stage.screen(connect=connect, **options)


@pytest.fixture
def evening(stage: Stage) -> Any:
    evening = Evening(stage)
    yield evening
    evening.agents.database.close()


def row(screen: Screen, name: str) -> str:
    """The line of a task, behind its name."""
    found = [line for line in screen.lines() if f" {name} " in line[:30]]
    return found[0][found[0].index(name) + len(name) :] if found else ""


async def open_timeline(screen: Screen) -> None:
    await screen.press("3")
    await screen.until(lambda: screen.pane.title == "Timeline" and screen.table.ids and is_drawn(screen))


def is_drawn(screen: Screen) -> bool:
    """Whether every row in sight shows the cells that the header is over."""
    assert isinstance(screen.pane, timeline.TimelinePane)
    shown = [screen.table.rows.get(each) for each in screen.table.visible_ids()]
    return all(row and row.span == screen.pane._span for row in shown)


# The scale ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [5, 25, 49, 50, 51, 75, 100, 299, 500])
def test_the_cells_are_as_short_as_the_room_allows_and_end_a_day_from_now(room: int) -> None:
    cell = cell_for(room)
    assert cells_of(cell) <= room or cell == CELLS[-1]
    span = span_at(EVENING, cell, timedelta(0))
    assert EVENING + timedelta(hours=24) - cell < span.end <= EVENING + timedelta(hours=24)
    assert 0 < span.position(EVENING) < span.cells


def test_the_header_names_hours_and_days_and_marks_now() -> None:
    shown = header(span_at(EVENING, HALF_HOUR, timedelta(0)), UTC, EVENING)
    assert shown.split() == ["|", "21h", "Sun", "03h", "06h", "09h", "12h", "15h", "18h"]
    assert shown.index("Sun") - shown.index("21h") == 6


@pytest.mark.parametrize(
    ("now", "mark", "at"),
    [
        (EVENING, "!gap", datetime(2027, 3, 28, 1, tzinfo=UTC)),
        (datetime(2027, 10, 30, 20, tzinfo=UTC), "!fold", datetime(2027, 10, 31, 1, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("cell", CELLS)
def test_a_clock_change_is_in_the_header(cell: timedelta, now: datetime, mark: str, at: datetime) -> None:
    span = span_at(now, cell, timedelta(0))
    assert header(span, BERLIN, now).index(mark) == span.position(at)
    assert "!" not in header(span, UTC, now)


def test_hours_are_where_clocks_show_them_also_in_zones_off_the_hour() -> None:
    span = span_at(EVENING, HALF_HOUR, timedelta(0))
    kolkata = zone("Asia/Kolkata")
    shown = header(span, kolkata, EVENING)
    assert span.start_of(shown.index("06h")).astimezone(kolkata).strftime("%H:%M") == "06:00"


# The rows ----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_next_day_is_drawn_a_row_a_task(evening: Evening) -> None:
    evening.add("beat", "* * * * *")
    evening.add("hourly", "0 * * * *")
    evening.add("nightly", "30 2 * * *", timezone="Europe/Berlin")
    evening.add("yearly", "0 0 1 1 *")
    paused = evening.add("paused", "0 * * * *")
    evening.agents.crontab.pause(paused)
    async with evening.screen() as screen:
        await open_timeline(screen)
        await screen.shows("busiest minute")
        assert row(screen, "beat").split() == ["=" * 48, "282+"]
        assert row(screen, "hourly").split() == ["|", *"^" * 23, "23"]
        # 02:30 does not exist in that night: it runs when the gap ends, at 01:00 UTC.
        nightly = row(screen, "nightly")
        assert nightly.split() == ["|", "^", "1"]
        assert nightly.index("^") - nightly.index("|") == 10
        assert row(screen, "yearly").split() == ["|", "0"]
        assert row(screen, "paused") == ""
        assert "busiest minute Mar 28 01:00: 3 tasks start" in screen.text()
        await screen.press("enter", shows="> beat")


@pytest.mark.slow
async def test_what_calendars_pass_over_is_dots(evening: Evening) -> None:
    Calendars(evening.agents.crontab).put(parse_calendar("sundays", ["sun"]))
    evening.add("report", "*/30 * * * *", except_calendar="sundays")
    async with evening.screen() as screen:
        await open_timeline(screen)
        assert row(screen, "report").split() == ["|=======" + "." * 40, "7"]


async def test_a_running_task_is_a_bar_since_its_start_with_what_it_usually_takes(evening: Evening) -> None:
    agents = evening.agents
    task = evening.add("train", "0 3 * * *")
    node = agents.node(lease=86_400)
    agents.now = EVENING - timedelta(hours=6)
    values = {"task_id": task.id, "task": "train", "trigger": "manual", "spec": {}, "owner": node}
    times = dict.fromkeys(("scheduled_for", "due_at", "claimed_at", "started_at"), agents.now)
    with agents.database.write() as connection:
        for hours in (2, 3, 90):  # the median is 3 h
            ended = {"state": "succeeded", "finished_at": agents.now + timedelta(hours=hours)}
            connection.execute(insert(runs).values({**values, **times, **ended}))
        started = times | {"started_at": EVENING - timedelta(minutes=40)}
        connection.execute(insert(runs).values({**values, **started, "state": RunState.RUNNING}))
    async with evening.screen() as screen:
        await open_timeline(screen)
        assert row(screen, "train").split() == ["[=|~~~~", "^", "1"]
        assert "R train" in screen.text()


@pytest.mark.slow
async def test_the_keys_move_the_hours_and_change_the_zone(evening: Evening) -> None:
    evening.add("nightly", "30 2 * * *", timezone="Europe/Berlin")
    async with evening.screen() as screen:
        await open_timeline(screen)
        assert "!gap" not in screen.text()
        await screen.press("z", shows="Europe/Berlin")
        assert "!gap" in screen.lines()[2]
        await screen.press("z", "right_square_bracket", shows="from Mar 28 01:00")
        await screen.until(lambda: row(screen, "nightly").split() == ["^", "^", "2"])
        await screen.press("right_square_bracket", "right_square_bracket")
        await screen.until(lambda: row(screen, "nightly").split() == ["^", "1"] and "13:00" in screen.text())
        await screen.press(*["left_square_bracket"] * 5)
        await screen.shows_not("from Mar")
        await screen.until(lambda: row(screen, "nightly").split() == ["|", "^", "1"])


@pytest.mark.slow
async def test_forty_columns_and_ten_lines_show_names_hours_and_the_busiest_minute(evening: Evening) -> None:
    for number in range(60):
        evening.add(f"task-{number:02}", f"{number} 3 * * *")
    async with evening.screen(size=(40, 10)) as screen:
        await open_timeline(screen)
        await screen.shows("busiest Mar 28 03:00: 1")
        lines = screen.lines()
        assert lines[1].split() == ["task", "|", "Sun", "06h", "12h"]
        assert lines[2].split() == ["task-00", "|", "^"]
        # The rows in sight, and those that the next pages need.
        assert len(screen.table.rows) < 30
        await screen.pilot.resize_terminal(120, 30)
        await screen.until(lambda: len(row(screen, "task-00")) > 75 and is_drawn(screen))
        assert row(screen, "task-00").index("^") - row(screen, "task-00").index("|") == 21


@pytest.mark.slow
async def test_only_the_rows_in_sight_are_computed(evening: Evening, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(150):
        evening.add(f"task-{number:03}", "30 * * * *")
    monkeypatch.setattr(timeline, "COUNTED_AT_ONCE", 40)
    # A slow machine, too, counts the forty in its first and only question.
    monkeypatch.setattr(timeline, "COUNTING_SECONDS", 60.0)
    monkeypatch.setattr(timeline, "MOST_COUNTING_SECONDS", 1e-9)
    async with evening.screen() as screen:
        await open_timeline(screen)
        assert len(screen.table.ids) == 150
        assert len(screen.table.rows) < 80
        # One question was all the time there was.
        await screen.shows("busiest minute 20:30: 40 tasks start, of the first 40 tasks")
        await screen.press("G")
        await screen.until(lambda: row(screen, "task-149").split()[-1:] == ["24"])
        await screen.press("slash")
        await screen.enter("name:task-01")
        await screen.until(lambda: len(screen.table.ids) == 10)


@pytest.mark.slow
async def test_all_are_counted_a_few_at_a_time(evening: Evening, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        evening.add(f"task-{number:03}", "30 * * * *" if number % 3 else "30 4 * * *")
    monkeypatch.setattr(timeline, "COUNTED_AT_ONCE", 7)
    async with evening.screen() as screen:
        await open_timeline(screen)
        await screen.shows("busiest minute Mar 28 04:30: 30 tasks start ")
        assert "of the first" not in screen.text()


@pytest.mark.slow
async def test_what_others_add_comes_in_and_what_they_change_is_drawn_anew(evening: Evening) -> None:
    task = evening.add("nightly", "30 2 * * *")
    async with evening.screen() as screen:
        await open_timeline(screen)
        before = row(screen, "nightly").index("^")
        evening.agents.crontab.edit(task, {"schedule": "30 3 * * *"})
        await screen.until(lambda: row(screen, "nightly").find("^") == before + 2)
        evening.add("second", "0 9 * * *")
        await screen.shows("second")


async def test_hostile_schedules_and_zones_do_not_reach_the_screen(evening: Evening) -> None:
    evil = "\x1b]52;c;aGk=\x1b\\[/nope][@click=app.quit]\u202e\x9b31m\x1b[2J"
    on_one_line = evil.replace("\x1b", "\x9b")  # the database itself takes no C0 control there
    task_id = evening.agents.insert_task(
        name="by-hand",
        schedule=on_one_line,
        timezone=on_one_line,
        planned_version=1,
        error=f"{evil} is no schedule",
    )
    evening.agents.insert_run(task_id=task_id, task="by-hand", trigger="schedule")
    async with evening.screen(size=(100, 24)) as screen:
        await open_timeline(screen)
        await screen.shows("[/nope]")
        await screen.press("z")  # its zone is no task's
        await screen.pilot.pause()
        for strip in screen.strips():
            for character in strip.text:
                assert character.isprintable(), ascii(character)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_the_load_of_all_tasks_and_the_heat_of_one(evening: Evening, size: tuple[int, int]) -> None:
    evening.add("often", "*/5 * * * *")
    evening.add("nightly", "0 2 * * *")
    async with evening.screen(size=size, zone=BERLIN) as screen:
        await open_timeline(screen)
        await screen.shows("busiest minute")
        load = next(line for line in screen.lines() if line.startswith(" all tasks"))
        assert load.count("#") == 1  # both start in one cell
        assert all(len(line) <= size[0] for line in screen.lines())
        await screen.press("m")
        await screen.until(lambda: any(sign in row(screen, "often") for sign in "+%#"))
        assert "-" in row(screen, "nightly")


@pytest.mark.slow
async def test_keys_go_to_the_next_clock_changes_and_to_a_time(evening: Evening) -> None:
    evening.add("nightly", "0 2 * * *")
    async with evening.screen(size=(120, 24), zone=BERLIN) as screen:
        await open_timeline(screen)
        await screen.press("C", shows="change on Sun 2027-03-28")
        await screen.press("C", shows="change on Sun 2027-10-31")
        await screen.shows("!fold")
        await screen.press("J", shows="show which time?")
        await screen.enter("2027-06-01", shows="from May 31 22:")
        await screen.press("J", shows="show which time?")
        await screen.enter("never", shows="never")
        await screen.shows("from May 31 22:")
