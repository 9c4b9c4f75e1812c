"""Dismiss old dead letters, and delete old rows of the tables other than `runs` and `output`.

What is old is one condition for each kind of row: a round deletes what meets it, and a dry run counts it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, func, select, text

from dcron.policy.retention import MOST_BAD, seconds_of
from dcron.policy.statistics import day_of
from dcron.schema.conditions import ALIVE, DEAD, INCIDENT, UNSENT, WAITING
from dcron.schema.tables import alerts, changes, daily_statistics, events, nodes, notifications, runs
from dcron.store import audit_log
from dcron.store.alerts import rows as store_alerts
from dcron.store.audit_log import Author
from dcron.store.retention.batches import Work
from dcron.store.retention.history import History, exists, is_held, shift
from dcron.store.runs import rows as store_runs
from dcron.store.tasks import rows as tasks

_LOOKED_AT = 500
"""Rows in one read."""
Found = tuple[list[Any], int | None]
"""The keys of old rows, and the id behind which the next batch begins; None if there is no next one."""


# Rows with an age --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OldRows:
    """The rows of a kind, and which of them are old."""

    table: Table
    is_old: Callable[[datetime], ColumnElement[bool]]
    """The condition of the rows that were over before a time."""
    at: Any = None
    """The column with the time of a row whose id grows with time; None for rows with another key."""

    @property
    def key(self) -> Any:
        """The column by which rows are deleted."""
        return self.table.c.day if self.table is daily_statistics else self.table.c.id

    def look(self, connection: Connection, before: datetime, after: int, limit: int) -> Found:
        """Return the next old rows."""
        if self.at is not None:
            return self._look_by_id(connection, before, after, limit)
        order = nodes.c.died_at if self.table is nodes else self.key
        limit = limit if self.table is nodes else 1  # a day has many rows
        old = select(self.key).where(self.is_old(before)).order_by(order).limit(limit)
        found = list(connection.scalars(old))
        return found, 0 if found else None

    def _look_by_id(self, connection: Connection, before: datetime, after: int, limit: int) -> Found:
        """Return the old ones of the next rows; the first page with young rows only is the last one."""
        page = select(self.key, self.at).where(self.key > after).order_by(self.key).limit(_LOOKED_AT)
        rows = connection.execute(page).all()
        old = select(self.key).where(self.key.in_([row.id for row in rows]), self.is_old(before))
        found = sorted(connection.scalars(old))
        if len(found) > limit:
            return found[:limit], found[limit - 1]
        is_over = len(rows) < _LOOKED_AT or all(row[1] >= before for row in rows)
        return found, None if is_over else rows[-1].id

    def delete(self, connection: Connection, keys: list[Any], before: datetime) -> int:
        """Delete those of these rows that are still old; return how many."""
        still = select(self.key).where(self.key.in_(keys), self.is_old(before))
        return connection.execute(delete(self.table).where(self.key.in_(still))).rowcount


def _old_events(before: datetime) -> ColumnElement[bool]:
    """Return the condition of events that were handled long ago, and whose runs have all ended."""
    table = events.c
    of_event = (runs.c.event_id == table.id, runs.c.trigger == text("'event'"), runs.c.finished_at.is_(None))
    return and_(table.handled_at < before, table.created_at < before, ~exists(*of_event, of=events))


def _old_nodes(before: datetime) -> ColumnElement[bool]:
    """Return the condition of nodes that ended long ago, unless a run has yet to learn of it."""
    waits = select(runs.c.id).where(runs.c.for_node == nodes.c.id, text(WAITING)).limit(1)
    owned = select(runs.c.id).where(runs.c.owner == nodes.c.id, text(ALIVE)).limit(1)
    unneeded = (each.correlate(nodes).scalar_subquery().is_(None) for each in (waits, owned))
    return and_(text("died_at IS NOT NULL"), nodes.c.died_at < before, *unneeded)


OLD: Mapping[str, OldRows] = {
    "events": OldRows(events, _old_events, events.c.created_at),
    "nodes": OldRows(nodes, _old_nodes),
    "statistics": OldRows(
        daily_statistics, lambda before: daily_statistics.c.day < day_of(before).isoformat()
    ),
    # Entries about the database itself stay.
    "changes": OldRows(
        changes, lambda before: and_(changes.c.at < before, text(f"NOT ({INCIDENT})")), changes.c.at
    ),
    "alerts": OldRows(
        alerts,
        lambda before: and_(alerts.c.closed_at < before, alerts.c.opened_at < before),
        alerts.c.opened_at,
    ),
    "notifications": OldRows(
        notifications,
        lambda before: and_(notifications.c.created_at < before, text(f"NOT ({UNSENT})")),
        notifications.c.created_at,
    ),
}
"""By the name of the setting that says how long they are kept."""


def delete_old(work: Work, history: History, kind: str) -> None:
    """Delete a batch of the old rows of a kind."""
    rows, age = OLD[kind], seconds_of(history.kept, kind)
    if age == inf:
        work.go_on(None)
        return
    with work.database.read() as connection:
        before = shift(work.database.now(connection), age)
        keys, end = rows.look(connection, before, work.after or 0, work.size)
    work.go_on(end)
    if keys:
        with work.transaction() as (connection, _):
            gone = rows.delete(connection, keys, before)
        work.count(**{kind: gone})


# Dead letters ------------------------------------------------------------------------------------------


def dismiss_old(work: Work, history: History) -> None:
    """Dismiss dead letters that are older than `keep.dead`."""
    age = seconds_of(history.kept, "dead")
    found: list[int] = []
    if age < inf:
        with work.database.read() as connection:
            before = shift(work.database.now(connection), age)
            old = select(runs.c.id).where(*_old_letters(before), runs.c.id > (work.after or 0))
            found = list(connection.scalars(old.order_by(runs.c.id).limit(work.size)))
    work.go_on(found[-1] if len(found) == work.size else None)
    _dismiss(work, found)


def dismiss_many(work: Work, history: History) -> None:
    """Dismiss the oldest dead letters of a task that has more than it keeps."""
    task_id, found = None, list[int]()
    if seconds_of(history.kept, "dead") < inf:
        too_many = _with_many_letters().where(runs.c.task_id > (work.after or 0)).limit(1)
        with work.database.read() as connection:
            task_id = connection.scalar(too_many)
            if task_id is not None:
                older = select(runs.c.id).where(*_exceeding_letters(task_id))
                found = list(connection.scalars(older.order_by(runs.c.id).limit(work.size)))
    # Where nothing is found, what is left of this task is on hold.
    work.go_on((work.after or 0) if found else task_id)
    _dismiss(work, found)


def _dismiss(work: Work, run_ids: list[int]) -> None:
    if not run_ids:
        return
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


def _old_letters(before: datetime) -> tuple[Any, ...]:
    return text(DEAD), runs.c.dead_at < before, ~is_held()


def _with_many_letters() -> Select[Any]:
    """Return the query for the tasks that have more dead letters than they keep."""
    of_tasks = select(runs.c.task_id).where(text(DEAD)).group_by(runs.c.task_id)
    return of_tasks.having(func.count() > MOST_BAD).order_by(runs.c.task_id)


def _exceeding_letters(task_id: int) -> tuple[Any, ...]:
    own = (text(DEAD), runs.c.task_id == task_id)
    newest = select(runs.c.id).where(*own).order_by(runs.c.id.desc()).offset(MOST_BAD - 1).limit(1)
    return *own, runs.c.id < newest.scalar_subquery(), ~is_held()


# A dry run ---------------------------------------------------------------------------------------------


def count_old(connection: Connection, history: History, now: datetime) -> dict[str, int]:
    """Return how many rows of each kind are old now, and how many dead letters a round dismisses."""
    found = {"dismissed": 0}
    if (age := seconds_of(history.kept, "dead")) < inf:
        before = shift(now, age)
        found["dismissed"] = connection.scalar(select(func.count()).where(*_old_letters(before))) or 0
        for task_id in connection.scalars(_with_many_letters()).all():
            young = and_(*_exceeding_letters(task_id), runs.c.dead_at >= before)
            found["dismissed"] += connection.scalar(select(func.count()).where(young)) or 0
    for kind, rows in OLD.items():
        if (age := seconds_of(history.kept, kind)) < inf:
            old = select(func.count()).select_from(rows.table).where(rows.is_old(shift(now, age)))
            found[kind] = connection.scalar(old) or 0
    return {kind: number for kind, number in found.items() if number}
