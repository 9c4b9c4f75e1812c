"""A `dcron` that runs in this process, on an empty database."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from dcron.cli.output import console, documents
from tests.support.cli import Dcron
from tests.support.documents import check


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare every JSON document that a test lets a verb print with its description."""

    def checked(value: Any) -> Any:
        if not isinstance(value, str):
            check(value.kind, value, old=documents.has_old_keys())
        return value

    def all_checked(values: Iterable[Any]) -> Iterator[Any]:
        return map(checked, values)

    emit, emit_line, emit_list = console.emit, console.emit_line, console.emit_list
    emit_streaming = console.emit_streaming
    monkeypatch.setattr(console, "emit", lambda value: emit(checked(value)))
    monkeypatch.setattr(console, "emit_line", lambda value: emit_line(checked(value)))
    monkeypatch.setattr(console, "emit_list", lambda values: emit_list(all_checked(values)))
    monkeypatch.setattr(
        console,
        "emit_streaming",
        lambda document, key, values: emit_streaming(checked(document), key, all_checked(values)),
    )


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
