"""Alerts as rows, for tests of what shows them."""

from datetime import datetime
from typing import Any

from sqlalchemy import insert

from dcron.database import Database
from dcron.model import Task
from dcron.schema.tables import alerts


def alert_row(at: datetime, task: Task | None = None, kind: str = "failing", **values: Any) -> dict[str, Any]:
    """Return the row of an alert that was opened at this time, about a task or another subject."""
    about = {"subject": "cluster", "task_id": None, "task": None}
    if task:
        about = {"subject": f"task:{task.id}", "task_id": task.id, "task": task.name}  # type: ignore[dict-item]
    row = {"kind": kind, **about, "opened_at": at, "last_at": at, "run_id": None, "last_run_id": None}
    return {**row, "closed_at": None, **values}


def insert_alerts(database: Database, rows: list[dict[str, Any]]) -> list[int]:
    """Insert these rows, which all have the same columns; return their ids."""
    added = insert(alerts).returning(alerts.c.id, sort_by_parameter_order=True)
    with database.write() as connection:
        return list(connection.scalars(added, rows))


def insert_alert(database: Database, at: datetime, task: Task | None = None, **values: Any) -> int:
    """Insert an alert and return its id."""
    (alert_id,) = insert_alerts(database, [alert_row(at, task, **values)])
    return alert_id
