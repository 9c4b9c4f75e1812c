"""Filter, order, commands, palette, help and remapped keys."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from textual import events

from dcron.database import open_database
from dcron.errors import UsageError
from dcron.model import Task, Trigger
from dcron.services.crontab import Crontab
from dcron.store.tasks.search_terms import RUN_FIELDS, TASK_FIELDS
from dcron.tui.keys.keys import binding_ids, require_known
from dcron.tui.table.filters import parse_filter
from dcron.values.lists import RunFilter, Term
from tests.support.tui import Stage

CONFIG = Path("config.toml")


def names(screen: Any) -> list[str]:
    return [screen.table.rows[i].task.name for i in screen.table.ids if i in screen.table.rows]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("backup", (Term("text", "backup"),)),
        ("!backup late", (Term("text", "backup", negated=True), Term("late"))),
        ("zone:Europe !paused", (Term("zone", "Europe"), Term("paused", negated=True))),
        ("TZ:Europe state:ok", (Term("zone", "Europe"), Term("st", "ok"))),
        ("text:late", (Term("text", "late"),)),
        ("owner:", (Term("text", ""),)),
        ("!", (Term("text", "!"),)),
        ("12:30", (Term("text", "12:30"),)),
    ],
)
def test_a_filter_is_read_word_by_word(text: str, terms: tuple[Term, ...]) -> None:
    assert parse_filter(text, TASK_FIELDS) == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [("ownr:x", "did you mean owner:?"), ("zz:x", "there are"), ("a " * 13, "12"), ("a" * 201, "200")],
)
def test_a_filter_that_cannot_be_read_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_filter(text, TASK_FIELDS)


def test_every_field_can_be_asked_of_both_databases(stage: Stage) -> None:
    from dcron.services.dashboard import Dashboard
    from dcron.store.tasks.search_terms import TASK_ORDERS
    from dcron.values.lists import RunListFilter

    stage.add("backup", "30 2 * * *", "tar 50%_off")
    board = Dashboard(stage.crontab)
    for field in TASK_FIELDS:
        for negated in (False, True):
            value = "team=3" if field == "label" else "3"
            board.task_ids([Term(field, value, negated)], "name", reverse=False)
    for field in RUN_FIELDS:
        board.latest_runs(RunListFilter(terms=[Term(field, "3")]), 10)
    for order in TASK_ORDERS:
        for reverse in (False, True):
            assert len(board.task_ids((), order, reverse=reverse)) == 1
    assert len(board.task_ids([Term("text", "50%_OFF")], "name", reverse=False)) == 1
    assert len(board.task_ids([Term("text", "5%off")], "name", reverse=False)) == 0
    assert len(board.task_ids([Term("failed", negated=True)], "name", reverse=False)) == 1


@pytest.mark.slow
async def test_a_filter_is_applied_while_it_is_typed_and_escape_takes_it_back(stage: Stage) -> None:
    async with stage.screen("backup-db", "backup-web", "report") as screen:
        await screen.press("j")
        await screen.press("slash")
        await screen.type("backup !db")
        await screen.until(lambda: names(screen) == ["backup-web"])
        assert "filter: backup !db" in screen.text()
        await screen.press("enter")
        await screen.until(lambda: screen.table.has_focus)
        assert names(screen) == ["backup-web"]
        await screen.press("escape")
        await screen.until(lambda: len(names(screen)) == 3)
        assert screen.table.cursor_row.task.name == "backup-web"
        await screen.press("slash")
        await screen.type("nonsense:x")
        await screen.shows("no field nonsense:")
        assert len(screen.table.ids) == 3


@pytest.mark.slow
async def test_sorting_keeps_the_cursor_on_its_task(stage: Stage) -> None:
    stage.add("a", "0 0 1 1 *")
    stage.add("b", "* * * * *")
    stage.add("c", "0 0 * * *")
    async with stage.screen() as screen:
        await screen.press("o", shows="sort by")
        await screen.press("2")
        await screen.until(lambda: names(screen) == ["b", "c", "a"])
        assert screen.table.cursor_row.task.name == "a"
        assert "next+" in screen.text()
        await screen.press("O")
        await screen.until(lambda: names(screen) == ["a", "c", "b"])
        await screen.pilot.click(type(screen.table), offset=(4, 0))
        await screen.until(lambda: names(screen) == ["a", "b", "c"])


@pytest.mark.slow
async def test_commands_have_the_words_of_the_shell(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.command("runs back", shows="> backup")
        await screen.command("nodes", shows="no agents yet")
        await screen.command("nods", shows="did you mean nodes")
        await screen.press("escape")
        await screen.command("view")
        await screen.press("escape")
        await screen.command("pause backup", shows="pause backup: why?")
        await screen.press("escape")
        await screen.command("runs nothing", shows="there is no task")
        await screen.command("q")
        await screen.until(lambda: not screen.app.is_running)


@pytest.mark.slow
async def test_details_and_reasons_are_shown_by_the_words_of_the_shell(stage: Stage) -> None:
    task = stage.add("backup", describe="the nightly one")
    stage.crontab.pause(task, "holiday")
    async with stage.screen(size=(100, 40)) as screen:
        await screen.command("view back", shows="at 02:30 every day")
        assert "the nightly one" in screen.text()
        await screen.press("escape")
        for line in ("why backup", "why backup tomorrow 02:30"):
            await screen.command(line, shows=f"| {line}")
            await screen.shows("paused")
            assert "holiday" in screen.text()
            await screen.press("escape")
            await screen.shows_not(f"| {line}")
        await screen.command("why backup soon", shows="soon")
        await screen.command("view nothing", shows="there is no task")


def at_once(screen: Any, *keys: str) -> None:
    """Type as a person who does not wait for the screen, or as a program."""
    for key in keys:
        character = {"colon": ":", "slash": "/", "space": " ", "enter": "\r", "escape": "\x1b"}.get(key, key)
        screen.app.post_message(events.Key(key, character))


@pytest.mark.slow
async def test_what_is_typed_right_after_a_colon_or_a_slash_is_no_order(stage: Stage) -> None:
    async with stage.screen("backup", "report") as screen:
        at_once(screen, "slash", *"report", "enter")  # r would run the task, e edit it
        await screen.until(lambda: names(screen) == ["report"])
        await screen.until(lambda: screen.table.has_focus)
        at_once(screen, "colon", *"runs", "space", *"backup", "enter")
        await screen.shows("> backup")
        at_once(screen, "2", "slash", *"report")  # the view that opens takes no key from the filter
        await screen.shows("filter: report")
        at_once(screen, *"rs", "escape", "3", "colon", *"nodes", "enter")
        await screen.shows("no agents yet")
    assert all(run.trigger is Trigger.SCHEDULE for run in stage.crontab.runs(RunFilter(), 10))


async def test_what_is_typed_before_a_view_is_there_does_nothing_to_the_one_before(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        at_once(screen, "5", "r", "D", "enter")
        await screen.until(lambda: screen.app.main.has_keys)
        assert screen.app.main.crumbs() == ["Dead"]
        await screen.press("1")
        await screen.until(lambda: screen.table.has_focus)
        assert screen.app.main.crumbs() == ["Tasks"]
        assert screen.app.screen is screen.app.main
    assert all(run.trigger is Trigger.SCHEDULE for run in stage.crontab.runs(RunFilter(), 10))


async def test_what_is_typed_before_a_form_is_there_is_its_first_field(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        at_once(screen, "n", *"rsr")
        await screen.shows("new task")
        await screen.shows("name             rsr")
    assert all(run.trigger is Trigger.SCHEDULE for run in stage.crontab.runs(RunFilter(), 10))
    assert stage.crontab.get("backup").enabled


class Slow(Crontab):
    """Takes its time to find a task."""

    seconds = 0.6

    def get(self, name: str) -> Task:
        time.sleep(self.seconds)
        return super().get(name)


@pytest.mark.slow
async def test_keys_typed_before_a_form_is_ready_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.screen("backup", connect=lambda: Slow(open_database(stage.url), "bob@desk")) as screen:
        at_once(screen, "e", *"rsrD")
        await screen.shows("edit backup")
        await screen.shows("schedule         30 2 * * *rsrD")
        await screen.press("escape", shows="lose the changes")
        await screen.press("y", shows="10 runs")
        at_once(screen, "colon", *"edit", "space", *"other", "enter", *"rsrD")
        await screen.shows("there is no task")
        monkeypatch.setattr(Slow, "seconds", 3.0)
        at_once(screen, "e", "r", "escape", "j")  # Esc waits for it only shortly
        await screen.shows("the typed keys were ignored")
        await asyncio.sleep(3)
        monkeypatch.setattr(Slow, "seconds", 0.0)
        assert screen.app.screen is screen.app.main
        at_once(screen, "E", "r", "s")  # they were for the editor, which there is none of here
        await screen.shows("no editor can be started")
        await asyncio.sleep(0.5)
        assert screen.app.screen is screen.app.main
    assert all(run.trigger is Trigger.SCHEDULE for run in stage.crontab.runs(RunFilter(), 10))
    assert stage.crontab.get("backup").enabled


@pytest.mark.slow
async def test_the_palette_and_the_help_know_every_command(stage: Stage) -> None:
    async with stage.screen("backup", size=(80, 50)) as screen:
        await screen.press("question_mark", shows="tasks.run")
        await screen.press("escape")
        await screen.press("ctrl+p", shows="runs (TASK)")
        await screen.type("nodes")
        await screen.shows("Show the view Nodes")
        await screen.press("enter", shows="no agents yet")


async def test_keys_can_be_remapped_by_their_names(stage: Stage) -> None:
    async with stage.screen("backup", keys={"tasks.run": "f5"}) as screen:
        await screen.press("r")
        await screen.press("f5", shows="dcron run backup")
        assert len(stage.crontab.runs(wanted_of(stage, "backup"), 10)) == 2  # the next run, and this one


@pytest.mark.slow
async def test_remapped_keys_are_shown_wherever_keys_are(stage: Stage) -> None:
    stage.add("backup")
    keys = {"tasks.run": "f5", "tasks.new": "N", "confirm.yes": "j", "dialog.leave": "ctrl+g"}
    keys |= {"form.save": "f10", "app.help": "f9", "pane.errors": "f3", "log.wrap": "f6"}
    async with stage.screen(size=(100, 50), keys=keys) as screen:
        await screen.shows("F5 run now")
        assert "F9 help" in screen.lines()[-1]
        await screen.press("f9", shows="F5           run now")
        await screen.press("ctrl+g")
        await screen.press("D", shows="j  Yes")
        await screen.press("ctrl+g")
        await screen.press("s", shows="ctrl+g leaves")
        await screen.press("ctrl+g", "f3", shows="no errors - F3 shows all")
        await screen.press("f3", "e", shows="F10 save")
        assert "F9 help" in screen.text()
        await screen.press("escape", "f5", "colon")
        await screen.enter("log backup", shows="F6 wrap")


@pytest.mark.slow
async def test_the_key_of_the_help_is_always_shown(stage: Stage) -> None:
    async with stage.screen("backup", size=(40, 20)) as screen:
        assert screen.lines()[-1].endswith("? help")
        await screen.press("e", shows="F1 help")
        await screen.press("f1", shows="ctrl+s  save")
        assert "ctrl+q quits at once" in screen.text()
        assert "goes back" not in screen.text()
        await screen.press("escape", "escape", "r", "colon")
        await screen.enter("log backup", shows="f follow")
        assert screen.lines()[-1].endswith("? help")


def wanted_of(stage: Stage, name: str) -> Any:
    from dcron.values.lists import RunFilter

    return RunFilter(stage.crontab.task_id(name))


def test_a_key_that_there_is_none_of_is_refused_with_the_right_name() -> None:
    require_known({"tasks.run": "f5"}, CONFIG)
    with pytest.raises(UsageError, match=r"config\.toml: .* did you mean tasks\.run\?"):
        require_known({"task.run": "f5"}, CONFIG)


@pytest.mark.parametrize("key", ["f5", "ctrl+g", "G", "?", "slash", "space, enter", "alt+x", "ö", "+"])
def test_keys_are_named_as_terminals_report_them(key: str) -> None:
    require_known({"tasks.run": key}, CONFIG)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("F5", "did you mean f5?"),
        ("ctrl+gg", "did you mean ctrl+g?"),
        ("f5, shift+g", "did you mean G?"),
        ("esc", "did you mean escape?"),
        ("ctrl+m", "did you mean enter?"),
        ("warp-drive", "such as f5"),
        ("", "such as f5"),
    ],
)
def test_a_key_that_no_terminal_reports_is_refused(key: str, message: str) -> None:
    with pytest.raises(
        UsageError, match=rf"config\.toml: .*tasks\.run = {re.escape(repr(key))}: .*{re.escape(message)}"
    ):
        require_known({"tasks.run": key}, CONFIG)


def test_every_binding_has_a_name_of_its_own() -> None:
    assert {"tasks.run", "table.down", "main.filter", "app.quit", "confirm.yes"} <= binding_ids()
