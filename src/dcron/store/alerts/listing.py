"""List and acknowledge alerts. Others open and close them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select, text, update

from dcron.model import Alert
from dcron.policy.selectors import Selector
from dcron.schema.conditions import OPEN
from dcron.schema.tables import alerts
from dcron.store import selectors
from dcron.store.alerts.rows import COLUMNS
from dcron.values.lists import UnacknowledgedAlerts
from dcron.values.unreadable import Unreadable

MOST_COUNTED = 100_000
MOST_NAMED = 1_000
MOST_OPENED = 20_000
_PAGE = 500


def from_row(row: Any) -> Alert:
    """Return the alert of a row that has COLUMNS, and perhaps others."""
    values = {name: row._mapping[name] for name in Alert.__dataclass_fields__}
    if isinstance(values["facts"], Unreadable) or not isinstance(values["facts"], Mapping):
        values["facts"] = {}
    return Alert(**values)


def page(
    connection: Connection,
    *,
    closed: bool,
    before_id: int | None = None,
    limit: int = 100,
    selector: Selector | None = None,
) -> list[Alert]:
    """Return the open alerts, with `closed` also those that are closed, with ids below this, newest first.

    With a selector, only those of the tasks that it chooses.
    """
    query = select(*COLUMNS)
    if selector:
        query = query.where(selectors.condition(selector, alerts.c.task_id))
    if before_id is not None:
        query = query.where(alerts.c.id < before_id)
    if closed:
        query = query.order_by(alerts.c.id.desc())
    else:  # by id + 0: the database sorts the few open ones, instead of reading all in order
        query = query.where(text(OPEN)).order_by((alerts.c.id + 0).desc())
    return _read(connection, query.limit(limit))


def opened_since(connection: Connection, since: datetime) -> list[Alert]:
    """Return the alerts that were opened since this time, the newest first, up to MOST_OPENED."""
    found: list[Alert] = []
    before_id: int | None = None
    while len(found) < MOST_OPENED:
        some = page(connection, closed=True, before_id=before_id, limit=_PAGE)
        found += [alert for alert in some if alert.opened_at >= since]
        if len(some) < _PAGE or some[-1].opened_at < since:
            break
        before_id = some[-1].id
    return found


def of_tasks(connection: Connection, task_ids: Collection[int]) -> dict[int, list[Alert]]:
    """Return the open alerts of each of these tasks that has some, the oldest first."""
    query = select(*COLUMNS).where(text(OPEN), alerts.c.task_id.in_(task_ids)).order_by(alerts.c.id)
    found: dict[int, list[Alert]] = {}
    for alert in _read(connection, query):
        assert alert.task_id is not None
        found.setdefault(alert.task_id, []).append(alert)
    return found


def by_id(connection: Connection, alert_id: int) -> Alert | None:
    """Return this alert, open or closed."""
    return next(iter(by_ids(connection, [alert_id])), None)


def by_ids(connection: Connection, alert_ids: Collection[int]) -> list[Alert]:
    """Return these alerts, open or closed, the oldest first."""
    query = select(*COLUMNS).where(alerts.c.id.in_(alert_ids)).order_by(alerts.c.id)
    return _read(connection, query) if alert_ids else []


def open_of_subject(connection: Connection, subject: str, limit: int = 100) -> list[Alert]:
    """Return the open alerts of a subject such as `node:web-2`; there is at most one of each kind."""
    query = select(*COLUMNS).where(text(OPEN), alerts.c.subject == subject)
    return _read(connection, query.order_by(alerts.c.kind).limit(limit))


def is_unacknowledged(now: datetime) -> Any:
    """Return the condition that no person has acknowledged it, or only for a time that is over."""
    return or_(alerts.c.acknowledged_at.is_(None), alerts.c.silent_until <= now)


def count_unacknowledged(connection: Connection, now: datetime, selector: Selector | None = None) -> int:
    """Return how many open alerts are unacknowledged, up to MOST_COUNTED; with a selector, of its tasks."""
    chosen = [selectors.condition(selector, alerts.c.task_id)] if selector else []
    open_ones = select(alerts.c.id).where(text(OPEN), is_unacknowledged(now), *chosen)
    found = open_ones.limit(MOST_COUNTED).subquery()
    return connection.scalar(select(func.count()).select_from(found)) or 0


def unacknowledged(connection: Connection, now: datetime) -> UnacknowledgedAlerts | None:
    """Return the open alerts that are not acknowledged, in one statement; None without any."""
    found = select(*COLUMNS).where(text(OPEN), is_unacknowledged(now))
    newest = found.order_by((alerts.c.id + 0).desc()).limit(MOST_NAMED).subquery()
    query = select(*newest.c, func.count().over().label("number"))
    row = connection.execute(query.order_by(newest.c.id.desc()).limit(1)).first()
    return UnacknowledgedAlerts(row.number, from_row(row)) if row else None


def lock(connection: Connection, alert_ids: Collection[int]) -> list[Alert]:
    """Return those of these alerts that are open, and lock them, in the order in which all do."""
    query = select(*COLUMNS).where(alerts.c.id.in_(alert_ids), text(OPEN))
    return _read(connection, query.order_by(alerts.c.kind, alerts.c.subject).with_for_update())


def acknowledge(
    connection: Connection,
    found: Sequence[Alert],
    now: datetime,
    actor: str,
    note: str | None,
    silent_until: datetime | None,
) -> None:
    """Acknowledge these alerts: they cause no reminders, until a time if one is given."""
    values = {"acknowledged_by": actor, "acknowledged_at": now, "acknowledged_note": note}
    values |= {"silent_until": silent_until, "remind_at": silent_until}
    connection.execute(update(alerts).where(alerts.c.id.in_([each.id for each in found])).values(values))


def _read(connection: Connection, query: Select[Any]) -> list[Alert]:
    return [from_row(row) for row in connection.execute(query)]
