"""Parse database URLs, and keep their passwords out of messages."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from dcron.errors import UsageError
from dcron.values.similar import did_you_mean

FORMS = "postgresql://user@host/name or sqlite:////absolute/path.db"
PASSWORD_HINT = (
    "percent-encode a password (@ is %40, / is %2F, # is %23, : is %3A, ? is %3F, % is %25, a space is %20),"
    " or leave it out of the URL and use PGPASSWORD, ~/.pgpass or a service file (postgresql://?service=NAME)"
)
# Up to the last @ of the line: an unencoded password may contain one, or a space.
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*(?=@)")
_PASSWORD_WORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)
_TYPED = re.compile(r":.*@|password\s*=", re.IGNORECASE | re.DOTALL)
# Commas separate several hosts, an IPv6 address has colons; a host that is a path is in the query.
_HOST = re.compile(r"[\w.,:%-]*")
# libpq's list of servers, after the user and before the database; neither may have an @ that is not encoded.
_SEVERAL = re.compile(
    r"(postgres(?:ql)?(?:\+\w+)?://(?:[^@/?#]*@)?)([^@/?#]*,[^@/?#]*)((?:/[^@?]*)?(?:\?.*)?)"
)
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.-]*)(?::(\d*))?")
_SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
POOLERS = ("transaction", "session", "none")
"""A pooler gives a client another session for each transaction, or one session; or there is no pooler."""
MASK = "***"
LAST_PORT = 65_535


def redact(text: str) -> str:
    """Return the text without passwords of database URLs or connection strings."""
    return _PASSWORD_WORD.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}", text))


def redact_typed(text: str, words: Iterable[str]) -> str:
    """Return the text without those words that may be database URLs with a password, however malformed."""
    for word in words:
        if _TYPED.search(word):
            for typed in (word, repr(word)[1:-1]):
                text = text.replace(typed, MASK)
    return redact(text)


@dataclass(frozen=True, repr=False)
class Address:
    """Where the database is."""

    url: URL
    pooler: str | None = None
    """How a connection pooler in between assigns sessions (`?pooler=`); None: each connection finds out."""
    forced: bool = False
    """Use a SQLite file even on a network file system (`?force=true`)."""
    shared: bool = False
    """Other accounts are meant to write the SQLite file (`?shared=true`): do not warn."""

    @cached_property
    def path(self) -> Path | None:
        """The SQLite file; None for Postgres."""
        if self.url.get_backend_name() != "sqlite":
            return None
        return Path(self.url.database or "").expanduser().absolute()

    @property
    def place(self) -> str:
        """Where the database is, without user, password and parameters, for a screen that others may see."""
        if self.path:
            return f"sqlite:///{self.path}"
        where = URL.create("postgresql", host=self.url.host, port=self.url.port, database=self.url.database)
        return _with_servers(where, _servers(self.url))

    def __str__(self) -> str:
        """Return the URL without driver and password, for people."""
        if self.path:
            return self.place
        masked = self.url.update_query_dict(dict.fromkeys(self.url.query.keys() & _SECRET_PARAMETERS, MASK))
        shown = _with_servers(masked.set(drivername="postgresql"), _servers(self.url))
        return shown.replace("=%2A%2A%2A", f"={MASK}")

    def __repr__(self) -> str:
        """Return the same, for tracebacks and logs."""
        return f"Address({self})"

    def redact(self, text: str) -> str:
        """Return the text without this address's secrets and without the password of any URL."""
        shown = (self.url.username, self.url.host, self.url.database)
        for secret in sorted(self._secrets() - {each for each in shown if each}, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return redact(text)

    def _secrets(self) -> set[str]:
        parameters = (self.url.query[name] for name in self.url.query.keys() & _SECRET_PARAMETERS)
        secrets = {each for value in parameters for each in ([value] if isinstance(value, str) else value)}
        password = self.url.password
        return secrets | ({str(password)} if password else set())


_PATH_BEGINS = ("/", "./", "~/")
"""A text that begins so is the path of a SQLite file."""


def parse_url(text: str) -> Address:
    """Parse a database URL. Raises UsageError, whose message repeats nothing that may contain a password."""
    text = text.strip()
    if text.startswith(_PATH_BEGINS):
        text = f"sqlite:///{text}"
    text, servers = _take_servers(text)
    try:
        url = make_url(text)
        url = url.set(query={**servers, **url.query}) if servers else url
        backend = url.drivername.split("+")[0]
    except (ArgumentError, ValueError):
        raise _not_a_url(text) from None
    url, pooler = _take_pooler(url)
    url, forced = _take_flag(url, "force")
    url, shared = _take_flag(url, "shared")
    if backend == "sqlite":
        return Address(_sqlite(url), forced=forced, shared=shared)
    if backend in ("postgresql", "postgres"):
        _require_clear_parts(url, text)
        return Address(url.set(drivername="postgresql+psycopg"), pooler=pooler)
    raise UsageError(f"dcron keeps its crontab in SQLite or PostgreSQL; write {FORMS}")


def _not_a_url(text: str) -> UsageError:
    # Only repeat what looks like a plain file name: anything else may contain a password.
    if re.fullmatch(r"[\w./~-]*", text):
        return UsageError(f"{text!r} is not a database URL; write {FORMS}")
    return UsageError(f"this is not a database URL; write {FORMS}; {PASSWORD_HINT}")


def _require_clear_parts(url: URL, text: str) -> None:
    """Raise UsageError if an unencoded character of a password may have become part of something else.

    The driver would print a host, a port or a parameter that it cannot use.
    """
    if text.count("@") > 1:
        raise UsageError(f"the database URL has more than one @; {PASSWORD_HINT}")
    if "password=" in str(url.password or "").lower():  # the @ is that of a password among the parameters
        raise UsageError(f"the database URL has an @ among its parameters; {PASSWORD_HINT}")
    hosts = [url.host or "", *_texts(url, "hostaddr")]
    if not all(_HOST.fullmatch(host) for host in hosts) or any("@" in host for host in _texts(url, "host")):
        raise UsageError(f"the host in the database URL cannot be one; {PASSWORD_HINT}")
    ports = [each for value in _texts(url, "port") for each in value.split(",") if each.isdecimal()]
    if not all(
        0 < port <= LAST_PORT for port in [*map(int, ports), *([url.port] if url.port is not None else [])]
    ):
        raise UsageError(f"the port in the database URL is not 1 to {LAST_PORT}; {PASSWORD_HINT}")
    _require_known_parameters(url, is_secret=any(f"{name}=" in text for name in _SECRET_PARAMETERS))


def _take_servers(text: str) -> tuple[str, dict[str, str]]:
    """Take libpq's list of servers (`h1:5432,h2`) out of a URL; return the rest, and it as parameters."""
    found = _SEVERAL.fullmatch(text)
    servers = [_SERVER.fullmatch(each) for each in found[2].split(",")] if found else []
    known = [each for each in servers if each]
    if not found or len(known) < len(servers):
        return text, {}
    ports = ",".join(each[2] or "" for each in known)
    hosts = {"host": ",".join(each[1].strip("[]") for each in known)}
    return found[1] + found[3], hosts | ({"port": ports} if ports.strip(",") else {})


def _servers(url: URL) -> str | None:
    """Return the servers of a URL in libpq's own form; None if it has one, or sockets."""
    hosts = [host for value in _texts(url, "host") for host in value.split(",")]
    ports = [port for value in _texts(url, "port") for port in value.split(",")] or [""]
    ports *= len(hosts) if len(ports) == 1 else 1
    if len(hosts) < 2 or len(ports) != len(hosts) or any("/" in host for host in hosts):
        return None
    names = (f"[{host}]" if ":" in host else host for host in hosts)
    return ",".join(f"{name}:{port}" if port else name for name, port in zip(names, ports, strict=True))


def _with_servers(url: URL, servers: str | None) -> str:
    """Return the URL as text, with these servers in the place of its host."""
    if servers is None:
        return url.render_as_string(hide_password=True)
    place = "servers.invalid"
    bare = url.difference_update_query(["host", "port"]).set(host=place)
    before, _, after = bare.render_as_string(hide_password=True).rpartition(place)
    return before + servers + after


def _texts(url: URL, name: str) -> list[str]:
    value = url.query.get(name, ())
    return [value] if isinstance(value, str) else list(value)


def _require_known_parameters(url: URL, *, is_secret: bool) -> None:
    """Raise UsageError for a parameter the driver does not know: an unencoded & ends a password."""
    from psycopg.pq import Conninfo

    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    for name in url.query.keys() - known:
        if is_secret:
            raise UsageError(
                f"the database URL has a parameter that PostgreSQL does not know; {PASSWORD_HINT}"
            )
        meant = did_you_mean(name, known)
        raise UsageError(f"PostgreSQL knows no parameter {name!r} in a database URL{meant}")


def _sqlite(url: URL) -> URL:
    if url.host or url.username or url.password is not None:
        raise UsageError(f"a SQLite path takes three slashes, or four when it is absolute; write {FORMS}")
    if not url.database or url.database == ":memory:":
        raise UsageError(f"a shared crontab needs a file; write {FORMS}")
    if unknown := ", ".join(url.query):
        raise UsageError(
            f"a SQLite URL takes ?force=true, ?shared=true and nothing else; this one has {unknown!r}"
        )
    try:
        path = Path(url.database).expanduser().absolute()
    except RuntimeError:  # an account without a home directory, or a missing account
        raise UsageError(f"no home directory is known for {url.database!r}; write {FORMS}") from None
    return url.set(drivername="sqlite+pysqlite", database=str(path))


def _take_pooler(url: URL) -> tuple[URL, str | None]:
    said = url.query.get("pooler")
    url, pools = _take_flag(url, "pgbouncer")
    if said is not None and said not in POOLERS:
        raise UsageError(f"?pooler= in a database URL is {', '.join(POOLERS[:-1])} or {POOLERS[-1]}")
    return url.difference_update_query(["pooler"]), str(said) if said else "transaction" if pools else None


def _take_flag(url: URL, name: str) -> tuple[URL, bool]:
    value = url.query.get(name)
    return url.difference_update_query([name]), value in ("true", "1", "yes")
