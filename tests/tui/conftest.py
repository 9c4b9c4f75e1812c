"""A screen on an empty database, driven by keys."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from dcron.tui import host
from dcron.tui.keys import input_queue
from dcron.tui.questions import dialogs
from tests.support.patience import PATIENCE
from tests.support.tui import Stage


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs hear keys at once, but where a test is about that."""
    monkeypatch.setattr(dialogs, "PATIENCE", 0.0)


@pytest.fixture(autouse=True)
def nothing_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and changes wait for an answer as long as a busy machine needs."""
    monkeypatch.setattr(input_queue, "LONGEST", PATIENCE)
    monkeypatch.setattr(host, "EXPIRY", PATIENCE)


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """An empty crontab of each kind in turn."""
    stage = Stage(database_url)
    yield stage
    stage.database.close()


@pytest.fixture
def sqlite_stage(sqlite_url: str) -> Iterator[Stage]:
    """An empty crontab, where the kind of database makes no difference."""
    stage = Stage(sqlite_url)
    yield stage
    stage.database.close()


@pytest.fixture(autouse=True)
def drawn_once(request: pytest.FixtureRequest) -> None:
    """Draw the sizes of a screen on SQLite only: how it is drawn does not depend on the database."""
    if {"size", "stage"} <= set(request.fixturenames):
        url: str = request.getfixturevalue("database_url")
        if not url.startswith("sqlite"):
            pytest.skip("drawing does not depend on the database")
