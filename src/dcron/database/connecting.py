"""How a Postgres server is reached: verified and encrypted, and with nobody else's operators in the way.

Whoever holds the database's password can run commands on every node, so a server on another machine has to
prove who it is before it gets one: by default dcron asks for `sslmode=verify-full` with the system's
certificates and for `require_auth=scram-sha-256`. What the URL, a service file or libpq's environment
variables say instead goes first. A server of this machine is trusted.
"""

import configparser
import os
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from dcron.database.patience import PatientConnection
from dcron.database.url import Address

SCHEMA = "dcron"
"""The schema that new tables are made in: nobody else may create there."""

_CONNECT = {
    "connect_timeout": "10",
    "application_name": "dcron",
    # A peer that has silently gone is noticed within a fraction of the default lease.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_ENVIRONMENT = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "require_auth": "PGREQUIREAUTH",
    "service": "PGSERVICE",
    "passfile": "PGPASSFILE",
}
# The driver's own OpenSSL does not look where the system has its certificates.
_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# All names and operators are qualified: the search path may still have schemas that others can create in,
# and an operator of theirs that fits better than Postgres' own would run with our rights.
_PIN_SCHEMA = f"""
SELECT pg_catalog.set_config('search_path', CASE
    WHEN pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.=) ANY (
      ARRAY['"$user", public', '"$user",public', 'public']::pg_catalog.text[])
    THEN COALESCE((
      SELECT pg_catalog.quote_ident(space.nspname)
      FROM pg_catalog.pg_class AS made JOIN pg_catalog.pg_namespace AS space
        ON space.oid OPERATOR(pg_catalog.=) made.relnamespace
      WHERE made.relname OPERATOR(pg_catalog.=) 'dcron_version'::pg_catalog.name
        AND space.nspname OPERATOR(pg_catalog.=) ANY (path.schemas)
      ORDER BY pg_catalog.array_position(path.schemas, space.nspname)
      LIMIT 1
    ), '{SCHEMA}')
    ELSE pg_catalog.current_setting('search_path')
  END, {{local}})
FROM pg_catalog.array_prepend('{SCHEMA}'::pg_catalog.name, pg_catalog.current_schemas(false)) AS path(schemas)
"""


@dataclass(frozen=True)
class Protection:
    """How a connection to Postgres is protected."""

    encryption: str | None
    """The version of TLS; None where nothing is encrypted."""
    sslmode: str
    """What was asked of the server's certificate; `prefer` asks nothing."""
    require_auth: str | None
    """The ways of authentication that are accepted; None is any."""
    is_local: bool
    """Whether the server was asked for on this machine."""
    schema: str | None
    """The schema in force; None where it is missing."""
    others_may_create: bool
    """Whether every role of the server may create in it."""

    @property
    def is_verified(self) -> bool:
        """Whether the server has proved who it is."""
        return self.encryption is not None and self.sslmode == "verify-full"


def protection(connection: Connection) -> Protection:
    """Return how this connection is protected, as the server and the driver say."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, PatientConnection)
    row = connection.execute(
        text(
            "SELECT (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl) AS encryption,"
            " current_schema() AS schema,"
            " has_schema_privilege('public', current_schema(), 'CREATE') AS others_may_create"
        )
    ).one()
    asked = {option.keyword.decode(): (option.val or b"").decode() for option in driver.pgconn.info}
    hosts = [asked.get("host", ""), asked.get("hostaddr", "")]
    return Protection(
        encryption=row.encryption,
        sslmode=asked.get("sslmode") or "prefer",
        require_auth=asked.get("require_auth") or None,
        is_local=_are_local(hosts),
        schema=row.schema,
        others_may_create=bool(row.others_may_create),
    )


def parameters(address: Address) -> dict[str, Any]:
    """Return libpq's parameters beside host, user, password and database: the URL's own, over ours."""
    return {**_CONNECT, **_protection(address.url), **address.url.query}


def connect(*arguments: Any, **given: Any) -> PatientConnection:
    """Open a connection, and pin its search path to the schema that has dcron's tables, or shall have them.

    Raises psycopg.OperationalError.
    """
    connection: PatientConnection = PatientConnection.connect(*arguments, **given)
    try:
        connection.execute(pin_schema(for_transaction=False))
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def pin_schema(*, for_transaction: bool) -> str:
    """Return the statement that pins the search path: of the transaction where a pooler shares sessions.

    A search path that is not Postgres' own was set by an administrator, and stays.
    """
    return _PIN_SCHEMA.format(local="true" if for_transaction else "false")


def _protection(url: URL) -> dict[str, str]:
    said = _said_elsewhere(url) | dict(url.query)
    hosts = [url.host or "", *_listed(said.get("host")), *_listed(said.get("hostaddr"))]
    if _are_local(hosts):
        return {}
    wanted: dict[str, str] = {}
    if "sslmode" not in said:
        wanted["sslmode"] = "verify-full"
        if "sslrootcert" not in said and (roots := _roots()):
            wanted["sslrootcert"] = roots
    if "require_auth" not in said and "sslcert" not in said:
        wanted["require_auth"] = "scram-sha-256"
    return wanted


def _said_elsewhere(url: URL) -> dict[str, Any]:
    """What libpq would take from its environment, and from the service that is named."""
    said = {name: os.environ[word] for name, word in _ENVIRONMENT.items() if os.environ.get(word)}
    service = url.query.get("service", said.get("service"))
    return said | _service(service) if isinstance(service, str) else said


def _service(name: str) -> dict[str, str]:
    """The parameters of a service, from the files in which libpq looks for it."""
    own = os.environ.get("PGSERVICEFILE") or _at_home(".pg_service.conf")
    shared = Path(os.environ.get("PGSYSCONFDIR", "/etc/postgresql-common")) / "pg_service.conf"
    for path in map(str, filter(None, (own, shared))):
        file = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            file.read(path)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # the driver says what is wrong with it
        if file.has_section(name):
            return dict(file[name])
    return {}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _are_local(hosts: Iterable[str]) -> bool:
    """Whether none of these hosts, or lists of hosts with commas, is another machine."""
    return all(map(_is_local, ",".join(hosts).split(",")))


def _is_local(host: str) -> bool:
    """Whether this is a Unix socket, or an address that does not leave the machine."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _at_home(name: str) -> Path | None:
    try:
        return Path.home() / name
    except RuntimeError:  # an account without a home directory, as in many containers
        return None


def _roots() -> str | None:
    """The file with the certificates that the system trusts; None where libpq has a file of its own."""
    if (own := _at_home(".postgresql/root.crt")) and own.exists():
        return None
    found = (path for path in (os.environ.get("SSL_CERT_FILE"), *_ROOTS) if path and Path(path).exists())
    return next(found, "system")
