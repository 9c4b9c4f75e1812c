"""Epochs of the database: in each epoch, the ids of runs are above all ids issued before it.

A database that went back in time (a failover that lost commits, a restored backup) would issue ids again. The
node that notices this declares a new epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    FromClause,
    Row,
    bindparam,
    select,
    text,
    union_all,
    update,
)

from dcron.database import Columns, Database
from dcron.model import RunState
from dcron.schema.conditions import ALIVE, INCIDENT, WAITING
from dcron.schema.tables import changes, runs
from dcron.store import audit_log
from dcron.store.audit_log import Author

GAP = 10_000
"""Ids skipped at each epoch: other agents may have seen them issued. As many are checked before it."""
_AT_ONCE = 1_000


@dataclass(frozen=True)
class Epoch:
    """A new start of the ids."""

    reason: str
    before: int
    """The highest id that the database had issued when the epoch was declared."""
    beyond: int
    """Ids of the new epoch are above this."""
    renumbered: int
    """Waiting runs that got ids of the new epoch."""


def declare(
    connection: Connection,
    database: Database,
    actor: str,
    now: datetime,
    *,
    seen: int,
    timeline: str | None,
    reason: str,
) -> Epoch | None:
    """Move the ids beyond all that were `seen`. Return None if another agent has done so.

    In the history that the database lost, a run may have been started under the id of a run that waits now:
    the same run if it is due or claimed, another one if it is new. Such runs get ids of the new epoch.
    """
    database.lock_ids(connection)
    before = database.issued_ids(connection)
    if _is_declared(connection, before, seen, timeline):
        return None
    beyond = max(before, seen) + GAP
    # An epoch that was rolled back has moved Postgres's ids all the same: count back from what was seen, too.
    recent = min(before, seen) - GAP
    doubtful = list(connection.scalars(_doubtful(), {"now": now, "recent": recent}))
    database.advance_ids(connection, beyond + len(doubtful))
    fresh = list(enumerate(doubtful, beyond + 1))
    for page in (fresh[start : start + _AT_ONCE] for start in range(0, len(fresh), _AT_ONCE)):
        given = database.values(_RENUMBERED, ((old, new) for new, old in page))
        connection.execute(_renumber(database.rows(_RENUMBERED)), given)
    epoch = Epoch(reason, before, beyond, len(doubtful))
    after = {"reason": reason, "ids": beyond, "renumbered": epoch.renumbered, "timeline": timeline}
    record(connection, now, actor, "epoch", {"ids": before, "seen": seen}, after)
    return epoch


def _is_declared(connection: Connection, issued: int, seen: int, timeline: str | None) -> bool:
    """Return whether another agent has declared it: an epoch that far ahead is unknown here.

    Its record decides. The ids alone do not: on Postgres they stay ahead if the epoch was rolled back.
    """
    latest = last(connection, "epoch")
    if issued < seen or latest is None:
        return False
    is_ahead = latest.after.get("ids", 0) >= seen + GAP
    return is_ahead or (timeline is not None and latest.after.get("timeline") == timeline)


def _doubtful() -> Executable:
    since = (runs.c.due_at <= bindparam("now")) | (runs.c.id > bindparam("recent"))
    waiting = select(runs.c.id).where(text(WAITING), since)
    claimed = select(runs.c.id).where(text(ALIVE), runs.c.state == RunState.CLAIMED)
    return union_all(waiting, claimed).order_by("id")


_RENUMBERED = Columns(id=BigInteger(), fresh=BigInteger())


@cache
def _renumber(batch: FromClause) -> Executable:
    states = [RunState.WAITING, RunState.CLAIMED]
    waits = {"state": RunState.WAITING, "owner": None, "claimed_at": None}
    query = update(runs).where(runs.c.id == batch.c.id, runs.c.state.in_(states))
    return query.values({"id": batch.c.fresh, **waits})


def record(
    connection: Connection,
    now: datetime,
    actor: str,
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Record an incident of the database in the audit log: an `epoch`, a step of its `clock`, an `outage`."""
    author = Author(actor, "agent")
    audit_log.record_database(connection, now, author, action, before, after)


def last(connection: Connection, action: str) -> Row[Any] | None:
    """Return the latest incident of this kind."""
    query = select(changes).where(text(INCIDENT), changes.c.action == action)
    return connection.execute(query.order_by(changes.c.id.desc()).limit(1)).first()
