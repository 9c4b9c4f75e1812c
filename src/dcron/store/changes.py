"""Queries of the audit log. All that reads it reads it here."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from dcron.model import LAST_RUN
from dcron.policy.history import BY_SQL, TASK_ACTIONS, RecordedChange
from dcron.policy.selectors import Selector
from dcron.policy.statistics import Span
from dcron.schema.tables import changes, crontab
from dcron.store import selectors
from dcron.store.selectors import begins_with
from dcron.values.unreadable import UnreadableTime

PAGE = 500
"""Ids in one statement, and changes in a page of a span."""
MOST_OF_TASK = 1_000
MOST_IN_SPAN = 1_000
_LOOKED_AT = 10_000
"""Changes that a query searches for those of one kind that have no index of their own."""
_BY_PEOPLE = tuple(action for action in TASK_ACTIONS if action != "retire")
"""A one-off leaves the crontab by itself."""


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes to list. What is None does not matter."""

    task_id: int | None = None
    task: str | None = None
    """With `task_id`: also changes of earlier tasks of this name."""
    by: str | None = None
    """The beginning of the actor's name, or the database login."""
    since: datetime | None = None
    batch: str | None = None
    selector: Selector | None = None


COLUMNS = [changes.c[name] for name in RecordedChange.__dataclass_fields__]


def page(
    connection: Connection, criteria: ChangeFilter, limit: int, before_id: int | None
) -> list[RecordedChange]:
    """Return the changes that pass the filter, the newest first; with `before_id`, only lower ids."""
    query = _newest()
    if criteria.task_id is not None or criteria.task is not None:
        query = query.where(or_(changes.c.task_id == criteria.task_id, changes.c.task == criteria.task))
    if criteria.by is not None:
        query = query.where(or_(begins_with(changes.c.actor, criteria.by), changes.c.login == criteria.by))
    if criteria.since is not None:
        query = query.where(changes.c.at >= criteria.since)
    if criteria.batch is not None:
        query = query.where(changes.c.batch == criteria.batch)
    if criteria.selector:
        query = query.where(selectors.condition(criteria.selector, changes.c.task_id))
    if before_id is not None:
        query = query.where(changes.c.id < before_id)
    return _read(connection, query.limit(limit))


def by_id(connection: Connection, change_id: int) -> RecordedChange | None:
    """Return the change of this id."""
    return _first(connection, select(*COLUMNS).where(changes.c.id == change_id))


def last_of_name(connection: Connection, task: str) -> RecordedChange | None:
    """Return the latest change of the task of this name."""
    return _first(connection, _newest().where(changes.c.task == task))


def task_of_name(connection: Connection, name: str, at: datetime) -> int | None:
    """Return the id of the task that was last changed under this name, at this time or before."""
    of_name = select(changes.c.id).where(changes.c.task == name).order_by(changes.c.id.desc())
    near = of_name.limit(_LOOKED_AT).subquery()
    query = select(changes.c.task_id).where(changes.c.id.in_(select(near.c.id)), changes.c.at <= at)
    return connection.scalar(query.order_by(changes.c.id.desc()).limit(1))


def undos_of(connection: Connection, change_ids: Sequence[int]) -> dict[int, RecordedChange]:
    """Return, by the ids of those of these changes that were undone, the latest change that undoes each."""
    pages = (change_ids[start : start + PAGE] for start in range(0, len(change_ids), PAGE))
    later = changes.c.id > changes.c.undoes  # a row that was written by hand may undo itself
    queries = (select(*COLUMNS).where(changes.c.undoes.in_(page), later) for page in pages)
    found = (change for query in queries for change in _read(connection, query.order_by(changes.c.id)))
    return {change.undoes: change for change in found if change.undoes is not None}


def of_batch(connection: Connection, batch: str) -> list[RecordedChange]:
    """Return the changes of a batch, the oldest first."""
    return _read(connection, select(*COLUMNS).where(changes.c.batch == batch).order_by(changes.c.id))


def last_versions(connection: Connection, task_ids: Sequence[int]) -> dict[int, int]:
    """Return the version of each task after its last change, by task id; tasks without one are left out."""
    of_tasks = changes.c.task_id.in_(task_ids), changes.c.version.is_not(None)
    query = select(changes.c.task_id, func.max(changes.c.version)).where(*of_tasks)
    return {row[0]: row[1] for row in connection.execute(query.group_by(changes.c.task_id))}


def last_of_task(connection: Connection, task_id: int) -> RecordedChange | None:
    """Return the latest change that has the state of this task."""
    return _first(connection, _newest().where(*_of_task(task_id)))


def first_of_task(connection: Connection, task_id: int) -> RecordedChange | None:
    """Return the oldest change on record that has the state of this task."""
    return _first(connection, select(*COLUMNS).where(*_of_task(task_id)).order_by(changes.c.id))


def latest_of_task(connection: Connection, task_id: int, limit: int) -> list[RecordedChange]:
    """Return the latest changes that have the state of this task, the latest first."""
    return _read(connection, _newest().where(*_of_task(task_id)).limit(limit))


def typed_of_task(connection: Connection, task_id: int) -> list[RecordedChange]:
    """Return the latest MOST_OF_TASK changes that have the state of this task, the oldest first.

    Those with plain SQL are left out: their time is that of the agent that noticed them.
    """
    of_task = select(changes.c.id).where(changes.c.task_id == task_id).order_by(changes.c.id.desc())
    near = select(of_task.limit(_LOOKED_AT).subquery().c.id)
    typed = (changes.c.action.in_(TASK_ACTIONS), changes.c.via.is_distinct_from(BY_SQL))
    return _read(connection, _newest().where(changes.c.id.in_(near), *typed).limit(MOST_OF_TASK))[::-1]


def of_task_after(connection: Connection, task_id: int, change_id: int) -> list[RecordedChange]:
    """Return the later changes that have the state of this task, the oldest first."""
    later = select(*COLUMNS).where(*_of_task(task_id), changes.c.id > change_id)
    return _read(connection, later.order_by(changes.c.id))


def in_span(
    connection: Connection, span: Span, chosen: Collection[int] | None = None
) -> tuple[list[RecordedChange], bool]:
    """Return the changes of tasks in the span, and its freezes, the latest first, and whether there are more.

    With `chosen`, only those of tasks of these ids.
    """
    found: list[RecordedChange] = []
    before = LAST_RUN
    while len(found) <= MOST_IN_SPAN:
        some = page(connection, ChangeFilter(), PAGE, before)
        readable = [each for each in some if not isinstance(each.at, UnreadableTime)]
        found += [each for each in readable if span.start <= each.at < span.end and _is_shown(each, chosen)]
        if len(some) < PAGE or any(each.at < span.start for each in readable):
            break
        before = some[-1].id
    return found[:MOST_IN_SPAN], len(found) > MOST_IN_SPAN


def _is_shown(change: RecordedChange, chosen: Collection[int] | None) -> bool:
    is_of_task = change.action in _BY_PEOPLE and change.task_id is not None
    return (change.kind == "freeze" or is_of_task) and (chosen is None or change.task_id in chosen)


# The crontab at a time --------------------------------------------------------------------------------


def begins_at(connection: Connection) -> datetime | None:
    """Return the time of the first change; None if there is none."""
    query = select(changes.c.at).where(changes.c.kind == "task").order_by(changes.c.id).limit(1)
    return connection.scalar(query)


def last_until(connection: Connection, at: datetime) -> list[RecordedChange]:
    """Return of each task the last change up to this time that has its state."""
    until = changes.c.action.in_(TASK_ACTIONS), changes.c.at <= at
    last = select(func.max(changes.c.id)).where(*until).group_by(changes.c.task_id)
    return _of_ids(connection, last)


def first_of_others(connection: Connection, at: datetime) -> list[RecordedChange]:
    """Return the first change of each task all of whose changes are later than this time."""
    of_state = changes.c.action.in_(TASK_ACTIONS)
    first = select(func.min(changes.c.id)).where(of_state).group_by(changes.c.task_id)
    return _of_ids(connection, first.having(func.min(changes.c.at) > at))


def calendars_at(connection: Connection, at: datetime) -> dict[str, dict[str, Any] | None]:
    """Return the contents of calendars at this time by name, of those that have changes; None is no calendar.

    Of a calendar without a change up to then, its first change has what was before.
    """
    of_calendars = select(changes.c.at, changes.c.before, changes.c.after).where(changes.c.kind == "calendar")
    found: dict[str, dict[str, Any] | None] = {}
    for row in connection.execute(of_calendars.order_by(changes.c.id)):
        name = _name_in(row.after) or _name_in(row.before)
        if name and row.at <= at:
            found[name] = _content_in(row.after)
        elif name and name not in found:
            found[name] = _content_in(row.before)
    return found


def _name_in(written: Any) -> str | None:
    name = written.get("name") if isinstance(written, dict) else None
    return name if isinstance(name, str) else None


def _content_in(written: Any) -> dict[str, Any] | None:
    content = written.get("content") if isinstance(written, dict) else None
    return content if isinstance(content, dict) else None


def without_changes(connection: Connection) -> list[int]:
    """Return the ids of the tasks that have no change: they were written with plain SQL, or long ago."""
    recorded = select(changes.c.id).where(
        changes.c.task_id == crontab.c.id, changes.c.action.in_(TASK_ACTIONS)
    )
    return list(connection.scalars(select(crontab.c.id).where(~recorded.exists())))


def _of_ids(connection: Connection, ids: Select[Any]) -> list[RecordedChange]:
    found = list(connection.scalars(ids))
    pages = (found[start : start + PAGE] for start in range(0, len(found), PAGE))
    queries = (select(*COLUMNS).where(changes.c.id.in_(page)) for page in pages)
    return [change for query in queries for change in _read(connection, query)]


def _of_task(task_id: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return changes.c.task_id == task_id, changes.c.action.in_(TASK_ACTIONS)


def _read(connection: Connection, query: Select[Any]) -> list[RecordedChange]:
    return [change_from(row) for row in connection.execute(query)]


def _first(connection: Connection, query: Select[Any]) -> RecordedChange | None:
    return next(iter(_read(connection, query.limit(1))), None)


def _newest() -> Select[Any]:
    return select(*COLUMNS).order_by(changes.c.id.desc())


def change_from(row: Any) -> RecordedChange:
    """Return the change in a row of COLUMNS."""
    return RecordedChange(**row._mapping)
