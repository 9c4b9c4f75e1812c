"""The preview of a schedule while it is typed into the form."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from dcron.model import Definition
from dcron.presentation import humanize, next_runs
from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.tui.forms import checking, form
from dcron.tui.forms.checking import FormState
from dcron.tui.forms.schedule_preview import COUNT, SchedulePreview, draw, preview
from dcron.tui.reads.health import Health
from tests.support.forms import fill, form_of, go, opened, paste, row_of
from tests.support.tui import Screen, Stage

BEFORE_SPRING = datetime(2027, 3, 27, 0, tzinfo=UTC)


def line(schedule: str, timezone: str = "Europe/Berlin", **fields: Any) -> Definition:
    return Definition(name="t", schedule=schedule, timezone=timezone, command="true", **fields)


def drawn(schedule: str, now: datetime, width: int = 76, **fields: Any) -> list[str]:
    return str(draw(preview(line(schedule, **fields), {}, now), now, width)).split("\n")


def test_an_occurrence_is_shown_in_local_time_in_utc_and_by_its_gap() -> None:
    message = drawn("30 2 * * *", BEFORE_SPRING)
    assert message[:5] == [
        "at 02:30 every day (Europe/Berlin)",
        "  Sat 2027-03-27 02:30:00 CET +01:00   2027-03-27 01:30:00Z  in 1h 30m",
        "! Sun 2027-03-28 03:00:00 CEST +02:00  2027-03-28 01:00:00Z  +23h 30m",
        "    02:30 does not exist on 2027-03-28: runs at 03:00, CEST",
        "  Mon 2027-03-29 02:30:00 CEST +02:00  2027-03-29 00:30:00Z  +23h 30m",
    ]


def test_what_the_jitter_makes_of_a_time_is_shown_as_preview_does() -> None:
    jittery = line("30 2 * * *", jitter=600.0)
    (start,) = islice(next_runs.starts(jittery, BEFORE_SPRING, count=1), 1)
    message = drawn("30 2 * * *", BEFORE_SPRING, jitter=600.0)
    assert start.at > start.occurrence.at
    assert message[2] == f"    {next_runs.moved_by_jitter(start)}"
    assert message[1].endswith(f"in {humanize.left(start.at, BEFORE_SPRING)}")


def test_a_narrow_screen_has_all_of_it_on_two_lines() -> None:
    assert drawn("30 2 * * *", BEFORE_SPRING, 38)[1:3] == [
        "  Sat 2027-03-27 02:30:00 CET +01:00",
        "    2027-03-27 01:30:00Z  in 1h 30m",
    ]


def test_clock_changes_are_shown_however_far_and_not_twice() -> None:
    far = drawn("30 2 * * *", datetime(2027, 6, 1, tzinfo=UTC))
    assert far[-2:] == [
        "! clock change Sun 2027-10-31: 02:30 comes twice on 2027-10-31: only the first time runs",
        "! clock change Sun 2028-03-26: 02:30 does not exist on 2028-03-26: runs at 03:00, CEST",
    ]
    near = drawn("30 2 * * *", BEFORE_SPRING)
    assert sum("2027-03-28: runs" in each for each in near) == 1


def test_what_is_doubtful_has_its_code() -> None:
    assert any("[day-or-weekday]" in each for each in drawn("0 3 1 * mon", BEFORE_SPRING))


@pytest.mark.slow
async def test_a_schedule_is_explained_as_it_is_typed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.add("backup")
    monkeypatch.setattr(Health, "now", lambda _: BEFORE_SPRING)
    async with stage.screen() as screen:
        await opened(screen, "e")
        await fill(screen, timezone="Europe/Berlin")
        await screen.shows("! Sun 2027-03-28 03:00:00 CEST +02:00  2027-03-28 01:00:00Z  +23h 30m")
        await screen.shows("02:30 does not exist on 2027-03-28: runs at 03:00, CEST")
        await fill(screen, gap="skip")
        await screen.shows("02:30 does not exist on 2027-03-28: no run")
        await fill(screen, schedule="@every 90s")
        await screen.shows("+1m 30s")
        await fill(screen, schedule="30 25 * * *")
        await screen.shows("no preview until the schedule and its time zone are valid")
        await screen.shows("25")


@pytest.mark.slow
async def test_the_next_run_comes_nearer_with_time(
    sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_stage.add("backup")
    monkeypatch.setattr(form, "AGAIN", 0.0)
    monkeypatch.setattr(Health, "now", lambda _: BEFORE_SPRING)
    async with sqlite_stage.screen() as screen:
        await opened(screen, "e")
        await screen.shows("Sat 2027-03-27 02:30:00 UTC                                in 2h 30m")
        monkeypatch.setattr(Health, "now", lambda _: BEFORE_SPRING + timedelta(hours=1))
        await screen.shows("Sat 2027-03-27 02:30:00 UTC                                in 1h 30m")
        assert "2027-04-04" not in screen.text()
        monkeypatch.setattr(Health, "now", lambda _: BEFORE_SPRING + timedelta(hours=3))
        await screen.shows("Sun 2027-03-28 02:30:00 UTC                                in 23h 30m")
        await screen.until(lambda: outlook_of(screen).coming[0].at.day == 28)
        assert len(outlook_of(screen).coming) == COUNT


def outlook_of(screen: Screen) -> SchedulePreview:
    found = form_of(screen)._result
    assert found
    assert found.preview
    return found.preview


@pytest.mark.slow
async def test_dates_of_a_calendar_are_struck_out_with_the_reason(sqlite_stage: Stage) -> None:
    sqlite_stage.add("backup")
    Calendars(sqlite_stage.crontab).put(parse_calendar("weekends", ["sat", "sun"]))
    async with sqlite_stage.screen() as screen:
        await opened(screen, "e")
        await fill(screen, except_calendar="weekends")
        await screen.shows("skipped:")
        await fill(screen, except_calendar="none")
        await screen.shows_not("skipped:")


@pytest.mark.slow
async def test_typing_does_not_wait_for_a_slow_check(
    sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_stage.add("backup")
    release, began = threading.Event(), threading.Event()
    real = checking.check

    def slow(state: FormState, now: datetime) -> Any:
        if state.texts["tries"] == "2":
            began.set()
            release.wait(60)
        return real(state, now)

    monkeypatch.setattr(checking, "check", slow)
    async with sqlite_stage.screen() as screen:
        await opened(screen, "e")
        await fill(screen, tries="2")
        await screen.until(began.is_set)
        await go(screen, "describe")
        await screen.type("words")
        assert row_of(screen, "describe").text == "words"
        await go(screen, "schedule")
        await paste(screen, " | @daily")
        release.set()
        await screen.shows("and at 00:00 every day")


@pytest.mark.slow
async def test_the_form_says_what_else_starts_then(stage: Stage) -> None:
    for number in range(3):
        stage.add(f"task{number}", "0 9 * * *")
    async with stage.screen(size=(130, 40)) as screen:
        await opened(screen, "e")
        await screen.shows("at 09:00 2 other tasks start")
        await fill(screen, schedule="7 9 * * *")
        await screen.shows("no other task starts in the same minutes")
        await screen.press("escape", "y")
