"""Every contract is kept on both databases."""

from collections.abc import Iterator

import pytest

from tests.support.stage import Stage


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """A shared crontab without tasks, at noon."""
    stage = Stage(database_url)
    yield stage
    stage.database.close()


@pytest.fixture
def sqlite_stage(sqlite_url: str) -> Iterator[Stage]:
    """The same on SQLite alone, for what Postgres settles by its types."""
    stage = Stage(sqlite_url)
    yield stage
    stage.database.close()
