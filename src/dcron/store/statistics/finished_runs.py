"""Read what statistics need of the runs that have ended, page by page: a history may be long."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select, text

from dcron.model import RunState, node_name
from dcron.policy.statistics import Span, Totals
from dcron.schema.conditions import FINISHED, NO_TRIAL
from dcron.schema.tables import runs
from dcron.values.unreadable import UnreadableTime

PAGE = 2_000
"""Runs in one query: some 25 ms, for which a reader of a SQLite file may hold up the commits of others."""
_COLUMNS = [
    *(runs.c.id, runs.c.task_id, runs.c.task, runs.c.state, runs.c.owner, runs.c.queue),
    *(runs.c.due_at, runs.c.started_at, runs.c.finished_at),
]

GroupOf = Callable[[Row[Any]], Any]


@dataclass(frozen=True)
class Place:
    """The last run of a page; the next page begins behind it."""

    finished_at: datetime
    id: int

    def is_before_run(self) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions of the runs behind it, in the order of their ends."""
        ended = runs.c.finished_at
        is_behind = or_(ended > self.finished_at, and_(ended == self.finished_at, runs.c.id > self.id))
        return ended >= self.finished_at, is_behind


Page = tuple[list[Row[Any]], Place | None]
"""Runs, and the place of the last one; None if no run follows."""


def page(connection: Connection, span: Span, after: Place | None, limit: int = PAGE) -> Page:
    """Return the next runs of all tasks that ended in the span, in the order of their ends."""
    query = select(*_COLUMNS).where(*ended_in(span, after)).order_by(runs.c.finished_at, runs.c.id)
    return _read(connection, query.limit(limit), limit)


def ended_in(span: Span, after: Place | None) -> list[Any]:
    """Return the conditions of the runs that ended in the span, behind this place; trials are left out."""
    ended = runs.c.finished_at
    behind = after.is_before_run() if after else ()
    return [text(FINISHED), ended >= span.start, ended < span.end, text(NO_TRIAL), *behind]


def page_of_task(
    connection: Connection, task_id: int, span: Span, after: Place | None, limit: int = PAGE
) -> Page:
    """Return those of the task's next runs, in the order of their ids, that ended in the span."""
    query = select(*_COLUMNS).where(runs.c.task_id == task_id)
    if after:
        query = query.where(runs.c.id > after.id)
    found, last = _read(connection, query.order_by(runs.c.id).limit(limit), limit)
    return [row for row in found if row.finished_at and span.start <= row.finished_at < span.end], last


def newest_of_task(connection: Connection, task_id: int, span: Span, limit: int) -> list[Row[Any]]:
    """Return those of the task's newest runs that ended in the span."""
    query = select(*_COLUMNS).where(runs.c.task_id == task_id).order_by(runs.c.id.desc())
    found, _ = _read(connection, query.limit(limit), limit)
    return [row for row in found if row.finished_at and span.start <= row.finished_at < span.end]


def first_end(connection: Connection, since: datetime) -> datetime | None:
    """Return when the first run from this time on ended."""
    ends = select(runs.c.finished_at).where(text(FINISHED), runs.c.finished_at >= since)
    found = connection.scalars(ends.order_by(runs.c.finished_at).limit(20))
    return next((at for at in found if not isinstance(at, UnreadableTime)), None)


def add(totals: dict[Any, Totals], found: Iterable[Row[Any]], group_of: GroupOf) -> None:
    """Add these runs to the totals of their groups."""
    for row in found:
        group = group_of(row)
        if group not in totals:
            totals[group] = Totals()
        started_at = None if isinstance(row.started_at, UnreadableTime) else row.started_at
        totals[group].add(RunState(row.state), row.due_at, started_at, row.finished_at)


def task_of(row: Row[Any]) -> int:
    """Return the id of the run's task."""
    return int(row.task_id)


def node_of(row: Row[Any]) -> str:
    """Return the name of the node that had the run; empty if none had it."""
    return node_name(row.owner) if row.owner else ""


def _read(connection: Connection, query: Select[Any], limit: int) -> Page:
    """Return the rows that can be read. A time that was written by hand may be no time."""
    rows = connection.execute(query).all()
    found = [row for row in rows if not isinstance(row.finished_at, UnreadableTime)]
    last = rows[-1] if len(rows) == limit else None
    if last is not None and isinstance(last.finished_at, UnreadableTime):
        last = found[-1] if found else None
    return found, Place(last.finished_at, last.id) if last is not None else None
