"""The turn after a turn: brought in with the start of the one before, so that no line loses its next run."""

import json
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

from dcron import policy
from dcron.database import Columns, Database
from dcron.model import Block, RunState, Trigger
from dcron.schedule import tzdata_version
from dcron.schema import Instant, crontab, runs
from dcron.store.candidates import ClaimedRun


def add(
    connection: Connection, database: Database, turns: Sequence[ClaimedRun], now: datetime, *, running: bool
) -> None:
    """Insert the next turn of each line that is still as it was claimed; an edited line is planned anew."""
    following = [turn for run in turns if (turn := _following(run, now, running=running))]
    if not following:
        return
    given = database.values(_TURNS, ([turn[name] for name in _TURNS.kinds] for turn in following))
    insert = _insert(database.insert_if_absent(runs), database.rows(_TURNS))
    connection.execute(insert, given | {"made_with": tzdata_version()})


_TURNS = Columns(
    task_id=BigInteger(),
    version=Integer(),
    task=Text(),
    spec=Text(),
    lane=Text(),
    queue=Text(),
    blocked=Text(),
    scheduled_for=Instant(),
    due_at=Instant(),
    expires_at=Instant(),
    backlog_until=Instant(),
)


@cache
def _insert(insert: Insert, batch: FromClause) -> Executable:
    unchanged = (crontab.c.id == batch.c.task_id) & (crontab.c.version == batch.c.version) & crontab.c.enabled
    names = [name for name in _TURNS.kinds if name != "version"]
    turns_of = select(
        *(batch.c[name] for name in names),
        literal(Trigger.SCHEDULE.value),
        literal(RunState.WAITING.value),
        bindparam("made_with", type_=Text()),
    ).join_from(batch, crontab, unchanged)
    columns = [*names, "trigger", "state", "tzdata"]
    return insert.from_select(columns, turns_of)


def _following(run: ClaimedRun, now: datetime, *, running: bool) -> dict[str, Any] | None:
    """The turn after this one, or None. One that counts from this one's end waits for that."""
    task, scheduled_for, blocked = run.task, run.successor, None
    if run.delay:
        scheduled_for, blocked = now + run.delay, Block.DELAY.value if running else None
    if scheduled_for is None:
        return None
    due_at = policy.due_at(task, scheduled_for)
    until = run.backlog_until
    return {
        "task_id": task.id,
        "version": task.version,
        "task": task.name,
        "spec": json.dumps(task.spec(), ensure_ascii=False, separators=(",", ":")),
        "lane": str(policy.lane_of(task)),
        "queue": task.queue,
        "blocked": blocked,
        "scheduled_for": scheduled_for,
        "due_at": due_at,
        "expires_at": policy.too_late_after(task, due_at),
        "backlog_until": until if until and scheduled_for <= until else None,
    }
