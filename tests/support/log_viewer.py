"""Runs with output in a real database, and an app with nothing but the log viewer."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import cast

from textual.app import App
from textual.pilot import Pilot

from dcron.model import RunState
from dcron.services.log import RunLog, Which
from dcron.store.runs import output
from dcron.tui.keys.input_queue import OrderedApp
from dcron.tui.log.screen import LogScreen
from dcron.tui.log.view import LogView
from dcron.values.lists import Chunk
from tests.support.patience import PATIENCE
from tests.support.stage import NOON, Stage

WRITTEN = datetime(2027, 6, 1, 12, 0, 41, tzinfo=UTC)


class Runs:
    """A task `backup`, and the output of its runs."""

    def __init__(self, url: str) -> None:
        self.stage = Stage(url)
        self.log = RunLog(self.stage.crontab)
        self._ends: dict[int, int] = {}
        self._node = self.stage.node()
        self._task = self.stage.task("backup", "@yearly")

    def begin(self) -> int:
        """Start a run on a node."""
        facts = {"owner": self._node, "claimed_at": NOON, "started_at": NOON}
        return self.stage.insert_run(task_id=self._task.id, task="backup", state="running", **facts)

    def end(self, run_id: int, state: RunState = RunState.SUCCEEDED) -> None:
        self.stage.forward(seconds=41)
        self.stage.finish(self._node, run_id, state, exit_code=0 if state is RunState.SUCCEEDED else 2)

    def done(self, *said: bytes | tuple[str, bytes]) -> int:
        """End a run with this output, on stdout unless another stream is given."""
        run_id = self.begin()
        for each in said:
            stream, data = each if isinstance(each, tuple) else ("out", each)
            self.say(run_id, data, stream)
        self.end(run_id)
        return run_id

    def say(self, run_id: int, data: bytes, stream: str = "out", *, skipping: int = 0) -> None:
        """Add a chunk of output to a run; `skipping` bytes before it are lost."""
        begin = self._ends.get(run_id, 0) + skipping
        with self.stage.database.write() as connection:
            output.append(connection, self.stage.database, [Chunk(run_id, begin, stream, WRITTEN, data)])
        self._ends[run_id] = begin + len(data)


class Viewer:
    """The log viewer as a person sees it."""

    def __init__(self, pilot: Pilot[None], screen: LogScreen) -> None:
        self.pilot = pilot
        self.screen = screen

    @property
    def app(self) -> App[None]:
        return self.pilot.app

    @property
    def lines(self) -> LogView:
        return self.screen.query_one(LogView)

    @property
    def title(self) -> str:
        return self._rows()[0]

    @property
    def hints(self) -> str:
        return self._rows()[-1]

    @property
    def shown(self) -> list[str]:
        """Return the rows between title and hints, without the scroll bar and surrounding blanks."""
        return [row[:-1].rstrip() for row in self._rows()[1:-1]]

    @property
    def text(self) -> str:
        return "\n".join(self.shown)

    def _rows(self) -> list[str]:
        """Return the rows of the screen. Right after a resize, the app has its new size before they have."""
        compositor = self.screen._compositor
        return [strip.text for strip in compositor.render_strips()[: compositor.size.height]]

    async def press(self, *keys: str, sees: str = "") -> None:
        """Press these keys; then wait until this text is on the screen."""
        await self.pilot.press(*keys)
        await cast("OrderedApp[None]", self.app).typed_through()
        if sees:
            await self.sees(sees)

    async def type(self, sign: str, text: str) -> None:
        """Type a text into a prompt."""
        await self.press(sign, *("space" if letter == " " else letter for letter in text), "enter")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds on the screen."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{self.title}\n{self.text}\n{self.hints}"
            await self.pilot.pause(0.01)

    async def sees(self, *texts: str) -> None:
        """Wait until all these texts are on the screen."""
        await self.until(lambda: all(text in f"{self.title}\n{self.text}\n{self.hints}" for text in texts))

    async def sees_first(self, row: str) -> None:
        """Wait until this is the first row."""
        await self.until(lambda: self.shown[0] == row)


class Host(OrderedApp[None]):
    """An app with nothing but a log; it can give its terminal to a pager."""

    def __init__(self, screen: LogScreen) -> None:
        super().__init__()
        self._log_screen = screen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {"row-cursor": "blue"}

    def on_mount(self) -> None:
        self.push_screen(self._log_screen)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def viewing(log: RunLog, which: Which, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Viewer]:
    """Yield the viewer of a log; its thread has ended after the block."""
    screen = LogScreen(log, which)
    app = Host(screen)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Viewer(pilot, screen)
    screen.thread.thread.join(PATIENCE)
    assert not screen.thread.thread.is_alive()
