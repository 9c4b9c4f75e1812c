"""The agenda: the waiting rows of `runs`. Every feature is one more way to insert a waiting row."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, text, update

from dcron import policy
from dcron.errors import UsageError
from dcron.model import RunState, Task, Trigger
from dcron.policy import PassedOver
from dcron.schedule import tzdata_version
from dcron.schema import NEXT, crontab, nodes, runs
from dcron.store import tasks
from dcron.validation import require_runnable

_INSTANT = timedelta(microseconds=1)

TURN = (runs.c.trigger == Trigger.SCHEDULE, runs.c.state == RunState.WAITING)


@dataclass(frozen=True)
class Skip:
    """An occurrence that will not run, and why."""

    task_id: int
    task: str
    scheduled_for: datetime
    reason: str
    spec: Any


@dataclass(frozen=True)
class Moved:
    """A turn that a newer version of the time zones has put elsewhere."""

    task: str
    before: datetime
    after: datetime | None
    tzdata: str | None
    """The version by which it was planned before."""


def plan(connection: Connection, task: Task, now: datetime) -> Moved | None:
    """Give the line, locked or just written by the caller, the one next run it should have.

    Whatever changed, the waiting row is made to fit: kept with fresh contents, moved, made, or taken away.
    A line that cannot be run is marked with the reason, and has no next run until it is mended.
    Tells when it was newer time zones that moved the turn.
    """
    if _is_claimed(connection, task):
        return None  # its next turn comes in with the start of this one; then the line is planned
    if task.paused_until and task.paused_until <= now:
        task = resume(connection, task, now)
    try:
        require_runnable(task)
        wanted, moved = _wanted_turn(connection, task, now)
    except UsageError as error:
        _take_away(connection, task, now, f"suspended: {error}")
        tasks.mark_planned(connection, task, str(error))
        return None
    if wanted is None:
        _take_away(connection, task, now, "no longer wanted" if task.enabled else _paused_reason(task))
    else:
        _put(connection, task, wanted, now)
    tasks.mark_planned(connection, task, None)
    return moved


def plan_new(connection: Connection, lines: Sequence[Task], now: datetime) -> None:
    """Give lines that were written just now, and can be run, their first runs: two statements for all."""
    turns = [
        _waiting(task, Trigger.SCHEDULE, first)
        for task in lines
        if task.enabled and policy.is_timed(task) and (first := policy.next_occurrence(task, now))
    ]
    if turns:
        connection.execute(insert(runs), turns)
    tasks.mark_all_planned(connection, lines)


def plan_after(connection: Connection, task: Task, after: datetime) -> None:
    """Give the line, locked by the caller, the turn that follows `after`, in place of one taken from it."""
    try:
        require_runnable(task)
        following = policy.next_occurrence(task, after) if policy.is_timed(task) else None
    except UsageError as error:
        tasks.mark_planned(connection, task, str(error))
        return
    if task.enabled and following:
        connection.execute(insert(runs).values(_waiting(task, Trigger.SCHEDULE, following)))


def resume(connection: Connection, task: Task, now: datetime) -> Task:
    """End the line's pause and record, in one row, what was passed over; the line as it then is."""
    tasks.change(
        connection,
        task,
        {"enabled": True, **dict.fromkeys(("paused_reason", "paused_by", "paused_at", "paused_until"))},
        now,
        task.changed_by or "dcron",
    )
    record_paused_span(connection, task, now)
    resumed = tasks.by_id(connection, task.id)
    assert resumed
    return resumed


def record_paused_span(connection: Connection, task: Task, now: datetime) -> None:
    """One skipped row for all occurrences that fell into the pause that ends `now`."""
    if task.paused_at is None:
        return
    try:
        first = policy.next_occurrence(task, task.paused_at)
        span = first and policy.passed_over_between(task, first, now + _INSTANT)
    except UsageError:
        return  # planning says what is wrong with the line; nobody can say what it missed
    if span:
        skip(connection, [_coalesced(task, span, _paused_reason(task))], now)


def run_now(connection: Connection, task: Task, now: datetime, payload: str | None) -> int:
    """A run that is due at once; its id."""
    values = _waiting(task, Trigger.MANUAL, now) | {"payload": payload}
    added: int = connection.execute(insert(runs).values(values).returning(runs.c.id)).scalar_one()
    return added


def add_reboot_runs(connection: Connection, node_id: str, now: datetime) -> int:
    """One run for each `@reboot` line, for this node alone; how many."""
    values = [
        _waiting(task, Trigger.REBOOT, now) | {"for_node": node_id}
        for task in tasks.with_reboot(connection)
        if _starts_with_node(task)
    ]
    if values:
        connection.execute(insert(runs), values)
    return len(values)


def next_due(connection: Connection, node_id: str) -> datetime | None:
    """When the first waiting run that this node may take is due; one look at an index."""
    mine = or_(runs.c.for_node.is_(None), runs.c.for_node == node_id)
    query = select(runs.c.due_at).where(runs.c.state == RunState.WAITING, mine)
    return connection.scalar(query.order_by(runs.c.due_at, runs.c.id).limit(1))


def settle_orphans(connection: Connection, now: datetime, limit: int) -> int:
    """Skip due runs whose line, or only node, is gone for good; how many."""
    # Not NOT EXISTS: of that Postgres makes a join, for which it reads the whole crontab.
    line = select(crontab.c.id).where(crontab.c.id == runs.c.task_id).correlate(runs).scalar_subquery()
    node = select(nodes.c.id).where(nodes.c.id == runs.c.for_node, nodes.c.died_at.is_(None))
    line_gone = line.is_(None)
    node_gone = runs.c.for_node.is_not(None) & node.correlate(runs).scalar_subquery().is_(None)
    settled = 0
    for condition, reason in ((line_gone, "no longer wanted: removed"), (node_gone, "its node is gone")):
        due = select(runs.c.id).where(runs.c.state == RunState.WAITING, runs.c.due_at <= now, condition)
        query = update(runs).where(runs.c.id.in_(due.limit(limit)), runs.c.state == RunState.WAITING)
        settled += connection.execute(
            query.values(state=RunState.SKIPPED, reason=reason, finished_at=now)
        ).rowcount
    return settled


def skip(connection: Connection, skips: Sequence[Skip], now: datetime) -> None:
    """Record occurrences that never had a waiting row of their own."""
    values = [
        {
            "task_id": each.task_id,
            "task": each.task,
            "trigger": Trigger.SCHEDULE,
            "state": RunState.SKIPPED,
            "reason": each.reason,
            "scheduled_for": each.scheduled_for,
            "due_at": each.scheduled_for,
            "finished_at": now,
            "spec": each.spec,
        }
        for each in skips
    ]
    if values:
        connection.execute(insert(runs), values)


def passed_over(task: Task, span: PassedOver) -> Skip:
    """The record of what downtime left out."""
    return _coalesced(task, span, "missed: no agent was there to run it")


def withdraw(connection: Connection, task: Task, now: datetime, reason: str) -> None:
    """End all that waits for the line, for it is going away."""
    _take_away(connection, task, now, reason)
    waiting = (runs.c.task_id == task.id, runs.c.state == RunState.WAITING)
    connection.execute(
        update(runs).where(*waiting).values(state=RunState.SKIPPED, reason=reason, finished_at=now)
    )


def _wanted_turn(connection: Connection, task: Task, now: datetime) -> tuple[datetime | None, Moved | None]:
    if not task.enabled or not policy.is_timed(task):
        return None, None
    columns = (runs.c.scheduled_for, runs.c.task, runs.c.spec, runs.c.tzdata)
    waiting = connection.execute(select(*columns).where(runs.c.task_id == task.id, *TURN)).first()
    if waiting is None or not policy.same_times(task, waiting.task, waiting.spec):
        return policy.next_occurrence(task, now), None
    if waiting.scheduled_for <= now or (waiting.tzdata or "") >= tzdata_version():
        return waiting.scheduled_for, None
    wanted = policy.next_occurrence(task, now)
    if wanted == waiting.scheduled_for:
        return wanted, None
    return wanted, Moved(task.name, waiting.scheduled_for, wanted, waiting.tzdata)


def _put(connection: Connection, task: Task, wanted: datetime, now: datetime) -> None:
    _end_overdue(connection, task, now, "replaced by an edit", kept=wanted)
    turn = update(runs).where(runs.c.task_id == task.id, *TURN)
    fitted = {"scheduled_for": wanted, "due_at": wanted, "task": task.name, "spec": task.spec()}
    if not connection.execute(turn.values(**fitted, tzdata=tzdata_version())).rowcount:
        connection.execute(insert(runs).values(_waiting(task, Trigger.SCHEDULE, wanted)))


def _is_claimed(connection: Connection, task: Task) -> bool:
    turn = select(runs.c.id).where(runs.c.task_id == task.id, text(NEXT), runs.c.state == RunState.CLAIMED)
    return connection.scalar(turn) is not None


def _take_away(connection: Connection, task: Task, now: datetime, reason: str) -> None:
    """A turn still to come vanishes; one whose time has come stays in the record as skipped."""
    _end_overdue(connection, task, now, reason)
    connection.execute(delete(runs).where(runs.c.task_id == task.id, *TURN))


def _end_overdue(
    connection: Connection, task: Task, now: datetime, reason: str, kept: datetime | None = None
) -> None:
    """Skip the turn whose time has come, unless it is for `kept`; its row tells all that passed with it."""
    overdue = (runs.c.task_id == task.id, *TURN, runs.c.due_at <= now)
    turn = connection.execute(
        select(runs.c.id, runs.c.scheduled_for, runs.c.task, runs.c.spec).where(*overdue)
    ).first()
    if turn is None or turn.scheduled_for == kept:
        return
    span = policy.passed_over_as_planned(turn.task, turn.spec, turn.scheduled_for, now + _INSTANT)
    if span and span.count > 1:
        reason = f"{reason} ({span})"
    ended = {"state": RunState.SKIPPED, "reason": reason, "finished_at": now}
    connection.execute(update(runs).where(runs.c.id == turn.id, *TURN).values(ended))


def _starts_with_node(task: Task) -> bool:
    try:
        require_runnable(task)
    except UsageError:
        return False  # planning says what is wrong with the line
    return policy.starts_with_node(task)


def _waiting(task: Task, trigger: Trigger, due_at: datetime) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "task": task.name,
        "trigger": trigger,
        "state": RunState.WAITING,
        "scheduled_for": due_at,
        "due_at": due_at,
        "spec": task.spec(),
        "tzdata": tzdata_version(),
    }


def _coalesced(task: Task, span: PassedOver, reason: str) -> Skip:
    return Skip(task.id, task.name, span.last, f"{reason} ({span})", task.spec())


def _paused_reason(task: Task) -> str:
    by = f" by {task.paused_by}" if task.paused_by else ""
    return f"paused{by}: {task.paused_reason}" if task.paused_reason else f"paused{by}"
