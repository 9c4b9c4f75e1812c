"""Tasks written in the form."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from textual.widgets import Input

from dcron.fields import FIELDS
from dcron.model import DEFINITION_FIELDS, SPEC_DEFAULTS, Definition
from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.services.settings import SharedSettings
from dcron.tui.forms.fields import write
from dcron.tui.reads.health import Health
from tests.support.forms import at, complains, fill, form_of, go, opened, paste, row_of, save
from tests.support.task_fields import EXAMPLES
from tests.support.tui import Stage

_TYPED = {
    "command": "run --all",
    "argv": "words",
    "describe": "the nightly one",
    "schedule": "15 3 * * *",
    "timezone": "Europe/Berlin",
    "gap": "skip",
    "fold": "both",
    "not_before": "2027-01-01 09:00",
    "not_after": "2037-01-01T00:00Z",
    "except_calendar": "holidays",
    "only_calendar": "workdays",
    "jitter": "30s",
    "timeout": "1h30m",
    "deadline": "2h",
    "max_running": "none",
    "overlap": "queue",
    "catch_up": "all",
    "catch_up_window": "24h",
    "limit": "mem=2G files=100",
    "tries": "3",
    "backoff": "5s",
    "backoff_factor": "1.5",
    "backoff_max": "10m",
    "on_lost": "retry",
    "queue": "mail",
    "priority": "high",
    "require": "ssd zone=eu-1",
    "every_node": "yes",
    "need": "gpu=1 mem=8G",
    "user": "backup",
    "shell": "/bin/bash",
    "cwd": "/srv",
    "env": "LEVEL=9 'NAME=two words'",
    "stdin": "hello",
}
EVERY_FIELD = _TYPED | {
    name: write(FIELDS[name], value, "UTC") for name, value in EXAMPLES.items() if name not in _TYPED
}
"""Each field once, as a person types it."""
WRITTEN = {
    **{name: value for name, value in EXAMPLES.items() if name not in _TYPED},
    "command": "run --all",
    "argv": ("run", "--all"),
    "not_before": datetime(2027, 1, 1, 8, tzinfo=UTC),
    "not_after": datetime(2037, 1, 1, tzinfo=UTC),
    "jitter": 30.0,
    "timeout": 5400.0,
    "deadline": 7200.0,
    "max_running": None,
    "catch_up_window": 86400.0,
    "limit": {"mem": 2 << 30, "files": 100},
    "tries": 3,
    "backoff": 5.0,
    "backoff_factor": 1.5,
    "backoff_max": 600.0,
    "require": ("ssd", "zone=eu-1"),
    "every_node": True,
    "need": {"gpu": 1.0, "mem": float(8 << 30)},
    "env": {"LEVEL": "9", "NAME": "two words"},
}
"""What becomes of those that are no texts."""


def calendars(stage: Stage) -> None:
    for name, text in (("holidays", "2027-12-25"), ("workdays", "2027-12-27 2027-12-28")):
        Calendars(stage.crontab).put(parse_calendar(name, text.split()))


def test_the_form_has_every_field_of_a_definition() -> None:
    assert set(FIELDS) == set(DEFINITION_FIELDS) == {*EVERY_FIELD, "name"}


@pytest.mark.slow
async def test_a_new_task_is_written_in_the_form(stage: Stage) -> None:
    async with stage.screen(awaited="no tasks yet") as screen:
        await opened(screen, "n")
        await screen.type("nightly")
        await fill(screen, command="echo hi", schedule="30 2 * * *", tries="3")
        await save(screen, sees="add this task?")
        await screen.shows("added nightly")
        await screen.until(lambda: screen.table.rows)
        task = stage.crontab.get("nightly")
        assert (task.command, task.schedule, task.tries) == ("echo hi", "30 2 * * *", 3)
        assert task.changed_by == "bob@desk"


@pytest.mark.slow
async def test_a_new_task_has_the_zone_of_the_crontab(sqlite_stage: Stage) -> None:
    SharedSettings(sqlite_stage.crontab).set("timezone", "Europe/Berlin")
    async with sqlite_stage.screen("backup") as screen:
        await opened(screen, "n")
        await fill(screen, command="/usr/bin/new", schedule="@daily")
        await save(screen, sees="dcron add -z Europe/Berlin @daily /usr/bin/new")
        await screen.shows("added new")
        assert sqlite_stage.crontab.get("new").timezone == "Europe/Berlin"


@pytest.mark.slow
async def test_a_new_task_without_a_name_gets_one_of_its_command(sqlite_stage: Stage) -> None:
    async with sqlite_stage.screen("backup") as screen:
        await opened(screen, "n")
        await fill(screen, command="/usr/bin/backup", schedule="@daily")
        await save(screen, sees="dcron add -z UTC @daily /usr/bin/backup")
        await screen.shows("added backup-2")


@pytest.mark.slow
async def test_every_field_is_written_as_it_was_typed(stage: Stage) -> None:
    stage.add("backup")
    calendars(stage)
    async with stage.screen(size=(120, 48)) as screen:
        await opened(screen, "e")
        for field, text in EVERY_FIELD.items():
            row_of(screen, field).set_text(text)
        await save(screen, sees="every node: no -> yes")
        await screen.shows("changed backup")
    task = stage.crontab.get("backup")
    assert task.version == 2
    for name, text in EVERY_FIELD.items():
        assert getattr(task, name) == WRITTEN.get(name, text), name


@pytest.mark.slow
async def test_an_edit_shows_what_differs_and_the_runs_it_moves_before_it_is_done(stage: Stage) -> None:
    stage.add("backup", timeout=60.0)
    async with stage.screen(size=(100, 40)) as screen:
        await opened(screen, "e")
        await fill(screen, schedule="30 4 * * *", tries="3", timeout="")
        await screen.press("ctrl+s")
        for message in (
            "schedule: 30 2 * * * -> 30 4 * * *",
            "tries: 1 -> 3",
            "timeout: 1m -> none",
            "before",
            "02:30:00 UTC",
            "04:30:00 UTC",
            "dcron set backup --schedule '30 4 * * *' --clear timeout --tries 3",
        ):
            await screen.shows(message)
        assert stage.crontab.get("backup").schedule == "30 2 * * *"
        await screen.press("escape", shows="edit backup")
        await save(screen, sees="tries: 1 -> 3")
        await screen.shows("changed backup")
        task = stage.crontab.get("backup")
        assert (task.schedule, task.tries, task.timeout) == ("30 4 * * *", 3, None)


@pytest.mark.slow
async def test_what_was_not_touched_stays_just_as_it_was(stage: Stage) -> None:
    odd: dict[str, Any] = {
        "command": "printf 'a\\nb'\nsecond \x1b[31mline",
        "timeout": 1.23456,
        "stdin": "@not a file\n" + "x" * 10_000,
        "env": {"A B": "c=d"},
    }
    before = stage.add("backup", **odd)
    async with stage.screen() as screen:
        await opened(screen, "e")
        await screen.shows("␊second ␛[31mline")
        await fill(screen, describe="now with words")
        await save(screen, sees="describe: none -> now with words")
        await screen.shows("changed backup")
    after = stage.crontab.get("backup").definition()
    assert after == Definition(**{**vars(before.definition()), "describe": "now with words"})


MISTAKES = [
    ("schedule", "61 * * * *", "61"),
    ("timezone", "Europe/Berln", "did you mean Europe/Berlin?"),
    ("name", "a b", "cannot be a task's name"),
    ("timeout", "soon", "write a number with s, m, h, d or w"),
    ("max_running", "many", "give a number from 1 on"),
    ("tries", "x", "is not a whole number"),
    ("limit", "mem=lots", "is not a size"),
    ("need", "gpu", "write a name and an amount"),
    ("env", "LEVEL", "write NAME=value"),
    ("not_after", "2027-02-30", "does not exist"),
    ("cwd", "srv", "is not an absolute path"),
    ("on_lost", "retry", "needs tries of 2 or more"),
    ("except_calendar", "nowhere", "there is no calendar 'nowhere'"),
    ("stdin", "@/no/such/file", "is not a file"),
    ("backoff", "2h", "give a longer backoff-max"),
]


@pytest.mark.slow
async def test_a_mistake_is_shown_where_it_was_made(sqlite_stage: Stage) -> None:
    async with sqlite_stage.screen("backup") as screen:
        await opened(screen, "e")
        for field, text, message in MISTAKES:
            before = row_of(screen, field).text
            row_of(screen, field).set_text(text)
            await complains(screen, field, message)
            row_of(screen, field).set_text(before)
            await complains(screen, field, "")
        await fill(screen, timeout="soon")
        await go(screen, "command")
        await screen.press("ctrl+s")
        await at(screen, "timeout")
        assert sqlite_stage.crontab.get("backup").version == 1


@pytest.mark.slow
async def test_a_refusal_of_the_database_is_shown_by_its_field(stage: Stage) -> None:
    async with stage.screen("backup", "other") as screen:
        await opened(screen, "e")
        await fill(screen, name="other")
        await save(screen, sees="name: backup -> other")
        await complains(screen, "name", "there is a task 'other' already")
        await fill(screen, name="third")
        await save(screen, sees="name: backup -> third")
        await screen.shows("changed third")
    assert stage.crontab.names("", 9) == ["other", "third"]


@pytest.mark.slow
async def test_leaving_asks_only_when_something_was_changed(sqlite_stage: Stage) -> None:
    async with sqlite_stage.screen("backup") as screen:
        await opened(screen, "e")
        await screen.press("escape", shows="10 runs")
        await opened(screen, "e")
        await fill(screen, tries="3")
        await screen.press("escape", shows="leave, and lose the changes?")
        await screen.press("enter")
        await screen.until(lambda: row_of(screen, "tries").text == "3")
        await screen.press("escape", shows="leave, and lose the changes?")
        await screen.press("y", shows="10 runs")
    assert sqlite_stage.crontab.get("backup").tries == SPEC_DEFAULTS["tries"]


@pytest.mark.slow
async def test_a_past_one_off_can_be_corrected(sqlite_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    now = sqlite_stage.crontab.now()
    sqlite_stage.add("once", f"@at {now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}", command="ture")
    monkeypatch.setattr(Health, "now", lambda _: now + timedelta(hours=2))
    async with sqlite_stage.screen() as screen:
        await opened(screen, "e")
        await fill(screen, command="true")
        await save(screen, sees="command: ture -> true")
        await screen.shows("changed once")
    assert sqlite_stage.crontab.get("once").command == "true"


async def test_nothing_is_written_when_readonly(sqlite_stage: Stage) -> None:
    async with sqlite_stage.screen("backup", readonly=True) as screen:
        for key in ("n", "e", "E", "R"):
            screen.app.clear_notifications()
            await screen.press(key, shows="--readonly")
            assert screen.app.screen is screen.app.main


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_the_form_works_by_keys_alone_at_any_size(sqlite_stage: Stage, size: tuple[int, int]) -> None:
    async with sqlite_stage.screen("backup", size=size) as screen:
        await opened(screen, "e")
        for field, key in (("timeout", "pagedown"), ("tries", "pagedown"), ("backoff", "down")):
            await screen.press(key)
            await at(screen, field)
            await screen.shows(FIELDS[field].title)
        await screen.press("up")
        await screen.press("4")
        await screen.press("enter")
        await at(screen, "backoff")
        for _ in range(3):
            await screen.press("down")
        await screen.press("space")
        await screen.until(lambda: row_of(screen, "on_lost").text == "retry")
        await screen.press("f2", shows="at 02:30 every day")
        await screen.press("escape")
        await save(screen, sees="change backup?")
        await screen.until(lambda: sqlite_stage.crontab.get("backup").tries == 4)


@pytest.mark.slow
async def test_what_is_pasted_is_drawn_inert_and_too_much_is_refused(sqlite_stage: Stage) -> None:
    async with sqlite_stage.screen("backup") as screen:
        await opened(screen, "e")
        await go(screen, "command")
        await paste(screen, "\x1b]52;c;aGk=\x07\x9b2J\u202e")
        await screen.shows("␛]52;c;aGk=␇")
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(screen.text())
        await go(screen, "schedule")
        await paste(screen, "*" * 100_000)
        await complains(screen, "schedule", "100,000 characters")
        form = form_of(screen)
        await screen.until(lambda: form._result and form._result.state.number == form.state.number)
        await complains(screen, "schedule", "100,000 characters")  # the check does not take it away
        await screen.press("end", "x")
        await screen.until(lambda: row_of(screen, "schedule").text == "30 2 * * *x")
        await fill(screen, schedule="*" * 300)
        await complains(screen, "schedule", "at most 256 characters")
        assert isinstance(screen.app.focused, Input)
        assert form_of(screen).texts()["timezone"] == "UTC"
