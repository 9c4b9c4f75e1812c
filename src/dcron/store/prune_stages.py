"""The stages of pruning other than the walks through runs: dead letters, events, nodes and so on."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, func, select, text

from dcron.policy.retention import MOST_BAD, seconds_of
from dcron.policy.statistics import day_of
from dcron.schema import (
    ALIVE,
    DEAD,
    INCIDENT,
    UNSENT,
    WAITING,
    alerts,
    changes,
    daily_statistics,
    events,
    nodes,
    notifications,
    runs,
)
from dcron.store import alerts as store_alerts
from dcron.store import audit_log, retention, tasks
from dcron.store import runs as store_runs
from dcron.store.audit_log import Author
from dcron.store.prune_work import Work
from dcron.store.retention import History

_LOOKED_AT = 500
"""Rows in one read."""
_PAGES = 200
"""Free pages of a SQLite file that one step gives back."""


def _dismiss_old(work: Work, history: History) -> None:
    """Dismiss dead letters that are older than `keep.dead`."""
    age = seconds_of(history.kept, "dead")
    found: list[int] = []
    if age < inf:
        with work.database.read() as connection:
            before = retention.shift(work.database.now(connection), age)
            old = select(runs.c.id).where(*_old_letters(before), runs.c.id > work.after)
            query = old.order_by(runs.c.id).limit(work.size)
            found = list(connection.scalars(query))
    is_full = len(found) == work.size
    work.go_on(found[-1] if is_full else None)
    if found:
        _dismiss(work, found)


def _dismiss_many(work: Work, history: History) -> None:
    """Dismiss the oldest dead letters of a task that has more than it keeps."""
    if seconds_of(history.kept, "dead") == inf:
        work.go_on(None)
        return
    too_many = _with_many_letters().where(runs.c.task_id > work.after).limit(1)
    with work.database.read() as connection:
        task_id = connection.scalar(too_many)
        found: list[int] = []
        if task_id is not None:
            older = select(runs.c.id).where(*_exceeding_letters(task_id))
            found = list(connection.scalars(older.order_by(runs.c.id).limit(work.size)))
    if not found:
        # What is left of this task is on hold.
        work.go_on(task_id if task_id is not None and task_id > work.after else None)
        return
    work.go_on(work.after)
    _dismiss(work, found)


def _dismiss(work: Work, run_ids: Sequence[int]) -> None:
    query = select(runs.c.id, runs.c.task_id).where(runs.c.id.in_(run_ids), text(DEAD))
    with work.transaction() as (connection, now):
        of_task = {row.id: row.task_id for row in connection.execute(query.with_for_update(skip_locked=True))}
        dismissed = store_runs.dismiss(connection, list(of_task))
        store_alerts.dismissed(connection, work.database, set(of_task.values()), now)
        for task in tasks.by_ids(connection, set(of_task.values())):
            own = [run_id for run_id, task_id in of_task.items() if task_id == task.id]
            detail = {"runs": len(own), "from": min(own), "to": max(own)}
            audit_log.record_run(connection, now, Author.agent(), "dismiss", task.id, task.name, detail)
    work.count(dismissed=dismissed)


def _delete_events(work: Work, history: History) -> None:
    """Delete events that were handled long ago, unless a run of theirs has not ended."""
    _delete_by_id(work, history, "events", events, events.c.created_at, _old_events)


def _delete_changes(work: Work, history: History) -> None:
    """Delete old entries of the audit log, except those about the database itself."""
    _delete_by_id(work, history, "changes", changes, changes.c.at, _old_changes)


def _delete_alerts(work: Work, history: History) -> None:
    """Delete alerts that were closed long ago."""

    def of_age(before: datetime) -> Any:
        return (alerts.c.closed_at < before) & (alerts.c.opened_at < before)

    _delete_by_id(work, history, "alerts", alerts, alerts.c.opened_at, of_age)


def _delete_notifications(work: Work, history: History) -> None:
    """Delete notifications that were written long ago and are sent, or could not be sent."""

    def of_age(before: datetime) -> Any:
        return (notifications.c.created_at < before) & text(f"NOT ({UNSENT})")

    _delete_by_id(work, history, "notifications", notifications, notifications.c.created_at, of_age)


def _delete_by_id(
    work: Work, history: History, name: str, table: Any, at: Any, of_age: Callable[[datetime], Any]
) -> None:
    """Delete rows of a table whose ids grow with time, from the oldest to the first that is young enough."""
    age = seconds_of(history.kept, name)
    if age == inf:
        work.go_on(None)
        return
    with work.database.read() as connection:
        before = retention.shift(work.database.now(connection), age)
        page = select(table.c.id, at).where(table.c.id > work.after).order_by(table.c.id).limit(_LOOKED_AT)
        rows = connection.execute(page).all()
        ids = select(table.c.id).where(table.c.id.in_([row.id for row in rows]), of_age(before))
        found = sorted(connection.scalars(ids))
    batch = found[: work.size]
    is_over = len(rows) < _LOOKED_AT or all(row[1] >= before for row in rows)
    work.go_on(batch[-1] if len(batch) < len(found) else None if is_over else rows[-1].id)
    if batch:
        with work.transaction() as (connection, _):
            gone = connection.execute(delete(table).where(table.c.id.in_(batch), of_age(before))).rowcount
        work.count(**{name: gone})


def _delete_nodes(work: Work, history: History) -> None:
    """Delete nodes that ended long ago, unless a run has yet to learn of it."""
    age = seconds_of(history.kept, "nodes")
    found: list[str] = []
    if age < inf:
        with work.database.read() as connection:
            before = retention.shift(work.database.now(connection), age)
            old = select(nodes.c.id).where(_old_nodes(before)).order_by(nodes.c.died_at)
            found = list(connection.scalars(old.limit(work.size)))
    if not found:
        work.go_on(None)
        return
    with work.transaction() as (connection, _):
        still = select(nodes.c.id).where(nodes.c.id.in_(found), nodes.c.died_at < before)
        gone = connection.execute(delete(nodes).where(nodes.c.id.in_(still))).rowcount
    work.count(nodes=gone)
    if not gone:
        work.go_on(None)


def _delete_statistics(work: Work, history: History) -> None:
    """Delete the oldest day of the daily statistics that is old enough."""
    age = seconds_of(history.kept, "statistics")
    oldest = None
    if age < inf:
        with work.database.read() as connection:
            before = retention.shift(work.database.now(connection), age)
            days = select(func.min(daily_statistics.c.day)).where(_old_statistics(before))
            oldest = connection.scalar(days)
    if oldest is None:
        work.go_on(None)
        return
    with work.transaction() as (connection, _):
        gone = connection.execute(delete(daily_statistics).where(daily_statistics.c.day == oldest)).rowcount
    work.count(statistics=gone)


def _give_back_pages(work: Work, _: History) -> None:
    """Give free pages of a SQLite file back to the file system, where they are many."""
    given = work.database.give_back_pages(_PAGES)
    work.count(pages=given)
    if not given:
        work.go_on(None)


STAGES: Mapping[str, Callable[[Work, History], None]] = {
    "dead": _dismiss_old,
    "many-dead": _dismiss_many,
    "events": _delete_events,
    "nodes": _delete_nodes,
    "statistics": _delete_statistics,
    "changes": _delete_changes,
    "alerts": _delete_alerts,
    "notifications": _delete_notifications,
    "pages": _give_back_pages,
}


# What is old ------------------------------------------------------------------------------------------


def count_old_rows(connection: Connection, history: History, now: datetime) -> dict[str, int]:
    """Return how many rows these stages would delete now, by kind, and how many dead letters they dismiss."""
    found = {"dismissed": _count_letters(connection, history, now)}
    for kind, (table, condition) in _OLD_ROWS.items():
        if (age := seconds_of(history.kept, kind)) < inf:
            old = select(func.count()).select_from(table).where(condition(retention.shift(now, age)))
            found[kind] = connection.scalar(old) or 0
    return {kind: number for kind, number in found.items() if number}


def _count_letters(connection: Connection, history: History, now: datetime) -> int:
    age = seconds_of(history.kept, "dead")
    if age == inf:
        return 0
    before = retention.shift(now, age)
    number = connection.scalar(select(func.count()).where(*_old_letters(before))) or 0
    for task_id in connection.scalars(_with_many_letters()).all():
        young = and_(*_exceeding_letters(task_id), runs.c.dead_at >= before)
        number += connection.scalar(select(func.count()).where(young)) or 0
    return number


def _old_letters(before: datetime) -> tuple[Any, ...]:
    return text(DEAD), runs.c.dead_at < before, ~retention.is_held()


def _with_many_letters() -> Select[Any]:
    """Return the query for the tasks that have more dead letters than they keep."""
    of_tasks = select(runs.c.task_id).where(text(DEAD)).group_by(runs.c.task_id)
    return of_tasks.having(func.count() > MOST_BAD).order_by(runs.c.task_id)


def _exceeding_letters(task_id: int) -> tuple[Any, ...]:
    own = (text(DEAD), runs.c.task_id == task_id)
    newest = select(runs.c.id).where(*own).order_by(runs.c.id.desc()).offset(MOST_BAD - 1).limit(1)
    return *own, runs.c.id < newest.scalar_subquery(), ~retention.is_held()


def _old_events(before: datetime) -> ColumnElement[bool]:
    table = events.c
    of_event = (runs.c.event_id == table.id, runs.c.trigger == text("'event'"), runs.c.finished_at.is_(None))
    is_unfinished = retention.exists(*of_event, of=events)
    return and_(table.handled_at < before, table.created_at < before, ~is_unfinished)


def _old_changes(before: datetime) -> ColumnElement[bool]:
    return and_(changes.c.at < before, text(f"NOT ({INCIDENT})"))


def _old_nodes(before: datetime) -> ColumnElement[bool]:
    waits = select(runs.c.id).where(runs.c.for_node == nodes.c.id, text(WAITING)).limit(1)
    owned = select(runs.c.id).where(runs.c.owner == nodes.c.id, text(ALIVE)).limit(1)
    unneeded = (each.correlate(nodes).scalar_subquery().is_(None) for each in (waits, owned))
    return and_(text("died_at IS NOT NULL"), nodes.c.died_at < before, *unneeded)


def _old_statistics(before: datetime) -> ColumnElement[bool]:
    return daily_statistics.c.day < day_of(before).isoformat()


_OLD_ROWS: Mapping[str, tuple[Table, Callable[[datetime], ColumnElement[bool]]]] = {
    "events": (events, _old_events),
    "nodes": (nodes, _old_nodes),
    "statistics": (daily_statistics, _old_statistics),
    "changes": (changes, _old_changes),
}
