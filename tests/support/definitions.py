"""Task definitions for tests of policies."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dcron.model import Definition, Task

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


def definition(schedule: str = "*/10 * * * *", name: str = "backup", **fields: Any) -> Definition:
    """Return the definition of a task."""
    return Definition(**{"name": name, "schedule": schedule, "timezone": "UTC", "command": "true", **fields})


def task(schedule: str = "*/10 * * * *", *, enabled: bool = True, **fields: Any) -> Task:
    """Return a task of the crontab."""
    known: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    return Task(**{**known, **vars(definition(schedule, **fields)), "enabled": enabled})


def minutes(number: float) -> datetime:
    """Return the time this many minutes after noon."""
    return NOON + timedelta(minutes=number)
