"""The reader's thread: stale answers, lost databases, and queries that hang."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from textual.message import Message

from dcron.database import Database
from dcron.errors import DatabaseError, DatabaseReplaced, NotFound
from dcron.services.crontab import Crontab
from dcron.store.runs import RunFilter
from dcron.tui import acting, health
from dcron.tui.health import Health
from dcron.tui.reader import Answered, Changed, Reader
from tests.support.cli import until
from tests.support.tui import Stage


class Board:
    """Stands where the board does; the reader hands it to questions and asks it to look."""

    def __init__(self) -> None:
        self.token = 1
        self.broken = False

    def look(self) -> Any:
        if self.broken:
            raise DatabaseError("gone")
        from datetime import UTC, datetime

        from dcron.services.dashboard import PollResult

        return PollResult(self.token, datetime(2027, 6, 1, 12, tzinfo=UTC))


class Told:
    """A reader, and what it tells; answers are taken as the app takes them."""

    def __init__(self) -> None:
        self.board = Board()
        self.messages: list[Message] = []
        self.health = Health(interval=0.01)
        self.reader = Reader(lambda: self.board, self.messages.append, self.health)  # type: ignore[arg-type, return-value]
        self.reader.start()

    def answers(self) -> list[Any]:
        return [
            message.answer
            for message in self.messages
            if isinstance(message, Answered) and self.reader.is_current(message.request)
        ]

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(message, kind) for message in self.messages)


@pytest.fixture
def told() -> Any:
    """A reader at work."""
    told = Told()
    yield told
    told.reader.stop()


def nothing(_: Any) -> None:
    """Nobody."""


def test_an_answer_is_dropped_when_something_newer_was_asked(told: Told) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(_: Any) -> str:
        begun.set()
        go.wait(10)
        return "old"

    told.reader.ask("rows", slow, nothing)
    begun.wait(10)
    told.reader.ask("rows", lambda _: "newer", nothing)
    told.reader.ask("rows", lambda _: "newest", nothing)
    go.set()
    until(lambda: told.answers())
    assert told.answers() == ["newest"]
    assert told.count(Answered) == 2  # the one in between was never asked


def test_nobody_hears_of_what_was_forgotten(told: Told) -> None:
    go = threading.Event()
    told.reader.ask(("pane", 1), lambda _: go.wait(10), nothing)
    owner = ("pane", 1)[0]
    told.reader.forget_all(owner)
    go.set()
    told.reader.ask("other", lambda _: "told", nothing)
    until(lambda: told.answers())
    assert told.answers() == ["told"]


def test_a_change_is_told_once(told: Told) -> None:
    until(lambda: told.health.heard_at)
    assert told.count(Changed) == 0
    told.board.token = 2
    until(lambda: told.count(Changed))
    heard = told.health.heard_at
    until(lambda: told.health.heard_at != heard)
    assert told.count(Changed) == 1


def test_an_error_of_the_question_goes_to_who_asked(told: Told) -> None:
    def ask(_: Any) -> None:
        raise NotFound("no such thing")

    told.reader.ask("a", ask, nothing, nothing)
    until(lambda: told.answers())
    assert isinstance(told.answers()[0], NotFound)
    assert told.health.lost_at is None


def test_a_lost_database_is_asked_again_and_the_question_waits(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.01)
    told.health._retry_after = 0.01
    told.board.broken = True
    until(lambda: told.health.lost_at)
    assert told.health.told().startswith("x lost")

    def ask(board: Any) -> str:
        board.poll()
        return "there"

    told.reader.ask("rows", ask, nothing)
    before = told.count(Changed)
    told.board.broken = False
    until(lambda: told.answers() == ["there"])
    until(lambda: told.health.lost_at is None)
    until(lambda: told.count(Changed) > before)  # whatever happened meanwhile


def test_a_file_that_was_replaced_is_opened_anew(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.01)
    until(lambda: told.health.heard_at)
    old, told.board = told.board, Board()

    def question(board: Any) -> Any:
        if board is old:
            raise DatabaseReplaced("another file is in its place")
        return board

    told.reader.ask("rows", question, nothing)
    until(lambda: told.answers() == [told.board])


def test_waits_grow_to_half_a_minute() -> None:
    state = Health()
    assert [state.failed(DatabaseError("gone")) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert "retry 30s" in state.told()
    state.heard()
    assert state.failed(DatabaseError("gone")) == 1


def test_the_bar_tells_how_the_database_is() -> None:
    state = Health(interval=2.0)
    assert state.told() == "~ opening"
    state.heard()
    assert state.told() == "* live 2s"
    state.paused = True
    assert state.told() == "= paused"
    state.asked_at = time.monotonic() - 3
    assert state.told() == "~ slow 3s"
    assert not state.is_old
    state.asked_at = time.monotonic() - 30
    assert state.is_old


def play_while_hanging(stage: Stage, do: Callable[[Any, threading.Event], Any]) -> float:
    """Show a screen whose every question hangs from a moment on; seconds that quitting took."""
    hang, go = threading.Event(), threading.Event()

    def connect() -> Crontab:
        database = Database(stage.url)
        read = database.read

        def hanging() -> Any:
            if hang.is_set():
                go.wait(30)
            return read()

        database.read = hanging  # type: ignore[method-assign]
        return Crontab(database, "bob@desk")

    took = 0.0

    async def look() -> None:
        nonlocal took
        async with stage.screen(connect=connect) as screen:
            hang.set()
            await do(screen, go)
            began = time.monotonic()
            await screen.press("ctrl+q")
            await screen.until(lambda: not screen.app.is_running)
            took = time.monotonic() - began
            go.set()

    asyncio.run(look())
    return took


def test_a_query_that_hangs_is_told_and_keys_still_work_and_quitting_does_not_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SLOW", 0.05)
    stage.add("a")
    stage.add("b")

    async def do(screen: Any, go: threading.Event) -> None:
        await screen.shows("~ slow")
        await screen.press("j")
        assert screen.table.cursor_row.task.name == "b"

    assert play_while_hanging(stage, do) < 5


def losing(stage: Stage, lost: threading.Event) -> Callable[[], Crontab]:
    """Opens a crontab that cannot be read while it is lost."""

    def connect() -> Crontab:
        database = Database(stage.url)
        read = database.read

        def read_or_not() -> Any:
            if lost.is_set():
                raise DatabaseError("cannot reach the database: \x1b]52;c;aGk=\x07 refused")
            return read()

        database.read = read_or_not  # type: ignore[method-assign]
        return Crontab(database, "bob@desk")

    return connect


def test_a_lost_database_leaves_the_old_rows_and_comes_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.05)
    stage.add("backup")
    lost = threading.Event()

    async def look() -> None:
        async with stage.screen(connect=losing(stage, lost)) as screen:
            screen.app.health._retry_after = 0.05
            lost.set()
            await screen.shows("x lost")
            assert "as of" in screen.text()
            assert "backup" in screen.text()
            await screen.press("exclamation_mark")
            await screen.shows("cannot reach the database")
            await screen.press("escape")
            stage.add("report")
            lost.clear()
            await screen.shows("report")
            assert "* live" in screen.text()

    asyncio.run(look())


def test_what_is_asked_of_a_lost_database_is_refused_and_not_done_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    lost = threading.Event()
    shown: list[str] = []

    async def look() -> None:
        async with stage.screen(connect=losing(stage, lost)) as screen:
            monkeypatch.setattr(screen.app, "tell", lambda text, error=False: shown.append(text))
            lost.set()
            await screen.shows("x lost")
            await screen.press("r")
            await screen.until(lambda: len(shown) == 1)
            for line in ("run backup", "view backup"):
                await screen.press("colon")
                await screen.type(line)
                await screen.press("enter")
            await screen.until(lambda: len(shown) == 3)
            assert all(text.startswith("nothing was done: cannot reach") for text in shown)
            lost.clear()
            screen.app.reader.look_now()
            await screen.shows("* live")
            assert screen.app.screen is screen.app.main

    asyncio.run(look())
    assert len(stage.crontab.runs(RunFilter(), 10)) == 1  # its turn


def test_what_waited_for_long_behind_a_hanging_database_is_not_done(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    monkeypatch.setattr(acting, "FORGOTTEN", 0.0)

    async def look() -> None:
        async with stage.screen() as screen:
            await screen.press("r")
            await screen.shows("was not done: the database was away")

    asyncio.run(look())
    assert len(stage.crontab.runs(RunFilter(), 10)) == 1


def test_a_question_that_may_not_wait_is_refused_when_the_database_is_lost(told: Told) -> None:
    told.board.broken = True
    refused: list[object] = []
    told.reader.ask("now", lambda board: board.poll(), refused.append, refused.append, waits=False)
    until(lambda: told.answers())
    assert [str(answer) for answer in told.answers()] == ["gone"]


def test_a_database_that_is_away_at_the_start_is_awaited(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.05)
    stage.add("backup")
    away = threading.Event()
    away.set()

    def connect() -> Crontab:
        if away.is_set():
            raise DatabaseError("cannot reach the database: refused")
        return stage.connect()

    async def look() -> None:
        async with stage.screen(connect=connect, awaited="x lost") as screen:
            away.clear()
            await screen.shows("backup")

    asyncio.run(look())
