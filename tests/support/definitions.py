"""Definitions, tasks and nodes as values."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dcron.model import Definition, Node, Task

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


def definition(schedule: str = "*/10 * * * *", name: str = "backup", **fields: Any) -> Definition:
    """Return the definition of a task."""
    return Definition(**{"name": name, "schedule": schedule, "timezone": "UTC", "command": "true", **fields})


def task(schedule: str = "*/10 * * * *", *, enabled: bool = True, **fields: Any) -> Task:
    """Return a task of the crontab."""
    known: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    return Task(**{**known, **vars(definition(schedule, **fields)), "enabled": enabled})


def node_row(name: str = "web-1", started_at: datetime = NOON, alive_for: float = 60.0, **facts: Any) -> Node:
    """Return a node that has just started, with a lease that ends in `alive_for` seconds."""
    values: dict[str, Any] = {"id": f"{name}-00000000", "name": name, "host": name, "pid": 1, "slots": 8}
    values |= {"version": "0", "tzdata": "2027a", "draining": False, "clock_offset": None}
    values |= {"started_at": started_at, "alive_until": started_at + timedelta(seconds=alive_for)}
    values |= {"died_at": None, "died_how": None}
    return Node(**{**values, **facts})


def minutes(number: float) -> datetime:
    """Return the time this many minutes after noon."""
    return NOON + timedelta(minutes=number)
