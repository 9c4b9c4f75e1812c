"""Two runs are compared; a log is saved and copied whole."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dcron.model import Run
from dcron.store import output
from dcron.store.output import Chunk
from dcron.tui.compare import comparison
from tests.support.statistics import ended_run, insert_runs
from tests.support.tui import Stage


def play(look: Callable[[], Any]) -> None:
    asyncio.run(look())


def ended(stage: Stage, name: str, state: str, printed: bytes) -> Run:
    task, now = stage.crontab.get(name), stage.crontab.now()
    row = ended_run(now - timedelta(minutes=1), state, 10, task_id=task.id, task=name)
    (run_id,) = insert_runs(stage.database, [row])
    with stage.database.write() as connection:
        output.append(connection, stage.database, [Chunk(run_id, 0, "out", now, printed)])
    return stage.crontab.find_run(run_id)


def test_a_comparison_marks_what_differs(stage: Stage) -> None:
    stage.add("mail")
    now = stage.crontab.now()
    first, second = (ended(stage, "mail", state, b"") for state in ("succeeded", "failed"))
    second = replace(second, spec={"command": "false"})
    lines = list(comparison(first, second, b"a\nb\n", b"a\nc\n", now))
    assert lines[0].split() == ["run", str(first.id), "run", str(second.id)]
    assert any(line.startswith("result") and line.endswith("*") for line in lines)
    assert any(line.startswith("task") and not line.endswith("*") for line in lines)
    assert '  + command: "false"' in lines
    assert lines[-3:] == [" a", "-b", "+c"]
    assert list(comparison(first, first, b"", b"", now))[-1] == "neither has printed anything"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_two_marked_runs_are_compared(stage: Stage, size: tuple[int, int]) -> None:
    stage.add("mail")
    for state, printed in (("succeeded", b"one\n"), ("failed", b"two \x1b[31m\n")):
        ended(stage, "mail", state, printed)

    async def look() -> None:
        async with stage.screen(size=size, unicode=size[0] > 80) as screen:
            await screen.press("2")
            await screen.until(lambda: screen.pane.title == "Runs" and len(screen.table.rows) == 2)
            await screen.press("equals_sign")
            await screen.shows("mark two runs")
            await screen.press("space", "space", "equals_sign")
            await screen.shows("-one")
            await screen.shows("+two")
            assert all(len(line) <= size[0] for line in screen.lines())

    play(look)


@pytest.mark.slow
def test_a_log_is_saved_to_a_new_file_and_copied(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("mail")
    ended(stage, "mail", "failed", b"disk \x1b[31mfull\n")
    monkeypatch.chdir(tmp_path)

    async def look() -> None:
        async with stage.screen() as screen:
            await screen.press("l")
            await screen.shows("disk full")
            await screen.press("Y")
            await screen.shows("copied the log")
            for message in ("saved 15 bytes", "File exists"):
                await screen.press("s")
                await screen.press("l", "o", "g", "enter")
                await screen.shows(message)

    play(look)
    assert (tmp_path / "log").read_bytes() == b"disk \x1b[31mfull\n"
