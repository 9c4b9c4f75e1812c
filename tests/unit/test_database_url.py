"""Database URLs as users type them; no message repeats a password."""

import re
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.database.failures import translate
from dcron.database.url import PASSWORD_HINT, parse_url, redact
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
    assert address.pooler == "transaction"
    assert dict(address.url.query) == {"sslmode": "require"}
    assert parse_url("postgresql://h/d?pgbouncer=false").pooler is None
    forced = parse_url("sqlite:////srv/dcron.db?force=true")
    assert (forced.forced, dict(forced.url.query)) == (True, {})
    assert not parse_url("sqlite:////srv/dcron.db").forced
    shared = parse_url("sqlite:////srv/dcron.db?shared=true&force=true")
    assert (shared.shared, shared.forced, dict(shared.url.query)) == (True, True, {})
    assert not forced.shared


def test_a_sqlite_path_may_be_relative_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_url("sqlite:///rel.db").path == tmp_path / "rel.db"
    assert parse_url("sqlite:////srv/abs.db").path == Path("/srv/abs.db")
    assert parse_url("sqlite:///~/mine.db").path == Path("/home/ann/mine.db")
    assert str(parse_url(" sqlite:///rel.db\n")) == f"sqlite:///{tmp_path / 'rel.db'}"


FORMS = r"write postgresql://user@host/name or sqlite:////absolute/path.db"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, r"needs a file") for url in ("sqlite://", "sqlite:///", "sqlite:///:memory:")),
        ("sqlite://srv/dcron.db", r"three slashes, or four"),
        *((url, FORMS) for url in ("", "dcron.db", "mysql://h/d", "postgresql")),
        ("postgresql://h/d?sslmod=require", r"no parameter 'sslmod' in a database URL; did you mean sslmode"),
    ],
)
def test_what_is_no_url_of_a_database_is_explained(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_url(url)


def test_a_path_is_a_sqlite_file() -> None:
    assert parse_url("/srv/dcron.db").path == parse_url("sqlite:////srv/dcron.db").path
    assert parse_url("~/dcron.db").path == Path.home() / "dcron.db"


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


SPECIAL = "@#/:?&=%+ []!'\\\"$"
SHAPES = [
    "postgresql://ann:{}@127.0.0.1:1/cron",
    "postgresql://ann:{}@127.0.0.1:1/cron?sslmode=disable",
    "postgres://ann:{}@127.0.0.1:x/cron",
    "postgresql://:{}@127.0.0.1:1/cron",
    "postgresql://ann:{}@/cron?host=/nowhere",
    "postgresql://127.0.0.1:1/cron?user=ann&password={}",
    "postgresql://127.0.0.1:1/cron?sslpassword={}&user=ann",
    "postgresql://an@n:{}@127.0.0.1:1/cron",
    "postgresql//ann:{}@127.0.0.1:1/cron",
    "postgresql:ann:{}@127.0.0.1:1/cron",
    "mysql://ann:{}@127.0.0.1:1/cron",
    "sqlite://ann:{}@127.0.0.1:1/cron",
    "ann:{}@127.0.0.1:1/cron",
    "host=127.0.0.1 user=ann password={}",
    "host=127.0.0.1 user=ann password='{}'",
]
MASKED = "://***@ ***: ***"
passwords = st.text(st.sampled_from("QXZJVKW" + SPECIAL), min_size=3, max_size=24)


def parts(text: str) -> set[str]:
    """Every substring of three characters: a longer one that leaks has one of these in it."""
    return {text[start : start + 3] for start in range(len(text) - 2)}


def shown_for(url: str) -> str:
    """All that dcron may say of this URL, also of a driver that repeats what it was given."""
    try:
        address = parse_url(url)
    except UsageError as error:
        return str(error)
    said = f"connection to {address.url.render_as_string(hide_password=False)} failed: {address.url.password}"
    failed = translate(psycopg.OperationalError(said), address)
    return "\n".join((str(address), repr(address), address.place, str(failed)))


@given(passwords, st.sampled_from(SHAPES))
def test_no_part_of_a_password_is_ever_shown(password: str, shape: str) -> None:
    harmless = parts(
        "".join(shown_for(shape.format(each)) for each in ("", "k@k", "k@k@k")) + "://***@ ***: ***"
    )
    assert not parts(password) & parts(shown_for(shape.format(password))) - harmless


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:p@ss@h/d",
        "postgresql://ann:p@ss/w@h/d",
        "postgresql://ann:pass@h/d?host=p@ss",
        "postgresql://ann:p@h:x/d",
        "postgresql://h/d?password=a&colour=b",
        "postgresql://ann:pw@h:70000/d",
        "postgresql://ann:pw@h st/d",
    ],
)
def test_a_bare_character_in_a_password_is_explained(url: str) -> None:
    with pytest.raises(UsageError) as failure:
        parse_url(url)
    assert PASSWORD_HINT in str(failure.value)


@pytest.mark.parametrize("password", ["s3cret", "s3/cret", "s3?cret", "s3#cret", "s3 cret", "s3%40cret"])
def test_the_place_has_neither_account_nor_password(password: str) -> None:
    address = parse_url(f"postgresql://ann:{password}@h:5433/d?sslmode=require")
    assert address.place == "postgresql://h:5433/d"


def test_a_service_needs_no_host() -> None:
    address = parse_url("postgresql://?service=cron")
    assert (address.url.host, dict(address.url.query)) == (None, {"service": "cron"})


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        (
            "postgresql://u:s3cret@h1:5432,h2:5433/db",
            "h1,h2",
            "5432,5433",
            "postgresql://u:***@h1:5432,h2:5433/db",
        ),
        ("postgresql://h1,h2:5433/db", "h1,h2", ",5433", "postgresql://h1,h2:5433/db"),
        ("postgresql://u@h1,h2,h3/db", "h1,h2,h3", None, "postgresql://u@h1,h2,h3/db"),
        (
            "postgresql://u@[::1]:1,10.0.0.1:2/db",
            "::1,10.0.0.1",
            "1,2",
            "postgresql://u@[::1]:1,10.0.0.1:2/db",
        ),
        ("postgresql://u@/db?host=h1,h2&port=5432", "h1,h2", "5432", "postgresql://u@h1:5432,h2:5432/db"),
        (
            "postgresql://u@h1,h2/db?target_session_attrs=read-write",
            "h1,h2",
            None,
            "postgresql://u@h1,h2/db?target_session_attrs=read-write",
        ),
    ],
)
def test_several_servers_are_given_as_in_libpq(text: str, host: str, port: str | None, shown: str) -> None:
    address = parse_url(text)
    assert (address.url.host, address.url.query["host"], address.url.query.get("port")) == (None, host, port)
    assert str(address) == shown
    assert parse_url(shown.replace("***", "s3cret")) == parse_url(text) or "?host" in text
    assert address.place == re.sub("//.*@", "//", shown).partition("?")[0]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u@h1:5432,h2:99999/db",
        "postgresql://u@h1:a,h2/db",
        "postgresql://u:s3,cret",
    ],
)
def test_a_list_of_servers_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_url(text)
    assert not any(secret in str(refused.value) for secret in ("s3,cret", "99999"))
