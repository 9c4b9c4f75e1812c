"""A task whose runs have output, on an empty database."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from tests.support.log_viewer import Runs


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


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
