"""Turn the errors of drivers into ours, in one place, and decide whether to try again.

Every transaction passes its errors to `translate`. Code that catches a driver's error before that must ask
for the SQLSTATE that it expects (`says`), and raise all others: no statement follows on a broken connection.
"""

import os
import re
import sqlite3
import sys
from pathlib import Path

from sqlalchemy.exc import DBAPIError, PendingRollbackError, ResourceClosedError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dcron.database.url import Address
from dcron.errors import DatabaseError, OutcomeUnknown, Unreachable

LOGGERS = ("psycopg", "sqlalchemy", "dcron.database.pool")
"""Loggers that write a traceback of a broken connection; its user reports it, too."""
_UNOPENED = "cannot be opened"
# The beginning of SQLite's message, and our words for it; the path comes before them.
_SQLITE_MESSAGES = {
    "database is locked": "is locked by another process; try again",
    "database table is locked": "is locked by another process; try again",
    "attempt to write a readonly database": "cannot be written: the file or its directory is read-only",
    "database or disk is full": "cannot be written: the disk is full",
    "disk i/o error": "cannot be read or written: the disk reports an error",
    "database disk image is malformed": "is damaged; restore a backup, or see `sqlite3 FILE .recover`",
    "file is not a database": "is not a SQLite database",
    "unable to open database file": _UNOPENED,
}
_TRANSIENT_SQLITE = ("locked", "full", "i/o error")
# Classes of SQLSTATE that are temporary: connection, rollback, resources, operator, system.
# A server that has just become a standby, or still is one, reports 25006.
# Prepared statements that a pooler lost (26000, 42P05) are not used again.
_TRANSIENT_CLASSES = ("08", "25P03", "25P04", "26000", "42P05", "25006", "40", "53", "55P03", "57", "58")
# The server ends the connection with these.
_CLOSING = ("08", "25P03", "25P04", "57P01", "57P02", "57P04", "57P05")
# If a server refuses a connection, the driver passes on no SQLSTATE. Any refusal not listed here, such as
# "too many clients already" or "the database system is starting up", is temporary.
_REFUSED_CONNECTION = re.compile(
    r"authentication failed|no password supplied|permission denied|no pg_hba\.conf entry"
    r"|(?:role|user|database) \"[^\"]*\" does not exist|is not permitted to log in"
    r"|certificate|does not support SSL|authentication method requirement"
    r"|(?:invalid|bad value for) .*(?:option|value|port)|cannot be used as"
)
_PROVES = "; dcron gives its password only to a server that proves who it is: "
_PROTECTED = {
    "does not support SSL": "let it use TLS, or, where no other machine can answer in its place, write"
    " ?sslmode=disable",
    "does not match host name": "write the name that its certificate has",
    "authentication method": "let it use scram-sha-256, or ask for less with ?require_auth=md5",
    "certificate": "name the authority that signed its certificate with ?sslrootcert=FILE, or ask for less"
    " with ?sslmode=require",
}
"""What helps, by words of the refusal."""
_UNUSABLE = PendingRollbackError | ResourceClosedError
"""What a statement on a broken connection raises: an earlier error was swallowed."""
_LOST_PREPARED = ("26000", "42P05")
"""A prepared statement is missing, or another client has prepared one of its name."""
_DISTRUSTED = re.compile(r'dcron distrusts its schema: (?P<role>.*) (?P<act>(?:owns|may|has) .*)"')
_MISSING_TABLES = ("42P01", "3F000")
_NOT_PERMITTED = "42501"
_READ_ONLY = "25006"
_REFUSALS = (_NOT_PERMITTED, "42703")


def translate(error: BaseException, address: Address, *, is_committing: bool = False) -> DatabaseError | None:
    """Return our error for one of a driver or of its pool, with what a person can do.

    None for an error of another kind, such as a bug. `is_committing`: COMMIT was sent and not answered.
    """
    if isinstance(error, PoolTimeout):
        return DatabaseError(f"the database {address} gave no free connection in time")
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return DatabaseError(f"the database {address.path} {_sqlite_failure(cause, address.path)}")
    if not (isinstance(error, DBAPIError | OSError | _UNUSABLE) or _is_psycopg(error)):
        return None
    if not is_broken(error):
        return DatabaseError(_message(cause, address))
    if is_committing:
        return OutcomeUnknown(
            f"lost the database {address} during a commit: whether it took effect is unknown"
            f" ({_first_line(cause, address)})"
        )
    return Unreachable(_message(cause, address))


def is_broken(error: BaseException) -> bool:
    """Return whether the connection is gone, or none could be made: no statement can follow on it."""
    if isinstance(error, _UNUSABLE) or (isinstance(error, DBAPIError) and error.connection_invalidated):
        return True
    cause = _cause(error)
    if sqlstate := _sqlstate(cause):
        return sqlstate.startswith(_CLOSING)
    return not isinstance(cause, sqlite3.Error) and is_transient(cause)


def says(error: BaseException | None, *sqlstates: str) -> bool:
    """Return whether the server reported one of these SQLSTATEs, on a connection that is still usable."""
    return _sqlstate(_cause(error)) in sqlstates


def is_lost_prepared(error: BaseException) -> bool:
    """Return whether a pooler has lost a prepared statement: it shares sessions."""
    return says(error, *_LOST_PREPARED)


def _message(cause: BaseException | None, address: Address) -> str:
    message = _first_line(cause, address)
    sqlstate = _sqlstate(cause)
    if found := _DISTRUSTED.search(message):
        role, owns = found["role"], found["act"].startswith("owns")
        trust = (
            f"If it is the role that upgrades dcron, ALTER DATABASE … OWNER TO {role}. If not, a"
            if owns
            else "A"
        )
        return (
            f"the schema dcron of {address} is not used: the role {role} {found['act']}, and could so run"
            f" code as each of its users. {trust}s a superuser, drop what the role made there, and"
            " ALTER SCHEMA dcron OWNER TO the role that upgrades dcron, or REVOKE CREATE ON SCHEMA dcron FROM"
            f" {role}"
        )
    if sqlstate in _LOST_PREPARED:
        return (
            f"the pool before the database {address} keeps no sessions, whatever the URL says: write"
            f" ?pooler=transaction; dcron works so from now on ({message})"
        )
    if sqlstate == _NOT_PERMITTED:
        return f"the database {address} does not allow this: {message}"
    if sqlstate == _READ_ONLY:
        return (
            f"the database {address} is a standby, or was set to be read-only: {message}; only verbs that"
            " read work here; give the address of the primary server, or those of all servers with"
            " ?target_session_attrs=read-write"
        )
    if sqlstate:
        return f"the database {address} refused: {message} ({sqlstate})"
    import psycopg

    if isinstance(cause, psycopg.OperationalError | OSError | _UNUSABLE):
        hints = (_PROVES + advice for words, advice in _PROTECTED.items() if words in message)
        return f"cannot reach the database {address}: {message}{next(hints, '')}"
    return f"the database {address} failed: {message}"


def is_transient(error: BaseException | None) -> bool:
    """Return whether the same call may succeed later, without a change of rights, names or settings."""
    if isinstance(error, Unreachable):
        return True
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return any(word in str(cause).lower() for word in _TRANSIENT_SQLITE)
    if sqlstate := _sqlstate(cause):
        return sqlstate.startswith(_TRANSIENT_CLASSES)
    import psycopg

    if isinstance(cause, psycopg.OperationalError):
        return not _REFUSED_CONNECTION.search(str(cause))
    # A value that the driver refuses to send raises another kind of error.
    return isinstance(cause, PoolTimeout | OSError | psycopg.InterfaceError) and not isinstance(
        cause, PermissionError
    )


def is_refusal(error: BaseException | None) -> bool:
    """Return whether the database refuses the statement itself: a right or a column is missing."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return "no such column" in str(cause) or "has no column named" in str(cause)
    return _sqlstate(cause) in _REFUSALS


def lacks_tables(error: BaseException | None) -> bool:
    """Return whether a table, or the schema of all tables, is missing."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return "no such table" in str(cause)
    return _sqlstate(cause) in _MISSING_TABLES


def _cause(error: BaseException | None) -> BaseException | None:
    """Return the driver's own error."""
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    return cause.orig if isinstance(cause, DBAPIError) else cause


def _is_psycopg(error: BaseException | None) -> bool:
    psycopg = sys.modules.get("psycopg")  # it is not loaded for a SQLite file
    return psycopg is not None and isinstance(error, psycopg.Error)


def _sqlstate(cause: BaseException | None) -> str | None:
    """Return the code of an error that a Postgres server reported; None for other errors."""
    code: str | None = getattr(cause, "sqlstate", None)
    return code


def _sqlite_failure(error: sqlite3.Error, path: Path | None) -> str:
    message = str(error)
    for beginning, meaning in _SQLITE_MESSAGES.items():
        if message.lower().startswith(beginning):
            return meaning + (_why_unopened(path) if meaning == _UNOPENED and path else "")
    if "no such table" in message and path:
        return f"has no dcron tables ({message})"
    return f"failed: {message}"


def _why_unopened(path: Path) -> str:
    """Return why this process cannot open the file; SQLite does not say it."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        return f": this account may not read and write it{_owner(path)}"
    except OSError as error:
        return f": {(error.strerror or '').lower()}"
    return ": its directory must be writable, for the journal"


def _owner(path: Path) -> str:
    try:
        return f"; it belongs to {path.owner()}"
    except (OSError, KeyError):  # no permission to look, or an account without a name
        return ""


def _first_line(error: BaseException | None, address: Address) -> str:
    lines = address.redact(str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__
