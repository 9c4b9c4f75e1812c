"""Queries of the audit log for `dcron history`, `undo` and `--at`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from dcron.errors import ROW_ERRORS
from dcron.model import DEFINITION_FIELDS, Definition, Task
from dcron.policy.ownership import UNOWNED, Ownership, ownership_of
from dcron.policy.selectors import Selector
from dcron.schema import changes, crontab
from dcron.store import selectors
from dcron.store.audit_log import TASK_ACTIONS, changed_by, definition_in
from dcron.store.tasks import begins_with

APPLIED = "applied"
PAGE = 500
"""Ids in one statement."""


@dataclass(frozen=True)
class Pause:
    """A pause, as a change has it."""

    reason: str | None = None
    by: str | None = None
    at: datetime | None = None
    until: datetime | None = None

    def is_like(self, other: "Pause | None") -> bool:
        """Return whether the other pause has the same reason and end; who began it when does not count."""
        return other is not None and (self.reason, self.until) == (other.reason, other.until)


@dataclass(frozen=True)
class TaskState:
    """A task before or after a change: all that a person has decided about it."""

    definition: Definition
    pause: Pause | None = None
    """None: it was not paused."""
    once: bool = False
    ownership: Ownership = UNOWNED

    def is_like(self, other: "TaskState | None", *, owned_alike: bool = True) -> bool:
        """Return whether the other state is the same; with `owned_alike`, also whose the task is."""
        if other is None or self.definition != other.definition or self.once != other.once:
            return False
        if owned_alike and self.ownership != other.ownership:
            return False
        return self.pause.is_like(other.pause) if self.pause else other.pause is None


def state_of(task: Task) -> TaskState:
    """Return the present state of a task."""
    pause = Pause(task.paused_reason, task.paused_by, task.paused_at, task.paused_until)
    return TaskState(task.definition(), None if task.enabled else pause, task.once, ownership_of(task))


@dataclass(frozen=True)
class RecordedChange:
    """An entry of the audit log."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    """The kind of the subject: task, run, calendar, queue, setting, node, freeze, alert or database."""
    task_id: int | None
    task: str | None
    version: int | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    login: str | None
    via: str | None
    note: str | None
    batch: str | None
    undoes: int | None

    @property
    def author(self) -> str:
        """The actor, with the database login if its name differs."""
        return changed_by(self.actor, self.login)

    @property
    def subject(self) -> str:
        """The name of the changed task, run, calendar and so on."""
        values = self.after or self.before or {}
        if self.kind == "setting":
            return next(iter(values), "")
        return self.task or str(values.get("subject" if self.kind == "alert" else "name", ""))

    @property
    def has_states(self) -> bool:
        """Whether it has the state of a task before and after."""
        return self.action in TASK_ACTIONS and self.task_id is not None

    @property
    def state_before(self) -> TaskState | None:
        """The task before; None if it did not exist, or if the change has no such state."""
        return _state(self.before)

    @property
    def state_after(self) -> TaskState | None:
        """The task after; None if it was removed, or if the change has no such state."""
        if self.action == "pause" and "schedule" not in (self.after or {}):  # as earlier versions wrote it
            before = _state(self.before)
            pause = Pause(reason=(self.after or {}).get("reason"), by=self.actor, at=self.at)
            return before and replace(before, pause=pause)
        return _state(self.after)

    @property
    def fields(self) -> list[str]:
        """The names of the changed fields, with `pause` and `source`; `applied` if it is the only one."""
        before, after = self.before or {}, self.after or {}
        if not before or not after:
            return []
        names = (*DEFINITION_FIELDS, "pause", "source", APPLIED) if self.has_states else after.keys()
        found = [name for name in names if before.get(name) != after.get(name)]
        return found if found == [APPLIED] else [name for name in found if name != APPLIED]


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


_COLUMNS = [changes.c[name] for name in RecordedChange.__dataclass_fields__]


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
    return [_change(row) for row in connection.execute(query.limit(limit))]


def by_id(connection: Connection, change_id: int) -> RecordedChange | None:
    """Return the change of this id."""
    row = connection.execute(select(*_COLUMNS).where(changes.c.id == change_id)).first()
    return _change(row) if row else None


def undos_of(connection: Connection, change_ids: Sequence[int]) -> dict[int, RecordedChange]:
    """Return, by the ids of those of these changes that were undone, the latest change that undoes each."""
    pages = (change_ids[start : start + PAGE] for start in range(0, len(change_ids), PAGE))
    later = changes.c.id > changes.c.undoes  # a row that was written by hand may undo itself
    queries = (select(*_COLUMNS).where(changes.c.undoes.in_(page), later) for page in pages)
    found = (_change(row) for query in queries for row in connection.execute(query.order_by(changes.c.id)))
    return {change.undoes: change for change in found if change.undoes is not None}


def of_batch(connection: Connection, batch: str) -> list[RecordedChange]:
    """Return the changes of a batch, the oldest first."""
    query = select(*_COLUMNS).where(changes.c.batch == batch).order_by(changes.c.id)
    return [_change(row) for row in connection.execute(query)]


def last_of_task(connection: Connection, task_id: int) -> RecordedChange | None:
    """Return the latest change that has the state of this task."""
    query = _newest().where(changes.c.task_id == task_id, changes.c.action.in_(TASK_ACTIONS))
    row = connection.execute(query.limit(1)).first()
    return _change(row) if row else None


def latest_of_task(connection: Connection, task_id: int, limit: int) -> list[RecordedChange]:
    """Return the latest changes that have the state of this task, the latest first."""
    query = _newest().where(changes.c.task_id == task_id, changes.c.action.in_(TASK_ACTIONS))
    return [_change(row) for row in connection.execute(query.limit(limit))]


def of_task_after(connection: Connection, task_id: int, change_id: int) -> list[RecordedChange]:
    """Return the later changes that have the state of this task, the oldest first."""
    of_task = changes.c.task_id == task_id, changes.c.action.in_(TASK_ACTIONS), changes.c.id > change_id
    query = select(*_COLUMNS).where(*of_task).order_by(changes.c.id)
    return [_change(row) for row in connection.execute(query)]


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
    queries = (select(*_COLUMNS).where(changes.c.id.in_(page)) for page in pages)
    return [_change(row) for query in queries for row in connection.execute(query)]


def _newest() -> Select[Any]:
    return select(*_COLUMNS).order_by(changes.c.id.desc())


def _change(row: Any) -> RecordedChange:
    return RecordedChange(**row._mapping)


def _state(written: dict[str, Any] | None) -> TaskState | None:
    """Return the state in a change; None if there is none, or none that can be read."""
    try:
        definition = definition_in(written)
        if definition is None or written is None:
            return None
        pause = _pause(written.get("pause"))
        ownership = Ownership(written.get("source"), written.get("applied"))
        return TaskState(definition, pause, bool(written.get("once")), ownership)
    except ROW_ERRORS:
        return None


def _pause(written: dict[str, Any] | None) -> Pause | None:
    if not written:
        return None
    times = {name: datetime.fromisoformat(written[name]) for name in ("at", "until") if written.get(name)}
    return Pause(reason=written.get("reason"), by=written.get("by"), **times)
