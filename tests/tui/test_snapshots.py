"""The screen as text; `DCRON_TEST_SNAPSHOTS=write` writes new snapshots to review."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dcron.database import open_database
from dcron.services.crontab import Crontab
from dcron.tui.keys.keys import bindings
from dcron.tui.reads.health import Health
from tests.support import views
from tests.support.patience import PATIENCE
from tests.support.shop import open_shop
from tests.support.stage import NOON
from tests.support.stage import Stage as Seeded
from tests.support.tui import Screen, Stage

HERE = ZoneInfo("Europe/Berlin")
STORED = Path(__file__).with_name("snapshots")
SETTLED = 1.0
ASCII = ("tasks-small", "timeline-ascii")
"""The pictures with plain glyphs; the others have those of a UTF-8 locale."""
WRITE = os.environ.get("DCRON_TEST_SNAPSHOTS") == "write"


@pytest.fixture(scope="module")
def seeded_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A crontab at NOON, when an import runs and another has just printed something."""
    url = f"sqlite:///{tmp_path_factory.mktemp('seeded') / 'dcron.db'}"
    stage = Seeded(url)
    open_shop(stage)
    stage.database.close()
    return url


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not move, and the database is always well."""
    monkeypatch.setattr(Health, "now", lambda self: NOON)
    monkeypatch.setattr(Health, "summary", lambda self: "* live 2s")


SHOTS: dict[str, tuple[tuple[int, int], Callable[[Screen], Awaitable[None]]]] = {
    "tasks": ((80, 24), views.tasks),
    "tasks-small": ((40, 10), views.tasks),
    "tasks-wide": ((130, 30), views.detail),
    "runs": ((80, 24), views.runs),
    "timeline": ((100, 24), views.timeline),
    "timeline-ascii": ((80, 24), views.timeline),
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
async def test_it_looks_as_it_did(name: str, seeded_url: str) -> None:
    path = STORED / f"{name}.txt"
    stored = "" if WRITE else path.read_text()
    _compare(path, await _shot(seeded_url, *SHOTS[name], stored, unicode=name not in ASCII))


def test_the_keys_and_their_names_are_what_they_were() -> None:
    lines = sorted(f"{each.id}  {each.key}  {each.description}\n" for each in bindings())
    _compare(STORED / "keys.txt", "".join(lines))


def _compare(path: Path, seen: str) -> None:
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen)
    else:
        assert seen == path.read_text()


async def _shot(
    url: str,
    size: tuple[int, int],
    go_there: Callable[[Screen], Awaitable[None]],
    awaited: str,
    *,
    unicode: bool,
) -> str:
    """What is on the screen there, as soon as it is what is awaited, else after a while."""

    def connect() -> Crontab:
        return Crontab(open_database(url, clock=lambda: NOON), "ann@desk")

    stage = Stage(url)
    opened = stage.screen(size=size, connect=connect, awaited="imp", zone=HERE, unicode=unicode)
    async with opened as screen:
        await screen.until(lambda: screen.app.counts)
        await go_there(screen)
        deadline = time.monotonic() + (PATIENCE if awaited else SETTLED)
        while (seen := screen.text() + "\n") != awaited and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
    stage.database.close()
    return seen
