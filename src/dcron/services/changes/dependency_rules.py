"""Check dependencies in the transaction that changes them: no cycles, and no missing upstream tasks."""

from collections.abc import Iterable

from sqlalchemy import Connection

from dcron.database import Database
from dcron.errors import Refused, ScheduleError
from dcron.model import Definition
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import Graph, find_cycle
from dcron.store.planning import dependencies
from dcron.store.tasks import rows as tasks


def lock_if_affected(
    connection: Connection,
    database: Database,
    changes: Iterable[tuple[Definition | None, Definition | None]],
) -> None:
    """Lock the dependencies of all tasks if these changes, each from a task to what it becomes, affect them.

    Call it first in the transaction: what is checked afterwards must still hold when it commits.
    """
    if any(_affects(before, after) for before, after in changes):
        database.lock_dependencies(connection)


def problem_of(connection: Connection, task: Definition, graphs: dict[str, Graph]) -> str | None:
    """Return what is wrong with the upstream tasks of a task written in this transaction; None if nothing.

    `graphs` caches the dependency graphs that were read, by task name: reading a long chain again for each of
    its tasks would take minutes.
    """
    earlier = occurrences.schedule_of(task).after
    found = {task.name: task for task in tasks.by_names(connection, earlier)}
    for name in earlier:
        if name not in found:
            return f"@after {name}: there is no such task; `dcron list` shows what there is"
        if found[name].every_node:
            return f"@after {name}: it runs on every node, so it has no single end to wait for"
    if not earlier:
        return None
    graph = graphs.get(task.name) or dependencies.graph_around(connection, task.name)
    graphs.update(dict.fromkeys(graph, graph))
    if len(graph) > dependencies.MOST_TASKS:
        return (
            f"@after: more than {dependencies.MOST_TASKS:,} tasks would be connected,"
            " which is too large for a flow; let a task begin the next flow with `dcron emit` (@on)"
        )
    cycle = find_cycle(graph, task.name)
    return f"@after: these tasks would wait for each other: {' -> '.join(cycle)}" if cycle else None


def require_no_downstream(connection: Connection, name: str) -> None:
    """Raise Refused while tasks run after the one of this name."""
    if downstream := dependencies.directly_downstream(connection, name):
        raise Refused(
            f"{', '.join(downstream)} {'comes' if len(downstream) == 1 else 'come'} after {name};"
            f" change that first: dcron set {downstream[0]} --schedule ..."
        )


def _affects(before: Definition | None, after: Definition | None) -> bool:
    """Return whether the change could create a cycle or leave a task without its upstream task."""
    if after is None or (before and before.name != after.name) or after.every_node:
        return True
    try:
        return bool(occurrences.schedule_of(after).after)
    except ScheduleError:  # the writer of the task refuses it for this
        return False
