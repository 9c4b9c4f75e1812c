"""The database thread: replaced requests, lost databases, and queries that hang."""

import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dcron.database import open_database
from dcron.errors import DatabaseError, DatabaseReplaced, DcronError, NotFound
from dcron.services.crontab import Crontab
from dcron.tui import host
from dcron.tui.reads import health
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.tui.reads.health import Health
from dcron.values.lists import RunFilter
from tests.support.patience import PATIENCE, until
from tests.support.tui import Screen, Stage


class Connection:
    """Replaces the connection that the thread hands to its work."""

    def __init__(self) -> None:
        self.broken = False

    def read(self) -> str:
        if self.broken:
            raise DatabaseError("gone")
        return "read"


class Asker:
    """A thread at work, and the answers as the UI thread takes them."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.answers: list[Any] = []
        self.refusals: list[DcronError] = []
        self.health_changes = 0
        self.worked = 0
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.thread: DatabaseThread[Connection] = DatabaseThread(
            "test", lambda: self.connection, self._post, health_changed=self._health_changed
        )
        self.thread.start()

    @property
    def health(self) -> Health:
        return self.thread.health

    def ask(self, topic: Hashable, work: Callable[[Connection], Any], **options: Any) -> None:
        def counted(connection: Connection) -> Any:
            self.worked += 1
            return work(connection)

        self.thread.ask(topic, counted, self.answers.append, self.refusals.append, **options)

    def until(self, condition: Callable[[], Any]) -> None:
        """Take what is delivered until it is so."""

        def taken() -> Any:
            while not self._calls.empty():
                self._calls.get()()
            return condition()

        until(taken)

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        self._calls.put(lambda: function(*arguments))

    def _health_changed(self) -> None:
        self.health_changes += 1


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A thread at work, that tries a lost database again soon."""
    monkeypatch.setattr(health, "FIRST_RETRY", 0.01)
    asker = Asker()
    asker.health._retry_after = 0.01
    yield asker
    asker.thread.stop()


def test_a_newer_request_replaces_one_of_the_same_topic(asker: Asker) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(_: Connection) -> str:
        begun.set()
        go.wait(PATIENCE)
        return "old"

    asker.ask("rows", slow)
    begun.wait(PATIENCE)
    asker.ask("rows", lambda _: "newer")
    asker.ask("rows", lambda _: "newest")
    assert asker.thread.is_waiting("rows")
    go.set()
    asker.until(lambda: asker.answers)
    assert asker.answers == ["newest"]
    assert asker.worked == 2  # the one in between was never started
    assert not asker.thread.is_waiting("rows")


def test_a_forgotten_request_gets_no_answer(asker: Asker) -> None:
    go = threading.Event()
    asker.ask(("pane", 1), lambda _: go.wait(PATIENCE))
    asker.thread.forget_all(("pane", 1)[0])
    go.set()
    asker.ask("other", lambda _: "other")
    asker.until(lambda: asker.answers)
    assert asker.answers == ["other"]


def test_an_error_of_the_work_goes_to_the_asker(asker: Asker) -> None:
    def fail(_: Connection) -> None:
        raise NotFound("no such thing")

    asker.ask("a", fail)
    asker.until(lambda: asker.refusals)
    assert isinstance(asker.refusals[0], NotFound)
    assert asker.health.lost_at is None


def test_a_bug_is_an_answer_too(asker: Asker) -> None:
    asker.ask("a", lambda _: 1 // 0)
    asker.until(lambda: asker.refusals)
    assert "ZeroDivisionError" in str(asker.refusals[0])
    asker.ask("a", lambda connection: connection.read())
    asker.until(lambda: asker.answers == ["read"])


def test_a_lost_database_is_tried_again_and_the_request_waits(asker: Asker) -> None:
    asker.connection.broken = True
    asker.ask("rows", lambda connection: connection.read())
    asker.until(lambda: asker.health.lost_at and asker.worked > 1)
    assert asker.health.summary().startswith("x lost")
    asker.connection.broken = False
    asker.until(lambda: asker.answers == ["read"])
    assert asker.health.lost_at is None
    assert asker.health_changes >= 2


def test_a_file_that_was_replaced_is_opened_again(asker: Asker) -> None:
    asker.ask("rows", lambda connection: connection.read())
    asker.until(lambda: asker.answers)
    old, asker.connection = asker.connection, Connection()

    def work(connection: Connection) -> Connection:
        if connection is old:
            raise DatabaseReplaced("another file is in its place")
        return connection

    asker.ask("rows", work)
    asker.until(lambda: asker.answers == ["read", asker.connection])


def test_a_request_that_does_not_wait_is_refused_when_the_database_is_lost(asker: Asker) -> None:
    asker.connection.broken = True
    asker.ask("now", lambda connection: connection.read(), waits=False)
    asker.until(lambda: asker.refusals)
    assert [str(error) for error in asker.refusals] == ["gone"]
    asker.ask("later", lambda connection: connection.read())
    asker.until(lambda: asker.worked > 2)
    asker.ask("now", lambda connection: connection.read(), waits=False)
    asker.until(lambda: len(asker.refusals) == 2)


def test_a_request_that_waited_too_long_is_refused(asker: Asker) -> None:
    asker.ask("late", lambda connection: connection.read(), waits=False, seconds=-1)
    asker.until(lambda: asker.refusals)
    assert "was not done" in str(asker.refusals[0])
    assert asker.worked == 0


def test_waits_grow_to_half_a_minute() -> None:
    state = Health()
    assert [state.failed(DatabaseError("gone")) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert "retry 30s" in state.summary()
    state.heard()
    assert state.failed(DatabaseError("gone")) == 1


def test_the_bar_shows_how_the_database_is() -> None:
    state = Health(interval=2.0)
    assert state.summary() == "~ opening"
    state.heard()
    assert state.summary() == "* live 2s"
    state.paused = True
    assert state.summary() == "= paused"
    state.asked_at = time.monotonic() - 3
    assert state.summary() == "~ slow 3s"
    assert not state.is_old
    state.asked_at = time.monotonic() - 30
    assert state.is_old


@asynccontextmanager
async def hanging(stage: Stage) -> AsyncIterator[Screen]:
    """Yield a screen whose every question hangs from now on; quitting must not wait for an answer."""
    hang, go = threading.Event(), threading.Event()

    def connect() -> Crontab:
        database = open_database(stage.url)
        read = database.read

        def hanging() -> Any:
            if hang.is_set():
                go.wait(PATIENCE)
            return read()

        database.read = hanging  # type: ignore[method-assign]
        return Crontab(database, "bob@desk")

    async with stage.screen(connect=connect) as screen:
        hang.set()
        yield screen
        began = time.monotonic()
        await screen.press("ctrl+q")
        await screen.until(lambda: not screen.app.is_running)
        took = time.monotonic() - began
        go.set()
    assert took < PATIENCE / 2  # the query hangs for PATIENCE


@pytest.mark.slow
async def test_a_query_that_hangs_is_shown_and_keys_still_work_and_quitting_does_not_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SLOW", 0.05)
    stage.add("a")
    stage.add("b")
    async with hanging(stage) as screen:
        await screen.shows("~ slow")
        await screen.press("j")
        assert screen.table.cursor_row.task.name == "b"


def losing(stage: Stage, lost: threading.Event) -> Callable[[], Crontab]:
    """Opens a crontab that cannot be read while it is lost."""

    def connect() -> Crontab:
        database = open_database(stage.url)
        read = database.read

        def read_or_not() -> Any:
            if lost.is_set():
                raise DatabaseError("cannot reach the database: \x1b]52;c;aGk=\x07 refused")
            return read()

        database.read = read_or_not  # type: ignore[method-assign]
        return Crontab(database, "bob@desk")

    return connect


@pytest.mark.slow
async def test_a_lost_database_leaves_the_old_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.05)
    stage.add("backup")
    lost = threading.Event()
    async with stage.screen(connect=losing(stage, lost)) as screen:
        screen.app.health._retry_after = 0.05
        lost.set()
        await screen.shows("x lost")
        assert "as of" in screen.text()
        assert "backup" in screen.text()
        await screen.press("exclamation_mark", shows="cannot reach the database")
        await screen.press("escape")
        stage.add("report")
        lost.clear()
        await screen.shows("report")
        await screen.shows("* live")


@pytest.mark.slow
async def test_what_is_asked_of_a_lost_database_is_refused_and_not_done_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    lost = threading.Event()
    shown: list[str] = []
    async with stage.screen(connect=losing(stage, lost)) as screen:
        monkeypatch.setattr(screen.app, "report", lambda text, error=False: shown.append(text))
        lost.set()
        await screen.shows("x lost")
        await screen.press("r")
        await screen.until(lambda: len(shown) == 1)
        for line in ("run backup", "view backup"):
            await screen.press("colon")
            await screen.enter(line)
        await screen.until(lambda: len(shown) == 3)
        assert all(text.startswith("nothing was done: cannot reach") for text in shown)
        lost.clear()
        screen.app.action_refresh_now()
        await screen.shows("* live")
        assert screen.app.screen is screen.app.main
    assert len(stage.crontab.runs(RunFilter(), 10)) == 1  # its scheduled run


async def test_a_lost_database_is_reported_once_however_many_keys_it_refuses(stage: Stage) -> None:
    stage.add("backup")
    lost = threading.Event()
    async with stage.screen(connect=losing(stage, lost)) as screen:
        lost.set()
        await screen.shows("x lost")
        await screen.press("r", "r", "s", "D", "r", shows="nothing was done: cannot reach")
        assert screen.text().count("nothing was done") == 1


async def test_what_waited_for_long_behind_a_hanging_database_is_not_done(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("backup")
    monkeypatch.setattr(host, "EXPIRY", 0.0)
    async with stage.screen() as screen:
        await screen.press("r", shows="was not done: the database was away")
    assert len(stage.crontab.runs(RunFilter(), 10)) == 1


@pytest.mark.slow
async def test_a_database_away_at_the_start_is_awaited(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_RETRY", 0.05)
    stage.add("backup")
    away = threading.Event()
    away.set()

    def connect() -> Crontab:
        if away.is_set():
            raise DatabaseError("cannot reach the database: refused")
        return stage.connect()

    async with stage.screen(connect=connect, awaited="x lost") as screen:
        away.clear()
        await screen.shows("backup")
