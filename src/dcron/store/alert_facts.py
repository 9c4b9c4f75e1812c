"""Read what a message about alerts says."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from dcron.model import Notification
from dcron.presentation.alert_message import MOST_IN_FULL, AlertItem
from dcron.store import alert_causes
from dcron.store.alerts import listing as alert_list


def read(connection: Connection, rows: Sequence[Notification], now: datetime) -> list[AlertItem]:
    """Return the notifications with their alerts. The number of statements is bounded."""
    ids = {row.alert_id for row in rows if row.alert_id is not None}
    found = alert_list.by_ids(connection, ids) if ids else []
    facts = alert_causes.read(connection, found, now, with_output=len(found) <= MOST_IN_FULL)
    by_id = {each.alert.id: each for each in facts}
    return [AlertItem(row, by_id.get(row.alert_id) if row.alert_id else None, now) for row in rows]
