"""Read and write the crontab: the rows of its tasks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Select,
    Text,
    TextClause,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    type_coerce,
    update,
)

from dcron.database import Database, Reply, locked
from dcron.model import DEFINITION_FIELDS, Definition, Ownership, RunState, Task
from dcron.policy.selectors import Selector
from dcron.policy.starting import occurrences
from dcron.schema.conditions import DEAD, NEXT, ONCE, REBOOT, UNPLANNED
from dcron.schema.tables import calendars, crontab, runs, subscriptions
from dcron.store import audit_log, selectors
from dcron.values.unreadable import Unreadable

FIELDS = tuple(Task.__dataclass_fields__)
PAGE = 500
"""Names or ids in one statement."""


def _content_of(calendar: Column[Any]) -> ColumnElement[str]:
    """Return the content of the task's calendar as text, read along with the task."""
    content = select(type_coerce(calendars.c.content, Text())).where(calendars.c.name == calendar)
    return content.correlate(crontab).scalar_subquery()


CALENDARS = {
    "except_content": _content_of(crontab.c.except_calendar),
    "only_content": _content_of(crontab.c.only_calendar),
}
COLUMNS = [CALENDARS[name].label(name) if name in CALENDARS else crontab.c[name] for name in FIELDS]
_LISTS = ("require", "notify", "notify_on")
_STORED = [crontab.c[name] for name in FIELDS if name not in CALENDARS]


def task_from(row: Sequence[Any]) -> Task:
    """Return the task of a row whose last columns are COLUMNS."""
    return _task(dict(zip(FIELDS, row[-len(FIELDS) :], strict=True)))


def _task(values: dict[str, Any]) -> Task:
    if not isinstance(values["argv"], Unreadable):
        values["argv"] = tuple(values["argv"]) if values["argv"] else None
    for name in _LISTS:
        if not isinstance(values[name], Unreadable):
            values[name] = tuple(values[name])
    # Without the constructor of a frozen dataclass, which takes four times as long, and without a copy.
    task = object.__new__(Task)
    object.__setattr__(task, "__dict__", values)
    return task


def add(
    connection: Connection,
    database: Database,
    definition: Definition,
    now: datetime,
    actor: str,
    *,
    once: bool = False,
) -> Task | None:
    """Write a new task and return it, or None if the name is taken.

    It is marked as planned: the caller plans its first run in this transaction.
    """
    values = {**_values(definition), "once": once, "changed_at": now, "changed_by": actor}
    query = database.insert_if_absent(crontab).values(**values, version=1, planned_version=1)
    row = connection.execute(query.returning(*_STORED)).first()
    if row and (definition.except_calendar or definition.only_calendar):
        return by_id(connection, row.id)  # with the content of its calendars
    return _task({**row._mapping, **dict.fromkeys(CALENDARS)}) if row else None


def put_back(
    connection: Connection,
    database: Database,
    task_id: int,
    version: int,
    definition: Definition,
    state: Mapping[str, Any],
    now: datetime,
    actor: str,
) -> Task | None:
    """Write a removed task under its former id, not yet planned, and return it; None if its name is taken."""
    about = {"id": task_id, "version": version, "planned_version": 0, "changed_at": now, "changed_by": actor}
    query = database.insert_if_absent(crontab).values(**_values(definition), **state, **about)
    row = connection.execute(query.returning(crontab.c.id)).first()
    return by_id(connection, row.id) if row else None


def add_with_state(
    connection: Connection,
    definitions: Sequence[tuple[Definition, Mapping[str, Any]]],
    now: datetime,
    actor: str,
) -> list[Task]:
    """Write new tasks, not yet planned, each with values of further columns, and return them.

    Raises IntegrityError if one of the names is taken or a value breaks a rule of the table.
    """
    author = {"changed_at": now, "changed_by": actor}
    values = [{**_values(definition), **state, **author} for definition, state in definitions]
    connection.execute(insert(crontab), values)
    return by_names(connection, [definition.name for definition, _ in definitions])


def change(
    connection: Connection,
    task: Task,
    columns: Mapping[str, Any],
    now: datetime,
    actor: str,
    definition: Definition | None = None,
) -> bool:
    """Set columns of the task, and its definition, if its version is still the one read.

    Return whether it was. The caller then plans the task.
    """
    values = {**(_values(definition) if definition else {}), **columns}
    result = connection.execute(
        update(crontab)
        .where(crontab.c.id == task.id, crontab.c.version == task.version)
        .values(**values, version=crontab.c.version + 1, changed_at=now, changed_by=actor)
    )
    return result.rowcount == 1


def remove(connection: Connection, task: Task) -> bool:
    """Delete the task if its version is still the one read. Return whether it was."""
    query = delete(crontab).where(crontab.c.id == task.id, crontab.c.version == task.version)
    removed = connection.execute(query).rowcount == 1
    if removed:
        connection.execute(delete(subscriptions).where(subscriptions.c.task_id == task.id))
    return removed


def subscribe(connection: Connection, subscribers: Sequence[Task]) -> None:
    """Write the events and upstream tasks that start these tasks to the table `subscriptions`."""
    ids = [task.id for task in subscribers]
    if ids:
        connection.execute(delete(subscriptions).where(subscriptions.c.task_id.in_(ids)))
    subscribe_new(connection, subscribers)


def subscribe_new(connection: Connection, subscribers: Sequence[Task]) -> None:
    """Do the same for tasks that were just added: they have no subscriptions yet."""
    values = [
        {"task_id": task.id, "kind": kind, "source": source}
        for task in subscribers
        for kind, source in occurrences.sources_of(task)
    ]
    if values:
        connection.execute(insert(subscriptions), values)


def events(connection: Connection, limit: int) -> list[str]:
    """Return the first names of events that tasks wait for, in order."""
    waited_for = select(subscriptions.c.source).where(subscriptions.c.kind == "event").distinct()
    return list(connection.scalars(waited_for.order_by(subscriptions.c.source).limit(limit)))


def by_name(connection: Connection, name: str) -> Task | None:
    """Return the task of exactly this name."""
    row = connection.execute(select(*COLUMNS).where(crontab.c.name == name)).first()
    return task_from(row) if row else None


def by_id(connection: Connection, task_id: int) -> Task | None:
    """Return the task of this id."""
    row = connection.execute(_by_id(), {"task_id": task_id}).first()
    return task_from(row) if row else None


@cache
def _by_id() -> Executable:
    return select(*COLUMNS).where(crontab.c.id == bindparam("task_id"))


def by_ids(connection: Connection, task_ids: Collection[int]) -> list[Task]:
    """Return the tasks of these ids that still exist."""
    return [task_from(row) for row in Reply(connection, _by_ids(), {"task_ids": list(task_ids)}).rows()]


@cache
def _by_ids() -> Executable:
    return select(*COLUMNS).where(crontab.c.id.in_(bindparam("task_ids", expanding=True)))


def _read(
    connection: Connection,
    *conditions: ColumnElement[bool] | TextClause,
    order: Column[Any] | None = None,
    limit: int | None = None,
) -> list[Task]:
    query = select(*COLUMNS).where(*conditions).order_by(order).limit(limit)
    return [task_from(row) for row in connection.execute(query)]


def names_beginning(connection: Connection, prefix: str, limit: int) -> list[str]:
    """Return the first names of tasks that begin with `prefix`, in order."""
    query = select(crontab.c.name).where(selectors.begins_with(crontab.c.name, prefix))
    return list(connection.scalars(query.order_by(crontab.c.name).limit(limit)))


def names(connection: Connection, task_id: int | None = None) -> dict[int, str]:
    """Return the names of all tasks, or of one, by id."""
    query = select(crontab.c.id, crontab.c.name)
    if task_id is not None:
        query = query.where(crontab.c.id == task_id)
    return {row.id: row.name for row in connection.execute(query)}


def by_names(connection: Connection, names: Sequence[str]) -> list[Task]:
    """Return the tasks of exactly these names that exist."""
    pages = (names[start : start + PAGE] for start in range(0, len(names), PAGE))
    return [task for page in pages for task in _read(connection, crontab.c.name.in_(page))]


def of_source(connection: Connection, source: str) -> list[Task]:
    """Return the tasks that were imported from this source, in the order of ids."""
    return _read(connection, crontab.c.source == source, order=crontab.c.id)


def sources(connection: Connection) -> list[str]:
    """Return the sources that tasks have, in order."""
    source = crontab.c.source
    return list(connection.scalars(select(source).where(source.is_not(None)).distinct().order_by(source)))


def applied(connection: Connection, limit: int) -> list[Task]:
    """Return the first tasks, by name, that were applied from a source."""
    return _read(connection, crontab.c.applied.is_not(None), order=crontab.c.name, limit=limit)


def set_ownership(connection: Connection, task: Task, ownership: Ownership) -> bool:
    """Set whose the task is, if its version is still the one read. Return whether it was.

    The version stays: what the task does has not changed.
    """
    query = update(crontab).where(crontab.c.id == task.id, crontab.c.version == task.version)
    return connection.execute(query.values(ownership._asdict())).rowcount == 1


def lock(connection: Connection, task_ids: Collection[int]) -> None:
    """Lock these tasks: until this transaction ends, no other claims their runs, plans or edits them.

    All transactions lock in the order of ids, so there are no deadlocks.
    """
    if task_ids:
        connection.execute(_lock(), {"task_ids": list(task_ids)})


@cache
def _lock() -> Executable:
    locked_ids = select(crontab.c.id).where(crontab.c.id.in_(bindparam("task_ids", expanding=True)))
    return locked_ids.order_by(crontab.c.id).with_for_update(key_share=True)


def page(connection: Connection, after: str, limit: int, *, paused: bool = False) -> list[Task]:
    """Return the tasks that follow the name `after`, in the order of names."""
    paused_ones = [crontab.c.enabled.is_(False)] if paused else []
    return _read(connection, crontab.c.name > after, *paused_ones, order=crontab.c.name, limit=limit)


def every(connection: Connection, *, paused: bool = False) -> Iterator[Task]:
    """Yield all tasks in the order of names, read a page at a time."""
    after = ""
    while found := page(connection, after, 2 * PAGE, paused=paused):
        yield from found
        after = found[-1].name


def selected(connection: Connection, selector: Selector) -> list[Task]:
    """Return the tasks that the selector chooses, in the order of names."""
    return _read(connection, selectors.condition(selector), order=crontab.c.name)


def count(connection: Connection) -> int:
    """Return how many tasks there are."""
    return connection.scalar(select(func.count()).select_from(crontab)) or 0


def to_plan(connection: Connection, now: datetime, limit: int) -> list[Task]:
    """Lock and return tasks that have to be planned: new ones, edited ones, and those paused until `now`."""
    found: dict[int, Task] = {}
    for condition in _has_to_be_planned(bindparam("now")):
        query = locked(select(*COLUMNS).where(*condition).limit(limit))
        found.update((row.id, task_from(row)) for row in connection.execute(query, {"now": now}))
    return list(found.values())


def any_to_plan(now: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition that `to_plan` would find a task. It takes no lock."""
    return or_(*(select(crontab.c.id).where(*condition).exists() for condition in _has_to_be_planned(now)))


def _has_to_be_planned(
    now: ColumnElement[datetime],
) -> Iterator[tuple[ColumnElement[bool] | TextClause, ...]]:
    """Yield the conditions at `now`, each with an index of its own.

    A task whose scheduled run is claimed is planned after that run's start.
    """
    claimed = select(runs.c.id).where(
        runs.c.task_id == crontab.c.id, text(NEXT), runs.c.state == RunState.CLAIMED
    )
    # Not NOT EXISTS: Postgres turns that into a join and reads all runs for it.
    unclaimed = claimed.limit(1).correlate(crontab).scalar_subquery().is_(None)
    yield text(UNPLANNED), unclaimed
    yield crontab.c.paused_until.is_not(None), crontab.c.paused_until <= now, unclaimed


def next_resume() -> Select[Any]:
    """Return the query for when the next pause ends by itself."""
    query = select(crontab.c.paused_until).where(crontab.c.paused_until.is_not(None))
    return query.order_by(crontab.c.paused_until).limit(1)


def mark_planned(connection: Connection, task: Task, error: str | None) -> None:
    """Mark the task, in the version read, as planned; with `error`, as one that cannot run."""
    connection.execute(
        update(crontab).where(crontab.c.id == task.id).values(planned_version=task.version, error=error)
    )


def mark_all_planned(connection: Connection, planned: Sequence[Task]) -> None:
    """Mark tasks that were just written as planned without an error, in one statement."""
    ids = [task.id for task in planned]
    connection.execute(
        update(crontab).where(crontab.c.id.in_(ids)).values(planned_version=crontab.c.version, error=None)
    )


def replan_older_zones(connection: Connection, tzdata: str) -> int:
    """Mark tasks to be planned again whose next run an older tzdata version made. Return how many."""
    older = select(runs.c.task_id).where(text(NEXT), func.coalesce(runs.c.tzdata, "") < tzdata)
    affected = crontab.c.id.in_(older), crontab.c.timezone.not_in(["UTC", "Etc/UTC"])
    return connection.execute(update(crontab).where(*affected).values(planned_version=0)).rowcount


def with_reboot(connection: Connection) -> list[Task]:
    """Return the enabled tasks whose schedules contain `@reboot`."""
    return _read(connection, text(REBOOT), crontab.c.enabled)


def retire_once(
    connection: Connection, now: datetime, limit: int, among: Collection[int] | None = None
) -> list[str]:
    """Delete up to `limit` one-off tasks whose run has succeeded. Return their names.

    A one-off with a dead letter stays until it is dismissed, and an upstream task stays with its downstream
    tasks. With `among`, only tasks of these ids.
    """
    some = {} if among is None else {"among": list(among)}
    rows = connection.execute(_retired(some=among is not None), {"most": limit, **some})
    retired = [_task({**row._mapping, **dict.fromkeys(CALENDARS)}) for row in rows]
    audit_log.record_retired(connection, now, retired)
    return [task.name for task in retired]


@cache
def _retired(*, some: bool) -> Executable:
    done = retirable().order_by(crontab.c.id)
    if some:
        done = done.where(crontab.c.id.in_(bindparam("among", expanding=True)))
    done = done.limit(bindparam("most", type_=Integer()))
    return delete(crontab).where(crontab.c.id.in_(done)).returning(*_STORED)


def retirable() -> Select[Any]:
    """Return the query for the ids of one-off tasks that `retire_once` deletes."""
    of_task = runs.c.task_id == crontab.c.id
    unfinished = select(runs.c.id).where(of_task, runs.c.finished_at.is_(None)).exists()
    succeeded = select(runs.c.id).where(of_task, runs.c.state == RunState.SUCCEEDED).exists()
    dead = select(runs.c.id).where(of_task, text(DEAD)).exists()
    has_downstream = (
        select(subscriptions.c.task_id)
        .where(subscriptions.c.kind == "task", subscriptions.c.source == crontab.c.name)
        .exists()
    )
    return select(crontab.c.id).where(text(ONCE), ~unfinished, succeeded, ~dead, ~has_downstream)


def _values(definition: Definition) -> dict[str, Any]:
    values = {name: getattr(definition, name) for name in DEFINITION_FIELDS}
    values["argv"] = list(definition.argv) if definition.argv else None
    values |= {name: list(values[name]) for name in _LISTS}
    for name in ("env", "need", "limit", "expect", "labels"):
        values[name] = dict(values[name])
    return values
