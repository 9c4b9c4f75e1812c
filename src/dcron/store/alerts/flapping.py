"""Alerts that are opened again and again: the alert `flapping` stands for their messages."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, text, update

from dcron.model import AlertKind, ClosedAs
from dcron.policy.conditions.rules import Rules, is_flapping
from dcron.schema.conditions import OPEN
from dcron.schema.tables import alerts
from dcron.store.alerts import notifications


def find(connection: Connection, opened: Sequence[Row[Any]], window: float, now: datetime) -> dict[int, int]:
    """Return which of these alerts, which were just opened, are some of many within `window` seconds.

    By id: how often one of its kind was opened.
    """
    task_ids = {row.task_id for row in opened if row.task_id is not None and row.kind != AlertKind.FLAPPING}
    if not task_ids:
        return {}
    has_recovered = or_(alerts.c.closed_as.is_(None), alerts.c.closed_as == ClosedAs.RECOVERED)
    lately = (alerts.c.opened_at > now - timedelta(seconds=window), text("closed_at IS NOT NULL"))
    of_tasks = select(alerts.c.task_id, alerts.c.kind).where(alerts.c.task_id.in_(task_ids))
    query = of_tasks.add_columns(func.count().label("number")).where(*lately, has_recovered)
    before = Counter[tuple[int, str]]()
    for row in connection.execute(query.group_by(alerts.c.task_id, alerts.c.kind)):
        before[row.task_id, row.kind] = row.number
    flapping = _open_ones(connection, task_ids)
    return {
        row.id: number
        for row in opened
        if row.task_id in task_ids
        and is_flapping(row.kind, number := before[row.task_id, row.kind] + 1, flapping.get(row.task_id))
    }


def _open_ones(connection: Connection, task_ids: Collection[int]) -> dict[int, str]:
    """Return which kind of alert flaps, by task."""
    is_open = (text(OPEN), alerts.c.task_id.in_(task_ids), alerts.c.kind == AlertKind.FLAPPING)
    rows = connection.execute(select(alerts.c.task_id, alerts.c.facts).where(*is_open))
    return {row.task_id: str(row.facts.get("kind")) for row in rows if isinstance(row.facts, Mapping)}


def mute(connection: Connection, alert_ids: Collection[int]) -> None:
    """Note that no message was written about these alerts."""
    muted = update(alerts).where(alerts.c.id.in_(alert_ids))
    connection.execute(muted.values(notified_at=None, remind_at=None))


def unmute(connection: Connection, rules: Mapping[int, Rules], now: datetime) -> None:
    """Write messages about the muted alerts of these tasks that are still open. `rules` are by task."""
    still_open = (text(OPEN), alerts.c.task_id.in_(rules), alerts.c.notified_at.is_(None))
    query = select(alerts.c.id, alerts.c.kind, alerts.c.task_id, alerts.c.run_id, alerts.c.facts)
    for row in connection.execute(query.where(*still_open).order_by(alerts.c.kind, alerts.c.subject)).all():
        of_task = rules[row.task_id]
        if channels := of_task.channels_for(row.kind, row.facts):
            about = {"alert_id": row.id, "run_id": row.run_id, "task_id": row.task_id}
            notifications.add(connection, notifications.for_channels(channels, "opened", now, **about))
            noted = update(alerts).where(alerts.c.id == row.id)
            connection.execute(noted.values(notified_at=now, remind_at=of_task.remind_at(now)))
