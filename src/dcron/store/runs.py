"""The runs, as people and the record want to see them; and their asking for one to end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, TextClause, or_, select, text, update

from dcron.model import Run, RunState, Trigger
from dcron.schema import ALIVE, UNHAPPY, crontab, runs

COLUMNS = [runs.c[name] for name in Run.__dataclass_fields__]


@dataclass(frozen=True)
class Wanted:
    """Which runs to list; None is any."""

    task_id: int | None = None
    states: Sequence[RunState] | None = None
    since: datetime | None = None
    """Runs that ended at this time or later, or have not ended."""
    before_id: int | None = None


def run_from(row: Row[Any]) -> Run:
    """The run in a row that has COLUMNS."""
    values = {name: getattr(row, name) for name in Run.__dataclass_fields__}
    return Run(**{**values, "trigger": Trigger(row.trigger), "state": RunState(row.state)})


def by_id(connection: Connection, run_id: int) -> Run | None:
    """The run of this id."""
    row = connection.execute(select(*COLUMNS).where(runs.c.id == run_id)).first()
    return run_from(row) if row else None


def newest(connection: Connection, wanted: Wanted, limit: int) -> list[Run]:
    """The runs wanted, the newest first."""
    conditions = list(_conditions(wanted))
    newest_first = runs.c.id.desc()
    for states in (ALIVE, UNHAPPY):
        if wanted.states and all(repr(state.value) in states for state in wanted.states):
            conditions.append(text(states))
            # Few among many: look them up and sort them, instead of walking through the history for them.
            newest_first = (runs.c.id + 0).desc() if states == ALIVE else newest_first
    query = select(*COLUMNS).where(*conditions).order_by(newest_first).limit(limit)
    return [run_from(row) for row in connection.execute(query)]


def _conditions(wanted: Wanted) -> Iterator[ColumnElement[bool] | TextClause]:
    if wanted.task_id is not None:
        yield runs.c.task_id == wanted.task_id
    if wanted.states:
        yield runs.c.state.in_(wanted.states)
    if wanted.since:
        yield or_(runs.c.finished_at >= wanted.since, runs.c.finished_at.is_(None))
    if wanted.before_id is not None:
        yield runs.c.id < wanted.before_id


def next_turns(connection: Connection, task_ids: Sequence[int]) -> dict[int, Run]:
    """The first waiting run of each of these lines."""
    query = select(*COLUMNS).where(runs.c.task_id.in_(task_ids), runs.c.state == RunState.WAITING)
    found: dict[int, Run] = {}
    for row in connection.execute(query.order_by(runs.c.due_at.desc())):
        found[row.task_id] = run_from(row)
    return found


def last_started(connection: Connection, task_ids: Sequence[int]) -> dict[int, Run]:
    """The latest run of each of these lines that was ever started."""
    of_line = select(runs.c.id).where(runs.c.task_id == crontab.c.id, runs.c.started_at.is_not(None))
    latest = of_line.order_by(runs.c.id.desc()).limit(1).scalar_subquery()
    query = select(*COLUMNS).where(runs.c.id.in_(select(latest).where(crontab.c.id.in_(task_ids))))
    return {row.task_id: run_from(row) for row in connection.execute(query)}


def alive(connection: Connection, task_ids: Sequence[int]) -> dict[int, list[Run]]:
    """The claimed and running runs of these lines."""
    query = select(*COLUMNS).where(runs.c.task_id.in_(task_ids), text(ALIVE))
    found: dict[int, list[Run]] = {}
    for row in connection.execute(query.order_by(runs.c.id)):
        found.setdefault(row.task_id, []).append(run_from(row))
    return found


def cancel_waiting(connection: Connection, run_id: int, now: datetime, reason: str) -> bool:
    """End a run that has not been claimed; whether it was still waiting."""
    waiting = update(runs).where(runs.c.id == run_id, runs.c.state == RunState.WAITING)
    values = {"state": RunState.CANCELLED, "reason": reason, "finished_at": now}
    return connection.execute(waiting.values(values)).rowcount == 1


def request_cancel(connection: Connection, run_id: int, actor: str) -> bool:
    """Ask the owner to stop a run; whether it is still alive."""
    alive_run = update(runs).where(
        runs.c.id == run_id, runs.c.state.in_([RunState.CLAIMED, RunState.RUNNING])
    )
    return connection.execute(alive_run.values(cancel_requested_by=actor)).rowcount == 1


def cancel_requests(connection: Connection, node_id: str) -> dict[int, str]:
    """Runs of this node that somebody wants stopped, and who."""
    query = select(runs.c.id, runs.c.cancel_requested_by).where(
        *(runs.c.owner == node_id, text(ALIVE), runs.c.state == RunState.RUNNING),
        runs.c.cancel_requested_by.is_not(None),
    )
    return {row.id: row.cancel_requested_by for row in connection.execute(query)}


def started_at(connection: Connection, run_ids: Sequence[int]) -> dict[int, datetime]:
    """When these runs were started, as the database's clock had it."""
    query = select(runs.c.id, runs.c.started_at).where(runs.c.id.in_(run_ids), runs.c.started_at.is_not(None))
    return {row.id: row.started_at for row in connection.execute(query)}
