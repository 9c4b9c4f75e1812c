"""A node that a test steps tick by tick, on each kind of database."""

from collections.abc import Iterator

import pytest

from dcron.database import open_database
from tests.support.node import StandingClock, World


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def world(database_url: str, clock: StandingClock) -> Iterator[World]:
    """An empty crontab on each kind of database in turn, at 09:00 UTC."""
    database = open_database(database_url, clock=clock)
    yield World(database, clock)
    database.close()
