"""Two people change one task: neither loses what they wrote."""

import re
from pathlib import Path

import pytest

from tests.support.forms import fill, form_of, opened, row_of, save
from tests.support.tui import Screen, Stage


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where texts are kept."""
    directory = tmp_path / "kept"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def texts_in(directory: Path) -> list[str]:
    return [path.read_text() for path in directory.glob("dcron-*/dcron.crontab")]


async def conflict(stage: Stage, screen: Screen) -> None:
    """Both change the task: here tries and timeout, there the command and the timeout."""
    await opened(screen, "e")
    await fill(screen, tries="3", timeout="30m")
    stage.crontab.edit(stage.crontab.get("backup"), {"command": "other", "timeout": 60.0})
    await save(screen, sees="tries: 1 -> 3")
    await screen.shows("another person changed it first")


@pytest.mark.slow
async def test_both_versions_and_the_difference_are_shown(stage: Stage) -> None:
    async with stage.screen("backup", size=(100, 40)) as screen:
        await conflict(stage, screen)
        for message in ("ann@desk", "they changed", "command: true -> other", "timeout: none -> 1m"):
            assert message in screen.text()
        for message in ("you changed", "tries: 1 -> 3", "timeout: none -> 30m", "- theirs, + yours"):
            assert message in screen.text()
        assert re.search(r"-.* other", screen.text())
        await screen.press("escape")
        await screen.until(lambda: row_of(screen, "tries").text == "3")
    assert stage.crontab.get("backup").command == "other"


@pytest.mark.slow
async def test_mine_goes_on_top_of_theirs_when_that_is_asked_for(stage: Stage) -> None:
    async with stage.screen("backup", size=(100, 40)) as screen:
        await conflict(stage, screen)
        await screen.press("a", shows="change backup?")
        assert "timeout: 1m -> 30m" in screen.text()
        assert "command:" not in screen.text()
        await screen.press("enter", shows="changed backup")
    task = stage.crontab.get("backup")
    assert (task.command, task.tries, task.timeout, task.version) == ("other", 3, 1800.0, 3)


@pytest.mark.slow
async def test_theirs_is_taken_and_mine_is_kept_as_text(stage: Stage, kept: Path) -> None:
    async with stage.screen("backup", size=(100, 40)) as screen:
        await conflict(stage, screen)
        await screen.press("t", shows="yours is kept in")
        assert screen.app.screen is screen.app.main
    assert stage.crontab.get("backup").version == 2
    (text,) = texts_in(kept)
    assert "tries=3" in text
    assert "timeout=30m" in text
    assert " true" in text


@pytest.mark.slow
async def test_mine_can_be_kept_and_edited_on(stage: Stage, kept: Path) -> None:
    async with stage.screen("backup", size=(100, 40)) as screen:
        await conflict(stage, screen)
        await screen.press("k")
        await screen.until(lambda: len(texts_in(kept)) == 1)
        await screen.shows("yours is kept in")
        assert "dcron.crontab" in screen.text()
        assert "another person changed it first" in screen.text()
        assert "apply mine to theirs" in screen.text()
        await screen.press("escape")
        await screen.until(lambda: form_of(screen).texts()["tries"] == "3")


@pytest.mark.slow
async def test_a_task_that_was_removed_can_be_added_anew(stage: Stage) -> None:
    async with stage.screen("backup", size=(100, 40)) as screen:
        await opened(screen, "e")
        await fill(screen, tries="3")
        stage.crontab.remove(stage.crontab.get("backup"))
        await save(screen, sees="tries: 1 -> 3")
        await screen.shows("was removed meanwhile")
        await screen.press("a", shows="add this task?")
        await screen.press("enter", shows="added backup")
    assert stage.crontab.get("backup").tries == 3
