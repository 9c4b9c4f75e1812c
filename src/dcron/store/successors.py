"""Insert the next scheduled run with the start of the previous one, so that no task loses its next run."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Insert,
    Integer,
    Text,
    bindparam,
    select,
)

from dcron.database import Columns, Database
from dcron.schema import Instant, crontab, runs
from dcron.store import new_runs
from dcron.store.candidates import ClaimedRun


def add(
    connection: Connection, database: Database, claimed: Sequence[ClaimedRun], now: datetime, *, running: bool
) -> None:
    """Insert the next scheduled run of each task that was not edited since the claim.

    An edited task is planned again instead. `running` says whether the claimed runs start now.
    """
    following = [values for run in claimed if (values := _values(run, now, running=running))]
    if following:
        insert = _insert(database.insert_if_absent(runs), database.rows(_NEXT_RUNS))
        rows = ([values[name] for name in _NEXT_RUNS.kinds] for values in following)
        given = database.values(_NEXT_RUNS, rows) | {name: following[0][name] for name in _SAME}
        database.send(connection, insert, given)


def _values(run: ClaimedRun, now: datetime, *, running: bool) -> new_runs.Values | None:
    values = new_runs.after_claimed(run, now, running=running)
    return values and values | {"version": run.task.version}


_SAME = ("trigger", "state", "tzdata")
"""What all the rows have in common. It costs less as parameters of the statement."""
_OF_TASK = {"task": crontab.c.name, "queue": crontab.c.queue}
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
    values: dict[str, ColumnElement[Any]] = {name: bindparam(name, type_=Text()) for name in _SAME}
    values |= _OF_TASK | {name: batch.c[name] for name in _NEXT_RUNS.kinds if name != "version"}
    return insert.from_select(list(values), select(*values.values()).join_from(batch, crontab, unchanged))
