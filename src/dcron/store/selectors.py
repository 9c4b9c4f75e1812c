"""Find tasks by their labels."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Integer, and_, bindparam, func, select

from dcron.policy.selectors import NamedTasks, Requirement, Selector
from dcron.schema.tables import crontab, task_labels


def condition(selector: Selector, task_id: Any = crontab.c.id) -> ColumnElement[bool]:
    """Return the condition that the selector chooses the task of this id, a column.

    An index of `task_labels` serves each part that is not negated. A task that was removed has no labels.
    """
    if isinstance(selector, NamedTasks):
        return of_ids(task_id, selector.ids)
    return and_(*(_holds(part, task_id) for part in selector.parts))


def of_ids(task_id: Any, ids: Collection[int]) -> ColumnElement[bool]:
    """Return the condition that a column is one of these ids, which may be more than a statement's values."""
    numbers = bindparam(None, sorted(ids), expanding=True, literal_execute=True, type_=Integer)
    return task_id.in_(numbers)  # type: ignore[no-any-return]


def _holds(part: Requirement, task_id: Any) -> ColumnElement[bool]:
    found = select(task_labels.c.task_id).where(task_labels.c.key == part.key)
    if part.values is not None:
        found = found.where(task_labels.c.value.in_(part.values))
    return task_id.not_in(found) if part.negated else task_id.in_(found)  # type: ignore[no-any-return]


def task_ids(connection: Connection, selector: Selector) -> set[int]:
    """Return the ids of the tasks that the selector chooses."""
    if isinstance(selector, NamedTasks):  # which may have been removed
        return set(selector.ids)
    return set(connection.scalars(select(crontab.c.id).where(condition(selector))))


def values_by_task(connection: Connection, key: str) -> dict[int, str]:
    """Return the value of a label by the id of each task that has it."""
    query = select(task_labels.c.task_id, task_labels.c.value).where(task_labels.c.key == key)
    return {row.task_id: row.value for row in connection.execute(query)}


def keys(connection: Connection) -> list[str]:
    """Return the keys of all labels, in order."""
    return list(connection.scalars(select(task_labels.c.key).distinct().order_by(task_labels.c.key)))


def pairs(connection: Connection) -> list[tuple[str, str]]:
    """Return each key with each of its values, in order."""
    columns = (task_labels.c.key, task_labels.c.value)
    return [
        (row.key, row.value) for row in connection.execute(select(*columns).distinct().order_by(*columns))
    ]


def values(connection: Connection, key: str) -> dict[str, int]:
    """Return how many tasks have each value of a key, in the order of values."""
    query = select(task_labels.c.value, func.count().label("tasks")).where(task_labels.c.key == key)
    rows = connection.execute(query.group_by(task_labels.c.value).order_by(task_labels.c.value))
    return {row.value: row.tasks for row in rows}


def begins_with(name: Column[str], prefix: str) -> ColumnElement[bool]:
    """Return the condition that a name begins with `prefix`, in a form that an index serves."""
    return (name >= prefix) & (name < prefix + "\U0010ffff")
