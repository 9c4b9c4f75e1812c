"""Tasks changed as text in $EDITOR."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tui import Stage

Editor = Callable[..., Path]


@pytest.mark.slow
async def test_a_task_is_changed_in_the_editor(stage: Stage, editor: Editor) -> None:
    stage.add("backup")
    stage.add("other")
    directory = editor("sed -i 's/30 2/45 4/' \"$1\"")
    async with stage.screen(size=(100, 40)) as screen:
        await screen.press("E", shows="change 1 task?")
        for message in ("changed backup", "-30 2 * * *", "+45 4 * * *", "04:45:00 UTC"):
            await screen.shows(message)
        await screen.press("enter", shows="dcron edit backup")
    assert stage.crontab.get("backup").schedule == "45 4 * * *"
    assert "other" not in (directory / "shown-1").read_text()


@pytest.mark.slow
async def test_a_mistake_opens_the_text_again_as_it_was_written(sqlite_stage: Stage, editor: Editor) -> None:
    sqlite_stage.add("backup")
    directory = editor("sed -i 's/30 2/30 99/' \"$1\"", "sed -i 's/30 99/30 9/' \"$1\"")
    async with sqlite_stage.screen(size=(100, 40)) as screen:
        await screen.press("E", shows="the text has errors")
        assert "99" in screen.text()
        await screen.press("e", shows="+30 9 * * *")
        await screen.press("enter")
        await screen.until(lambda: sqlite_stage.crontab.get("backup").schedule == "30 9 * * *")
    shown = (directory / "shown-2").read_text()
    assert "30 99" in shown
    assert shown.startswith("# !! ")


async def test_a_text_that_is_given_up_is_kept(sqlite_stage: Stage, editor: Editor, tmp_path: Path) -> None:
    sqlite_stage.add("backup")
    editor("sed -i 's/30 2/30 99/' \"$1\"")
    async with sqlite_stage.screen(size=(100, 40)) as screen:
        await screen.press("E", shows="the text has errors")
        await screen.press("escape", shows="your text is kept in")
        assert sqlite_stage.crontab.get("backup").version == 1
    (kept,) = tmp_path.glob("dcron-*/dcron.crontab")
    assert "30 99 * * * true" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_a_text_that_changes_nothing_says_so(sqlite_stage: Stage, editor: Editor) -> None:
    sqlite_stage.add("backup")
    editor("true")
    async with sqlite_stage.screen() as screen:
        await screen.press("E", shows="no change")


async def test_an_editor_that_fails_changes_nothing(sqlite_stage: Stage, editor: Editor) -> None:
    sqlite_stage.add("backup")
    editor("exit 3")
    async with sqlite_stage.screen() as screen:
        await screen.press("E", shows="exit code 3")


@pytest.mark.slow
async def test_mine_is_put_on_top_of_theirs(stage: Stage, editor: Editor) -> None:
    stage.add("backup")
    editor("sed -i 's/30 2/45 4/' \"$1\"")
    async with stage.screen(size=(100, 40)) as screen:
        screen.app.health.paused = True
        await screen.press("E", shows="change 1 task?")
        stage.crontab.edit(stage.crontab.get("backup"), {"command": "other"})
        await screen.press("enter", shows="another person changed it first")
        assert "ann@desk" in screen.text()
        await screen.press("a", shows="change 1 task?")
        await screen.press("enter", shows="dcron edit backup")
    task = stage.crontab.get("backup")
    assert (task.schedule, task.command) == ("45 4 * * *", "other")


async def test_theirs_is_taken_and_the_text_is_kept(stage: Stage, editor: Editor) -> None:
    stage.add("backup")
    editor("sed -i 's/30 2/45 4/' \"$1\"")
    async with stage.screen(size=(100, 40)) as screen:
        await screen.press("E", shows="change 1 task?")
        stage.crontab.edit(stage.crontab.get("backup"), {"command": "other"})
        await screen.press("enter", shows="another person changed it first")
        await screen.press("t", shows="your text is kept in")
    task = stage.crontab.get("backup")
    assert (task.schedule, task.command) == ("30 2 * * *", "other")
