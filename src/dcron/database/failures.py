"""Translate a driver's error for people, and decide whether to try again."""

import os
import re
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dcron.database.url import Address
from dcron.errors import DatabaseError

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
_TRANSIENT_CLASSES = ("08", "25P03", "25006", "40", "53", "55P03", "57", "58")
# If a server refuses a connection, the driver passes on no SQLSTATE. Any refusal not listed here, such as
# "too many clients already" or "the database system is starting up", is temporary.
_REFUSED_CONNECTION = re.compile(
    r"authentication failed|no password supplied|permission denied|no pg_hba\.conf entry"
    r"|(?:role|user|database) \"[^\"]*\" does not exist|is not permitted to log in"
    r"|certificate|does not support SSL|authentication method requirement"
    r"|(?:invalid|bad value for) .*(?:option|value|port)|cannot be used as"
)
_UNPROTECTED = re.compile(r"certificate|does not support SSL|authentication method requirement")
_PROTECTED = (
    "; dcron gives its password only to a server that proves who it is: name the authority that signed its"
    " certificate with ?sslrootcert=FILE, or ask for less with ?sslmode=require or ?require_auth=md5"
    " (docs/security.md)"
)
_MISSING_TABLES = ("42P01", "3F000")
_NOT_PERMITTED = "42501"
_REFUSALS = (_NOT_PERMITTED, "42703")


def database_error(error: BaseException, address: Address) -> DatabaseError:
    """Return a DatabaseError whose message says what a person can do."""
    if isinstance(error, PoolTimeout):
        return DatabaseError(f"the database {address} gave no free connection in time")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return DatabaseError(f"the database {address.path} {_sqlite_failure(cause, address.path)}")
    message = _first_line(cause, address)
    sqlstate = _sqlstate(cause)
    if sqlstate == _NOT_PERMITTED:
        return DatabaseError(f"the database {address} does not allow this: {message}")
    if sqlstate:
        return DatabaseError(f"the database {address} refused: {message} ({sqlstate})")
    import psycopg

    if isinstance(cause, psycopg.OperationalError | OSError):
        hint = _PROTECTED if _UNPROTECTED.search(message) else ""
        return DatabaseError(f"cannot reach the database {address}: {message}{hint}")
    return DatabaseError(f"the database {address} failed: {message}")


def is_transient(error: BaseException | None) -> bool:
    """Return whether the same call may succeed later, without a change of rights, names or settings."""
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
