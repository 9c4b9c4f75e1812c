"""A clock of the database that was set back: what was planned while it was ahead is planned anew.

Rows that were written then bear times that are still to come.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, or_, select, text, union, update

from dcron.database import Database
from dcron.model import RunState, Trigger
from dcron.schema import ALIVE, crontab, runs
from dcron.store import epochs

TOLERANCE = timedelta(seconds=5)
_SAME = timedelta(minutes=1)
"""Two agents that see a clock set back within this time see the same."""
_MOST = 10_000
"""Waiting runs brought forward at once."""
_ON_DEMAND = (Trigger.MANUAL, Trigger.EVENT, Trigger.AFTER, Trigger.BACKFILL, Trigger.NODE, Trigger.REBOOT)


@dataclass(frozen=True)
class SetBack:
    """What was done about a clock that was set back."""

    tasks: int
    """How many tasks are planned anew."""
    runs: int
    """How many retries and other waiting runs were brought forward."""
    ran_until: datetime | None
    """The last occurrence that was started ahead of its time."""


def is_behind(connection: Connection, now: datetime) -> bool:
    """Return whether a run ended at a time that is still to come, and no agent has dealt with that yet."""
    last = _last_end(connection)
    if last is None or last <= now + TOLERANCE:
        return False
    latest = epochs.last(connection, "clock")
    known = latest and latest.after.get("ended_until")
    return not known or last > datetime.fromisoformat(known)


def _last_end(connection: Connection) -> datetime | None:
    ended = select(runs.c.finished_at).where(text("finished_at IS NOT NULL"))
    found: datetime | None = connection.scalar(ended.order_by(runs.c.finished_at.desc()).limit(1))
    return found


def set_back(connection: Connection, database: Database, actor: str, now: datetime) -> SetBack | None:
    """Plan anew what was planned by a clock that was ahead of `now`; None where another agent has done so."""
    database.lock_ids(connection)
    latest = epochs.last(connection, "clock")
    if latest and now - _SAME < latest.at < now + _SAME:
        return None
    until = connection.scalar(_last_early(now))
    tasks = connection.execute(_plan_anew(now)).rowcount
    brought = _bring_forward(connection, now)
    done = SetBack(tasks, brought, until)
    ended = _last_end(connection)
    after = {
        "ran_until": until and until.isoformat(),
        "ended_until": ended and ended.isoformat(),
        "tasks": tasks,
        "runs": brought,
    }
    epochs.record(connection, now, actor, "clock", {}, after)
    return done


def ran_until(connection: Connection) -> datetime | None:
    """Return up to which occurrence some may have been started ahead of their times; None where none was."""
    latest = epochs.last(connection, "clock")
    until = latest and latest.after.get("ran_until")
    return datetime.fromisoformat(until) if until else None


def early_run(connection: Connection, task_id: int, occurrence: datetime, run_id: int) -> int | None:
    """Return the run that was started for this occurrence before `run_id`."""
    query = select(runs.c.id).where(runs.c.task_id == task_id, runs.c.scheduled_for == occurrence)
    started = query.where(runs.c.started_at.is_not(None), runs.c.id != run_id)
    for known in (text("finished_at IS NOT NULL"), text(ALIVE)):
        if found := connection.scalar(started.where(known).limit(1)):
            return int(found)
    return None


def settled_between(connection: Connection, task_id: int, after: datetime, before: datetime) -> set[datetime]:
    """Return the occurrences in between that were started, or cancelled by a person."""
    between = (runs.c.task_id == task_id, runs.c.scheduled_for > after, runs.c.scheduled_for < before)
    query = select(runs.c.scheduled_for).where(*between)
    over = or_(runs.c.started_at.is_not(None), runs.c.state == RunState.CANCELLED)
    ended = query.where(text("finished_at IS NOT NULL"), over).limit(_MOST)
    return {*connection.scalars(ended), *connection.scalars(query.where(text(ALIVE)))}


def _later(now: datetime) -> tuple[Any, Any]:
    """The conditions of runs that ended, or were claimed, at a time still to come."""
    ended = runs.c.finished_at.is_not(None) & (runs.c.finished_at > now)
    return ended, text(ALIVE) & (runs.c.claimed_at > now)


def _last_early(now: datetime) -> Any:
    started = [
        select(runs.c.scheduled_for).where(each, runs.c.started_at.is_not(None)) for each in _later(now)
    ]
    early = union(*started).subquery()
    return select(func.max(early.c.scheduled_for)).where(early.c.scheduled_for > now)


def _plan_anew(now: datetime) -> Any:
    moved = union(
        *(select(runs.c.task_id).where(each) for each in _later(now)),
        select(crontab.c.id).where(crontab.c.changed_at > now),
    )
    return update(crontab).where(crontab.c.enabled, crontab.c.id.in_(moved)).values(planned_version=0)


def _bring_forward(connection: Connection, now: datetime) -> int:
    """Let waiting runs that have no time of their own start after the waits they were meant to have."""
    before = runs.alias("before")
    columns = (runs.c.id, runs.c.due_at, runs.c.expires_at)
    waits = text("runs.state = 'waiting'")
    retries = select(*columns, before.c.finished_at.label("since")).join_from(
        runs, before, runs.c.retry_of == before.c.id
    )
    on_demand = select(*columns, runs.c.due_at.label("since")).where(runs.c.trigger.in_(_ON_DEMAND))
    brought = 0
    for query in (
        retries.where(waits, runs.c.trigger == Trigger.RETRY, before.c.finished_at > now),
        on_demand.where(waits, runs.c.scheduled_for > now),
    ):
        for row in connection.execute(query.limit(_MOST)).all():
            by = row.since - now
            expires = row.expires_at and row.expires_at - by
            values = {"due_at": row.due_at - by, "expires_at": expires}
            brought += connection.execute(update(runs).where(runs.c.id == row.id).values(values)).rowcount
    return brought
