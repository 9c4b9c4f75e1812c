"""The screen as text; `DCRON_TEST_SNAPSHOTS=write` writes new snapshots to review."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dcron.database import Database
from dcron.model import Task
from dcron.services.crontab import Crontab
from dcron.store import output
from dcron.store.output import Chunk
from dcron.tui.health import Health
from tests.support import views
from tests.support.patience import PATIENCE
from tests.support.shop import NODES, seed
from tests.support.stage import NOON
from tests.support.stage import Stage as Seeded
from tests.support.tui import Screen, Stage

OFF = (0.0, 0.1, -2.6)
"""Seconds the nodes' clocks are ahead."""
HERE = ZoneInfo("Europe/Berlin")
STORED = Path(__file__).with_name("snapshots")
SETTLED = 1.0
WRITE = os.environ.get("DCRON_TEST_SNAPSHOTS") == "write"


@pytest.fixture(scope="module")
def seeded_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A crontab at NOON, when an import runs and another has just printed something."""
    url = f"sqlite:///{tmp_path_factory.mktemp('seeded') / 'dcron.db'}"
    stage = Seeded(url)
    tasks = seed(stage)
    for number, name in enumerate(NODES):
        stage.node(name, tags=[["ssd"], [], ["ssd", "zone=eu-1"]][number])
        stage.sql("UPDATE nodes SET clock_offset = :off WHERE name = :name", off=OFF[number], name=name)
    _running(stage, tasks["import-orders"], stage.now - timedelta(seconds=41))
    _change_and_back(stage, tasks["log-rotate"])
    stage.database.close()
    return url


def _change_and_back(stage: Seeded, task: Task) -> None:
    """Change a task and take the change back: its history has both."""
    changes = {"schedule": "10 4 * * *", "timeout": 7200.0}
    changed = stage.crontab.acting("cli set", "the load is at 0:00").edit(task, changes)
    before = {name: getattr(task, name) for name in changes}
    stage.crontab.acting("edit", "it is not").edit(changed, before)
    stage.sql("UPDATE changes SET login = 'ann', batch = 'b7k3m9x2p4'")


def _running(stage: Seeded, task: Task, since: datetime) -> None:
    begun = {"claimed_at": since, "started_at": since, "scheduled_for": since, "due_at": since}
    run = stage.insert_run(
        task_id=task.id,
        task=task.name,
        state="running",
        trigger="schedule",
        owner=f"{NODES[0]}-00000000",
        **begun,
    )
    lines = b"".join(b"imported %d of 5000 orders\n" % (number * 100) for number in range(1, 22))
    with stage.database.write() as connection:
        chunks = [
            Chunk(run, 0, "out", since, lines),
            Chunk(run, len(lines), "err", stage.now, b"warning: order 2044 has no address\n"),
        ]
        output.append(connection, stage.database, chunks)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still, and the database is always well."""
    monkeypatch.setattr(Health, "now", lambda self: NOON)
    monkeypatch.setattr(Health, "summary", lambda self: "* live 2s")


SHOTS: dict[str, tuple[tuple[int, int], Callable[[Screen], Awaitable[None]]]] = {
    "tasks": ((80, 24), views.tasks),
    "tasks-small": ((40, 10), views.tasks),
    "tasks-wide": ((130, 30), views.detail),
    "runs": ((80, 24), views.runs),
    "timeline": ((100, 24), views.timeline),
    "nodes": ((100, 12), views.nodes),
    "dead": ((80, 16), views.dead),
    "log": ((80, 24), views.log),
    "editor": ((130, 40), views.editor),
    "delete": ((80, 24), views.delete),
    "filtered": ((80, 24), views.filtered),
    "history": ((80, 24), views.history),
    "history-wide": ((130, 30), views.history),
    "undo": ((100, 30), views.undo),
    "help": ((80, 40), views.help_),
}


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("name", SHOTS)
def test_it_looks_as_it_did(name: str, seeded_url: str) -> None:
    path = STORED / f"{name}.txt"
    stored = "" if WRITE else path.read_text()
    seen = asyncio.run(_shot(seeded_url, *SHOTS[name], stored))
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen)
    else:
        assert seen == stored


async def _shot(
    url: str, size: tuple[int, int], go_there: Callable[[Screen], Awaitable[None]], awaited: str
) -> str:
    """What is on the screen there, as soon as it is what is awaited, else after a while."""

    def connect() -> Crontab:
        return Crontab(Database(url, clock=lambda: NOON), "ann@desk")

    stage = Stage(url)
    async with stage.screen(size=size, connect=connect, awaited="imp", zone=HERE) as screen:
        await screen.until(lambda: screen.app.counts)
        await go_there(screen)
        deadline = time.monotonic() + (PATIENCE if awaited else SETTLED)
        while (seen := screen.text() + "\n") != awaited and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
    stage.database.close()
    return seen
