"""Every contract is kept on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stage import Stage


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """A shared crontab without lines, at noon."""
    stage = Stage(database_url)
    yield stage
    stage.database.close()


@pytest.fixture
def sqlite_stage(tmp_path: Path) -> Iterator[Stage]:
    """The same on SQLite alone, for what Postgres settles by its types."""
    stage = Stage(f"sqlite:///{tmp_path / 'dcron.db'}")
    yield stage
    stage.database.close()
