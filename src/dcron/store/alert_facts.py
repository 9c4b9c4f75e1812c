"""Read what a message about alerts says."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from dcron.model import Alert, Notification
from dcron.presentation.alert_message import AlertItem
from dcron.schema import alerts

COLUMNS = [alerts.c[name] for name in Alert.__dataclass_fields__]


def read(connection: Connection, rows: Sequence[Notification], now: datetime) -> list[AlertItem]:
    """Return the notifications with their alerts."""
    ids = {row.alert_id for row in rows if row.alert_id is not None}
    query = select(*COLUMNS).where(alerts.c.id.in_(ids))
    found = {row.id: Alert(**row._mapping) for row in connection.execute(query)} if ids else {}
    return [AlertItem(row, found.get(row.alert_id) if row.alert_id else None) for row in rows]
