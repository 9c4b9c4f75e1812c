"""Flows: tasks that come after others (`@after`), once for each run with which a flow begins.

Whoever ends a step brings in what comes after it, in the same transaction. The lines behind it are locked
first, so of three steps that end at once the last to come sees the other two.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Executable, bindparam, insert, select, update

from dcron.database import Database
from dcron.model import RunState, SkipCode, Task
from dcron.policy import Skip
from dcron.policy.dependencies import Graph, cannot_run, downstream_of, missing, roots
from dcron.schema import crontab, runs, subscriptions
from dcron.store import new_runs, skipping, tasks

MOST_TASKS = 1000
"""Tasks that may hang together by `@after`: more are refused, and not all of them looked at."""


@dataclass(frozen=True)
class Step:
    """A run of a task that others come after."""

    run_id: int
    task: str
    flow: int | None
    scheduled_for: datetime


def step_ended(
    connection: Connection, database: Database, step: Step, state: RunState, now: datetime
) -> None:
    """Bring in what comes after a step whose last attempt is over, or record why it does not."""
    graph = graph_around(connection, step.task)
    following = sorted(name for name, earlier in graph.items() if step.task in earlier)
    if not following:
        return
    lines = _lock(connection, downstream_of(graph, [step.task]))
    flow = step.flow or _begin_or_join(connection, graph, step, lines, now)
    if state is RunState.SUCCEEDED:
        for name in following:
            _go_on(connection, database, graph, lines, name, flow, step.scheduled_for, now)
    else:
        reason = f"{step.task} {_ENDS[state]} (run {step.run_id})"
        skip = Skip(SkipCode.UPSTREAM, reason, caused_by=step.run_id)
        _leave_out(connection, lines, lines, flow, step.scheduled_for, skip, now)


_ENDS = {
    RunState.FAILED: "failed",
    RunState.LOST: "was lost",
    RunState.CANCELLED: "was cancelled",
    RunState.SKIPPED: "was skipped",
}


def step_skipped(connection: Connection, database: Database, step: Step, now: datetime) -> None:
    """The same for a step that did not run at all. One that is in no flow has begun none."""
    if step.flow is not None:
        step_ended(connection, database, step, RunState.SKIPPED, now)


def graph_around(connection: Connection, name: str) -> dict[str, tuple[str, ...]]:
    """What comes after what, in everything that hangs together with this task."""
    earlier_of: dict[str, set[str]] = {}
    seen: set[str] = set()
    open_names = {name}
    while open_names and len(seen) < MOST_TASKS:
        seen |= open_names
        edges = _edges(connection, open_names)
        for later, earlier in edges:
            earlier_of.setdefault(later, set()).add(earlier)
            earlier_of.setdefault(earlier, set())
        open_names = {each for edge in edges for each in edge} - seen
    return {later: tuple(sorted(earlier)) for later, earlier in earlier_of.items()}


def downstream_ids(connection: Connection, names: Collection[str]) -> set[int]:
    """The ids of all lines that come, at any distance, after these."""
    later: set[str] = set()
    for name in sorted(names):
        later |= downstream_of(graph_around(connection, name), [name])
    query = select(crontab.c.id).where(crontab.c.name.in_(sorted(later)))
    return set(connection.scalars(query)) if later else set()


def directly_downstream(connection: Connection, name: str) -> list[str]:
    """The lines that name this one in their `@after`, in the order of names."""
    return sorted(later for later, earlier in _edges(connection, [name]) if earlier == name)


def members(connection: Connection, flow: int) -> dict[str, set[RunState]]:
    """The states of each task's runs that are part of the flow."""
    found: dict[str, set[RunState]] = {}
    for row in connection.execute(_members(), {"of_flow": flow}):
        found.setdefault(row.task, set()).add(RunState(row.state))
    return found


@cache
def _members() -> Executable:
    of_flow = (runs.c.flow == bindparam("of_flow"), runs.c.flow.is_not(None))
    return select(runs.c.task, runs.c.state).where(*of_flow)


def _edges(connection: Connection, names: Collection[str]) -> set[tuple[str, str]]:
    """Which task comes after which, where one of the two is among these."""
    given = {"names": list(names)}
    return {(row.name, row.source) for query in _edges_at() for row in connection.execute(query, given)}


@cache
def _edges_at() -> tuple[Executable, Executable]:
    edge = (
        select(crontab.c.name, subscriptions.c.source)
        .join_from(subscriptions, crontab, crontab.c.id == subscriptions.c.task_id)
        .where(subscriptions.c.kind == "task")
    )
    names: BindParameter[str] = bindparam("names", expanding=True)
    return edge.where(subscriptions.c.source.in_(names)), edge.where(crontab.c.name.in_(names))


def _lock(connection: Connection, names: Iterable[str]) -> dict[str, Task]:
    """The lines of these names, locked in the order of their ids."""
    query = select(*tasks.COLUMNS).where(crontab.c.name.in_(sorted(names))).order_by(crontab.c.id)
    locked = connection.execute(query.with_for_update(key_share=True, of=crontab))
    return {task.name: task for task in map(tasks.task_from, locked)}


def _begin_or_join(
    connection: Connection, graph: Graph, step: Step, lines: dict[str, Task], now: datetime
) -> int:
    """The flow of a run that is not yet part of one: its own, or one that waits for its task.

    Where several tasks with which flows begin lead to one that comes after them all, the first to end begins
    the flow and the others join it. All attempts at the run are part of it, and the first one is its number.
    """
    attempts = _attempts(connection, step.run_id)
    others = (
        roots(graph, downstream_of(graph, [step.task])) - {step.task} if not graph.get(step.task) else set()
    )
    flow = _newest_flow(connection, others) if others else None
    if flow is None or step.task in members(connection, flow):
        if others and (before_this := _newest_flow(connection, {step.task})):
            _close(connection, graph, before_this, step, lines, now)
        flow = min(attempts)
    connection.execute(update(runs).where(runs.c.id.in_(attempts)).values(flow=flow))
    return flow


def _attempts(connection: Connection, run_id: int) -> list[int]:
    """The run, and those of which it is the retry."""
    this = select(runs.c.id, runs.c.retry_of).where(runs.c.id == run_id).cte(recursive=True)
    before = select(runs.c.id, runs.c.retry_of).join_from(this, runs, runs.c.id == this.c.retry_of)
    return list(connection.scalars(select(this.union_all(before).c.id)))


def _newest_flow(connection: Connection, names: Collection[str]) -> int | None:
    """The latest flow that one of these tasks was part of."""
    latest = [
        select(runs.c.flow)
        .join_from(crontab, runs, runs.c.task_id == crontab.c.id)
        .where(crontab.c.name == name, runs.c.flow.is_not(None))
        .order_by(runs.c.id.desc())
        .limit(1)
        for name in sorted(names)
    ]
    return max((flow for query in latest if (flow := connection.scalar(query))), default=None)


def _close(
    connection: Connection, graph: Graph, flow: int, step: Step, lines: dict[str, Task], now: datetime
) -> None:
    """The task begins a new flow while others never came to its last: what waited for them is left out."""
    part = members(connection, flow)
    for name in lines:
        absent = sorted(roots(graph, [name]) - part.keys())
        if absent and name not in part:
            reason = f"{', '.join(absent)} did not run before {step.task} ran again (run {step.run_id})"
            skip = Skip(SkipCode.FLOW_CLOSED, reason)
            _leave_out(connection, lines, [name], flow, step.scheduled_for, skip, now)


def _go_on(
    connection: Connection,
    database: Database,
    graph: Graph,
    lines: dict[str, Task],
    name: str,
    flow: int,
    scheduled_for: datetime,
    now: datetime,
) -> None:
    """Bring in one of the tasks that come after a step that succeeded, when it waits for nothing else."""
    part = members(connection, flow)
    if part.get(name, set()) - {RunState.SKIPPED}:
        return  # it has had its run, perhaps by hand
    succeeded = [each for each, states in part.items() if RunState.SUCCEEDED in states]
    wanting = missing(graph, name, succeeded)
    if not wanting and name in lines and (error := lines[name].error):
        skip = Skip(SkipCode.FLOW_CLOSED, f"{name} is suspended: {error}")
        _leave_out(connection, lines, [name, *downstream_of(graph, [name])], flow, scheduled_for, skip, now)
        return
    if not wanting and name in lines:
        values = new_runs.in_flow(lines[name], flow, scheduled_for, due_at=now)
        connection.execute(database.insert_if_absent(runs).values(values))
        return
    never = [each for each in wanting if each not in part and cannot_run(graph, each, part)]
    if never:
        are = "is" if len(never) == 1 else "are"
        reason = f"{', '.join(never)} {are} not part of flow {flow}, which began further on"
        skip = Skip(SkipCode.FLOW_CLOSED, reason)
        _leave_out(connection, lines, [name, *downstream_of(graph, [name])], flow, scheduled_for, skip, now)


def _leave_out(
    connection: Connection,
    lines: dict[str, Task],
    names: Iterable[str],
    flow: int,
    scheduled_for: datetime,
    skip: Skip,
    now: datetime,
) -> None:
    """Record that these tasks do not run in the flow; those that are part of it already are let be."""
    part = members(connection, flow)
    values: list[dict[str, Any]] = [
        new_runs.in_flow(lines[name], flow, scheduled_for) | skipping.columns(skip, now)
        for name in names
        if name in lines and name not in part
    ]
    if values:
        connection.execute(insert(runs), values)
