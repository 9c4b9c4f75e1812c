"""The record of changes: who did what to which line, and what it was before."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from dcron.model import DEFINITION_FIELDS, Definition, Task
from dcron.schema import changes


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
    """Note a change to a line; `detail` stands for the line where the line's text stays as it is."""
    line = after or before
    assert line
    told = {"before": _text_of(before), "after": dict(detail) if detail else _text_of(after)}
    connection.execute(insert(changes).values(_change(now, actor, action, line) | told))


def record_added(connection: Connection, now: datetime, actor: str, lines: Sequence[Task]) -> None:
    """Note that these lines are new."""
    values = [_change(now, actor, "add", line) | {"before": None, "after": _text_of(line)} for line in lines]
    if values:
        connection.execute(insert(changes), values)


def _change(now: datetime, actor: str, action: str, line: Task) -> dict[str, Any]:
    about = {"task_id": line.id, "task": line.name, "version": line.version}
    return {"at": now, "actor": actor, "action": action, **about}


def last_of_name(connection: Connection, task: str) -> Row[Any] | None:
    """The latest change to the line of this name."""
    query = select(changes).where(changes.c.task == task).order_by(changes.c.id.desc()).limit(1)
    return connection.execute(query).first()


def last_of_task(connection: Connection, task_id: int) -> Row[Any] | None:
    """The latest change to the line of this id, whatever its name was."""
    query = select(changes).where(changes.c.task_id == task_id).order_by(changes.c.id.desc()).limit(1)
    return connection.execute(query).first()


def changed_by(actor: str, login: str | None) -> str:
    """Return the actor, and the database login (on SQLite the account) if its name is another."""
    return actor if login in (None, actor.partition("@")[0]) else f"{actor} (as {login})"


def _text_of(line: Definition | None) -> dict[str, Any] | None:
    if line is None:
        return None
    values = {name: getattr(line, name) for name in DEFINITION_FIELDS}
    return {name: str(value) if isinstance(value, datetime) else value for name, value in values.items()}
