"""Databases for tests: a test that asks for `database_url` runs on SQLite and on a real Postgres."""

import gc
import os
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from dcron.database import Database, open_database
from dcron.nodepolicy.accounts import ACCEPT_ALL
from dcron.schedule import zones
from tests.support import compiled_once, databases
from tests.support.owned_directories import MEMORY, OwnedDirectory, remove_abandoned

gc.set_threshold(100_000, 50, 1_000)  # until all tests are collected: they stay for good
compiled_once.install()
os.environ.pop("TZ", None)  # tests have the zone of their machine, however they are started
time.tzset()

BACKENDS = ("sqlite", "postgres")
TESTS = Path(__file__).parent
SLOW_MARKERS = ("terminal", "fault", "simulation")
SLOW_FOLDERS = {"faults": "fault", "simulation": "simulation"}
EXAMPLES = int(os.environ.get("DCRON_TEST_EXAMPLES", "150"))

settings.register_profile("quick", max_examples=30, deadline=None, derandomize=True)
settings.register_profile(
    "full", max_examples=EXAMPLES, deadline=None, derandomize="DCRON_TEST_EXAMPLES" not in os.environ
)
settings.register_profile("short", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("quick")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove what sessions left that were killed, once for all workers."""
    if not hasattr(session.config, "workerinput"):
        remove_abandoned()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make test` leaves to `make check`; pyproject.toml describes the markers."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in SLOW_FOLDERS:
            item.add_marker(SLOW_FOLDERS[folder])
        if any(item.get_closest_marker(name) for name in SLOW_MARKERS):
            item.add_marker("slow")
        backend = _backend(item)
        if folder == "tui" and backend == "postgres" and not item.get_closest_marker("both_databases"):
            item.add_marker("slow")  # the screen draws the same
            item.add_marker("long")
        elif item.get_closest_marker("slow") and backend not in (None, _backend_of_short_lane(item)):
            item.add_marker("long")


def _backend(item: pytest.Item) -> str | None:
    """Return which database the test runs on. None: on both at once, on none, or on one of its own choice."""
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return next((str(value) for value in params.values() if value in BACKENDS), None)


def _backend_of_short_lane(item: pytest.Item) -> str:
    """Return on which database `make short` plays this slow test: each database has half of them."""
    return BACKENDS[crc32(item.nodeid.partition("[")[0].encode()) % len(BACKENDS)]


def pytest_collection_finish() -> None:
    """Collect garbage seldom, and never what is loaded by now: collecting took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def directory_in_memory() -> Iterator[Path | None]:
    """The directory below which quick tests have their own; None where memory has no room for it."""
    if not databases.has_room_in_memory():
        yield None
        return
    directory = OwnedDirectory("tests", MEMORY)
    yield directory.path
    directory.remove()


_numbers = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, directory_in_memory: Path | None) -> Iterator[Path]:
    """An empty directory: in memory for a quick test, whose commits need not wait for a disk.

    Pytest's own lists all directories of the session to find a name for the next one.
    """
    if directory_in_memory is None or request.node.get_closest_marker("slow"):
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        yield factory.mktemp(f"test{next(_numbers)}", numbered=False)
        return
    directory = directory_in_memory / f"test{next(_numbers)}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the developer's own dcron reaches a test, and nothing of a test reaches it."""
    for name in [name for name in os.environ if name.startswith("DCRON_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DCRON_SPOOL", str(tmp_path / "spool"))
    policy = home / "policy.toml"
    policy.write_text(f"{ACCEPT_ALL}\n")
    monkeypatch.setenv("DCRON_POLICY", str(policy))  # tests may run as root, with tasks of root
    (tmp_path / "machine-timezone").write_text("UTC\n")
    monkeypatch.setattr(zones, "TIMEZONE_FILE", tmp_path / "machine-timezone")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server: $DCRON_TEST_POSTGRES, else one of our own from a wheel."""
    with databases.postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a SQLite file that has its tables, for copies."""
    with databases.template_database(None, tmp_path_factory.mktemp("template")) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Postgres database that has its tables, for copies."""
    with databases.template_database(postgres_server, tmp_path_factory.mktemp("unused")) as url:
        yield url


@pytest.fixture(params=BACKENDS)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables, of each kind in turn."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with databases.new_database(server, tmp_path) as url:
        yield url


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that has its tables and no rows, of each kind in turn."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    template = request.getfixturevalue(f"{request.param}_template")
    with databases.new_database(server, tmp_path, template) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str, tmp_path: Path) -> Iterator[str]:
    """The same on Postgres alone, for what only a server has."""
    with databases.new_database(postgres_server, tmp_path, postgres_template) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: str) -> Iterator[str]:
    """The same on SQLite alone, where the kind of database makes no difference."""
    with databases.new_database(None, tmp_path, sqlite_template) as url:
        yield url


@pytest.fixture
def database(empty_database_url: str) -> Iterator[Database]:
    """A database without tables, of each kind in turn."""
    database = open_database(empty_database_url)
    yield database
    database.close()
