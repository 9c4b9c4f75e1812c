"""A Postgres server: what keeps it from staying quick, or from keeping its promises."""

from collections.abc import Iterator

from dcron.database import Protection, ServerCondition
from dcron.policy.conditions.database import is_old_transaction
from dcron.presentation import humanize
from dcron.services.doctor.finding import Finding, named

_DEAD_SHARE = 0.2
_FEWEST_DEAD = 20_000
_FULL = 0.8
_OLDEST_ID = 1_000_000_000
"""Half of what the server endures."""


def examine(server: ServerCondition, oldest_transaction: float) -> Iterator[Finding]:
    """Yield what is wrong with the server; `oldest_transaction` is an age in seconds."""
    if server.is_standby:
        yield Finding(
            "standby",
            "this server is a standby",
            "it accepts no changes, so no agent that uses it can work",
            "give the URL of the primary server, or of both: ?target_session_attrs=read-write",
        )
    if not server.is_durable:
        yield Finding(
            "durability",
            "the server runs with fsync or full_page_writes off",
            "after a power cut, runs that were started can start again, and the database can be damaged",
            "set fsync = on and full_page_writes = on in postgresql.conf",
        )
    if is_old_transaction(oldest_transaction):
        yield Finding(
            "old-transaction",
            f"a transaction has been open for {humanize.span(oldest_transaction)}",
            "Postgres cannot clean up behind it, and claims become slower",
            "find it: SELECT pid, usename, query FROM pg_stat_activity ORDER BY xact_start LIMIT 1",
        )
    yield from _vacuum(server)
    if server.connections > _FULL * server.most_connections:
        yield Finding(
            "connections",
            f"{server.connections} of {server.most_connections} connections are in use",
            "when none is left, agents cannot renew their leases, and lose their runs",
            "raise max_connections, or put a pooler in front",
        )
    if server.oldest_id > _OLDEST_ID:
        yield Finding(
            "wraparound",
            f"the oldest transaction id is {server.oldest_id:,} transactions old",
            "at about two billion the server accepts no changes",
            "end old transactions and replication slots, then VACUUM FREEZE",
        )


def _vacuum(server: ServerCondition) -> Iterator[Finding]:
    if not server.autovacuum:
        yield Finding(
            "autovacuum",
            "autovacuum is off",
            "tables and indexes grow without end, and claims become slower",
            "set autovacuum = on in postgresql.conf",
        )
        return
    bloated = [
        each for each in server.tables if each.dead > max(_FEWEST_DEAD, _DEAD_SHARE * (each.live + each.dead))
    ]
    if bloated:
        names = [each.name for each in bloated]
        yield Finding(
            "autovacuum",
            f"more than a fifth of these tables is dead rows: {named(names)}",
            "claims become slower",
            "look for an old transaction; then VACUUM ANALYZE " + names[0],
            names,
        )


def unsuitable(problem: str) -> Finding:
    """Return the finding for a server on which dcron cannot keep its promises."""
    return Finding(
        "not-postgres",
        f"the server {problem}",
        "a run can start twice, or limits can be exceeded",
        "move the crontab: `dcron dump` here, `dcron restore` there",
    )


def pooled() -> Finding:
    """Return the finding for a pooler of which the URL says nothing."""
    return Finding(
        "pooler",
        "the database is behind a connection pooler (PgBouncer or the like)",
        "dcron keeps nothing in sessions, looks every second instead of listening, and plans each statement",
        "give agents a direct address; or say in the URL what the pool does: ?pooler=transaction is as it is"
        " now; ?pooler=session is faster, but right only if the pool keeps a session for each client",
    )


def unsafe_connection(protection: Protection) -> Iterator[Finding]:
    """Yield what is unsafe about the connection."""
    if not protection.is_local and not protection.is_verified:
        yield Finding(
            "unverified-server",
            "the identity of the server is not verified",
            "another machine that answers in its place gets the password and can run commands on every node",
            "leave out sslmode, or write ?sslmode=verify-full",
        )
    if protection.distrusted:
        yield Finding(
            "open-schema",
            f"in schema {protection.schema}, the role {protection.distrusted}",
            "it can so run code with the rights of the schema's users",
            f"as its owner, REVOKE CREATE ON SCHEMA {protection.schema} FROM it, and drop what it made",
        )
