"""Insert the next scheduled run with the start of the previous one, so that no task loses its next run."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    FromClause,
    Insert,
    Integer,
    Text,
    bindparam,
    literal,
    select,
)

from dcron.database import Columns, Database
from dcron.model import RunState, Trigger
from dcron.schedule.zones import tzdata_version
from dcron.schema.tables import crontab, runs
from dcron.schema.types import Instant
from dcron.store.runs import new_runs
from dcron.store.runs.candidates import ClaimedRun


def add(
    connection: Connection, database: Database, claimed: Sequence[ClaimedRun], now: datetime, *, running: bool
) -> None:
    """Insert the next scheduled run of each task that was not edited since the claim.

    An edited task is planned again instead. `running` says whether the claimed runs start now.
    """
    following = [row for run in claimed if (row := _row(run, now, running=running))]
    if following:
        insert = _insert(database.insert_if_absent(runs), database.rows(_NEXT_RUNS))
        given = database.values(_NEXT_RUNS, following) | {"tzdata": tzdata_version()}
        database.send(connection, insert, given)


def _row(run: ClaimedRun, now: datetime, *, running: bool) -> list[Any] | None:
    values = new_runs.after_claimed(run, now, running=running)
    if values is None:
        return None
    values["version"] = run.task.version
    return [values[name] for name in _NEXT_RUNS.kinds]


_NEXT_RUNS = Columns(
    task_id=BigInteger(),
    version=Integer(),
    # An object within the batch: the database takes its text out as it is.
    spec=Text(),
    lane=Text(),
    blocked=Text(),
    scheduled_for=Instant(),
    due_at=Instant(),
    expires_at=Instant(),
    backlog_until=Instant(),
)


@cache
def _insert(insert: Insert, batch: FromClause) -> Executable:
    unchanged = (crontab.c.id == batch.c.task_id) & (crontab.c.version == batch.c.version) & crontab.c.enabled
    given = {name: batch.c[name] for name in _NEXT_RUNS.kinds if name != "version"}
    # What all rows or the database have is not sent for each row.
    alike = {
        "trigger": literal(Trigger.SCHEDULE.value),
        "state": literal(RunState.WAITING.value),
        "tzdata": bindparam("tzdata"),
        "task": crontab.c.name,
        "queue": crontab.c.queue,
    }
    columns = given | alike
    rows = select(*columns.values()).join_from(batch, crontab, unchanged)
    return insert.from_select([*columns], rows)
