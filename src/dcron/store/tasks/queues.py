"""Read and write queues: limits that tasks share, over all nodes."""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Connection, Executable, FromClause, Text, and_, func, select, text

from dcron.database import Columns, Database
from dcron.model import Queue
from dcron.schema.conditions import ALIVE, LIMITED
from dcron.schema.tables import queues, runs
from dcron.store import upsert


def send_room(
    connection: Connection, database: Database, names: Collection[str]
) -> Callable[[], dict[str, int]]:
    """Lock the limits of these queues. Return a function for how many more runs each of them may start.

    Queues without a limit are left out. The limits stay locked until the transaction ends, so that no other
    transaction counts at the same time.
    """
    given = database.values(_NAMES, ([name] for name in sorted(names)))
    batch = database.rows(_NAMES)
    limits = database.send(connection, _limited(batch), given)
    # A statement of its own, after the lock: it sees what the previous holder of the lock has committed.
    alive = database.send(connection, _alive_of_limited(batch), given)

    def room() -> dict[str, int]:
        taken = {row.queue: row.alive for row in alive.rows()}
        return {row.name: max(0, row.max_running - taken.get(row.name, 0)) for row in limits.rows()}

    return room


_NAMES = Columns(name=Text())


@cache
def _limited(batch: FromClause) -> Executable:
    limited = select(queues.c.name, queues.c.max_running).where(_is_limited(batch))
    return limited.order_by(queues.c.name).with_for_update(key_share=True)


@cache
def _alive_of_limited(batch: FromClause) -> Executable:
    limited = select(queues.c.name).where(_is_limited(batch))
    alive = select(runs.c.queue, func.count().label("alive")).where(text(ALIVE), runs.c.queue.in_(limited))
    return alive.group_by(runs.c.queue)


def _is_limited(batch: FromClause) -> ColumnElement[bool]:
    return and_(queues.c.name.in_(select(batch.c.name)), text(LIMITED))


def is_full(connection: Connection, name: str) -> bool:
    """Return whether the queue may start no more runs now. It takes no lock, so that may change at once."""
    limit = connection.scalar(select(queues.c.max_running).where(queues.c.name == name))
    return limit is not None and _alive(connection, [name]).get(name, 0) >= limit


def put(connection: Connection, name: str, max_running: int | None, now: datetime, actor: str) -> None:
    """Set the queue's limit; None removes it."""
    values = {"max_running": max_running, "changed_at": now, "changed_by": actor}
    upsert.put(connection, queues, name, values)


def limits(connection: Connection) -> dict[str, int | None]:
    """Return the limit of each queue that has one or had one, by name."""
    return {row.name: row.max_running for row in connection.execute(select(queues).order_by(queues.c.name))}


def listing(connection: Connection) -> list[Queue]:
    """Return the queues that have a limit or live runs, in the order of names."""
    known = limits(connection)
    alive = _alive(connection, None)
    names = sorted({*known, *alive})
    return [Queue(name=name, max_running=known.get(name), alive=alive.get(name, 0)) for name in names]


def _alive(connection: Connection, names: Collection[str] | None) -> dict[str, int]:
    query = select(runs.c.queue, func.count().label("alive")).where(text(ALIVE)).group_by(runs.c.queue)
    if names is not None:
        query = query.where(runs.c.queue.in_(sorted(names)))
    return {row.queue: row.alive for row in connection.execute(query)}
