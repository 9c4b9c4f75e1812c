"""Find tasks by the names that people type, whole or abbreviated."""

from sqlalchemy import Connection

from dcron.errors import NotFound
from dcron.model import Task
from dcron.policy.validation import require_name
from dcron.services.name_prefix import ENOUGH, require_exact, unique_match
from dcron.store import changes
from dcron.store.tasks import rows as tasks
from dcron.values.similar import did_you_mean

_COMPARED = 1_000
"""Names with the same first letter among which the one that was meant is looked for."""
_SIMILAR = 0.75


def exact(connection: Connection, name: str) -> Task:
    """Return the task of exactly this name.

    Raises NotFound, as NotExact where other names begin with it.
    """
    require_name(name)
    if task := tasks.by_name(connection, name):
        return task
    require_exact("task", name, _beginning(connection, name))
    raise _no_task(connection, name)


def find(connection: Connection, name: str) -> Task:
    """Return the task of this name, or the only one whose name begins with it.

    Raises NotFound, or UsageError where several names begin with it.
    """
    require_name(name)
    if task := tasks.by_name(connection, name):
        return task
    found = unique_match(name, _beginning(connection, name))
    task = tasks.by_name(connection, found) if found else None
    if task is None:
        raise _no_task(connection, name)
    return task


def removed_id(connection: Connection, name: str) -> int | None:
    """Return the id of the task that had this name and was removed; None if no task was, or one is there."""
    last = changes.last_of_name(connection, name)
    is_removed = last and tasks.by_name(connection, name) is None
    return last.task_id if last and is_removed else None


def id_of(connection: Connection, name: str) -> int:
    """Return the task id of the runs under this name, also of a removed task. Raises as `find` does."""
    removed = removed_id(connection, name)
    return find(connection, name).id if removed is None else removed


def _no_task(connection: Connection, name: str) -> NotFound:
    """Return the error for a name that no task has, with the name that was probably meant."""
    if name.isascii() and name.isdigit():
        hint = f"; `dcron list` shows what there is; for a run: `dcron view {name}`"
    else:
        alike = tasks.names_beginning(connection, name[:1], _COMPARED)
        hint = did_you_mean(name, alike, "`dcron list` shows what there is", cutoff=_SIMILAR)
    return NotFound(f"there is no task {name!r}{hint}")


def _beginning(connection: Connection, name: str) -> list[str]:
    return tasks.names_beginning(connection, name, ENOUGH)
