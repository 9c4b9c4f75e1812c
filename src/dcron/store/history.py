"""Queries of `dcron why`: what is on record about one time of a task, and what keeps a run from starting."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select, text

from dcron.model import Event, Run, Trigger
from dcron.schema.conditions import ALIVE, DUE, FINISHED, UNHANDLED, WAITING
from dcron.schema.tables import events, nodes, queues, runs
from dcron.store.listings import LIGHT, light_runs

MOST_UNFINISHED = 500
MOST_COUNTED = 1000
_LOOKED_AT = 1000
"""Rows that a query searches for those of one kind that have no index of their own."""
_EARLIEST_FIRST = (runs.c.scheduled_for, runs.c.id)
_LATEST_FIRST = (runs.c.scheduled_for.desc(), runs.c.id.desc())


@dataclass(frozen=True)
class QueueNow:
    """A queue with a limit, and the runs that count against it."""

    max_running: int
    alive: int
    shown: Sequence[Run]
    """The first few of its live runs."""


def _runs(connection: Connection, of: Sequence[Any], order: Sequence[Any], limit: int) -> list[Run]:
    return light_runs(connection, select(*LIGHT).where(*of).order_by(*order).limit(limit))


def finished(connection: Connection, task_id: int, first: datetime, end: datetime, limit: int) -> list[Run]:
    """Return the task's finished runs for times from `first` until before `end`, in order."""
    of_time = (*_finished(task_id), runs.c.scheduled_for >= first, runs.c.scheduled_for < end)
    return _runs(connection, of_time, _EARLIEST_FIRST, limit)


def unfinished(connection: Connection, task_id: int) -> list[Run]:
    """Return the task's runs that are alive, then its first waiting runs, each by due time."""
    first_due = (runs.c.due_at, runs.c.id)
    states = ((runs.c.task_id == task_id, text(state)) for state in (ALIVE, WAITING))
    return [run for each in states for run in _runs(connection, each, first_due, MOST_UNFINISHED)]


def latest(connection: Connection, task_id: int, limit: int) -> list[Run]:
    """Return the task's finished runs, the latest scheduled time first."""
    return _runs(connection, _finished(task_id), _LATEST_FIRST, limit)


def nearest(connection: Connection, task_id: int, at: datetime, *, later: bool) -> Run | None:
    """Return the task's last finished run for a time before this one; with `later`, its first after it."""
    when = runs.c.scheduled_for > at if later else runs.c.scheduled_for < at
    order = _EARLIEST_FIRST if later else _LATEST_FIRST
    return next(iter(_runs(connection, (*_finished(task_id), when), order, 1)), None)


def scheduled_runs_before(connection: Connection, task_id: int, until: datetime, limit: int) -> list[Run]:
    """Return the task's finished scheduled runs for times up to `until`, the latest first."""
    return _scheduled_runs(connection, task_id, runs.c.scheduled_for <= until, _LATEST_FIRST, limit)


def scheduled_runs_after(connection: Connection, task_id: int, after: datetime, limit: int) -> list[Run]:
    """Return the task's finished scheduled runs for times after `after`, the earliest first."""
    return _scheduled_runs(connection, task_id, runs.c.scheduled_for > after, _EARLIEST_FIRST, limit)


def _scheduled_runs(
    connection: Connection, task_id: int, when: ColumnElement[bool], order: Sequence[Any], limit: int
) -> list[Run]:
    near = _near(*_finished(task_id), when, order=order)
    return _runs(connection, (near, runs.c.trigger.in_([Trigger.SCHEDULE, Trigger.NODE])), order, limit)


def alive_at(connection: Connection, run: Run, at: datetime, limit: int) -> list[Run]:
    """Return other runs of the task that were alive at this time, among those with ids near the run's."""
    earlier = _near(runs.c.task_id == run.task_id, runs.c.id < run.id, order=[runs.c.id.desc()])
    later = _near(runs.c.task_id == run.task_id, runs.c.id > run.id, order=[runs.c.id])
    alive_then = (runs.c.claimed_at <= at, or_(runs.c.finished_at.is_(None), runs.c.finished_at >= at))
    sides = ((near, *alive_then) for near in (earlier, later))
    return [each for side in sides for each in _runs(connection, side, [runs.c.id], limit)][:limit]


def _finished(task_id: int) -> tuple[Any, Any]:
    return runs.c.task_id == task_id, text(FINISHED)


def _near(*which: Any, order: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition of being among the first _LOOKED_AT of these runs."""
    near = select(runs.c.id).where(*which).order_by(*order).limit(_LOOKED_AT).subquery()
    return runs.c.id.in_(select(near.c.id))


def last_node(connection: Connection, before: datetime) -> Any:
    """Return the id, end and kind of end of the node that ended last up to this time; None if none did."""
    query = select(nodes.c.id, nodes.c.died_at, nodes.c.died_how)
    ended = (nodes.c.died_at.is_not(None), nodes.c.died_at <= before)
    return connection.execute(query.where(*ended).order_by(nodes.c.died_at.desc()).limit(1)).first()


def nodes_at(connection: Connection, at: datetime, limit: int) -> list[str]:
    """Return the IDs of nodes that were alive at this time: started, with a lease, and not yet dead."""
    found: list[str] = []
    for not_dead in (nodes.c.died_at.is_(None), nodes.c.died_at >= at):
        query = select(nodes.c.id).where(nodes.c.started_at <= at, nodes.c.alive_until >= at, not_dead)
        found += connection.scalars(query.order_by(nodes.c.id).limit(limit))
    return found[:limit]


def queue_now(connection: Connection, name: str, shown: int) -> QueueNow | None:
    """Return the queue's limit and the runs that count against it; None if it has no limit."""
    limit = connection.scalar(select(queues.c.max_running).where(queues.c.name == name))
    if limit is None:
        return None
    alive = (runs.c.queue == name, text(ALIVE))
    count = connection.scalar(select(func.count()).select_from(runs).where(*alive)) or 0
    return QueueNow(limit, count, _runs(connection, alive, (runs.c.queue, runs.c.id + 0), shown))


def lanes_taken(connection: Connection, node_ids: Collection[str]) -> list[tuple[str, str]]:
    """Return the node and the lane of each run that is alive on these nodes."""
    query = select(runs.c.owner, runs.c.lane).where(runs.c.owner.in_(node_ids), text(ALIVE))
    return [(row.owner, row.lane) for row in connection.execute(query)]


def count_due(connection: Connection, lane: str, before: datetime) -> int:
    """Return how many runs of the lane were due before this time, up to MOST_COUNTED."""
    due = select(runs.c.id).where(text(DUE), runs.c.lane == lane, runs.c.due_at < before)
    first = due.order_by(runs.c.due_at, runs.c.id).limit(MOST_COUNTED).subquery()
    return connection.scalar(select(func.count()).select_from(first)) or 0


def newest_flow(connection: Connection, task_ids: Collection[int]) -> int | None:
    """Return the latest flow among the recent runs of these tasks."""
    found = []
    for task_id in sorted(task_ids):
        newest = select(runs.c.flow).where(runs.c.task_id == task_id).order_by(runs.c.id.desc())
        near = newest.limit(_LOOKED_AT).subquery()
        found.append(connection.scalar(select(func.max(near.c.flow))))
    return max((flow for flow in found if flow is not None), default=None)


def unhandled_event(connection: Connection, name: str) -> Event | None:
    """Return the first event of this name whose runs are not inserted yet."""
    first = select(events.c.id).where(text(UNHANDLED)).order_by(events.c.id).limit(_LOOKED_AT).subquery()
    query = select(*(events.c[field] for field in Event.__dataclass_fields__))
    query = query.where(events.c.id.in_(select(first.c.id)), events.c.name == name)
    row = connection.execute(query.order_by(events.c.id).limit(1)).first()
    return Event(**row._mapping) if row else None


def last_event_run(connection: Connection, task_id: int) -> Run | None:
    """Return the task's latest run that an event started."""
    newest = [runs.c.id.desc()]
    near = _near(runs.c.task_id == task_id, order=newest)
    return next(iter(_runs(connection, (near, runs.c.trigger == text("'event'")), newest, 1)), None)
