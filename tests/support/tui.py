"""A screen on a real database, driven by keys."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, tzinfo
from typing import Any

from sqlalchemy import Executable
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.strip import Strip

from dcron.database import open_database
from dcron.model import Definition, Task
from dcron.services.crontab import Crontab
from dcron.tui.app import DcronApp
from dcron.tui.look.settings import TuiSettings
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import RowTable
from tests.support.patience import PATIENCE


class Screen:
    """The app, with what a person can do and see."""

    def __init__(self, app: DcronApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def pane(self) -> TablePane:
        assert isinstance(self.app.main.pane, TablePane)
        return self.app.main.pane

    @property
    def table(self) -> RowTable:
        return self.pane.table

    def lines(self) -> list[str]:
        """Return the screen, line by line."""
        return [strip.text.rstrip() for strip in self.strips()]

    def strips(self) -> list[Strip]:
        """Return the lines of the screen as they are drawn, and those of the screens behind a dialog.

        Without those a dialog would be drawn on blanks, and keep them: what is drawn once is not drawn again.
        """
        compositor = self.app.screen._compositor
        width, height = compositor.size  # right after a resize, the app has its new size before the screen
        visible_screen_stack.set(self.app._background_screens)
        shown = compositor.render_strips()
        assert all(strip.cell_length == width for strip in shown[:height])
        return shown

    def text(self) -> str:
        return "\n".join(self.lines())

    async def press(self, *keys: str, shows: str = "") -> None:
        """Press these keys; then wait until this text is on the screen."""
        await self.pilot.press(*keys)
        await self.app.typed_through()
        await self.shows(shows)

    async def enter(self, text: str, *, shows: str = "") -> None:
        """Type a text and Enter; then wait until the other text is on the screen."""
        await self.type(text)
        await self.press("enter", shows=shows)

    async def type(self, text: str) -> None:
        names = {" ": "space", ":": "colon", "!": "exclamation_mark", "-": "minus"}
        await self.press(*(names.get(letter, letter) for letter in text))

    async def command(self, text: str, *, shows: str = "") -> None:
        """Enter a command into the prompt; then wait until the other text is on the screen."""
        await self.press("colon")
        await self.until(lambda: self.app.main.prompt.is_open and self.app.main.has_keys)
        await self.enter(text, shows=shows)

    async def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.text()
            await asyncio.sleep(0.01)
        await self.pilot.pause()

    async def shows(self, text: str) -> None:
        """Wait until the text is on the screen."""
        if text:
            await self.until(lambda: text in self.text())

    async def shows_not(self, text: str) -> None:
        await self.until(lambda: text not in self.text())


class Stage:
    """A crontab, and screens on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = open_database(url)
        self.crontab = Crontab(self.database, "ann@desk")

    def add(self, name: str, schedule: str = "30 2 * * *", command: str = "true", **fields: Any) -> Task:
        values = {"timezone": "UTC", **fields}
        return self.crontab.add(Definition(name=name, schedule=schedule, command=command, **values))

    def execute(self, statement: Executable, *values: Any) -> None:
        """Execute a statement in a transaction of its own."""
        with self.database.write() as connection:
            connection.execute(statement, *values)

    def connect(self) -> Crontab:
        return Crontab(open_database(self.url), "bob@desk")

    @asynccontextmanager
    async def screen(
        self,
        *names: str,
        size: tuple[int, int] = (80, 24),
        connect: Callable[[], Crontab] | None = None,
        awaited: str = "",
        zone: tzinfo = UTC,
        **settings: Any,
    ) -> AsyncIterator[Screen]:
        """Yield a screen, once it shows its rows or the `awaited` text; add tasks of these names before."""
        for name in names:
            self.add(name)
        opened: list[Crontab] = []

        def open_crontab() -> Crontab:
            opened.append((connect or self.connect)())
            return opened[-1]

        app = DcronApp(TuiSettings("sqlite:///srv/cron.db", **settings), open_crontab, lambda: zone)
        app.health.interval = 0.1
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                screen = Screen(app, pilot)
                if awaited:
                    await screen.shows(awaited)
                else:
                    await screen.until(lambda: app.main.pane and screen.table.rows)
                yield screen
        finally:
            for thread in (app.reads.thread, app.writes.thread):
                if thread.ident:
                    thread.join(10)  # its connection is closed below
            for crontab in opened:
                crontab.database.close()


def many(stage: Stage) -> None:
    """Add tasks for many pages."""
    named = (f"task{number:02}" for number in range(99))
    lines = [Definition(name=name, schedule="30 2 * * *", command="true", timezone="UTC") for name in named]
    stage.crontab.import_tasks(lines)
