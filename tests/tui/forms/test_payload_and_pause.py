"""A run with a payload, and a pause with its end."""

from datetime import timedelta
from pathlib import Path

import pytest

from dcron.values.lists import RunFilter
from tests.support.forms import paste
from tests.support.tui import Stage


async def test_a_run_gets_a_payload(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("R", shows="run backup now with a payload")
        await paste(screen, "v1.4\nsecond line")
        await screen.press("enter", shows="is due")
    assert [run.payload for run in stage.crontab.runs(RunFilter(), 9) if run.payload] == ["v1.4\nsecond line"]


@pytest.mark.slow
async def test_a_payload_can_be_read_from_a_file(sqlite_stage: Stage, tmp_path: Path) -> None:
    sqlite_stage.add("backup")
    (tmp_path / "payload").write_text("from a file")
    async with sqlite_stage.screen() as screen:
        await screen.press("R", shows="run backup now with a payload")
        await paste(screen, "@/no/such/file")
        await screen.press("enter", shows="is not a file")
        await screen.press("ctrl+u")
        await paste(screen, f"@{tmp_path}/payload")
        await screen.press("enter", shows="is due")
    assert [run.payload for run in sqlite_stage.crontab.runs(RunFilter(), 9) if run.payload] == [
        "from a file"
    ]


@pytest.mark.slow
async def test_a_pause_has_a_reason_and_an_end(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("s", shows="pause backup: why?")
        await screen.type("disk")
        await screen.press("tab")
        await screen.enter("soon", shows="until: 'soon' is not a time")
        await screen.press("ctrl+u")
        await paste(screen, "+2h")
        await screen.press("enter", shows="dcron pause backup --until +2h --reason disk")
    task = stage.crontab.get("backup")
    assert task.paused_reason == "disk"
    assert task.paused_until
    assert task.paused_at
    assert abs(task.paused_until - task.paused_at - timedelta(hours=2)) < timedelta(minutes=1)
