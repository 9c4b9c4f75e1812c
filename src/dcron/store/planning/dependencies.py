"""Start the tasks that come after others (`@after`), once in each flow.

The transaction that ends a step also starts what comes after it. It locks the downstream tasks first, so of
three steps that end at the same time the last sees the other two.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Executable, bindparam, insert, select, update

from dcron.database import Database
from dcron.model import RunState, Task
from dcron.policy.starting import skip_reasons
from dcron.policy.starting.dependencies import Graph, cannot_run, downstream_of, missing, roots
from dcron.policy.starting.skip_reasons import Skip
from dcron.schema.tables import crontab, runs, subscriptions
from dcron.store.runs import new_runs, skipping
from dcron.store.tasks import rows as tasks

MOST_TASKS = 1000
"""Most tasks that `@after` may connect with each other. More are refused, and are read only in part."""


@dataclass(frozen=True)
class Step:
    """A run of a task that others come after."""

    run_id: int
    task: str
    flow: int | None
    scheduled_for: datetime


def step_ended(
    connection: Connection,
    database: Database,
    step: Step,
    state: RunState,
    now: datetime,
    graph: Graph | None = None,
) -> None:
    """Start the tasks after a step whose last attempt has ended, or record why they do not run.

    `graph` is the graph around its task, if that was read already; it may hold other tasks.
    """
    graph = graph_around(connection, step.task) if graph is None else graph
    following = sorted(name for name, upstream in graph.items() if step.task in upstream)
    if not following:
        return
    downstream = _lock(connection, downstream_of(graph, [step.task]))
    flow = step.flow or _begin_or_join(connection, graph, step, downstream, now)
    if state is RunState.SUCCEEDED:
        for name in following:
            _start_if_ready(connection, database, graph, downstream, name, flow, step.scheduled_for, now)
    else:
        skip = skip_reasons.upstream_skip(step.task, state, step.run_id)
        _record_skipped(connection, downstream, downstream, flow, step.scheduled_for, skip, now)


def step_skipped(connection: Connection, database: Database, step: Step, now: datetime) -> None:
    """Record that the tasks after a skipped step do not run. A skipped run begins no flow of its own."""
    if step.flow is not None:
        step_ended(connection, database, step, RunState.SKIPPED, now)


def graph_around(connection: Connection, *names: str) -> dict[str, tuple[str, ...]]:
    """Return the upstream tasks of each task that `@after` connects with these, directly or not."""
    upstream_of: dict[str, set[str]] = {}
    seen: set[str] = set()
    open_names = set(names)
    while open_names and len(seen) < MOST_TASKS * len(names):
        seen |= open_names
        edges = _edges(connection, open_names)
        for task, upstream in edges:
            upstream_of.setdefault(task, set()).add(upstream)
            upstream_of.setdefault(upstream, set())
        open_names = {each for edge in edges for each in edge} - seen
    return {task: tuple(sorted(upstream)) for task, upstream in upstream_of.items()}


def downstream_ids(connection: Connection, names: Collection[str]) -> set[int]:
    """Return the ids of all tasks downstream of these, at any distance."""
    downstream = downstream_of(graph_around(connection, *names), names)
    query = select(crontab.c.id).where(crontab.c.name.in_(sorted(downstream)))
    return set(connection.scalars(query)) if downstream else set()


def directly_downstream(connection: Connection, name: str) -> list[str]:
    """Return the tasks that name this one in their `@after`, in the order of names."""
    return sorted(task for task, upstream in _edges(connection, [name]) if upstream == name)


def members(connection: Connection, flow: int) -> dict[str, set[RunState]]:
    """Return the states of the flow's runs, by task name."""
    found: dict[str, set[RunState]] = {}
    for row in connection.execute(_members(), {"of_flow": flow}):
        found.setdefault(row.task, set()).add(RunState(row.state))
    return found


@cache
def _members() -> Executable:
    of_flow = (runs.c.flow == bindparam("of_flow"), runs.c.flow.is_not(None))
    return select(runs.c.task, runs.c.state).where(*of_flow)


def _edges(connection: Connection, names: Collection[str]) -> set[tuple[str, str]]:
    """Return pairs (task, upstream task), where one of the two is among these names."""
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
    """Lock the tasks of these names, in the order of ids, and return them by name."""
    query = select(*tasks.COLUMNS).where(crontab.c.name.in_(sorted(names))).order_by(crontab.c.id)
    locked = connection.execute(query.with_for_update(key_share=True, of=crontab))
    return {task.name: task for task in map(tasks.task_from, locked)}


def _begin_or_join(
    connection: Connection, graph: Graph, step: Step, downstream: dict[str, Task], now: datetime
) -> int:
    """Return the flow of a run that is not yet part of one: a new flow, or one that waits for its task.

    Where several root tasks lead to one task, the first root to end begins the flow and the others join it.
    All attempts at the run are part of the flow. Its number is the id of the first attempt.
    """
    attempts = _attempts(connection, step.run_id)
    others = (
        roots(graph, downstream_of(graph, [step.task])) - {step.task} if not graph.get(step.task) else set()
    )
    flow = _newest_flow(connection, others) if others else None
    if flow is None or step.task in members(connection, flow):
        if others and (previous := _newest_flow(connection, {step.task})):
            _close(connection, graph, previous, step, downstream, now)
        flow = min(attempts)
    connection.execute(update(runs).where(runs.c.id.in_(attempts)).values(flow=flow))
    return flow


def _attempts(connection: Connection, run_id: int) -> list[int]:
    """Return the ids of the run and of the attempts before it."""
    this = select(runs.c.id, runs.c.retry_of).where(runs.c.id == run_id).cte(recursive=True)
    before = select(runs.c.id, runs.c.retry_of).join_from(this, runs, runs.c.id == this.c.retry_of)
    return list(connection.scalars(select(this.union_all(before).c.id)))


def _newest_flow(connection: Connection, names: Collection[str]) -> int | None:
    """Return the latest flow that one of these tasks was part of."""
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
    connection: Connection, graph: Graph, flow: int, step: Step, downstream: dict[str, Task], now: datetime
) -> None:
    """Record that what waits in `flow` for other roots does not run: this step's task begins a new flow."""
    present = members(connection, flow)
    for name in downstream:
        absent = sorted(roots(graph, [name]) - present.keys())
        if absent and name not in present:
            skip = skip_reasons.flow_begun_again_skip(absent, step.task, step.run_id)
            _record_skipped(connection, downstream, [name], flow, step.scheduled_for, skip, now)


def _start_if_ready(
    connection: Connection,
    database: Database,
    graph: Graph,
    downstream: dict[str, Task],
    name: str,
    flow: int,
    scheduled_for: datetime,
    now: datetime,
) -> None:
    """Start a task after a step that succeeded, if it waits for no other. Record it if it can never run."""
    present = members(connection, flow)
    if present.get(name, set()) - {RunState.SKIPPED}:
        return  # it has a run in this flow already, perhaps a manual one
    succeeded = [each for each, states in present.items() if RunState.SUCCEEDED in states]
    pending = missing(graph, name, succeeded)
    if not pending and name in downstream and (error := downstream[name].error):
        skip = skip_reasons.flow_suspended_skip(name, error)
        _record_skipped(
            connection, downstream, [name, *downstream_of(graph, [name])], flow, scheduled_for, skip, now
        )
        return
    if not pending and name in downstream:
        values = new_runs.in_flow(downstream[name], flow, scheduled_for, due_at=now)
        connection.execute(database.insert_if_absent(runs).values(values))
        return
    impossible = [each for each in pending if each not in present and cannot_run(graph, each, present)]
    if impossible:
        skip = skip_reasons.outside_flow_skip(impossible, flow)
        _record_skipped(
            connection, downstream, [name, *downstream_of(graph, [name])], flow, scheduled_for, skip, now
        )


def _record_skipped(
    connection: Connection,
    downstream: dict[str, Task],
    names: Iterable[str],
    flow: int,
    scheduled_for: datetime,
    skip: Skip,
    now: datetime,
) -> None:
    """Record that these tasks do not run in the flow, except those that are part of it already."""
    present = members(connection, flow)
    values: list[dict[str, Any]] = [
        new_runs.in_flow(downstream[name], flow, scheduled_for) | skipping.columns(skip, now)
        for name in names
        if name in downstream and name not in present
    ]
    if values:
        connection.execute(insert(runs), values)
