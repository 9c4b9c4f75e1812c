"""The crontab: its lines, written and read."""

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
    Row,
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

from dcron import policy
from dcron.database import Database, locked
from dcron.model import DEFINITION_FIELDS, Definition, RunState, Task
from dcron.schema import DEAD, NEXT, ONCE, REBOOT, UNPLANNED, calendars, crontab, runs, subscriptions
from dcron.unreadable import Unreadable

FIELDS = tuple(Task.__dataclass_fields__)
PAGE = 500
"""Names or ids in one statement."""


def _content_of(calendar: Column[Any]) -> ColumnElement[str]:
    """What the calendar of this name holds, as text, read along with the line."""
    content = select(type_coerce(calendars.c.content, Text())).where(calendars.c.name == calendar)
    return content.correlate(crontab).scalar_subquery()


CALENDARS = {
    "except_content": _content_of(crontab.c.except_calendar),
    "only_content": _content_of(crontab.c.only_calendar),
}
COLUMNS = [CALENDARS[name].label(name) if name in CALENDARS else crontab.c[name] for name in FIELDS]


def task_from(row: Row[Any]) -> Task:
    """The line in a row whose last columns are COLUMNS."""
    values = dict(zip(FIELDS, row[-len(FIELDS) :], strict=True))
    if not isinstance(values["argv"], Unreadable):
        values["argv"] = tuple(values["argv"]) if values["argv"] else None
    if not isinstance(values["require"], Unreadable):
        values["require"] = tuple(values["require"])
    return Task(**values)


def add(
    connection: Connection,
    database: Database,
    definition: Definition,
    now: datetime,
    actor: str,
    *,
    once: bool = False,
) -> int | None:
    """Write a new task, not yet planned; return its id, or None if the name is taken."""
    values = {**_values(definition), "once": once, "changed_at": now, "changed_by": actor}
    query = database.insert_if_absent(crontab).values(values).returning(crontab.c.id)
    added: int | None = connection.execute(query).scalar()
    return added


def add_many(
    connection: Connection, lines: Sequence[Definition], now: datetime, actor: str, source: str | None
) -> list[Task]:
    """Write new lines, not yet planned. Raises IntegrityError when one of the names is taken."""
    author = {"changed_at": now, "changed_by": actor, "source": source}
    connection.execute(insert(crontab), [{**_values(line), **author} for line in lines])
    names = [line.name for line in lines]
    rows = connection.execute(select(*COLUMNS).where(crontab.c.name.in_(names)))
    return [task_from(row) for row in rows]


def add_with_state(
    connection: Connection,
    lines: Sequence[tuple[Definition, Mapping[str, Any]]],
    now: datetime,
    actor: str,
) -> list[Task]:
    """Write new lines, not yet planned, each with other columns of its own.

    Raises IntegrityError when one of the names is taken, or a value breaks a rule of the table.
    """
    author = {"changed_at": now, "changed_by": actor}
    connection.execute(insert(crontab), [{**_values(line), **state, **author} for line, state in lines])
    return by_names(connection, [line.name for line, _ in lines])


def change_with_state(
    connection: Connection, task: Task, line: Definition, state: Mapping[str, Any], now: datetime, actor: str
) -> bool:
    """Rewrite the line and other columns if it is still of the version read; return whether it was."""
    return change(connection, task, {**_values(line), **state}, now, actor)


def replace(connection: Connection, task: Task, line: Definition, now: datetime, actor: str) -> bool:
    """Rewrite the line if it is still of the version read; whether it was. It is then to be planned."""
    return change(connection, task, _values(line), now, actor)


def change(connection: Connection, task: Task, values: dict[str, Any], now: datetime, actor: str) -> bool:
    """Set columns of the line if it is still of the version read; whether it was."""
    result = connection.execute(
        update(crontab)
        .where(crontab.c.id == task.id, crontab.c.version == task.version)
        .values(**values, version=crontab.c.version + 1, changed_at=now, changed_by=actor)
    )
    return result.rowcount == 1


def remove(connection: Connection, task: Task) -> bool:
    """Take the line out if it is still of the version read; whether it was."""
    query = delete(crontab).where(crontab.c.id == task.id, crontab.c.version == task.version)
    removed = connection.execute(query).rowcount == 1
    if removed:
        connection.execute(delete(subscriptions).where(subscriptions.c.task_id == task.id))
    return removed


def subscribe(connection: Connection, lines: Sequence[Task]) -> None:
    """Note what else than the clock makes these lines run, where it can be looked up."""
    ids = [task.id for task in lines]
    if ids:
        connection.execute(delete(subscriptions).where(subscriptions.c.task_id.in_(ids)))
    values = [
        {"task_id": task.id, "kind": kind, "source": source}
        for task in lines
        for kind, source in policy.sources_of(task)
    ]
    if values:
        connection.execute(insert(subscriptions), values)


def by_name(connection: Connection, name: str) -> Task | None:
    """The line of exactly this name."""
    row = connection.execute(select(*COLUMNS).where(crontab.c.name == name)).first()
    return task_from(row) if row else None


def by_id(connection: Connection, task_id: int) -> Task | None:
    """The line of this id."""
    row = connection.execute(_by_id(), {"task_id": task_id}).first()
    return task_from(row) if row else None


@cache
def _by_id() -> Executable:
    return select(*COLUMNS).where(crontab.c.id == bindparam("task_id"))


def by_ids(connection: Connection, task_ids: Collection[int]) -> list[Task]:
    """The lines of these ids, as far as they are still there."""
    return [task_from(row) for row in connection.execute(_by_ids(), {"task_ids": list(task_ids)})]


@cache
def _by_ids() -> Executable:
    return select(*COLUMNS).where(crontab.c.id.in_(bindparam("task_ids", expanding=True)))


def names_beginning(connection: Connection, prefix: str, limit: int) -> list[str]:
    """Return the first names of tasks that begin with `prefix`, in order."""
    query = select(crontab.c.name).where(begins_with(crontab.c.name, prefix))
    return list(connection.scalars(query.order_by(crontab.c.name).limit(limit)))


def begins_with(name: Column[str], prefix: str) -> ColumnElement[bool]:
    """Return the condition that a name begins with `prefix`, in a form that an index serves."""
    return (name >= prefix) & (name < prefix + "\U0010ffff")


def by_names(connection: Connection, names: Sequence[str]) -> list[Task]:
    """The lines of exactly these names, as far as there are such."""
    pages = (names[start : start + PAGE] for start in range(0, len(names), PAGE))
    queries = (select(*COLUMNS).where(crontab.c.name.in_(page)) for page in pages)
    return [task_from(row) for query in queries for row in connection.execute(query)]


def of_source(connection: Connection, source: str) -> list[Task]:
    """Return the tasks that were imported from this source, in the order of ids."""
    query = select(*COLUMNS).where(crontab.c.source == source).order_by(crontab.c.id)
    return [task_from(row) for row in connection.execute(query)]


def set_source(connection: Connection, task_ids: Sequence[int], source: str | None) -> None:
    """Note where these tasks come from; their version stays, for they do what they did."""
    for start in range(0, len(task_ids), PAGE):
        ids = task_ids[start : start + PAGE]
        different = crontab.c.source.is_distinct_from(source)
        connection.execute(update(crontab).where(crontab.c.id.in_(ids), different).values(source=source))


def lock(connection: Connection, task_ids: Collection[int]) -> None:
    """Let nobody else claim a turn of these lines, plan or change them until this transaction ends.

    Everybody locks in the order of ids, so nobody waits in a circle.
    """
    if task_ids:
        connection.execute(_lock(), {"task_ids": list(task_ids)})


@cache
def _lock() -> Executable:
    lines = select(crontab.c.id).where(crontab.c.id.in_(bindparam("task_ids", expanding=True)))
    return lines.order_by(crontab.c.id).with_for_update(key_share=True)


def page(connection: Connection, after: str, limit: int, *, paused: bool = False) -> list[Task]:
    """The lines that follow the name `after`, in the order of names."""
    query = select(*COLUMNS).where(crontab.c.name > after).order_by(crontab.c.name).limit(limit)
    if paused:
        query = query.where(crontab.c.enabled.is_(False))
    return [task_from(row) for row in connection.execute(query)]


def every(connection: Connection, *, paused: bool = False, page_size: int = 1000) -> Iterator[Task]:
    """All lines, read a page at a time."""
    after = ""
    while lines := page(connection, after, page_size, paused=paused):
        yield from lines
        after = lines[-1].name


def count(connection: Connection) -> int:
    """How many lines there are."""
    return connection.scalar(select(func.count()).select_from(crontab)) or 0


def to_plan(connection: Connection, now: datetime, limit: int) -> list[Task]:
    """Lines whose next run has to be made or made anew, locked: new, edited, or paused until now."""
    found: dict[int, Task] = {}
    for condition in _has_to_be_planned(bindparam("now")):
        query = locked(select(*COLUMNS).where(*condition).limit(limit))
        found.update((row.id, task_from(row)) for row in connection.execute(query, {"now": now}))
    return list(found.values())


def any_to_plan(now: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition that `to_plan` would find a task, asked without a lock."""
    return or_(*(select(crontab.c.id).where(*condition).exists() for condition in _has_to_be_planned(now)))


def _has_to_be_planned(
    now: ColumnElement[datetime],
) -> Iterator[tuple[ColumnElement[bool] | TextClause, ...]]:
    """The conditions at `now`, each with an index of its own. A line whose turn is claimed waits for its
    start."""
    claimed = select(runs.c.id).where(
        runs.c.task_id == crontab.c.id, text(NEXT), runs.c.state == RunState.CLAIMED
    )
    # Not NOT EXISTS: of that Postgres makes a join, for which it reads all runs.
    unclaimed = claimed.limit(1).correlate(crontab).scalar_subquery().is_(None)
    yield text(UNPLANNED), unclaimed
    yield crontab.c.paused_until.is_not(None), crontab.c.paused_until <= now, unclaimed


def next_resume() -> Select[Any]:
    """Return the query for the time at which the next pause ends by itself."""
    query = select(crontab.c.paused_until).where(crontab.c.paused_until.is_not(None))
    return query.order_by(crontab.c.paused_until).limit(1)


def mark_planned(connection: Connection, task: Task, error: str | None) -> None:
    """Note that the line, as it was read, has the next run it should have; or why it has none."""
    connection.execute(
        update(crontab).where(crontab.c.id == task.id).values(planned_version=task.version, error=error)
    )


def mark_all_planned(connection: Connection, lines: Sequence[Task]) -> None:
    """The same for lines of one version, all of them well."""
    ids = [task.id for task in lines]
    connection.execute(
        update(crontab).where(crontab.c.id.in_(ids)).values(planned_version=crontab.c.version, error=None)
    )


def replan_older_zones(connection: Connection, tzdata: str) -> int:
    """Have lines planned anew whose next run an older version of the time zones made; how many."""
    older = select(runs.c.task_id).where(text(NEXT), func.coalesce(runs.c.tzdata, "") < tzdata)
    lines = update(crontab).where(crontab.c.id.in_(older), crontab.c.timezone.not_in(["UTC", "Etc/UTC"]))
    return connection.execute(lines.values(planned_version=0)).rowcount


def with_reboot(connection: Connection) -> list[Task]:
    """The enabled lines that speak of `@reboot`."""
    query = select(*COLUMNS).where(text(REBOOT), crontab.c.enabled)
    return [task_from(row) for row in connection.execute(query)]


def retire_once(connection: Connection, limit: int, among: Collection[int] | None = None) -> list[str]:
    """Take out one-off lines whose run has succeeded; one that failed anywhere stays until somebody has seen
    it, and one that others come after stays with them."""
    if among is None:
        return list(connection.scalars(_retired(), {"most": limit}))
    return list(connection.scalars(_retired(some=True), {"most": limit, "among": list(among)}))


@cache
def _retired(*, some: bool = False) -> Executable:
    """All of them, or some `among` which they are looked for."""
    of_line = runs.c.task_id == crontab.c.id
    unfinished = select(runs.c.id).where(of_line, runs.c.finished_at.is_(None)).exists()
    succeeded = select(runs.c.id).where(of_line, runs.c.state == RunState.SUCCEEDED).exists()
    dead = select(runs.c.id).where(of_line, text(DEAD)).exists()
    followed = (
        select(subscriptions.c.task_id)
        .where(subscriptions.c.kind == "task", subscriptions.c.source == crontab.c.name)
        .exists()
    )
    wanted = (text(ONCE), ~unfinished, succeeded, ~dead, ~followed)
    done = select(crontab.c.id).where(*wanted).order_by(crontab.c.id)
    if some:
        done = done.where(crontab.c.id.in_(bindparam("among", expanding=True)))
    done = done.limit(bindparam("most", type_=Integer()))
    return delete(crontab).where(crontab.c.id.in_(done)).returning(crontab.c.name)


def _values(line: Definition) -> dict[str, Any]:
    values = {name: getattr(line, name) for name in DEFINITION_FIELDS}
    values["argv"] = list(line.argv) if line.argv else None
    values["require"] = list(line.require)
    for name in ("env", "need", "limit"):
        values[name] = dict(values[name])
    return values
