"""A `dcron` that runs in this process, on an empty database."""

import pytest

from tests.support.cli import Dcron


@pytest.fixture
def dcron(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database_url: str) -> Dcron:
    """`dcron` on an empty database of each kind in turn."""
    return Dcron(monkeypatch, capsys, database_url)


@pytest.fixture
def fresh(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], empty_database_url: str
) -> Dcron:
    """`dcron` on a database without tables, of each kind in turn."""
    return Dcron(monkeypatch, capsys, empty_database_url)


@pytest.fixture
def sqlite(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sqlite_url: str) -> Dcron:
    """`dcron` on a SQLite file without tasks, where the kind of database makes no difference."""
    return Dcron(monkeypatch, capsys, sqlite_url)
