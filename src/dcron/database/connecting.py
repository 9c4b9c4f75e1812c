"""Connect to Postgres: verified, encrypted, and with a search path that other roles cannot abuse.

Anyone who has the database's password can run commands on every node. So a server on another machine must
prove its identity before it gets the password: by default dcron requires `sslmode=verify-full` with the
system's certificates, and `require_auth=scram-sha-256`. The URL, a service file and libpq's environment
variables override these defaults. A server on this machine needs no certificate; on a loopback address it
gets no password in clear.
"""

import configparser
import os
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from dcron.database.pipelining import PipelinedConnection
from dcron.database.server import SCHEMA, Protection
from dcron.database.url import Address

TIMEOUT = 10
"""Seconds to wait for a connection, and for the answer to the first statement on it."""
_CONNECT = {
    "connect_timeout": str(TIMEOUT),
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
SELECT pg_catalog.set_config('search_path', CASE WHEN chosen.schemas OPERATOR(pg_catalog.=) '{SCHEMA}'
  THEN COALESCE({{distrust}}, chosen.schemas) ELSE chosen.schemas END, {{local}})
FROM (SELECT CASE
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
  END
  FROM pg_catalog.array_prepend(
    '{SCHEMA}'::pg_catalog.name, pg_catalog.current_schemas(false)
  ) AS path(schemas)
) AS chosen(schemas)
"""
# The roles that can act in a schema, with a word for it. One that may create can run code as the users of it.
_CREATORS = """
  SELECT space.nspowner AS role, 'owns it' AS act
  UNION ALL SELECT granted.grantee, 'may create objects in it'
    FROM pg_catalog.aclexplode(space.nspacl) AS granted
    WHERE granted.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
"""
_MAKERS = """
  UNION ALL SELECT proowner, 'has a function in it' FROM pg_catalog.pg_proc
    WHERE pronamespace OPERATOR(pg_catalog.=) space.oid
  UNION ALL SELECT oprowner, 'has an operator in it' FROM pg_catalog.pg_operator
    WHERE oprnamespace OPERATOR(pg_catalog.=) space.oid
  UNION ALL SELECT relowner, 'has a table in it' FROM pg_catalog.pg_class
    WHERE relnamespace OPERATOR(pg_catalog.=) space.oid
  UNION ALL SELECT called.proowner, 'has a trigger on a table in it' FROM pg_catalog.pg_trigger
    JOIN pg_catalog.pg_class AS written ON written.oid OPERATOR(pg_catalog.=) tgrelid
    JOIN pg_catalog.pg_proc AS called ON called.oid OPERATOR(pg_catalog.=) tgfoid
    WHERE written.relnamespace OPERATOR(pg_catalog.=) space.oid
"""
# Trusted are this role, superusers, the owner of the database, an owner that this role is a member of, and
# members of a trusted owner. A superuser counts as a member of every role: that means nothing. Nor does a
# common group that may create: its other members may, too.
_DISTRUSTED = """
SELECT pg_catalog.concat(COALESCE(role.rolname, 'PUBLIC'), ' ', creator.act)
FROM pg_catalog.pg_namespace AS space
  CROSS JOIN LATERAL ({creators}) AS creator
  LEFT JOIN pg_catalog.pg_roles AS role ON role.oid OPERATOR(pg_catalog.=) creator.role
WHERE space.nspname OPERATOR(pg_catalog.=) {schema}
  AND (role.oid IS NULL OR NOT (
    role.rolsuper
    OR role.rolname OPERATOR(pg_catalog.=) ANY (ARRAY[current_user, 'pg_database_owner'])
    OR role.oid OPERATOR(pg_catalog.=) (SELECT datdba FROM pg_catalog.pg_database
      WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
    OR creator.act OPERATOR(pg_catalog.=) 'owns it'
      AND pg_catalog.pg_has_role(current_user, role.oid, 'MEMBER')
      AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user)
    OR creator.act OPERATOR(pg_catalog.<>) 'owns it'
      AND pg_catalog.pg_has_role(role.oid, space.nspowner, 'MEMBER')
  ))
ORDER BY creator.act DESC LIMIT 1
"""
DISTRUST = "dcron distrusts its schema: "
"""The beginning of the text that Postgres cannot read as a number: so the statement itself fails."""


def protection(connection: Connection) -> Protection:
    """Return how this connection is protected, as reported by the server and the driver.

    Behind a pooler the server knows the pooler's connection alone, so its TLS version is not shown.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, PipelinedConnection)
    row = connection.execute(
        text(
            "SELECT (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl) AS encryption,"
            f" current_schema() AS schema, {is_direct(driver)} AS is_direct,"
            f" ({_DISTRUSTED.format(creators=_CREATORS + _MAKERS, schema='current_schema()')}) AS distrusted"
        )
    ).one()
    asked = {option.keyword.decode(): (option.val or b"").decode() for option in driver.pgconn.info}
    hosts = [asked.get("host", ""), asked.get("hostaddr", "")]
    return Protection(
        encryption=((row.is_direct and row.encryption) or "TLS") if driver.pgconn.ssl_in_use else None,
        sslmode=asked.get("sslmode") or "prefer",
        require_auth=asked.get("require_auth") or None,
        is_local=_are_local(hosts),
        schema=row.schema,
        distrusted=row.distrusted,
    )


def parameters(address: Address) -> dict[str, Any]:
    """Return libpq's parameters except host, user, password and database; the URL's override ours."""
    return {**_CONNECT, **_protection(address.url), **address.url.query}


def connect(*arguments: Any, pooler: str | None, **given: Any) -> PipelinedConnection:
    """Open a connection whose search path is pinned to dcron's schema. Raises psycopg.OperationalError.

    Where a pooler may give each transaction another session, nothing is kept in the session: no search path,
    which other programs would get, and no prepared statements.
    """
    connection: PipelinedConnection = PipelinedConnection.connect(*arguments, **given, autocommit=True)
    connection.answer = min(TIMEOUT, float(given["connect_timeout"]) or TIMEOUT)
    try:
        if pooler != "transaction":
            keeps = "true" if pooler else is_direct(connection)
            pinned = connection.execute(f"SELECT {keeps}, CASE WHEN {keeps} THEN ({_pin(local=False)}) END")
            row = pinned.fetchone()
            connection.shares_session = not (row and row[0])
        else:
            connection.shares_session = True
    except BaseException:
        connection.close()
        raise
    if connection.shares_session:
        connection.prepare_threshold = None
    return connection


def is_direct(connection: "psycopg.Connection[Any]") -> str:
    """Return the condition, in SQL, that no pooler is in between.

    Poolers give their clients keys of their own. The comparison belongs into a larger statement: some answer
    `SELECT pg_backend_pid()` themselves.
    """
    return f"pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) ({connection.info.backend_pid})"


def pin_for_transaction() -> str:
    """Return the statement that pins the search path of the transaction.

    It fails if another role may create objects in dcron's own schema, or has done so; what was created is
    searched only once for each connection. A search path other than Postgres' default was set by an
    administrator, and stays.
    """
    return _pin(local=True)


def _pin(*, local: bool) -> str:
    distrusted = _DISTRUSTED.format(
        creators=_CREATORS if local else _CREATORS + _MAKERS, schema=f"'{SCHEMA}'"
    )
    failing = f"pg_catalog.concat('{DISTRUST}', found.who)::pg_catalog.int4::pg_catalog.text"
    distrust = f"(SELECT {failing} FROM ({distrusted}) AS found(who))"
    return _PIN_SCHEMA.format(local="true" if local else "false", distrust=distrust)


def _protection(url: URL) -> dict[str, str]:
    said = _libpq_settings(url) | dict(url.query)
    hosts = [url.host or "", *_listed(said.get("host")), *_listed(said.get("hostaddr"))]
    if _are_local(hosts):
        # Any account of this machine can listen in the server's place while it is down.
        return {} if "require_auth" in said or not _uses_tcp(hosts) else {"require_auth": "!password"}
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


def _uses_tcp(hosts: Iterable[str]) -> bool:
    """Return whether one of these hosts is not a Unix socket."""
    return any(host and not host.startswith(("/", "@")) for host in ",".join(hosts).split(","))


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
