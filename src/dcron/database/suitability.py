"""Check that a server is Postgres, new enough, and that its locks work: the promises depend on them.

Several products answer Postgres's protocol. Some have advisory locks that accept every call and lock nothing.
"""

import re
import secrets

from sqlalchemy import Connection, text

OLDEST = 13
"""The oldest version of Postgres that has what dcron uses."""
_VERSION = text("SELECT version()")
_LOCK = text("SELECT pg_try_advisory_xact_lock(:key)")
# Others that were made from Postgres add a name of their own to the number, such as 11.2-YB-2.19.
_POSTGRES = re.compile(r"PostgreSQL (\d+)[\w.]*(?: |$)")
_INSTEAD = f"use PostgreSQL {OLDEST} or later"


def version_problem(connection: Connection) -> str | None:
    """Return why dcron cannot use a server of this version; None if it can."""
    said = str(connection.scalar(_VERSION))
    found = _POSTGRES.match(said)
    if not found:
        product = said.partition(" on ")[0].partition("(")[0].strip()
        return f"is {product}, not PostgreSQL, and dcron relies on PostgreSQL's locks: {_INSTEAD}"
    if int(found[1]) < OLDEST:
        return f"is PostgreSQL {found[1]}, which lacks what dcron uses: {_INSTEAD}"
    return None


def lock_problem(first: Connection, second: Connection) -> str | None:
    """Return what is wrong with the server's locks, tried in these two transactions; None if they work."""
    key = {"key": secrets.randbits(62)}
    if first.scalar(_LOCK, key) and not second.scalar(_LOCK, key):
        return None
    return f"has advisory locks that do not work, and dcron relies on them: {_INSTEAD}"
