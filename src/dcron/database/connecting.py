"""Connect to Postgres: verified, encrypted, and with a search path that other roles cannot abuse.

Anyone who has the database's password can run commands on every node. So a server on another machine must
prove its identity before it gets the password: by default dcron requires `sslmode=verify-full` with the
system's certificates, and `require_auth=scram-sha-256`. The URL, a service file and libpq's environment
variables override these defaults. A server on this machine is trusted.
"""

import configparser
import os
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from dcron.database.pipelining import PipelinedConnection
from dcron.database.server import SCHEMA, Protection
from dcron.database.url import Address

_CONNECT = {
    "connect_timeout": "10",
    "application_name": "dcron",
    # A peer that vanished silently is noticed within a fraction of the default lease.
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
# The OpenSSL bundled with the driver does not search the system's certificate directories.
_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# All names and operators are qualified: the search path may still contain schemas in which other roles can
# create, and an operator there that matches better than Postgres' own would run with our rights.
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


def protection(connection: Connection) -> Protection:
    """Return how this connection is protected, as reported by the server and the driver."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, PipelinedConnection)
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
    """Return libpq's parameters except host, user, password and database; the URL's override ours."""
    return {**_CONNECT, **_protection(address.url), **address.url.query}


def connect(*arguments: Any, **given: Any) -> PipelinedConnection:
    """Open a connection whose search path is pinned to dcron's schema. Raises psycopg.OperationalError."""
    connection: PipelinedConnection = PipelinedConnection.connect(*arguments, **given, autocommit=True)
    try:
        connection.execute(pin_schema(for_transaction=False))
    except BaseException:
        connection.close()
        raise
    return connection


def pin_schema(*, for_transaction: bool) -> str:
    """Return the statement that pins the search path, of the transaction if a pooler shares sessions.

    A search path other than Postgres' default was set by an administrator, and stays.
    """
    return _PIN_SCHEMA.format(local="true" if for_transaction else "false")


def _protection(url: URL) -> dict[str, str]:
    said = _libpq_settings(url) | dict(url.query)
    hosts = [url.host or "", *_listed(said.get("host")), *_listed(said.get("hostaddr"))]
    if _are_local(hosts):
        return {}
    required: dict[str, str] = {}
    if "sslmode" not in said:
        required["sslmode"] = "verify-full"
        if "sslrootcert" not in said and (roots := _roots()):
            required["sslrootcert"] = roots
    if "require_auth" not in said and "sslcert" not in said:
        required["require_auth"] = "scram-sha-256"
    return required


def _libpq_settings(url: URL) -> dict[str, Any]:
    """Return what libpq would read from its environment and from the named service."""
    said = {name: os.environ[word] for name, word in _ENVIRONMENT.items() if os.environ.get(word)}
    service = url.query.get("service", said.get("service"))
    return said | _service(service) if isinstance(service, str) else said


def _service(name: str) -> dict[str, str]:
    """Return the parameters of a service, from the files in which libpq searches for it."""
    own = os.environ.get("PGSERVICEFILE") or _at_home(".pg_service.conf")
    shared = Path(os.environ.get("PGSYSCONFDIR", "/etc/postgresql-common")) / "pg_service.conf"
    for path in map(str, filter(None, (own, shared))):
        file = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            file.read(path)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # the driver reports what is wrong with the file
        if file.has_section(name):
            return dict(file[name])
    return {}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _are_local(hosts: Iterable[str]) -> bool:
    """Return whether none of these hosts, or comma-separated lists of hosts, is another machine."""
    return all(map(_is_local, ",".join(hosts).split(",")))


def _is_local(host: str) -> bool:
    """Return whether this is a Unix socket or a loopback address."""
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
