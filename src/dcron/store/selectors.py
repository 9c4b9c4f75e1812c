"""Find tasks by their labels."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select

from dcron.policy.selectors import Requirement, Selector
from dcron.schema import crontab, task_labels


def condition(selector: Selector, task_id: Any = crontab.c.id) -> ColumnElement[bool]:
    """Return the condition that the selector chooses the task of this id, a column.

    An index of `task_labels` serves each part that is not negated. A task that was removed has no labels.
    """
    return and_(*(_holds(part, task_id) for part in selector.parts))


def _holds(part: Requirement, task_id: Any) -> ColumnElement[bool]:
    found = select(task_labels.c.task_id).where(task_labels.c.key == part.key)
    if part.values is not None:
        found = found.where(task_labels.c.value.in_(part.values))
    return task_id.not_in(found) if part.negated else task_id.in_(found)  # type: ignore[no-any-return]


def task_ids(connection: Connection, selector: Selector) -> set[int]:
    """Return the ids of the tasks that the selector chooses."""
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
