"""The crontab: its lines, written and read."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from dcron.database import Database
from dcron.model import DEFINITION_FIELDS, Definition, RunState, Task
from dcron.schema import crontab, runs

COLUMNS = [crontab.c[name] for name in Task.__dataclass_fields__]


def task_from(row: Row[Any]) -> Task:
    """The line in a row that has all of COLUMNS under their own names."""
    values = {column.name: getattr(row, column.name) for column in COLUMNS}
    values["argv"] = tuple(values["argv"]) if values["argv"] else None
    return Task(**values)


def add(connection: Connection, line: Definition, now: datetime, actor: str, *, once: bool = False) -> int:
    """Write a new line, not yet planned; its id. Raises IntegrityError when the name is taken."""
    values = {**_values(line), "once": once, "changed_at": now, "changed_by": actor}
    added: int = connection.execute(insert(crontab).values(values).returning(crontab.c.id)).scalar_one()
    return added


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
    return connection.execute(query).rowcount == 1


def by_name(connection: Connection, name: str) -> Task | None:
    """The line of exactly this name."""
    row = connection.execute(select(*COLUMNS).where(crontab.c.name == name)).first()
    return task_from(row) if row else None


def by_id(connection: Connection, task_id: int) -> Task | None:
    """The line of this id."""
    row = connection.execute(select(*COLUMNS).where(crontab.c.id == task_id)).first()
    return task_from(row) if row else None


def names_beginning(connection: Connection, prefix: str, limit: int) -> list[str]:
    """The first names that begin with `prefix`, in order."""
    query = select(crontab.c.name).where(crontab.c.name >= prefix, crontab.c.name < prefix + "\U0010ffff")
    return list(connection.scalars(query.order_by(crontab.c.name).limit(limit)))


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


def to_plan(connection: Connection, database: Database, now: datetime, limit: int) -> list[Task]:
    """Lines whose next run has to be made or made anew, locked: new, edited, or paused until now."""
    unplanned = select(*COLUMNS).where(crontab.c.planned_version != crontab.c.version)
    woken = select(*COLUMNS).where(crontab.c.paused_until.is_not(None), crontab.c.paused_until <= now)
    found: dict[int, Task] = {}
    for query in (unplanned, woken):
        rows = connection.execute(database.locked(query.limit(limit)))
        found.update((row.id, task_from(row)) for row in rows)
    return list(found.values())


def has_to_plan(connection: Connection, now: datetime) -> bool:
    """Whether `to_plan` would find anything, asked without a lock."""
    unplanned = select(crontab.c.id).where(crontab.c.planned_version != crontab.c.version).limit(1)
    woken = (
        select(crontab.c.id)
        .where(crontab.c.paused_until.is_not(None), crontab.c.paused_until <= now)
        .limit(1)
    )
    return connection.scalar(select(or_(unplanned.exists(), woken.exists()))) is True


def next_resume(connection: Connection) -> datetime | None:
    """When the next pause ends by itself."""
    query = select(crontab.c.paused_until).where(crontab.c.paused_until.is_not(None))
    return connection.scalar(query.order_by(crontab.c.paused_until).limit(1))


def mark_planned(connection: Connection, task: Task, error: str | None) -> None:
    """Note that the line, as it was read, has the next run it should have; or why it has none."""
    connection.execute(
        update(crontab).where(crontab.c.id == task.id).values(planned_version=task.version, error=error)
    )


def with_reboot(connection: Connection) -> list[Task]:
    """The enabled lines that speak of `@reboot`."""
    query = select(*COLUMNS).where(crontab.c.schedule.like("%@reboot%"), crontab.c.enabled)
    return [task_from(row) for row in connection.execute(query)]


def retire_once(connection: Connection, limit: int) -> list[str]:
    """Take out one-off lines whose run has succeeded; a failed one stays until somebody has seen it."""
    of_line = runs.c.task_id == crontab.c.id
    unfinished = select(runs.c.id).where(of_line, runs.c.finished_at.is_(None)).exists()
    succeeded = select(runs.c.id).where(of_line, runs.c.state == RunState.SUCCEEDED).exists()
    done = (
        select(crontab.c.id).where(crontab.c.once, ~unfinished, succeeded).order_by(crontab.c.id).limit(limit)
    )
    query = delete(crontab).where(crontab.c.id.in_(done)).returning(crontab.c.name)
    return list(connection.scalars(query))


def _values(line: Definition) -> dict[str, Any]:
    values = {name: getattr(line, name) for name in DEFINITION_FIELDS}
    values["argv"] = list(line.argv) if line.argv else None
    values["env"] = dict(line.env)
    return values
