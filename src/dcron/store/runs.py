"""The runs, as people and the record want to see them; and their asking for one to end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from dcron.model import Block, Run, RunState, Trigger
from dcron.schema import ALIVE, DEAD, UNSUCCESSFUL, crontab, runs

COLUMNS = [runs.c[name] for name in Run.__dataclass_fields__]
_WAITING = "state = 'waiting'"


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list; None is any."""

    task_id: int | None = None
    states: Sequence[RunState] | None = None
    since: datetime | None = None
    """Runs that ended at this time or later, or have not ended."""
    before_id: int | None = None
    flow: int | None = None
    dead: bool = False
    """Only dead letters."""


def run_from(row: Row[Any]) -> Run:
    """The run in a row that has COLUMNS."""
    values = {name: getattr(row, name) for name in Run.__dataclass_fields__}
    kinds = {"trigger": Trigger(row.trigger), "state": RunState(row.state)}
    return Run(**{**values, **kinds, "blocked": row.blocked and Block(row.blocked)})


def by_id(connection: Connection, run_id: int) -> Run | None:
    """The run of this id."""
    row = connection.execute(select(*COLUMNS).where(runs.c.id == run_id)).first()
    return run_from(row) if row else None


def newest(connection: Connection, wanted: RunFilter, limit: int) -> list[Run]:
    """The runs wanted, the newest first."""
    conditions = list(_conditions(wanted))
    newest_first = runs.c.id.desc()
    for states in (ALIVE, UNSUCCESSFUL, _WAITING):
        if wanted.states and all(repr(state.value) in states for state in wanted.states):
            conditions.append(text(states))
            # Few among many: look them up and sort them, instead of walking through the history for them.
            newest_first = newest_first if states == UNSUCCESSFUL else (runs.c.id + 0).desc()
    query = select(*COLUMNS).where(*conditions).order_by(newest_first).limit(limit)
    return [run_from(row) for row in connection.execute(query)]


def _conditions(wanted: RunFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    if wanted.task_id is not None:
        yield runs.c.task_id == wanted.task_id
    if wanted.states:
        yield runs.c.state.in_(wanted.states)
    if wanted.since:
        yield or_(runs.c.finished_at >= wanted.since, runs.c.finished_at.is_(None))
    if wanted.before_id is not None:
        yield runs.c.id < wanted.before_id
    if wanted.flow is not None:
        yield and_(runs.c.flow == wanted.flow, runs.c.flow.is_not(None))
    if wanted.dead:
        yield text(DEAD)


def is_in_state(state: RunState) -> ColumnElement[bool]:
    """Return the condition that a run found by its id is in this state.

    It uses a subquery, so that Postgres follows the id. Postgres expects few waiting rows, and would rather
    read all of them by their partial index, once for each id of the batch (17 ms against 1 ms).
    """
    return runs.c.state == select(literal(state.value)).scalar_subquery()


def next_runs(connection: Connection, task_ids: Sequence[int]) -> dict[int, Run]:
    """The first waiting run of each of these lines."""
    of_line = select(runs.c.id).where(runs.c.task_id == crontab.c.id, text("state = 'waiting'"))
    first = of_line.order_by(runs.c.due_at, runs.c.id).limit(1).scalar_subquery()
    query = select(*COLUMNS).where(runs.c.id.in_(select(first).where(crontab.c.id.in_(task_ids))))
    return {row.task_id: run_from(row) for row in connection.execute(query)}


def request_cancel(connection: Connection, run_id: int, actor: str) -> bool:
    """Ask the owner to stop a run; whether it is still alive."""
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
    """When these runs were started, as the database's clock had it."""
    query = select(runs.c.id, runs.c.started_at).where(runs.c.id.in_(run_ids), runs.c.started_at.is_not(None))
    return {row.id: row.started_at for row in connection.execute(query)}


def instead_of(connection: Connection, run: Run) -> Run | None:
    """What stands in the way of another attempt: its retry, or another run of the task in their flow."""
    done = (RunState.SKIPPED, RunState.FAILED, RunState.LOST, RunState.CANCELLED)
    if retry := retry_of(connection, run.id):
        return retry
    in_flow = (runs.c.flow == run.flow, runs.c.flow.is_not(None), runs.c.task_id == run.task_id)
    other = (*in_flow, runs.c.id != run.id, runs.c.state.not_in(done))
    row = connection.execute(select(*COLUMNS).where(*other).limit(1)).first()
    return run_from(row) if row else None


def retry_of(connection: Connection, run_id: int) -> Run | None:
    """The attempt that follows this run, if there is one."""
    retry = (runs.c.retry_of == run_id, runs.c.retry_of.is_not(None))
    row = connection.execute(select(*COLUMNS).where(*retry).limit(1)).first()
    return run_from(row) if row else None


def add(connection: Connection, values: dict[str, Any]) -> Run:
    """Enter a run."""
    return run_from(connection.execute(insert(runs).values(values).returning(*COLUMNS)).one())


def dismiss(connection: Connection, run_ids: Sequence[int]) -> int:
    """Take runs off the list of dead letters; how many were on it."""
    listed = update(runs).where(runs.c.id.in_(run_ids), text(DEAD))
    return connection.execute(listed.values(dead_at=None)).rowcount


def shares(connection: Connection, run: Run) -> list[Run]:
    """All nodes' shares of a turn, of which the run is the first."""
    turn = (runs.c.task_id == run.task_id, runs.c.scheduled_for == run.scheduled_for)
    query = select(*COLUMNS).where(*turn, runs.c.trigger == run.trigger, runs.c.id >= run.id)
    return [run_from(row) for row in connection.execute(query.order_by(runs.c.id))]


def of_event(connection: Connection, event_id: int) -> list[Run]:
    """The runs that an event has started, or would have."""
    query = select(*COLUMNS).where(runs.c.event_id == event_id, runs.c.trigger == text("'event'"))
    return [run_from(row) for row in connection.execute(query.order_by(runs.c.id))]


def occurrences_done(connection: Connection, task_id: int, first: datetime, last: datetime) -> set[datetime]:
    """The line's occurrences in this span that have succeeded, or are going to run."""
    span = (runs.c.task_id == task_id, runs.c.scheduled_for.between(first, last))
    succeeded = (runs.c.finished_at.is_not(None), runs.c.state == RunState.SUCCEEDED)
    done = select(runs.c.scheduled_for).where(*span, *succeeded)
    waiting = select(runs.c.scheduled_for).where(*span, text("state = 'waiting'"))
    living = select(runs.c.scheduled_for).where(*span, text(ALIVE))
    return {moment for query in (done, waiting, living) for moment in connection.scalars(query)}
