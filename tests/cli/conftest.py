"""A `dcron` that runs in this process, on an empty database."""

import shutil
from pathlib import Path

import pytest

from dcron import migrations
from dcron.database import Database
from tests.support.cli import Dcron


@pytest.fixture
def dcron(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database_url: str) -> Dcron:
    """`dcron` on an empty database of each kind in turn."""
    return Dcron(monkeypatch, capsys, database_url)


@pytest.fixture(scope="session")
def prepared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has its tables, to be copied: making them takes longer than most tests."""
    path = tmp_path_factory.mktemp("prepared") / "dcron.db"
    database = Database(f"sqlite:///{path}")
    migrations.prepare(database)
    database.close()
    return path


@pytest.fixture
def sqlite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, prepared_file: Path
) -> Dcron:
    """`dcron` on a SQLite file without tasks, where the kind of database makes no difference."""
    shutil.copy(prepared_file, tmp_path / "dcron.db")
    return Dcron(monkeypatch, capsys, f"sqlite:///{tmp_path / 'dcron.db'}")
