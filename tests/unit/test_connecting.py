"""What a server on another machine is asked before it gets the password; and one on this machine."""

from pathlib import Path

import pytest

from dcron.database.connecting import parameters
from dcron.database.url import parse_url

ASKED = ("sslmode", "require_auth")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own libpq reaches these tests."""
    for name in (
        "PGHOST",
        "PGHOSTADDR",
        "PGSSLMODE",
        "PGSSLROOTCERT",
        "PGSSLCERT",
        "PGREQUIREAUTH",
        "PGSERVICE",
    ):
        monkeypatch.delenv(name, raising=False)


def asked(url: str) -> tuple[str | None, str | None]:
    """The sslmode and the authentication that a URL asks for."""
    given = parameters(parse_url(url))
    return given.get("sslmode"), given.get("require_auth")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@db.example.org/cron",
        "postgresql://ann:x@10.1.2.3/cron",
        "postgresql://ann@[2001:db8::1]/cron",
        "postgresql://ann@localhost,db.example.org/cron",
        "postgresql://ann@/cron?host=db.example.org",
        "postgresql://ann@/cron?host=/run/postgresql&host=db.example.org",
        "postgresql://ann@localhost/cron?hostaddr=10.1.2.3",
    ],
)
def test_a_server_elsewhere_has_to_prove_who_it_is(url: str) -> None:
    assert asked(url) == ("verify-full", "scram-sha-256")


@pytest.mark.parametrize("url", ["postgresql:///cron", "postgresql://ann@/cron?host=/run/postgresql"])
def test_a_socket_of_this_machine_is_trusted(url: str) -> None:
    assert asked(url) == (None, None)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@localhost/cron",
        "postgresql://ann@127.0.0.2:6432/cron",
        "postgresql://ann@[::1]/cron",
        "postgresql://ann@/cron?host=/run/postgresql&host=localhost",
    ],
)
def test_a_port_of_this_machine_gets_no_password_in_clear(url: str) -> None:
    assert asked(url) == (None, "!password")
    more = "&" if "?" in url else "?"
    assert asked(f"{url}{more}require_auth=password") == (None, "password")


def test_what_the_url_says_goes_first() -> None:
    far = "postgresql://ann@db.example.org/cron"
    assert asked(f"{far}?sslmode=require") == ("require", "scram-sha-256")
    assert asked(f"{far}?sslmode=prefer&require_auth=md5") == ("prefer", "md5")
    assert asked(f"{far}?sslcert=/etc/dcron/node.crt&sslkey=/etc/dcron/node.key") == ("verify-full", None)
    given = parameters(parse_url(f"{far}?sslrootcert=/etc/dcron/ca.crt"))
    assert (given["sslmode"], given["sslrootcert"]) == ("verify-full", "/etc/dcron/ca.crt")


def test_what_libpqs_environment_says_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.org")
    assert asked("postgresql:///cron") == ("verify-full", "scram-sha-256")
    monkeypatch.setenv("PGSSLMODE", "require")
    monkeypatch.setenv("PGREQUIREAUTH", "md5")
    assert asked("postgresql:///cron") == (None, None)


def test_a_service_file_says_where_the_server_is_and_what_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text(
        "[far]\nhost=db.example.org\n[lax]\nhost=db.example.org\nsslmode=require\n[near]\nport=1\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert asked("postgresql://?service=far") == ("verify-full", "scram-sha-256")
    assert asked("postgresql://?service=lax") == (None, "scram-sha-256")
    assert asked("postgresql://?service=near") == (None, None)


def test_the_systems_certificates_are_found_unless_the_account_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = parse_url("postgresql://ann@db.example.org/cron")
    roots = tmp_path / "roots.pem"
    roots.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    assert parameters(far)["sslrootcert"] == str(roots)
    own = Path.home() / ".postgresql" / "root.crt"
    own.parent.mkdir()
    own.touch()
    assert "sslrootcert" not in parameters(far)
