"""What the record holds about one time of one line, and about what stands in a run's way."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select, text

from dcron.model import Block, Event, Run, Trigger
from dcron.schema import ALIVE, DUE, UNHANDLED, changes, events, nodes, queues, runs
from dcron.store import listings
from dcron.store.audit_log import changed_by

MOST_UNFINISHED = 500
MOST_CHANGES = 1000
MOST_COUNTED = 1000
_LOOKED_AT = 1000
"""Rows among which those of one kind are looked for, where they have no index of their own."""
_OF_LINES = ("add", "set", "rm", "pause", "resume")
"""Changes to a line itself; the others are about its runs."""
_FINISHED = "finished_at IS NOT NULL"
_LATEST_FIRST = (runs.c.scheduled_for.desc(), runs.c.id.desc())


@dataclass(frozen=True)
class AuditEntry:
    """Somebody's change to a line."""

    at: datetime
    actor: str
    action: str
    task: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    login: str | None

    @property
    def author(self) -> str:
        """Who says to have made it, and the login if that is another name."""
        return changed_by(self.actor, self.login)


@dataclass(frozen=True)
class QueueNow:
    """A queue with a limit, and what counts against it."""

    max_running: int
    alive: int
    shown: Sequence[Run]
    """The first few of its live runs."""


def _run_from(row: Row[Any]) -> Run:
    run = listings.light_run(row)
    return replace(run, blocked=Block(run.blocked)) if run.blocked else run


def finished(connection: Connection, task_id: int, first: datetime, end: datetime, limit: int) -> list[Run]:
    """The line's runs that are over, for times from `first` up to but without `end`, in order."""
    of_time = (runs.c.scheduled_for >= first, runs.c.scheduled_for < end)
    query = select(*listings.LIGHT).where(runs.c.task_id == task_id, text(_FINISHED), *of_time)
    rows = connection.execute(query.order_by(runs.c.scheduled_for, runs.c.id).limit(limit))
    return [_run_from(row) for row in rows]


def unfinished(connection: Connection, task_id: int) -> list[Run]:
    """The line's runs that are alive, and the first of those that wait, the earliest due first."""
    query = select(*listings.LIGHT).where(runs.c.task_id == task_id)
    found: list[Run] = []
    for state in (ALIVE, "state = 'waiting'"):
        ordered = query.where(text(state)).order_by(runs.c.due_at, runs.c.id)
        found += [_run_from(row) for row in connection.execute(ordered.limit(MOST_UNFINISHED))]
    return found


def latest(connection: Connection, task_id: int, limit: int) -> list[Run]:
    """The line's runs that are over, those of the latest times first."""
    query = select(*listings.LIGHT).where(runs.c.task_id == task_id, text(_FINISHED))
    return [_run_from(row) for row in connection.execute(query.order_by(*_LATEST_FIRST).limit(limit))]


def scheduled_runs_before(connection: Connection, task_id: int, moment: datetime, limit: int) -> list[Run]:
    """The line's last turns of the clock, those that are over, for times up to then; the latest first."""
    return _turns(connection, task_id, runs.c.scheduled_for <= moment, _LATEST_FIRST, limit)


def scheduled_runs_after(connection: Connection, task_id: int, moment: datetime, limit: int) -> list[Run]:
    """The same for times after then; the earliest first."""
    earliest_first = (runs.c.scheduled_for, runs.c.id)
    return _turns(connection, task_id, runs.c.scheduled_for > moment, earliest_first, limit)


def _turns(
    connection: Connection, task_id: int, when: ColumnElement[bool], order: Sequence[Any], limit: int
) -> list[Run]:
    of_line = select(runs.c.id).where(runs.c.task_id == task_id, text(_FINISHED), when)
    near = of_line.order_by(*order).limit(_LOOKED_AT).subquery()
    clocked = (runs.c.id.in_(select(near.c.id)), runs.c.trigger.in_([Trigger.SCHEDULE, Trigger.NODE]))
    query = select(*listings.LIGHT).where(*clocked).order_by(*order).limit(limit)
    return [_run_from(row) for row in connection.execute(query)]


def alive_at(connection: Connection, run: Run, moment: datetime, limit: int) -> list[Run]:
    """Which other runs of the run's line were alive at that moment, as far as they were made near it."""
    of_line = select(runs.c.id).where(runs.c.task_id == run.task_id, runs.c.id != run.id)
    earlier = of_line.where(runs.c.id < run.id).order_by(runs.c.id.desc()).limit(_LOOKED_AT).subquery()
    later = of_line.where(runs.c.id > run.id).order_by(runs.c.id).limit(_LOOKED_AT).subquery()
    alive_then = (
        runs.c.claimed_at <= moment,
        or_(runs.c.finished_at.is_(None), runs.c.finished_at >= moment),
    )
    found: list[Run] = []
    for near in (earlier, later):
        query = select(*listings.LIGHT).where(runs.c.id.in_(select(near.c.id)), *alive_then)
        found += [_run_from(row) for row in connection.execute(query.order_by(runs.c.id).limit(limit))]
    return found[:limit]


def task_changes(connection: Connection, task_id: int) -> list[AuditEntry]:
    """What was changed about the line, the oldest first; of very many changes the latest."""
    of_line = select(changes.c.id).where(changes.c.task_id == task_id)
    near = of_line.order_by(changes.c.id.desc()).limit(_LOOKED_AT * 10).subquery()
    columns = [changes.c[name] for name in AuditEntry.__dataclass_fields__]
    wanted = (changes.c.id.in_(select(near.c.id)), changes.c.action.in_(_OF_LINES))
    query = select(*columns).where(*wanted).order_by(changes.c.id.desc()).limit(MOST_CHANGES)
    return [AuditEntry(**row._mapping) for row in connection.execute(query)][::-1]


def task_of_name(connection: Connection, name: str, moment: datetime) -> int | None:
    """The id of the line that last was written under this name by that moment."""
    of_name = select(changes.c.id).where(changes.c.task == name).order_by(changes.c.id.desc())
    near = of_name.limit(_LOOKED_AT).subquery()
    query = select(changes.c.task_id).where(changes.c.id.in_(select(near.c.id)), changes.c.at <= moment)
    return connection.scalar(query.order_by(changes.c.id.desc()).limit(1))


def last_node(connection: Connection, before: datetime) -> Any:
    """The row of the node that ended last up to then; None when there is none."""
    query = select(nodes.c.id, nodes.c.died_at, nodes.c.died_how)
    ended = (nodes.c.died_at.is_not(None), nodes.c.died_at <= before)
    return connection.execute(query.where(*ended).order_by(nodes.c.died_at.desc()).limit(1)).first()


def nodes_at(connection: Connection, moment: datetime, limit: int) -> list[str]:
    """The IDs of nodes that were there at that moment, by their leases and their own word."""
    found: list[str] = []
    for there in (nodes.c.died_at.is_(None), nodes.c.died_at >= moment):
        query = select(nodes.c.id).where(nodes.c.started_at <= moment, nodes.c.alive_until >= moment, there)
        found += connection.scalars(query.order_by(nodes.c.id).limit(limit))
    return found[:limit]


def queue_now(connection: Connection, name: str, shown: int) -> QueueNow | None:
    """What counts against the queue's limit; None when it has none."""
    limit = connection.scalar(select(queues.c.max_running).where(queues.c.name == name))
    if limit is None:
        return None
    alive = (runs.c.queue == name, text(ALIVE))
    count = connection.scalar(select(func.count()).select_from(runs).where(*alive)) or 0
    query = select(*listings.LIGHT).where(*alive).order_by(runs.c.queue, runs.c.id + 0).limit(shown)
    return QueueNow(limit, count, [_run_from(row) for row in connection.execute(query)])


def lanes_taken(connection: Connection, node_ids: Collection[str]) -> list[tuple[str, str]]:
    """Node and lane of each run that these nodes have under way."""
    query = select(runs.c.owner, runs.c.lane).where(runs.c.owner.in_(node_ids), text(ALIVE))
    return [(row.owner, row.lane) for row in connection.execute(query)]


def count_due(connection: Connection, lane: str, before: datetime) -> int:
    """How many runs of the lane were due before then, up to MOST_COUNTED."""
    due = select(runs.c.id).where(text(DUE), runs.c.lane == lane, runs.c.due_at < before)
    first = due.order_by(runs.c.due_at, runs.c.id).limit(MOST_COUNTED).subquery()
    return connection.scalar(select(func.count()).select_from(first)) or 0


def newest_flow(connection: Connection, task_ids: Collection[int]) -> int | None:
    """The latest flow that one of these lines was lately part of."""
    found = []
    for task_id in sorted(task_ids):
        newest = select(runs.c.flow).where(runs.c.task_id == task_id).order_by(runs.c.id.desc())
        near = newest.limit(_LOOKED_AT).subquery()
        found.append(connection.scalar(select(func.max(near.c.flow))))
    return max((flow for flow in found if flow is not None), default=None)


def unhandled_event(connection: Connection, name: str) -> Event | None:
    """The first event of this name whose runs are not made yet."""
    first = select(events.c.id).where(text(UNHANDLED)).order_by(events.c.id).limit(_LOOKED_AT).subquery()
    query = select(*(events.c[field] for field in Event.__dataclass_fields__))
    query = query.where(events.c.id.in_(select(first.c.id)), events.c.name == name)
    row = connection.execute(query.order_by(events.c.id).limit(1)).first()
    return Event(**row._mapping) if row else None


def last_event_run(connection: Connection, task_id: int) -> Run | None:
    """The line's latest run that an event has started."""
    newest = select(runs.c.id).where(runs.c.task_id == task_id).order_by(runs.c.id.desc())
    near = newest.limit(_LOOKED_AT).subquery()
    query = select(*listings.LIGHT).where(runs.c.id.in_(select(near.c.id)), runs.c.trigger == text("'event'"))
    row = connection.execute(query.order_by(runs.c.id.desc()).limit(1)).first()
    return _run_from(row) if row else None


def nearest(connection: Connection, task_id: int, moment: datetime, *, later: bool) -> Run | None:
    """The line's last run that is over for a time before then, or its first for a later one."""
    when = runs.c.scheduled_for > moment if later else runs.c.scheduled_for < moment
    order = (runs.c.scheduled_for, runs.c.id) if later else _LATEST_FIRST
    query = select(*listings.LIGHT).where(runs.c.task_id == task_id, text(_FINISHED), when)
    row = connection.execute(query.order_by(*order).limit(1)).first()
    return _run_from(row) if row else None
