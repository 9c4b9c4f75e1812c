"""A task whose runs have output, on an empty database."""

from collections.abc import Iterator

import pytest

from tests.support.log_viewer import Runs


@pytest.fixture
def runs(database_url: str) -> Iterator[Runs]:
    """A task without runs, on each kind of database."""
    runs = Runs(database_url)
    yield runs
    runs.stage.database.close()


@pytest.fixture
def sqlite_runs(sqlite_url: str) -> Iterator[Runs]:
    """The same on SQLite, where the kind of database makes no difference."""
    runs = Runs(sqlite_url)
    yield runs
    runs.stage.database.close()
