"""Notifications: what is to be sent by channels, written in the transaction of what they are about."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert

from dcron.model import Notification, NotificationKind
from dcron.schema import notifications

COLUMNS = [notifications.c[name] for name in Notification.__dataclass_fields__]


def add(
    connection: Connection,
    channels: Iterable[str],
    kind: NotificationKind,
    now: datetime,
    *,
    alert_id: int | None = None,
    run_id: int | None = None,
    task_id: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Insert a notification for each channel. It is due now."""
    about = {"kind": kind, "alert_id": alert_id, "run_id": run_id, "task_id": task_id}
    times = {"created_at": now, "due_at": now}
    rows = [{"channel": name, **about, **times, "facts": dict(facts or {})} for name in channels]
    if rows:
        connection.execute(insert(notifications), rows)


def from_row(row: Row[Any]) -> Notification:
    """Return the notification of a row that has COLUMNS."""
    return Notification(**row._mapping)
