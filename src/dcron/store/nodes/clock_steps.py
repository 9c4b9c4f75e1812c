"""Repair the agenda after the database's clock was set back: plan again what was planned while it was ahead.

Rows that were written while it was ahead have times in the future.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, or_, select, text, union, update

from dcron.database import Database
from dcron.model import RunState, Trigger
from dcron.schema.conditions import ALIVE, FINISHED
from dcron.schema.tables import crontab, runs
from dcron.store.nodes import epochs

TOLERANCE = timedelta(seconds=5)
_SAME = timedelta(minutes=1)
"""If two agents notice within this time that the clock was set back, they noticed the same step."""
_MOST = 10_000
"""Most waiting runs that one transaction brings forward."""
_ON_DEMAND = (Trigger.MANUAL, Trigger.EVENT, Trigger.AFTER, Trigger.BACKFILL, Trigger.NODE, Trigger.REBOOT)


@dataclass(frozen=True)
class Repair:
    """What was repaired after the clock was set back."""

    tasks: int
    """How many tasks are planned again."""
    runs: int
    """How many retries and other waiting runs were brought forward."""
    ran_until: datetime | None
    """The last occurrence (UTC) that was started ahead of its time."""


def is_behind(connection: Connection, now: datetime) -> bool:
    """Return whether a run ended at a time in the future and no agent has repaired that yet."""
    last = _last_end(connection)
    if last is None or last <= now + TOLERANCE:
        return False
    latest = epochs.last(connection, "clock")
    repaired = latest and latest.after.get("ended_until")
    return not repaired or last > datetime.fromisoformat(repaired)


def _last_end(connection: Connection) -> datetime | None:
    ended = select(runs.c.finished_at).where(text(FINISHED))
    found: datetime | None = connection.scalar(ended.order_by(runs.c.finished_at.desc()).limit(1))
    return found


def repair(connection: Connection, database: Database, actor: str, now: datetime) -> Repair | None:
    """Plan again what was planned by a clock ahead of `now`. Return None if another agent has done so."""
    database.lock_ids(connection)
    latest = epochs.last(connection, "clock")
    if latest and now - _SAME < latest.at < now + _SAME:
        return None
    until = connection.scalar(_last_early(now))
    tasks = connection.execute(_mark_unplanned(now)).rowcount
    moved_runs = _bring_forward(connection, now)
    done = Repair(tasks, moved_runs, until)
    ended = _last_end(connection)
    after = {
        "ran_until": until and until.isoformat(),
        "ended_until": ended and ended.isoformat(),
        "tasks": tasks,
        "runs": moved_runs,
    }
    epochs.record(connection, now, actor, "clock", {}, after)
    return done


def ran_until(connection: Connection) -> datetime | None:
    """Return the last occurrence (UTC) that may have been started ahead of its time; None if none was."""
    latest = epochs.last(connection, "clock")
    until = latest and latest.after.get("ran_until")
    return datetime.fromisoformat(until) if until else None


def early_run(connection: Connection, task_id: int, occurrence: datetime, run_id: int) -> int | None:
    """Return another run than `run_id` that was started for this occurrence."""
    query = select(runs.c.id).where(runs.c.task_id == task_id, runs.c.scheduled_for == occurrence)
    started = query.where(runs.c.started_at.is_not(None), runs.c.id != run_id)
    for known in (text(FINISHED), text(ALIVE)):
        if found := connection.scalar(started.where(known).limit(1)):
            return int(found)
    return None


def settled_between(connection: Connection, task_id: int, after: datetime, before: datetime) -> set[datetime]:
    """Return the occurrences between these times that were started, or cancelled by a person."""
    between = (runs.c.task_id == task_id, runs.c.scheduled_for > after, runs.c.scheduled_for < before)
    query = select(runs.c.scheduled_for).where(*between)
    over = or_(runs.c.started_at.is_not(None), runs.c.state == RunState.CANCELLED)
    ended = query.where(text(FINISHED), over).limit(_MOST)
    return {*connection.scalars(ended), *connection.scalars(query.where(text(ALIVE)))}


def _in_future(now: datetime) -> tuple[Any, Any]:
    """Return the conditions of runs that ended, or were claimed, at a time in the future."""
    ended = runs.c.finished_at.is_not(None) & (runs.c.finished_at > now)
    return ended, text(ALIVE) & (runs.c.claimed_at > now)


def _last_early(now: datetime) -> Any:
    started = [
        select(runs.c.scheduled_for).where(each, runs.c.started_at.is_not(None)) for each in _in_future(now)
    ]
    early = union(*started).subquery()
    return select(func.max(early.c.scheduled_for)).where(early.c.scheduled_for > now)


def _mark_unplanned(now: datetime) -> Any:
    moved = union(
        *(select(runs.c.task_id).where(each) for each in _in_future(now)),
        select(crontab.c.id).where(crontab.c.changed_at > now),
    )
    return update(crontab).where(crontab.c.enabled, crontab.c.id.in_(moved)).values(planned_version=0)


def _bring_forward(connection: Connection, now: datetime) -> int:
    """Move waiting runs without an occurrence forward, so that each waits as long as it was meant to."""
    before = runs.alias("before")
    columns = (runs.c.id, runs.c.due_at, runs.c.expires_at)
    waits = text("runs.state = 'waiting'")
    retries = select(*columns, before.c.finished_at.label("since")).join_from(
        runs, before, runs.c.retry_of == before.c.id
    )
    on_demand = select(*columns, runs.c.due_at.label("since")).where(runs.c.trigger.in_(_ON_DEMAND))
    moved_runs = 0
    for query in (
        retries.where(waits, runs.c.trigger == Trigger.RETRY, before.c.finished_at > now),
        on_demand.where(waits, runs.c.scheduled_for > now),
    ):
        for row in connection.execute(query.limit(_MOST)).all():
            by = row.since - now
            expires = row.expires_at and row.expires_at - by
            values = {"due_at": row.due_at - by, "expires_at": expires}
            moved_runs += connection.execute(update(runs).where(runs.c.id == row.id).values(values)).rowcount
    return moved_runs
