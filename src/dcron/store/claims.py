"""The claim protocol: write my ID, re-read what is mine, commit the start, record the end.

docs/architecture.md tells the protocol; each function here is one of its steps and runs in one transaction.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Text,
    case,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from dcron import policy
from dcron.database import Database
from dcron.errors import UsageError
from dcron.model import RunState, Task, Trigger
from dcron.policy import CatchUp
from dcron.schedule import tzdata_version
from dcron.schema import ALIVE, Instant, crontab, runs
from dcron.store import agenda, tasks
from dcron.store.tasks import task_from
from dcron.validation import Unreadable, require_runnable


@dataclass(slots=True)
class Claimed:
    """A run that bears this node's ID, with what its line said when it was claimed."""

    id: int
    task: Task
    trigger: Trigger
    attempt: int
    scheduled_for: datetime
    payload: str | None
    spec: dict[str, Any]
    successor: datetime | None = None


@dataclass
class _Batch:
    """What becomes of the due runs that one claim has locked."""

    claimed: list[Claimed] = field(default_factory=list)
    skipped: list[tuple[Claimed, str]] = field(default_factory=list)
    passed_over: list[agenda.Skip] = field(default_factory=list)
    unplannable: dict[int, tuple[Task, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a run ended, as its node saw it."""

    id: int
    state: RunState
    finished_at: datetime
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None


def claim(
    connection: Connection, database: Database, node_id: str, now: datetime, limit: int
) -> list[Claimed]:
    """Write my ID on up to `limit` due runs that nobody has. The caller has renewed its node's row before."""
    due = _lock_due(connection, database, node_id, now, limit)
    if not due:
        return []
    batch = _decide(due, _count_alive(connection, database, due), now)
    _write_owner(connection, database, node_id, now, batch)
    _write_skipped(connection, database, now, batch)
    agenda.skip(connection, batch.passed_over, now)
    for task, error in batch.unplannable.values():
        tasks.mark_planned(connection, task, error)
    return batch.claimed


def start(
    connection: Connection, database: Database, node_id: str, now: datetime, claimed: Sequence[Claimed]
) -> list[Claimed]:
    """Re-read ownership, record the start, bring in the line's next turn. Only what returns may start."""
    batch = database.rows({"id": (BigInteger(), [run.id for run in claimed])})
    mine = (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == node_id, _still(RunState.CLAIMED))
        .values(state=RunState.RUNNING, started_at=now)
        .returning(runs.c.id)
    )
    started_ids = set(connection.scalars(mine))
    started = [run for run in claimed if run.id in started_ids]
    _add_successors(connection, database, started)
    return started


def finish(connection: Connection, database: Database, node_id: str, ended: Sequence[Ended]) -> set[int]:
    """Record how runs ended, where they are still this node's; the ids that were.

    A run that was declared lost meanwhile takes its owner's late truth.
    """
    batch = database.rows(
        {
            "id": (BigInteger(), [each.id for each in ended]),
            "state": (Text(), [each.state.value for each in ended]),
            "reason": (Text(), [each.reason for each in ended]),
            "exit_code": (Integer(), [each.exit_code for each in ended]),
            "signal": (Integer(), [each.signal for each in ended]),
            "finished_at": (Instant(), [each.finished_at for each in ended]),
        }
    )
    dead = case((batch.c.state.in_([RunState.FAILED, RunState.LOST]), batch.c.finished_at), else_=None)
    query = (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == node_id)
        .where(runs.c.state.in_([RunState.RUNNING, RunState.LOST]))
        .values(
            state=batch.c.state,
            reason=batch.c.reason,
            exit_code=batch.c.exit_code,
            signal=batch.c.signal,
            finished_at=batch.c.finished_at,
            dead_at=dead,
        )
        .returning(runs.c.id)
    )
    return set(connection.scalars(query))


def release(connection: Connection, node_ids: Iterable[str]) -> int:
    """Give back what these nodes claimed and never started: it costs no attempt. How many."""
    query = (
        update(runs)
        .where(runs.c.owner.in_(list(node_ids)), text(ALIVE), runs.c.state == RunState.CLAIMED)
        .values(state=RunState.WAITING, owner=None, claimed_at=None)
    )
    return connection.execute(query).rowcount


def declare_lost(connection: Connection, now: datetime, node_ids: Iterable[str], reason: str) -> list[int]:
    """Mark what these dead nodes were running; nobody knows how it ended. The runs' ids."""
    query = (
        update(runs)
        .where(runs.c.owner.in_(list(node_ids)), text(ALIVE), runs.c.state == RunState.RUNNING)
        .values(state=RunState.LOST, reason=reason, finished_at=now, dead_at=now)
        .returning(runs.c.id)
    )
    return list(connection.scalars(query))


def owned(connection: Connection, node_id: str, state: RunState) -> list[int]:
    """The live runs in this state that bear the node's ID: what a lost reply is settled by."""
    query = select(runs.c.id).where(runs.c.owner == node_id, text(ALIVE), runs.c.state == state)
    return list(connection.scalars(query))


def _lock_due(
    connection: Connection, database: Database, node_id: str, now: datetime, limit: int
) -> list[Claimed]:
    """Due runs with their lines, both locked: whoever counts a task's live runs holds the task's line."""
    query = (
        select(
            runs.c.id.label("run_id"),
            runs.c.trigger,
            runs.c.attempt,
            runs.c.scheduled_for,
            runs.c.payload,
            runs.c.spec,
            *tasks.COLUMNS,
        )
        .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
        .where(runs.c.state == RunState.WAITING, runs.c.due_at <= now)
        .where(or_(runs.c.for_node.is_(None), runs.c.for_node == node_id))
        .where(or_(crontab.c.enabled, runs.c.trigger == Trigger.MANUAL))
        .order_by(runs.c.due_at, runs.c.id)
        .limit(limit)
    )
    due = []
    for row in connection.execute(database.locked(query)):
        run_id, trigger, attempt, scheduled_for, payload, spec = row[:6]
        due.append(Claimed(run_id, task_from(row), Trigger(trigger), attempt, scheduled_for, payload, spec))
    return due


def _count_alive(connection: Connection, database: Database, due: Sequence[Claimed]) -> Counter[int]:
    """How many runs of each task live now. A statement of its own, after the lock: it must see what
    others committed while this one waited."""
    limited = {run.task.id for run in due if run.task.max_running is not None}
    batch = database.rows({"task_id": (BigInteger(), list(limited))})
    query = (
        select(runs.c.task_id, func.count().label("alive"))
        .join_from(batch, runs, runs.c.task_id == batch.c.task_id)
        .where(text(ALIVE))
        .group_by(runs.c.task_id)
    )
    return Counter({row.task_id: row.alive for row in connection.execute(query)})


def _decide(due: Sequence[Claimed], alive: Counter[int], now: datetime) -> _Batch:
    batch = _Batch()
    for run in due:
        turn = _with_successor(run, now, batch)
        if isinstance(run.spec, Unreadable):
            batch.skipped.append(
                (turn, "what it should execute cannot be read: its spec is not a JSON object")
            )
        elif reason := _refusal(turn, alive[run.task.id]):
            batch.skipped.append((turn, reason))
        else:
            alive[run.task.id] += 1
            batch.claimed.append(turn)
    return batch


def _refusal(turn: Claimed, alive: int) -> str | None:
    """Why the turn is skipped although its time has come."""
    try:
        excluded = policy.excluded_by(turn.task, turn.scheduled_for)
    except UsageError as error:  # of a zone or a calendar that cannot be read
        return str(error)
    by_schedule = turn.trigger is Trigger.SCHEDULE
    return (by_schedule and excluded) or policy.refuse_to_start(turn.task, alive)


def _with_successor(run: Claimed, now: datetime, batch: _Batch) -> Claimed:
    """The run as it will start: for the latest occurrence that downtime left, knowing the next one."""
    if run.trigger is not Trigger.SCHEDULE:
        return run
    try:
        require_runnable(run.task)
        turn = policy.catch_up(run.task, run.scheduled_for, now)
    except UsageError as error:
        # This turn was planned while the line could be read, so it runs; the line has no next one.
        batch.unplannable[run.task.id] = (run.task, str(error))
        turn = CatchUp(run.scheduled_for, None, None)
    if turn.passed_over:
        batch.passed_over.append(agenda.passed_over(run.task, turn.passed_over))
    run.scheduled_for, run.successor = turn.run_for, turn.successor
    return run


def _still(state: RunState) -> ColumnElement[bool]:
    """Whether a run found by its id is in this state.

    Said with a subquery, so that Postgres follows the id: it thinks few rows wait, and would rather go
    through all of them by their partial index, once for each id of the batch (17 ms against 1 ms).
    """
    return runs.c.state == select(literal(state.value)).scalar_subquery()


def _write_owner(
    connection: Connection, database: Database, node_id: str, now: datetime, batch: _Batch
) -> None:
    if not batch.claimed:
        return
    table = database.rows(
        {
            "id": (BigInteger(), [run.id for run in batch.claimed]),
            "scheduled_for": (Instant(), [run.scheduled_for for run in batch.claimed]),
        }
    )
    query = (
        update(runs)
        .where(runs.c.id == table.c.id, _still(RunState.WAITING))
        .values(state=RunState.CLAIMED, owner=node_id, claimed_at=now, scheduled_for=table.c.scheduled_for)
        .returning(runs.c.id)
    )
    written = set(connection.scalars(query))
    batch.claimed = [run for run in batch.claimed if run.id in written]


def _write_skipped(connection: Connection, database: Database, now: datetime, batch: _Batch) -> None:
    if not batch.skipped:
        return
    table = database.rows(
        {
            "id": (BigInteger(), [run.id for run, _ in batch.skipped]),
            "reason": (Text(), [reason for _, reason in batch.skipped]),
            "scheduled_for": (Instant(), [run.scheduled_for for run, _ in batch.skipped]),
        }
    )
    query = (
        update(runs)
        .where(runs.c.id == table.c.id, _still(RunState.WAITING))
        .values(
            state=RunState.SKIPPED,
            reason=table.c.reason,
            scheduled_for=table.c.scheduled_for,
            finished_at=now,
        )
    )
    connection.execute(query)
    _add_successors(connection, database, [run for run, _ in batch.skipped])


def _add_successors(connection: Connection, database: Database, turns: Sequence[Claimed]) -> None:
    """Insert the next turn of each line that is still as it was claimed; an edited line is planned anew."""
    following = [run for run in turns if run.successor]
    if not following:
        return
    batch = database.rows(
        {
            "task_id": (BigInteger(), [run.task.id for run in following]),
            "version": (Integer(), [run.task.version for run in following]),
            "task": (Text(), [run.task.name for run in following]),
            "due_at": (Instant(), [run.successor for run in following]),
            "spec": (Text(), [_encoded(run.task) for run in following]),
        }
    )
    unchanged = (crontab.c.id == batch.c.task_id) & (crontab.c.version == batch.c.version) & crontab.c.enabled
    turn = select(
        batch.c.task_id,
        batch.c.task,
        literal(Trigger.SCHEDULE.value),
        literal(RunState.WAITING.value),
        batch.c.due_at,
        batch.c.due_at,
        batch.c.spec,
        literal(tzdata_version()),
    ).join_from(batch, crontab, unchanged)
    names = ["task_id", "task", "trigger", "state", "scheduled_for", "due_at", "spec", "tzdata"]
    connection.execute(database.insert_if_absent(runs).from_select(names, turn))


def _encoded(task: Task) -> str:
    return json.dumps(task.spec(), ensure_ascii=False, separators=(",", ":"))
