"""The audit log: who changed what, when, by which way and why, with the state before and after.

This is the only module that writes changes. All changes of one act have the same batch.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from secrets import choice
from typing import Any

from sqlalchemy import Connection, insert
from sqlalchemy.exc import StatementError

from dcron.errors import ROW_ERRORS
from dcron.model import DEFINITION_FIELDS, Task
from dcron.policy.history import BY_SQL, RecordedChange
from dcron.schema.tables import changes
from dcron.store import changes as read

CONFIG = "config"
"""The action of a change of a setting."""
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_batch() -> str:
    """Return a new name of a batch: a `b`, and 45 random bits."""
    return "b" + "".join(choice(_LETTERS) for _ in range(9))


@dataclass(frozen=True)
class Author:
    """Who makes the changes of one act, by which way and why. They are one batch."""

    name: str
    """Such as `ann@desk`."""
    via: str | None = None
    """The way: `cli add`, `tui`, `edit`, `import`, `sql`, `undo` or `agent`."""
    note: str | None = None
    """The reason that the person gave."""
    batch: str = field(default_factory=new_batch)

    @classmethod
    def agent(cls) -> "Author":
        """Return the author of what an agent changes by itself."""
        return cls("dcron", "agent")


# Write ------------------------------------------------------------------------------------------------


def record(
    connection: Connection,
    now: datetime,
    author: Author,
    action: str,
    *,
    before: Task | None = None,
    after: Task | None = None,
    undoes: int | None = None,
) -> None:
    """Record a change of a task: one of TASK_ACTIONS. `undoes` is the id of the change that it undoes."""
    _insert(connection, _change(now, author, action, before, after) | {"undoes": undoes})


def record_added(connection: Connection, now: datetime, author: Author, added: Sequence[Task]) -> None:
    """Record that these tasks were added."""
    _insert(connection, [_change(now, author, "add", None, task) for task in added])


def record_retired(connection: Connection, now: datetime, retired: Sequence[Task]) -> None:
    """Record that these one-offs have left the crontab, because their run has succeeded."""
    author = Author.agent()
    _insert(connection, [_change(now, author, "retire", task, None) for task in retired])


def record_run(
    connection: Connection,
    now: datetime,
    author: Author,
    action: str,
    task_id: int | None,
    task: str | None,
    detail: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    *,
    kind: str = "run",
) -> None:
    """Record a change of a task's runs: `run cancel retry dismiss backfill hold unhold`; or of its alerts.

    `before` has the saved fields of the task in place of which a trial has others.
    """
    about = {"kind": kind, "task_id": task_id, "task": task, "before": before, "after": dict(detail)}
    _insert(connection, _by(now, author, action) | about)


def record_setting(
    connection: Connection,
    now: datetime,
    author: Author,
    name: str,
    before: Any,
    after: Any,
    *,
    undoes: int | None = None,
) -> None:
    """Record that a setting of all users was changed. None is the value of one that is not set."""
    then, now_set = (None if value is None else {name: value} for value in (before, after))
    about = {"kind": "setting", "before": then, "after": now_set, "undoes": undoes}
    _insert(connection, _by(now, author, CONFIG) | about)


def record_other(
    connection: Connection,
    now: datetime,
    author: Author,
    kind: str,
    action: str,
    name: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    undoes: int | None = None,
) -> None:
    """Record a change of a calendar, a queue, a node or a freeze, with its values."""
    then, now_set = (value and {"name": name, **value} for value in (before, after))
    about = {"kind": kind, "before": then, "after": now_set, "undoes": undoes}
    _insert(connection, _by(now, author, action) | about)


def record_database(
    connection: Connection,
    now: datetime,
    author: Author,
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Record an incident of the database itself: an `epoch`, a step of its `clock`, an `outage`."""
    about = {"kind": "database", "before": dict(before), "after": dict(after)}
    _insert(connection, _by(now, author, action) | about)


def record_sql_edits(connection: Connection, now: datetime, found: Collection[Task]) -> None:
    """Record which of these tasks were added or changed with plain SQL since their last change.

    Each is a batch of its own. Who did it is unknown. A row that the audit log cannot take is left out.
    """
    last = read.last_versions(connection, [task.id for task in found])
    for task in found:
        known = last.get(task.id, 0)
        # A task of dcron without changes: they have been pruned.
        if known < task.version and (known or task.changed_by is None):
            with suppress(StatementError, *ROW_ERRORS), connection.begin_nested():
                _record_sql_edit(connection, now, task)


def record_sql_deletion(connection: Connection, now: datetime, last: RecordedChange) -> None:
    """Record that a task was deleted with plain SQL after `last`, the latest change with its state."""
    about = {"task_id": last.task_id, "task": last.task, "version": last.version}
    states = {"before": last.after or last.before, "after": None, "login": None}
    _insert(connection, _by(now, Author(BY_SQL, BY_SQL), "rm") | about | states)


def _record_sql_edit(connection: Connection, now: datetime, task: Task) -> None:
    state = read.last_of_task(connection, task.id)
    before = state and (state.after or state.before)
    values = _change(now, Author(BY_SQL, BY_SQL), "set" if before else "add", None, task)
    _insert(connection, values | {"before": before and dict(before), "login": None})


def _insert(connection: Connection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    if values:
        connection.execute(insert(changes), values)


def _change(
    now: datetime, author: Author, action: str, before: Task | None, after: Task | None
) -> dict[str, Any]:
    task = after or before
    assert task
    about = {"task_id": task.id, "task": task.name, "version": task.version}
    return _by(now, author, action) | about | {"before": _state_of(before), "after": _state_of(after)}


def _by(now: datetime, author: Author, action: str) -> dict[str, Any]:
    by = {"actor": author.name, "via": author.via, "note": author.note, "batch": author.batch}
    return {"at": now, "action": action, **by}


# The state of a task in a change ----------------------------------------------------------------------


def _state_of(task: Task | None) -> dict[str, Any] | None:
    """Return the definition, with the pause and where the task comes from. Times are texts."""
    if task is None:
        return None
    values = {name: _text(getattr(task, name)) for name in DEFINITION_FIELDS}
    values |= {"pause": _pause_of(task), "once": task.once, **task.ownership()._asdict()}
    return values


def _pause_of(task: Task) -> dict[str, Any] | None:
    if task.enabled:
        return None
    facts = {"reason": task.paused_reason, "by": task.paused_by}
    return facts | {"at": _text(task.paused_at), "until": _text(task.paused_until)}


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, datetime) else value
