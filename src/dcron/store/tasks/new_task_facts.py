"""Read what a new task depends on, in one statement: the tables' version, the time, the zone, the nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Text,
    and_,
    literal,
    literal_column,
    select,
    type_coerce,
)

from dcron.database import Database
from dcron.migrations import VERSION_TABLE
from dcron.model import Node, StoredSetting
from dcron.schema.tables import nodes as nodes_table
from dcron.schema.tables import settings as settings_table
from dcron.schema.types import Instant
from dcron.settings.registry import TIMEZONE
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import settings

_TABLES_VERSION = literal_column(f"(SELECT version_num FROM {VERSION_TABLE})", Text()).label("tables_version")


@dataclass(frozen=True)
class NewTaskFacts:
    """What the crontab is like before a task is added."""

    version: str
    """The version of the tables."""
    now: datetime
    """The time of the database's clock, in UTC."""
    timezone: StoredSetting | None
    """The setting for the zone of new tasks."""
    fleet: Sequence[Node]
    """The living nodes."""


def read(connection: Connection, database: Database) -> NewTaskFacts:
    """Read the facts. It fails if the tables are missing or have another version."""
    rows = connection.execute(_statement(database.time)).all()
    first = rows[0]
    return NewTaskFacts(
        version=first.tables_version,
        now=database.note_clock(first.now),
        timezone=settings.from_labelled(first),
        fleet=[nodes.from_labelled(row) for row in rows if row.node_id is not None],
    )


@lru_cache(maxsize=4)
def _statement(time: ColumnElement[datetime]) -> Executable:
    """Return a row for each living node, or one row without a node; each has the version, time and zone."""
    clock = select(type_coerce(time, Instant()).label("now")).subquery()
    alive = and_(nodes_table.c.died_at.is_(None), nodes_table.c.alive_until >= clock.c.now)
    columns = _TABLES_VERSION, clock.c.now, *settings.LABELLED, *nodes.LABELLED
    joined = clock.outerjoin(settings_table, settings_table.c.name == literal(TIMEZONE.name))
    return select(*columns).select_from(joined.outerjoin(nodes_table, alive)).order_by(nodes_table.c.id)
