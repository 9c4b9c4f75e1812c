"""Database URLs as people type them; and passwords, which no message repeats."""

from pathlib import Path

import pytest

from dcron.database.url import parse_url, redact
from dcron.errors import UsageError


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"])
def test_postgres_is_spelled_in_several_ways(scheme: str) -> None:
    address = parse_url(f"{scheme}://ann:secret@db.example:5433/cron")
    assert address.path is None
    assert address.url.drivername == "postgresql+psycopg"
    assert (address.url.host, address.url.port, address.url.database) == ("db.example", 5433, "cron")
    assert address.url.password == "secret"
    assert str(address) == "postgresql://ann:***@db.example:5433/cron"


def test_a_socket_is_given_as_a_host_that_is_a_path() -> None:
    address = parse_url("postgresql://postgres:@/postgres?host=/var/run/postgresql")
    assert (address.url.host, address.url.query["host"]) == (None, "/var/run/postgresql")


def test_flags_are_for_dcron_and_not_for_the_driver() -> None:
    address = parse_url("postgresql://h/d?pgbouncer=true&sslmode=require")
    assert address.transaction_pooling
    assert dict(address.url.query) == {"sslmode": "require"}
    assert not parse_url("postgresql://h/d?pgbouncer=false").transaction_pooling
    forced = parse_url("sqlite:////srv/dcron.db?force=true")
    assert (forced.forced, dict(forced.url.query)) == (True, {})
    assert not parse_url("sqlite:////srv/dcron.db").forced


def test_a_sqlite_path_is_relative_absolute_or_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_url("sqlite:///rel.db").path == tmp_path / "rel.db"
    assert parse_url("sqlite:////srv/abs.db").path == Path("/srv/abs.db")
    assert parse_url("sqlite:///~/mine.db").path == Path("/home/ann/mine.db")
    assert str(parse_url(" sqlite:///rel.db\n")) == f"sqlite:///{tmp_path / 'rel.db'}"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_shared_crontab_needs_a_file(url: str) -> None:
    with pytest.raises(UsageError, match=r"needs a file"):
        parse_url(url)


def test_a_path_that_looks_like_a_host_is_explained() -> None:
    with pytest.raises(UsageError, match=r"three slashes, or four"):
        parse_url("sqlite://srv/dcron.db")


@pytest.mark.parametrize("url", ["", "dcron.db", "/srv/dcron.db", "mysql://h/d", "postgresql"])
def test_what_is_no_such_url_is_answered_with_the_forms(url: str) -> None:
    with pytest.raises(UsageError, match=r"write postgresql://user@host/name or sqlite:////absolute/path.db"):
        parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@h:port/d",
        "postgresql://ann:s3cret@h:99999999x/d",
        "postgresql://ann:p@s3cret@h:x/d",
        "postgresql//ann:s3cret@h/d",
        "ann:s3cret@h/d",
        "mysql://ann:s3cret@h/d",
        "host=h password=s3cret",
        "host=h password = 's3cret two'",
    ],
)
def test_a_refused_url_is_not_repeated_with_its_password(url: str) -> None:
    with pytest.raises(UsageError) as failure:
        parse_url(url)
    assert "s3cret" not in str(failure.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@h/d",
        "postgresql://h/d?user=ann&password=s3cret",
        "postgresql://h/d?password=s3cret&sslpassword=s3cret",
        "postgresql://ann:s3cret%40x@h/d",
    ],
)
def test_an_address_is_shown_without_its_password(url: str) -> None:
    assert "s3cret" not in str(parse_url(url))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at postgresql://ann:s3cret@h/d, failed", "at postgresql://ann:***@h/d, failed"),
        ("postgresql://ann:p@ss w@rd@h/d", "postgresql://ann:***@h/d"),
        ("postgresql://:s3cret@h/d", "postgresql://:***@h/d"),
        ("host=h password=s3cret user=u", "host=h password=*** user=u"),
        ("PASSWORD = 'two words' user=u", "PASSWORD = *** user=u"),
        ("password authentication failed", "password authentication failed"),
        ("postgresql://h/d", "postgresql://h/d"),
    ],
)
def test_redaction_takes_the_password_and_leaves_the_rest(text: str, expected: str) -> None:
    assert redact(text) == expected
