"""A screen on an empty database, driven by keys."""

from typing import Any

import pytest

from dcron.tui.dialogs import modals
from dcron.tui.keys import input_queue
from dcron.tui.reads import requests
from tests.support.patience import PATIENCE
from tests.support.tui import Stage


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs hear keys at once, but where a test is about that."""
    monkeypatch.setattr(modals, "PATIENCE", 0.0)


@pytest.fixture(autouse=True)
def nothing_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and changes wait for an answer as long as a busy machine needs."""
    monkeypatch.setattr(input_queue, "LONGEST", PATIENCE)
    monkeypatch.setattr(requests, "EXPIRY", PATIENCE)


@pytest.fixture
def stage(database_url: str) -> Any:
    """An empty crontab of each kind in turn."""
    stage = Stage(database_url)
    yield stage
    stage.database.close()


@pytest.fixture(autouse=True)
def drawn_once(request: pytest.FixtureRequest) -> None:
    """Draw the sizes of a screen on SQLite only: how it is drawn does not depend on the database."""
    if {"size", "stage"} <= set(request.fixturenames):
        url: str = request.getfixturevalue("database_url")
        if not url.startswith("sqlite"):
            pytest.skip("drawing does not depend on the database")
