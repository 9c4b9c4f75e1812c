"""What comes after what: tasks must not wait in a circle, nor for what is not there.

The checks of a change, made in the transaction that writes it.
"""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from dcron import policy
from dcron.database import Database
from dcron.errors import Refused, ScheduleError
from dcron.model import Definition, Task
from dcron.policy.dependencies import Graph, find_cycle
from dcron.store import dependencies, tasks


def guard(
    connection: Connection,
    database: Database,
    changes: Iterable[tuple[Definition | None, Definition | None]],
) -> None:
    """Keep what comes after what as it is, but for these changes, from each line to what it will be.

    To be called first: what is then checked must still hold when this transaction ends.
    """
    if any(_touches(before, after) for before, after in changes):
        database.lock_dependencies(connection)


def problem_of(
    connection: Connection, line: Definition, graphs: dict[str, Graph] | None = None
) -> str | None:
    """What is wrong with the tasks that the line, written in this transaction, comes after.

    `graphs` are those that were read already, by name: reading a long chain for each of its tasks takes
    minutes.
    """
    earlier = policy.schedule_of(line.schedule, line.name).after
    found = {task.name: task for task in tasks.by_names(connection, earlier)}
    for name in earlier:
        if name not in found:
            return f"@after {name}: there is no such task; `dcron list` shows what there is"
        if found[name].every_node:
            return f"@after {name}: it runs on every node, so it has no one end to come after"
    if not earlier:
        return None
    graph = (graphs or {}).get(line.name) or dependencies.graph_around(connection, line.name)
    if graphs is not None:
        graphs.update(dict.fromkeys(graph, graph))
    if len(graph) > dependencies.MOST_TASKS:
        return (
            f"@after: more than {dependencies.MOST_TASKS:,} tasks would hang together, which no flow takes;"
            " let a task begin the next flow with `dcron emit` (@on)"
        )
    circle = find_cycle(graph, line.name)
    return f"@after: these tasks would wait for each other: {' -> '.join(circle)}" if circle else None


def require_nothing_behind(connection: Connection, task: Task, going: Collection[str] = ()) -> None:
    """Raise Refused where other lines come after this one, and do not leave with it: they name it."""
    behind = [name for name in dependencies.directly_downstream(connection, task.name) if name not in going]
    if behind:
        raise Refused(
            f"{', '.join(behind)} {'comes' if len(behind) == 1 else 'come'} after {task.name};"
            f" change that first: dcron set {behind[0]} --schedule ..."
        )


def _touches(before: Definition | None, after: Definition | None) -> bool:
    """Whether such a change could leave tasks in a circle, or behind what they cannot come after."""
    if after is None or (before and before.name != after.name) or after.every_node:
        return True
    try:
        return bool(policy.schedule_of(after.schedule, after.name).after)
    except ScheduleError:  # it is refused for that, where it is written
        return False
