"""Commands: verbs of the shell, the row under the cursor, and what was typed before."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from dcron.cli.app import app
from dcron.cli.asking.verb_completion import words_for
from dcron.schedule.calendars import parse_calendar
from dcron.services.calendars import Calendars
from dcron.services.fleet import Fleet
from dcron.tui.dialogs.shell import OutputDialog
from dcron.tui.frame.commands import READING_VERBS, WRITING_VERBS
from dcron.tui.look.state import MOST_COMMANDS, TuiState
from dcron.tui.questions.entry import Entry
from tests.support.tui import Screen, Stage


def value(screen: Screen) -> str:
    return screen.app.main.prompt.entry.value


def test_the_state_is_kept_and_a_bad_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tui.json"
    state = TuiState.load(path)
    for number in range(MOST_COMMANDS + 5):
        state.add_command(f"runs task{number}")
    state.add_command("nodes")
    state.add_command("runs task100")
    state.set_filter("tasks", "shop", "shop late")
    state.set_filter("tasks", "old", "x")
    state.set_filter("tasks", "old", None)
    found = TuiState.load(path)
    assert found.commands[-2:] == ["nodes", "runs task100"]
    assert len(found.commands) == MOST_COMMANDS
    assert list(found.of_view("tasks")) == [("shop", "shop late")]
    assert path.stat().st_mode & 0o077 == 0
    for text in ("", "[]", '{"commands": 7, "filters": {"tasks": {"a": 1}}}', "\0"):
        path.write_text(text)
        assert TuiState.load(path).commands == []
    path.write_text(json.dumps({"commands": ["runs", 7]}))
    assert TuiState.load(path).commands == ["runs"]
    nowhere = TuiState.load(Path("/proc/none/tui.json"))
    nowhere.add_command("runs")
    assert nowhere.commands == ["runs"]


def test_the_verbs_of_the_shell_exist() -> None:
    group: Any = get_command(app)
    known = set(group.list_commands(typer.Context(group)))
    assert {verb for verb, _, _ in (*READING_VERBS, *WRITING_VERBS)} <= known


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_a_shell_verb_shows_its_output(stage: Stage, size: tuple[int, int], tmp_path: Path) -> None:
    stage.add("backup")
    environment = {"DCRON_DB": stage.url}
    async with stage.screen(size=size, environment=environment, unicode=size[0] > 80) as screen:
        await screen.command("preview")  # of the row under the cursor
        await screen.shows("dcron preview backup")
        await screen.shows("02:30:00")
        assert all(len(line) <= size[0] for line in screen.lines())
        await screen.press("y", shows="copied the output")
        await screen.press("slash", shows="search for")
        await screen.enter("every DAY", shows="nothing matches every DAY")
        await screen.press("slash", *"every", "enter", "n", "N", "G", "g", "s")
        await screen.shows("save the output in a new file")
        await screen.press("slash", "x", "slash", "x", "enter", shows="not saved: /x/x: No such file")
        entry = screen.app.screen.query_one(Entry)
        assert entry.value == "/x/x"
        entry.value = str(tmp_path / "shown.txt")
        await screen.press("enter", shows="saved the output")
        assert "02:30:00" in (tmp_path / "shown.txt").read_text()
        await screen.press("escape")
        await screen.command("emit deploy", shows="run dcron emit deploy?")
        await screen.press("y", shows="no task")
        await screen.press("escape")
        await screen.command("backfill --from 2h")  # options alone are for the row under the cursor
        await screen.shows("run dcron backfill backup --from 2h?")
        await screen.press("n")
        await screen.command("preview --bad", shows="exit code 2")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_output_of_a_verb_is_as_wide_as_its_tables(
    stage: Stage, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    widths = []

    def run(dialog: OutputDialog, environment: Mapping[str, str]) -> None:
        widths.append(int(environment["COLUMNS"]))
        dialog._post("\n".join(["=" * widths[0]] * 100))

    monkeypatch.setattr(OutputDialog, "_run", run)
    async with stage.screen(size=size, environment={}) as screen:
        await screen.command("stats", shows="====")
        rows = [line.count("=") for line in screen.lines() if "=" in line]
        assert set(rows) == set(widths)
        assert widths[0] > size[0] * 0.85


@pytest.mark.slow
async def test_readonly_runs_no_verb_that_writes(stage: Stage) -> None:
    async with stage.screen("backup", readonly=True, environment={"DCRON_DB": stage.url}) as screen:
        await screen.command("queue set mail 3", shows="--readonly")
        await screen.command("queue list", shows="dcron queue list")


@pytest.mark.slow
async def test_another_database_than_that_of_the_context_runs_no_verb(stage: Stage) -> None:
    async with stage.screen("backup", environment=None) as screen:
        await screen.command("doctor", shows="run it in a shell")


@pytest.mark.slow
async def test_arrows_recall_what_was_typed(stage: Stage, tmp_path: Path) -> None:
    async with stage.screen("backup", state_file=tmp_path / "tui.json") as screen:
        await screen.command("runs backup", shows="> backup")
        await screen.command("tasks")
        await screen.press("colon", "up")
        assert value(screen) == "tasks"
        await screen.press("up")
        assert value(screen) == "runs backup"
        await screen.press("up", "down", "down")
        assert value(screen) == ""
        await screen.type("r")
        await screen.press("up")
        assert value(screen) == "runs backup"  # the last that begins so
        await screen.press("enter")
        await screen.until(lambda: not screen.app.main.prompt.is_open)
    async with stage.screen(state_file=tmp_path / "tui.json") as screen:
        await screen.press("colon", "up")
        assert value(screen) == "runs backup"


@pytest.mark.slow
async def test_what_was_typed_is_searched_and_an_unknown_command_can_be_corrected(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        for text in ("runs backup", "tasks", "sort next"):
            await screen.command(text)
            await screen.until(lambda: not screen.app.main.prompt.is_open)
        await screen.press("colon", *"ack", "ctrl+r")
        assert value(screen) == "runs backup"
        await screen.press("escape")
        await screen.command("quee", shows="did you mean queue")
        assert value(screen) == "quee"
        await screen.press("escape")


# Completion ---------------------------------------------------------------------------------------------


def test_words_of_a_verb_are_options_verbs_and_names_of_this_crontab(stage: Stage) -> None:
    stage.add("backup", queue="mail", labels={"team": "shop"})
    stage.add("deployed", "@on deploy")
    Calendars(stage.crontab).put(parse_calendar("holidays", ["2027-12-25"]))
    Fleet(stage.crontab).set_queue("mail", 3)

    def found(*words: str) -> list[str]:
        return words_for(get_command(app), stage.crontab, words[:-1], words[-1])

    assert found("queue", "") == ["list", "set"]
    assert found("queue", "set", "") == ["default", "mail"]
    assert found("calendar", "view", "h") == ["holidays"]
    assert found("emit", "") == ["deploy"]
    assert found("preview", "ba") == ["backup"]
    assert found("stats", "-l", "te") == ["team=shop"]
    assert "--until" in found("forecast", "--")
    assert found("forecast", "--until", "") == []
    assert found("hold", "--reason", "2d", "ba") == ["backup"]
    assert found("nonsense", "x") == []


@pytest.mark.slow
async def test_a_table_does_not_wrap_and_a_colon_leaves_it_for_the_next_command(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    name = "an-export-of-the-orders-of-all-market-places-" * 2

    def run(dialog: OutputDialog, environment: Mapping[str, str]) -> None:
        dialog._post(f"TASK{' ' * len(name)}NEXT LAST\n{name}    tomorrow, at the very end\n")

    monkeypatch.setattr(OutputDialog, "_run", run)
    async with stage.screen(size=(100, 24)) as screen:
        screen.app.push_screen(OutputDialog(["list"], {}))
        await screen.shows(name[:60])
        assert "very end" not in screen.text()
        await screen.press("l", "l", "l", "l", shows="tomorrow, at the very end")
        await screen.press("colon", "q", "u", "D")
        assert screen.app.screen is screen.app.main
        assert value(screen) == "quD"
