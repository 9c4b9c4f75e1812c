"""Events, and the runs that they start."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, text, update

from dcron.database import Database, locked
from dcron.errors import UsageError
from dcron.model import Event, Task
from dcron.policy.starting import skip_reasons
from dcron.policy.starting.skip_reasons import paused_skip
from dcron.policy.validation import require_text
from dcron.schema.conditions import UNHANDLED
from dcron.schema.tables import crontab, events, runs, subscriptions
from dcron.store.runs import new_runs, skipping
from dcron.store.tasks import rows as tasks

COLUMNS = [events.c[name] for name in Event.__dataclass_fields__]


def add(
    connection: Connection,
    database: Database,
    now: datetime,
    actor: str,
    *,
    name: str,
    payload: str | None,
    key: str | None,
) -> Event | None:
    """Insert an event, not yet handled. Return None if the table has one of this name and key."""
    values = {"name": name, "payload": payload, "key": key, "created_at": now, "created_by": actor}
    query = database.insert_if_absent(events).values(values).returning(*COLUMNS)
    row = connection.execute(query).first()
    return Event(**row._mapping) if row else None


@dataclass(frozen=True)
class ReceivedEvent:
    """The parts of an event that its runs need. Plain SQL may insert events with any values."""

    id: int
    name: Any
    payload: Any


def unhandled(connection: Connection, limit: int) -> list[ReceivedEvent]:
    """Lock and return events whose runs are not inserted yet, the oldest first."""
    query = select(events.c.id, events.c.name, events.c.payload).where(text(UNHANDLED))
    found = connection.execute(locked(query.order_by(events.c.id).limit(limit)))
    return [ReceivedEvent(*row) for row in found]


def any_unhandled() -> ColumnElement[bool]:
    """Return the condition that `unhandled` would find an event."""
    return select(events.c.id).where(text(UNHANDLED)).exists()


def handle(
    connection: Connection, database: Database, event: Event | ReceivedEvent, now: datetime
) -> list[Task]:
    """Insert a run of each task that this event, locked by the caller, starts. Return these tasks."""
    problem = event.payload is not None and _problem("payload", event.payload)
    listeners = [] if _problem("name", event.name) else _listeners(connection, event.name)
    for task in listeners:
        values = new_runs.of_event(task, event.id, event.payload, now)
        if problem:
            skip = skip_reasons.payload_skip(event.id, problem)
            values |= {"payload": None, **skipping.columns(skip, now)}
        elif task.error:
            values |= skipping.columns(skip_reasons.suspended_skip(task.error), now)
        elif not task.enabled:
            values |= skipping.columns(paused_skip(task), now)
        connection.execute(database.insert_if_absent(runs).values(values))
    connection.execute(update(events).where(events.c.id == event.id).values(handled_at=now))
    return listeners


def _problem(field: str, value: Any) -> str | None:
    try:
        require_text(field, value)
    except UsageError as error:
        return str(error)
    return None


def _listeners(connection: Connection, name: str) -> list[Task]:
    query = (
        select(*tasks.COLUMNS)
        .join_from(subscriptions, crontab, crontab.c.id == subscriptions.c.task_id)
        .where(subscriptions.c.kind == "event", subscriptions.c.source == name)
        .order_by(crontab.c.id)
    )
    return [tasks.task_from(row) for row in connection.execute(query)]
