"""A server that is not Postgres, is too old, or has locks that lock nothing is refused."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import literal_column, select

from dcron import migrations
from dcron.cli.app import main
from dcron.database import Database, open_database, suitability
from dcron.errors import DatabaseError
from dcron.services.doctor import Doctor
from tests.support.databases import new_database


@pytest.fixture
def empty(postgres_server: str, tmp_path: Path) -> Iterator[Database]:
    """A Postgres database without tables."""
    with new_database(postgres_server, tmp_path) as url, closing(open_database(url)) as database:
        yield database


def call_itself(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(suitability, "_VERSION", select(literal_column(f"'{version}'")))


def test_a_real_server_is_suitable(empty: Database) -> None:
    assert empty.why_unsuitable() is None
    assert empty.why_unsuitable() is None  # the lock was given back


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("CockroachDB CCL v23.2.3 (x86_64-pc-linux-gnu, built 2024)", "is CockroachDB CCL v23.2.3, not"),
        ("PostgreSQL 11.2-YB-2.19.0.0-b0 on x86_64-pc-linux-gnu", "is PostgreSQL 11.2-YB-2.19.0.0-b0, not"),
        ("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu", "not PostgreSQL"),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.2369", "is PostgreSQL 8, which lacks"),
        ("PostgreSQL 12.22 on x86_64-pc-linux-gnu", "is PostgreSQL 12, which lacks"),
        ("PostgreSQL 13.0 on x86_64-pc-linux-gnu", None),
        ("PostgreSQL 15.4 (EnterpriseDB Advanced Server 15.4.0) on x86_64", None),
        ("PostgreSQL 19devel on x86_64-pc-linux-gnu", None),
        ("PostgreSQL 18beta1 (Debian 18~beta1-1) on x86_64-pc-linux-gnu", None),
    ],
)
def test_the_version_decides(
    empty: Database, monkeypatch: pytest.MonkeyPatch, version: str, problem: str | None
) -> None:
    call_itself(monkeypatch, version)
    found = empty.why_unsuitable()
    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")


def test_tables_are_not_made_on_another_product(
    empty: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call_itself(monkeypatch, "CockroachDB CCL v23.2.3 (x86_64)")
    url = empty.address.url.set(drivername="postgresql").render_as_string(hide_password=False)
    assert main(["db", "init", "--db", url]) == 3
    assert "is CockroachDB CCL v23.2.3, not PostgreSQL" in capsys.readouterr().err
    assert migrations.current_version(empty) is None


def test_locks_that_lock_nothing_are_found(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    migrations.prepare(empty)
    monkeypatch.setattr(suitability, "_LOCK", select(literal_column("true")))
    assert "advisory locks that do not work" in (empty.why_unsuitable() or "")
    assert "not-postgres" in [each.code for each in Doctor(empty).examine()]
    with pytest.raises(DatabaseError, match="advisory locks that do not work"):
        migrations.upgrade(empty)
