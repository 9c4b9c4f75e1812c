"""A SQLite file: where it is and who can change it. A Postgres server: what keeps it from its promises."""

from collections.abc import Iterator

from dcron.database import FileCondition, Protection, ServerCondition
from dcron.policy.conditions.database import is_disk_low, is_old_transaction
from dcron.presentation.doctor import Finding

_DEAD_SHARE = 0.2
_FEWEST_DEAD = 20_000
_FULL = 0.8
_OLDEST_ID = 1_000_000_000
"""Half of what the server endures."""


def examine_file(file: FileCondition) -> Iterator[Finding]:
    """Yield what is wrong with a SQLite file."""
    path = [str(file.path)]
    if file.journal == "wal" and not file.wal_is_safe:
        yield Finding("journal", path, library=file.library)
    if file.is_networked:
        yield Finding("network-fs", path, file_system=file.file_system)
    if file.others:
        yield Finding("file-mode", path, others=file.others)
    if is_disk_low(file.free, file.size):
        yield Finding("disk", path, free=file.free, size=file.size)


def examine_server(server: ServerCondition, oldest_transaction: float) -> Iterator[Finding]:
    """Yield what is wrong with a Postgres server; `oldest_transaction` is an age in seconds."""
    if server.is_standby:
        yield Finding("standby")
    if not server.is_durable:
        yield Finding("durability")
    if is_old_transaction(oldest_transaction):
        yield Finding("old-transaction", seconds=oldest_transaction)
    bloated = [
        each.name
        for each in server.tables
        if each.dead > max(_FEWEST_DEAD, _DEAD_SHARE * (each.live + each.dead))
    ]
    if not server.autovacuum:
        yield Finding("autovacuum")
    elif bloated:
        yield Finding("autovacuum", bloated, form="bloated")
    if server.connections > _FULL * server.most_connections:
        yield Finding("connections", used=server.connections, most=server.most_connections)
    if server.oldest_id > _OLDEST_ID:
        yield Finding("wraparound", age=server.oldest_id)


def unsafe_connection(protection: Protection) -> Iterator[Finding]:
    """Yield what is unsafe about the connection to a server."""
    if not protection.is_local and not protection.is_verified:
        yield Finding("unverified-server")
    if protection.distrusted:
        yield Finding("open-schema", schema=protection.schema, distrusted=protection.distrusted)
