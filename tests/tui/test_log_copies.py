"""A log is saved and copied whole."""

from datetime import timedelta
from pathlib import Path

import pytest

from dcron.store.runs import output
from dcron.values.lists import Chunk
from tests.support.statistics import ended_run, insert_runs
from tests.support.tui import Stage


def ended(stage: Stage, name: str, state: str, printed: bytes) -> None:
    task, now = stage.crontab.get(name), stage.crontab.now()
    row = ended_run(now - timedelta(minutes=1), state, 10, task_id=task.id, task=name)
    (run_id,) = insert_runs(stage.database, [row])
    with stage.database.write() as connection:
        output.append(connection, stage.database, [Chunk(run_id, 0, "out", now, printed)])


@pytest.mark.slow
async def test_a_log_is_saved_to_a_new_file_and_copied(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("mail")
    ended(stage, "mail", "failed", b"disk \x1b[31mfull\n")
    monkeypatch.chdir(tmp_path)
    async with stage.screen() as screen:
        await screen.press("l", shows="disk full")
        await screen.press("Y", shows="copied the log")
        for message in ("saved 15 bytes", "File exists"):
            await screen.press("s")
            await screen.press("l", "o", "g", "enter")
            await screen.shows(message)
    assert (tmp_path / "log").read_bytes() == b"disk \x1b[31mfull\n"
