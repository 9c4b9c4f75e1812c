"""Read runs for services, and write what people request: cancel a run, dismiss a dead letter."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    TextClause,
    and_,
    bindparam,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from dcron.model import Block, Run, RunState, Trigger
from dcron.schema.conditions import ALIVE, DEAD, UNSUCCESSFUL, WAITING
from dcron.schema.tables import crontab, runs
from dcron.store import selectors
from dcron.values.lists import RunFilter, WaitingRuns

COLUMNS = [runs.c[name] for name in Run.__dataclass_fields__]


def run_from(row: Row[Any], **left_out: Any) -> Run:
    """Return the run of a row that has COLUMNS, except those that `left_out` gives values for."""
    return run_of({**row._mapping, **left_out})


def run_of(values: dict[str, Any]) -> Run:
    """Return the run with these stored values, one for each field. The run changes `values` and keeps it."""
    values["trigger"], values["state"] = Trigger(values["trigger"]), RunState(values["state"])
    values["blocked"] = values["blocked"] and Block(values["blocked"])
    # The constructor of a frozen dataclass takes four times as long, and lists read thousands of runs.
    run = object.__new__(Run)
    object.__setattr__(run, "__dict__", values)
    return run


def by_id(connection: Connection, run_id: int) -> Run | None:
    """Return the run of this id."""
    return _first(connection, runs.c.id == run_id)


def _first(connection: Connection, *conditions: ColumnElement[bool]) -> Run | None:
    row = connection.execute(select(*COLUMNS).where(*conditions).limit(1)).first()
    return run_from(row) if row else None


def newest(connection: Connection, only: RunFilter, limit: int) -> list[Run]:
    """Return the runs that pass the filter, the newest first; of a task with its trials."""
    if only.task_id is None:
        return _newest(connection, only, limit)
    trials = replace(only, task_id=-only.task_id)
    found = [*_newest(connection, only, limit), *_newest(connection, trials, limit)]
    return sorted(found, key=lambda run: -run.id)[:limit]


def _newest(connection: Connection, only: RunFilter, limit: int) -> list[Run]:
    conditions = list(_conditions(only))
    newest_first = runs.c.id.desc()
    for states in (ALIVE, UNSUCCESSFUL, WAITING):
        if only.states and all(repr(state.value) in states for state in only.states):
            conditions.append(text(states))
            # Few runs have these states: look them up and sort them instead of reading the history in order.
            newest_first = newest_first if states == UNSUCCESSFUL else (runs.c.id + 0).desc()
    query = select(*COLUMNS).where(*conditions).order_by(newest_first).limit(limit)
    return [run_from(row) for row in connection.execute(query)]


def _conditions(only: RunFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    if only.task_id is not None:
        yield runs.c.task_id == only.task_id
    if only.states:
        yield runs.c.state.in_(only.states)
    if only.since:
        yield or_(runs.c.finished_at >= only.since, runs.c.finished_at.is_(None))
    if only.before_id is not None:
        yield runs.c.id < only.before_id
    if only.flow is not None:
        yield and_(runs.c.flow == only.flow, runs.c.flow.is_not(None))
    if only.dead:
        yield text(DEAD)
    if only.selector:
        yield selectors.condition(only.selector, runs.c.task_id)


def is_in_state(state: RunState) -> ColumnElement[bool]:
    """Return the condition that a run found by its id is in this state.

    It uses a subquery, so that Postgres follows the id. Postgres expects few waiting rows, and would rather
    read all of them by their partial index, once for each id of the batch (17 ms against 1 ms).
    """
    return runs.c.state == select(literal(state.value)).scalar_subquery()


def next_runs(connection: Connection, task_ids: Sequence[int]) -> dict[int, Run]:
    """Return the first waiting run of each of these tasks, by task id."""
    of_task = select(runs.c.id).where(runs.c.task_id == crontab.c.id, text(WAITING))
    first = of_task.order_by(runs.c.due_at, runs.c.id).limit(1).scalar_subquery()
    query = select(*COLUMNS).where(runs.c.id.in_(select(first).where(crontab.c.id.in_(task_ids))))
    return {row.task_id: run_from(row) for row in connection.execute(query)}


def count_waiting(connection: Connection, which: WaitingRuns) -> int:
    """Return how many of these runs there are."""
    query = select(func.count()).select_from(runs).where(*_waiting(which))
    return connection.scalar(query) or 0


def waiting(connection: Connection, which: WaitingRuns, limit: int) -> list[Run]:
    """Return the first of these runs, in the order in which they are due."""
    query = select(*COLUMNS).where(*_waiting(which)).order_by(runs.c.due_at, runs.c.id).limit(limit)
    return [run_from(row) for row in connection.execute(query)]


def _waiting(which: WaitingRuns) -> Iterator[ColumnElement[bool] | TextClause]:
    yield runs.c.task_id == which.task_id
    yield text(WAITING)
    if which.backfill:
        yield runs.c.trigger == Trigger.BACKFILL
        yield runs.c.id.between(*which.backfill)
    else:
        yield or_(runs.c.trigger != Trigger.SCHEDULE, runs.c.due_at <= which.now)


def count_alive(connection: Connection, task_ids: Sequence[int]) -> int:
    """Return how many runs of these tasks a node has claimed or started."""
    alive = select(func.count()).select_from(runs).where(runs.c.task_id.in_(task_ids), text(ALIVE))
    return connection.scalar(alive) or 0


def request_cancel(connection: Connection, run_id: int, actor: str) -> bool:
    """Request that the owner stops a run. Return whether the run is still alive."""
    alive_run = update(runs).where(
        runs.c.id == run_id, runs.c.state.in_([RunState.CLAIMED, RunState.RUNNING])
    )
    return connection.execute(alive_run.values(cancel_requested_by=actor)).rowcount == 1


def to_cancel() -> Select[Any]:
    """Return the query for running runs of `node_id` whose cancellation was requested, with the actor."""
    return select(runs.c.id, runs.c.cancel_requested_by).where(
        *(runs.c.owner == bindparam("node_id"), text(ALIVE), runs.c.state == RunState.RUNNING),
        runs.c.cancel_requested_by.is_not(None),
    )


def started_at(connection: Connection, run_ids: Sequence[int]) -> dict[int, datetime]:
    """Return when these runs were started, by the database's clock (UTC), by run id."""
    query = select(runs.c.id, runs.c.started_at).where(runs.c.id.in_(run_ids), runs.c.started_at.is_not(None))
    return {row.id: row.started_at for row in connection.execute(query)}


def superseded_by(connection: Connection, run: Run) -> Run | None:
    """Return the run that rules out another attempt: the retry, or another run of the task in the flow."""
    done = (RunState.SKIPPED, RunState.FAILED, RunState.LOST, RunState.CANCELLED)
    if retry := retry_of(connection, run.id):
        return retry
    in_flow = (runs.c.flow == run.flow, runs.c.flow.is_not(None), runs.c.task_id == run.task_id)
    return _first(connection, *in_flow, runs.c.id != run.id, runs.c.state.not_in(done))


def retry_of(connection: Connection, run_id: int) -> Run | None:
    """Return the attempt that follows this run, if there is one."""
    return _first(connection, runs.c.retry_of == run_id, runs.c.retry_of.is_not(None))


def add(connection: Connection, values: dict[str, Any]) -> Run:
    """Insert a run and return it."""
    return run_from(connection.execute(insert(runs).values(values).returning(*COLUMNS)).one())


def dismiss(connection: Connection, run_ids: Sequence[int]) -> int:
    """Remove runs from the dead letters. Return how many of them were dead letters."""
    listed = update(runs).where(runs.c.id.in_(run_ids), text(DEAD))
    return connection.execute(listed.values(dead_at=None)).rowcount


def shares(connection: Connection, run: Run) -> list[Run]:
    """Return all nodes' shares of an every-node run, of which `run` is the first."""
    same_time = (runs.c.task_id == run.task_id, runs.c.scheduled_for == run.scheduled_for)
    query = select(*COLUMNS).where(*same_time, runs.c.trigger == run.trigger, runs.c.id >= run.id)
    return [run_from(row) for row in connection.execute(query.order_by(runs.c.id))]


def of_event(connection: Connection, event_id: int) -> list[Run]:
    """Return the runs that an event started, and those skipped instead."""
    query = select(*COLUMNS).where(runs.c.event_id == event_id, runs.c.trigger == text("'event'"))
    return [run_from(row) for row in connection.execute(query.order_by(runs.c.id))]


def occurrences_done(connection: Connection, task_id: int, first: datetime, last: datetime) -> set[datetime]:
    """Return the task's occurrences from `first` to `last` that have succeeded, wait or are alive."""
    in_range = (runs.c.task_id == task_id, runs.c.scheduled_for.between(first, last))
    succeeded = (runs.c.finished_at.is_not(None), runs.c.state == RunState.SUCCEEDED)
    done = select(runs.c.scheduled_for).where(*in_range, *succeeded)
    waiting = select(runs.c.scheduled_for).where(*in_range, text(WAITING))
    living = select(runs.c.scheduled_for).where(*in_range, text(ALIVE))
    return {at for query in (done, waiting, living) for at in connection.scalars(query)}


def tasks_with_payloads(connection: Connection, latest: int) -> set[int]:
    """Return the tasks of which one of the latest runs, so many of all tasks, had a payload."""
    newest = select(func.max(runs.c.id)).scalar_subquery()
    query = select(runs.c.task_id).distinct().where(runs.c.id > newest - latest, runs.c.payload.is_not(None))
    return set(connection.scalars(query))
