"""Record how runs end, each once, and what follows from it.

An end may lead to a retry or a dead letter, to the next runs of a flow, and to room for blocked runs. Locks
are taken in one order everywhere: tasks by id, then runs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Integer,
    Row,
    Text,
    TextClause,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from dcron.database import Columns, Database, beside_id
from dcron.model import RunState, SkipCode, Task, Trigger
from dcron.policy.starting.lanes import Lane, read_lane, rerouted
from dcron.policy.starting.retries import begin_again_at, retry_at
from dcron.policy.starting.skip_reasons import Skip
from dcron.schema.conditions import ALIVE, DUE
from dcron.schema.tables import runs, subscriptions
from dcron.schema.types import Instant
from dcron.store.alerts import output_mail
from dcron.store.alerts import rows as alerts
from dcron.store.alerts.output_mail import OutputMail
from dcron.store.nodes import refusals
from dcron.store.planning import dependencies
from dcron.store.runs import blocked, new_runs, skipping, unclaimable
from dcron.store.runs.rows import is_in_state
from dcron.store.statistics import daily as daily_statistics
from dcron.store.tasks import rows as tasks

_BLOCKED_OTHER = "other.state = 'waiting' AND other.blocked IS NOT NULL"
_NOT_FAILED = {RunState.SUCCEEDED: "succeeded", RunState.CANCELLED: "been cancelled"}


class RunResult(NamedTuple):
    """How a run ended, as its node reports it."""

    id: int
    state: RunState
    finished_at: datetime
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool | None = None
    """Whether it failed because it took longer than it may."""
    never_begun: bool = False
    """Whether its command was certainly not started, so that another attempt repeats nothing.

    A lost run then waits for any node, a failed one for a node that has not refused it.
    """
    checks_runtime: bool = False
    """Whether the task expects something of its runtime, so that a bad one opens an alert."""
    mail: OutputMail | None = None
    """What to mail of its output; None for a run that printed nothing, or whose task mails nothing."""


def finish(
    connection: Connection, database: Database, node_id: str, ended: Sequence[RunResult], now: datetime
) -> set[int]:
    """Record how runs ended that this node still owns; return their ids.

    If the run was already marked `lost`, the owner's result replaces that state.
    """
    return send_ends(connection, database, node_id, ended, now)()


def send_ends(
    connection: Connection, database: Database, node_id: str, ended: Sequence[RunResult], now: datetime
) -> Callable[[], set[int]]:
    """Record like `finish`, together with the COMMIT if nothing follows. Return a function for the ids."""
    followed = _followed(connection, database, ended)
    lock_tasks(connection, {row.task_id: row.task for row in followed})
    lost = {row.id: row.finished_at for row in followed if row.state == RunState.LOST and row.finished_at}
    late = daily_statistics.late_ends(connection, ended, lost, now)
    written = _send_states(connection, database, node_id, ended)
    if late:
        daily_statistics.correct(connection, late, written(), now)
    recorded = followed and [row for row in followed if row.id in written()]
    if recorded:
        _follow_up(connection, database, {each.id: each for each in ended}, recorded, now, node_id)
    if mails := {each.id: each.mail for each in ended if each.mail}:
        output_mail.add(connection, {run_id: mails[run_id] for run_id in mails.keys() & written()}, now)
    return written


def recorded(connection: Connection, node_id: str, ended: Iterable[RunResult]) -> set[int]:
    """Return the runs whose row says that this node ended them so: an unanswered commit had taken effect."""
    sent = {each.id: each.state for each in ended}
    query = select(runs.c.id, runs.c.state).where(runs.c.id.in_(list(sent)), runs.c.owner == node_id)
    return {row.id for row in connection.execute(query) if row.state == sent[row.id]}


def declare_lost(
    connection: Connection,
    database: Database,
    now: datetime,
    node_ids: Iterable[str] | None,
    reason: str,
    run_ids: Collection[int] | None = None,
    *,
    where: Iterable[ColumnElement[bool] | TextClause] = (),
    by: str | None = None,
) -> list[int]:
    """Mark running runs of these nodes as lost, all or those of `run_ids`: how they ended is unknown.

    `where` has further conditions; `by` is the person who says it, so that the run is not tried again.
    Return the ids of the runs.
    """
    running: list[ColumnElement[bool] | TextClause] = [text(ALIVE), runs.c.state == RunState.RUNNING, *where]
    if node_ids is not None:
        running.append(runs.c.owner.in_(list(node_ids)))
    if run_ids is not None:
        running.append(runs.c.id.in_(run_ids))
    found = connection.execute(select(runs.c.task_id, runs.c.task).where(*running)).all()
    lock_tasks(connection, {row.task_id: row.task for row in found})
    query = update(runs).where(*running)
    asked = func.coalesce("; its end was asked for by " + runs.c.cancel_requested_by, "")
    values = {"state": RunState.LOST, "reason": literal(reason) + asked, "finished_at": now}
    if by is not None:
        values["cancel_requested_by"] = by
    lost = connection.execute(query.values(values).returning(*_COLUMNS)).all()
    ended = {row.id: RunResult(row.id, RunState.LOST, now, reason) for row in lost}
    _follow_up(connection, database, ended, lost, now)
    return list(ended)


def fail_refused(
    connection: Connection, database: Database, lanes: Iterable[Lane], now: datetime, limit: int
) -> list[int]:
    """Fail waiting runs of these lanes that nodes refused, if no other node is left for them.

    Return the ids of up to `limit` runs. Each was passed on to a node that has ended since, or drains.
    """
    stuck = [str(lane) for lane in refusals.without_node(connection, lanes)]
    if not stuck:
        return []
    waiting = (text(DUE), runs.c.lane.in_(stuck))
    found = select(*_COLUMNS).where(*waiting).order_by(runs.c.id).limit(limit)
    refused = connection.execute(found).all()
    lock_tasks(connection, {row.task_id: row.task for row in refused})
    failed: list[Row[Any]] = []
    ended: dict[int, RunResult] = {}
    for each in refused:
        end = RunResult(each.id, RunState.FAILED, now, refusals.no_node_left(each))
        values = {"state": end.state, "reason": end.reason, "finished_at": now}
        fail = update(runs).where(runs.c.id == each.id, *waiting).values(values).returning(*_COLUMNS)
        if row := connection.execute(fail).first():
            failed.append(row)
            ended[each.id] = end
    _follow_up(connection, database, ended, failed, now)
    return list(ended)


_COLUMNS = [
    *(runs.c.id, runs.c.task_id, runs.c.task, runs.c.trigger, runs.c.attempt, runs.c.flow),
    *(runs.c.scheduled_for, runs.c.for_node, runs.c.payload, runs.c.event_id, runs.c.spec),
    *(runs.c.cancel_requested_by, runs.c.lane, runs.c.expires_at, runs.c.refused_by, runs.c.started_at),
]


def _followed(connection: Connection, database: Database, ended: Sequence[RunResult]) -> Sequence[Row[Any]]:
    """Return the runs from whose end something may follow. For most batches of runs there are none."""
    given = database.values(
        _BADLY, ((each.id, int(each.state.is_failure or each.checks_runtime)) for each in ended)
    )
    return database.send(connection, _with_followers(database.rows(_BADLY)), given).rows()


# `bad` also where the runtime has to be checked.
_BADLY = Columns(id=BigInteger(), bad=Integer())


@cache
def _with_followers(batch: FromClause) -> Executable:
    other = runs.alias("other")
    kept_waiting = exists().where(other.c.task_id == runs.c.task_id, text(_BLOCKED_OTHER))
    was_lost = runs.c.state == RunState.LOST  # it may have been retried, and counted in the statistics
    comes_after = exists().where(subscriptions.c.kind == "task", subscriptions.c.source == runs.c.task)
    has_alerts = alerts.any_open_of(runs.c.task_id)
    return (
        select(*_COLUMNS, runs.c.state, runs.c.finished_at, has_alerts.label("has_alerts"))
        .join_from(batch, runs, runs.c.id == batch.c.id)
        .where(or_(batch.c.bad == 1, kept_waiting, was_lost, comes_after, has_alerts))
    )


def lock_tasks(connection: Connection, names: Mapping[int, str]) -> None:
    """Lock these tasks, given as names by id, and all tasks downstream of them, before any of their runs."""
    if names:
        tasks.lock(connection, names.keys() | dependencies.downstream_ids(connection, set(names.values())))


def _send_states(
    connection: Connection, database: Database, node_id: str, ended: Sequence[RunResult]
) -> Callable[[], set[int]]:
    given = database.values(_ENDED, (each[: len(_ENDED.kinds)] for each in ended)) | {"node_id": node_id}
    reply = database.send(connection, _end(database.rows(_ENDED)), given)
    return lambda: {row.id for row in reply.rows()}


# The first fields of RunResult, in their order.
_ENDED = Columns(
    id=BigInteger(),
    state=Text(),
    finished_at=Instant(),
    reason=Text(),
    exit_code=Integer(),
    signal=Integer(),
    timed_out=Boolean(),
)


@cache
def _end(batch: FromClause) -> Executable:
    return (
        update(runs)
        .where(runs.c.id == batch.c.id, runs.c.owner == bindparam("node_id"))
        .where(or_(is_in_state(RunState.RUNNING), is_in_state(RunState.LOST)))
        .values(beside_id(batch) | {"dead_at": None})
        .returning(runs.c.id)
    )


def _follow_up(
    connection: Connection,
    database: Database,
    ended: dict[int, RunResult],
    rows: Sequence[Row[Any]],
    now: datetime,
    node_id: str | None = None,
) -> None:
    rows = [row for row in rows if row.task_id > 0]  # nothing follows from the end of a trial
    tasks_by_id = {task.id: task for task in tasks.by_ids(connection, {row.task_id for row in rows})}
    graph = dependencies.graph_around(connection, *{row.task for row in rows})
    ends: list[alerts.End] = []
    dead: list[int] = []
    retries: list[dict[str, Any]] = []
    for row in rows:
        end, task = ended[row.id], tasks_by_id.get(row.task_id)
        # A run whose cancellation was requested is neither retried nor dead-lettered.
        is_bad = end.state.is_failure and row.cancel_requested_by is None
        if is_bad and (retry := _retry(connection, row, end, task, node_id, now)):
            retries.append(retry)
            continue
        if task is not None:
            ends.append(_alerted_end(row, end, task, is_final=is_bad))
        if is_bad:
            dead.append(row.id)
        elif not end.state.is_failure and row.state == RunState.LOST:
            _cancel_retry(connection, end, now)
        step = dependencies.Step(row.id, row.task, row.flow, row.scheduled_for)
        dependencies.step_ended(connection, database, step, end.state, now, graph)
    _insert_retries(connection, database, retries)
    if dead:
        connection.execute(update(runs).where(runs.c.id.in_(dead)).values(dead_at=runs.c.finished_at))
    blocked.unblock(connection, [row.task_id for row in rows], now)
    alerts.follow_ends(connection, database, ends, now)
    database.notify(connection)


def _alerted_end(row: Row[Any], end: RunResult, task: Task, *, is_final: bool) -> alerts.End:
    """Return what the alerts of the task need to know of the end."""
    seconds = (end.finished_at - row.started_at).total_seconds() if row.started_at else None
    has_alerts = getattr(row, "has_alerts", True)  # a lost run was read without it
    return alerts.End(
        end.id, task, end.state, end.finished_at, seconds, end.checks_runtime, is_final, has_alerts
    )


def _retry(
    connection: Connection,
    row: Row[Any],
    end: RunResult,
    task: Task | None,
    node_id: str | None,
    now: datetime,
) -> dict[str, Any] | None:
    """Return the next attempt if the policy allows one. A command that never began costs no attempt."""
    if task is None:  # it was removed meanwhile
        return None
    lane = _retry_lane(row, task)
    if end.never_begun and end.state is RunState.FAILED and node_id:
        further = refusals.pass_on(connection, row, task, lane, end.reason or "", node_id, now)
        values = {"attempt": row.attempt, "due_at": end.finished_at, **further} if further else {}
    elif end.never_begun:
        again_at = begin_again_at(task, row.id, row.attempt, end.finished_at)
        values = {"attempt": row.attempt, "due_at": again_at}
    else:
        values = {}
    if not values:
        due_at = retry_at(task, row.id, row.attempt, end.state, end.finished_at)
        if due_at is None:
            return None
        values, lane = {"due_at": due_at}, lane.requested(manual=False)  # it starts by itself
    return new_runs.retry_of(row, task, values["due_at"]) | {"spec": row.spec, "lane": str(lane)} | values


def _insert_retries(connection: Connection, database: Database, retries: Iterable[dict[str, Any]]) -> None:
    """Insert the next attempts: one statement for all that have the same columns."""
    same_columns: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in retries:
        same_columns.setdefault(tuple(each), []).append(each)
    for rows in same_columns.values():
        connection.execute(database.insert_if_absent(runs), rows)


def _retry_lane(row: Row[Any], task: Task) -> Lane:
    """Return the lane of the next attempt: of the task as it is now, with the account of the run's copy."""
    trigger = Trigger.BACKFILL if row.trigger == Trigger.BACKFILL else Trigger.SCHEDULE
    return rerouted(read_lane(row.lane), task, trigger).after_refusals(()).on(row.for_node)


def skipped(
    connection: Connection, database: Database, step: dependencies.Step, trigger: Trigger, now: datetime
) -> None:
    """Record what follows when a due run is skipped. If it was a retry, its failed run is a dead letter."""
    if trigger is not Trigger.RETRY:
        dependencies.step_skipped(connection, database, step, now)
        return
    failed = select(runs.c.retry_of).where(runs.c.id == step.run_id).scalar_subquery()
    dead = unclaimable.mark_dead(connection, runs.c.id == failed, now)
    dependencies.step_ended(connection, database, step, RunState.SKIPPED, now)
    tasks_by_id = {task.id: task for task in tasks.by_ids(connection, {row.task_id for row in dead})}
    ends = [
        alerts.End(row.id, tasks_by_id[row.task_id], RunState(row.state), now, None, False, True, False)
        for row in dead
        if row.task_id in tasks_by_id
    ]
    alerts.follow_ends(connection, database, ends, now)


def _cancel_retry(connection: Connection, end: RunResult, now: datetime) -> None:
    """Skip the waiting retry of a run that was marked lost and did not fail after all."""
    reason = f"run {end.id} had {_NOT_FAILED[end.state]} after all"
    skip = Skip(SkipCode.CALLED_OFF, reason, caused_by=end.id)
    skipping.end(connection, [runs.c.retry_of == end.id], skip, now)
