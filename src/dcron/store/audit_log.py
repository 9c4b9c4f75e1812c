"""The audit log: who changed which task or setting, and what it was before and after."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from dcron.model import DEFINITION_FIELDS, Definition, Task
from dcron.schema import changes

CONFIG = "config"
"""The action of a change of a setting. It has no task."""


def record(
    connection: Connection,
    now: datetime,
    actor: str,
    action: str,
    *,
    before: Task | None = None,
    after: Task | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Record a change of a task. Give `detail` if the change leaves the task's definition as it is."""
    task = after or before
    assert task
    values = {"before": _fields_of(before), "after": dict(detail) if detail else _fields_of(after)}
    connection.execute(insert(changes).values(_change(now, actor, action, task) | values))


def record_added(connection: Connection, now: datetime, actor: str, added: Sequence[Task]) -> None:
    """Record that these tasks were added."""
    values = [
        _change(now, actor, "add", task) | {"before": None, "after": _fields_of(task)} for task in added
    ]
    if values:
        connection.execute(insert(changes), values)


def record_about(
    connection: Connection,
    now: datetime,
    actor: str,
    action: str,
    task_id: int | None,
    task: str | None,
    detail: Mapping[str, Any],
) -> None:
    """Record an act that changes no task; it may be about one."""
    about = {"task_id": task_id, "task": task, "before": None, "after": dict(detail)}
    connection.execute(insert(changes).values({"at": now, "actor": actor, "action": action, **about}))


def _change(now: datetime, actor: str, action: str, task: Task) -> dict[str, Any]:
    about = {"task_id": task.id, "task": task.name, "version": task.version}
    return {"at": now, "actor": actor, "action": action, **about}


def record_setting(
    connection: Connection, now: datetime, actor: str, name: str, before: Any, after: Any
) -> None:
    """Record that a setting of all users was changed. None is the value of one that is not set."""
    then, now_set = ({} if value is None else {name: value} for value in (before, after))
    values = {"before": then or None, "after": now_set or None}
    connection.execute(insert(changes).values(at=now, actor=actor, action=CONFIG, **values))


def last_of_name(connection: Connection, task: str) -> Row[Any] | None:
    """Return the latest change of the task of this name."""
    query = select(changes).where(changes.c.task == task).order_by(changes.c.id.desc()).limit(1)
    return connection.execute(query).first()


def last_of_task(connection: Connection, task_id: int) -> Row[Any] | None:
    """Return the latest change of the task of this id, under any name."""
    query = select(changes).where(changes.c.task_id == task_id).order_by(changes.c.id.desc()).limit(1)
    return connection.execute(query).first()


def changed_by(actor: str, login: str | None) -> str:
    """Return the actor, with the database login (on SQLite the account) if its name differs."""
    return actor if login in (None, actor.partition("@")[0]) else f"{actor} (as {login})"


def _fields_of(definition: Definition | None) -> dict[str, Any] | None:
    if definition is None:
        return None
    values = {name: getattr(definition, name) for name in DEFINITION_FIELDS}
    return {name: str(value) if isinstance(value, datetime) else value for name, value in values.items()}
