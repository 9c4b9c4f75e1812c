"""The tables of the shared crontab, as queries name them; migrations make them."""

from dcron.schema.conditions import (
    ALIVE,
    BLOCKED,
    DEAD,
    DUE,
    EXPIRING,
    FINAL,
    INCIDENT,
    LIMITED,
    NEXT,
    ONCE,
    REBOOT,
    UNHANDLED,
    UNPLANNED,
    UNSUCCESSFUL,
)
from dcron.schema.tables import (
    calendars,
    changes,
    crontab,
    events,
    metadata,
    nodes,
    output,
    queues,
    runs,
    settings,
    subscriptions,
)
from dcron.schema.types import Instant

SCHEMA_VERSION = "0010"
"""The newest migration this program knows; a test holds it against the migrations themselves."""

__all__ = [
    "ALIVE",
    "BLOCKED",
    "DEAD",
    "DUE",
    "EXPIRING",
    "FINAL",
    "INCIDENT",
    "LIMITED",
    "NEXT",
    "ONCE",
    "REBOOT",
    "SCHEMA_VERSION",
    "UNHANDLED",
    "UNPLANNED",
    "UNSUCCESSFUL",
    "Instant",
    "calendars",
    "changes",
    "crontab",
    "events",
    "metadata",
    "nodes",
    "output",
    "queues",
    "runs",
    "settings",
    "subscriptions",
]
