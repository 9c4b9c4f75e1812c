"""Tasks whose commands go on while their node is cut off."""

from sqlalchemy import Connection, select

from dcron.policy.starting import disconnect
from dcron.schema.tables import crontab
from dcron.settings.registry import KEEP_RUNNING, ON_DISCONNECT
from dcron.store.tasks import settings


def names(connection: Connection, most: int) -> list[str]:
    """Return the names of those that are not paused, of at most so many tasks."""
    given = settings.of_name(connection, ON_DISCONNECT.name)
    query = select(crontab.c.name, crontab.c.on_disconnect, crontab.c.labels).where(crontab.c.enabled)
    if not given:
        query = query.where(crontab.c.on_disconnect == KEEP_RUNNING)
    rows = connection.execute(query.order_by(crontab.c.name).limit(most))
    return [row.name for row in rows if disconnect.keeps(row, given)]  # type: ignore[arg-type]
