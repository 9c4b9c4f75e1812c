"""Alerts: rows for what is wrong. They are opened and closed in the transaction of their cause.

A partial unique index allows one open alert per kind and subject. Alerts are locked last, after tasks and
runs, in the order of kind and subject; their notifications follow in the same transaction.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Integer,
    Row,
    Text,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    text,
    update,
)

from dcron.database import Columns, Database
from dcron.fields.expectations import AUTO
from dcron.model import Alert, AlertKind, ClosedAs, RunState, Task
from dcron.policy.conditions.rules import (
    CLOSED_BY_CANCEL,
    CLOSED_BY_END,
    CLOSED_BY_GOOD_TIME,
    CLOSED_BY_SUCCESS,
    EVENT_PREFIX,
    Rules,
    bounds_of,
    event_name,
    learned_bounds,
    rules_of,
    task_subject,
)
from dcron.schema.conditions import DEAD, OPEN
from dcron.schema.tables import alerts, crontab, events, notifications, runs, subscriptions
from dcron.schema.types import Instant
from dcron.store.alerts import flapping
from dcron.store.alerts import notifications as outbox
from dcron.store.runs import durations
from dcron.store.tasks import settings

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_PRESENT_NAME = select(crontab.c.name).where(crontab.c.id == alerts.c.task_id).scalar_subquery()
COLUMNS = [
    func.coalesce(_PRESENT_NAME, alerts.c.task).label("task") if name == "task" else alerts.c[name]
    for name in Alert.__dataclass_fields__
]
"""A task that was renamed has its new name."""
ACTOR = "dcron"
_AT_ONCE = 100
"""Ends of runs whose alerts are written in the same statements."""


@dataclass(frozen=True)
class Cause:
    """What opens an alert, or is counted by the one that is open."""

    kind: AlertKind
    subject: str
    at: datetime
    rules: Rules = field(default_factory=Rules)
    task_id: int | None = None
    task: str | None = None
    run_id: int | None = None
    times: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_task(
        cls, kind: AlertKind, task: "Task | Row[Any]", at: datetime, rules: Rules, **facts: Any
    ) -> "Cause":
        """Return a cause that concerns a task."""
        return cls(kind, task_subject(task.id), at, rules, task.id, task.name, **facts)


def read_settings(connection: Connection) -> dict[str, Any]:
    """Return the settings from which rules are made, by name."""
    return {each.name: each.value for each in settings.every(connection)}


_CAUSES = Columns(
    kind=Text(),
    subject=Text(),
    task_id=BigInteger(),
    task=Text(),
    opened_at=Instant(),
    run_id=BigInteger(),
    times=Integer(),
    last_at=Instant(),
    last_run_id=BigInteger(),
    notified_at=Instant(),
    remind_at=Instant(),
    facts=Text(),
)


def report(
    connection: Connection, database: Database, causes: Sequence[Cause], now: datetime, *, counts: bool = True
) -> list[int]:
    """Open an alert for each cause that has none open. Return their ids.

    A cause is counted by the alert that is open, unless `counts` is False.
    """
    of_subject: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        of_subject.setdefault((cause.kind.value, cause.subject), []).append(cause)
    if not of_subject:
        return []
    rows = [_row(key, of_subject[key], now) for key in sorted(of_subject)]
    query = _upsert(database.rows(_CAUSES), database.insert(alerts), counts)
    written = connection.execute(query, database.values(_CAUSES, rows)).all()
    opened = []
    for row in sorted(written, key=lambda row: (row.kind, row.subject)):
        same = of_subject[row.kind, row.subject]
        if not counts or (row.opened_at == same[0].at and row.times == sum(cause.times for cause in same)):
            opened.append((row, same[0]))
    muted = _report_flapping(connection, database, opened, now)
    messages: list[dict[str, Any]] = []
    for row, cause in opened:
        if row.id not in muted:
            channels = cause.rules.channels_for(row.kind, cause.facts)
            about = {"alert_id": row.id, "run_id": row.run_id, "task_id": row.task_id}
            messages += outbox.for_channels(channels, "opened", now, **about)
    outbox.add(connection, messages)
    _send_events(connection, database, [(event_name(row.kind), row) for row, _ in opened], now)
    return [row.id for row, _ in opened]


def _report_flapping(
    connection: Connection, database: Database, opened: Sequence[tuple[Row[Any], Cause]], now: datetime
) -> Collection[int]:
    """Report the tasks that flap; return the new alerts about which no message is written therefore."""
    window = opened[0][1].rules.flapping if opened else None
    if window is None:
        return ()
    found = flapping.find(connection, [row for row, _ in opened], window, now)
    causes = [
        replace(
            cause,
            kind=AlertKind.FLAPPING,
            at=now,
            facts={"kind": row.kind, "opened": found[row.id], "within": window},
        )
        for row, cause in opened
        if row.id in found
    ]
    if causes:
        flapping.mute(connection, found)
        report(connection, database, causes, now)
    return found


def _row(key: tuple[str, str], causes: Sequence[Cause], now: datetime) -> tuple[Any, ...]:
    first, last = causes[0], causes[-1]
    is_notified = bool(first.rules.channels_for(first.kind, first.facts))
    return (
        *key,
        *(first.task_id, first.task, first.at, first.run_id),
        # Any later success ends missed occurrences, also that of a run with a lower id.
        *(sum(cause.times for cause in causes), last.at),
        None if first.kind is AlertKind.MISSED else last.run_id,
        now if is_notified else None,
        first.rules.remind_at(now) if is_notified else None,
        json.dumps(dict(first.facts)),
    )


@cache
def _upsert(batch: FromClause, into_alerts: "sqlite.Insert | postgresql.Insert", counts: bool) -> Executable:
    names = list(_CAUSES.kinds)
    # SQLite needs the WHERE: without one it would read ON CONFLICT as a part of a join.
    given = select(*(batch.c[name] for name in names)).where(text("1 = 1"))
    query = into_alerts.from_select(names, given)
    target: dict[str, Any] = {
        "index_elements": [alerts.c.kind, alerts.c.subject],
        "index_where": text(OPEN),
    }
    if counts:
        new = query.excluded
        is_same = alerts.c.last_run_id.is_not_distinct_from(new.last_run_id)
        is_known = is_same & new.last_run_id.is_not(None)
        changes = {
            "times": alerts.c.times + case((is_known, 0), else_=new.times),
            "last_at": new.last_at,
            "last_run_id": case(
                (new.last_run_id > func.coalesce(alerts.c.last_run_id, 0), new.last_run_id),
                else_=alerts.c.last_run_id,
            ),
        }
        query = query.on_conflict_do_update(**target, set_=changes)
    else:
        query = query.on_conflict_do_nothing(**target)
    kept = (alerts.c.id, alerts.c.kind, alerts.c.subject, alerts.c.task_id, alerts.c.task, alerts.c.run_id)
    return query.returning(*kept, alerts.c.times, alerts.c.opened_at)


def close(
    connection: Connection,
    database: Database,
    which: Iterable[ColumnElement[bool]],
    now: datetime,
    ended_by: Mapping[int, int] | None = None,
    closed_as: ClosedAs = ClosedAs.RECOVERED,
) -> list[int]:
    """Close the open alerts that meet these conditions, and return their ids.

    Those that got notifications are notified of as closed, by the same channels. `ended_by` says by task
    which run ended them.
    """
    found = select(alerts.c.id).where(text(OPEN), *which).order_by(alerts.c.kind, alerts.c.subject)
    ids = list(connection.scalars(found.with_for_update()))
    if not ids:
        return []
    closing = update(alerts).where(alerts.c.id.in_(ids), text(OPEN))
    values = {"closed_at": now, "closed_as": closed_as.value, "remind_at": None}
    closed = connection.execute(closing.values(values).returning(*COLUMNS)).all()
    notified = [row.id for row in closed if row.notified_at]
    if notified:
        _notify_closed(connection, notified, now, ended_by or {})
    _send_events(connection, database, [(event_name(closed_as), row) for row in closed], now)
    return [row.id for row in closed]


def _notify_closed(
    connection: Connection, ids: Collection[int], now: datetime, ended_by: Mapping[int, int]
) -> None:
    """Notify the channels that were notified of the opening."""
    table = notifications.c
    opened = (table.alert_id.in_(ids), table.alert_id.is_not(None), table.kind == "opened")
    query = (
        select(table.alert_id, table.run_id, table.task_id, table.channel).where(*opened).order_by(table.id)
    )
    closed = {"kind": "closed", "created_at": now, "due_at": now}
    rows = [
        {**row._mapping, "run_id": ended_by.get(row.task_id, row.run_id), **closed}
        for row in connection.execute(query)
    ]
    outbox.add(connection, rows)


def _send_events(
    connection: Connection, database: Database, named: Sequence[tuple[str, Row[Any]]], now: datetime
) -> None:
    """Send an event for each alert whose name a schedule subscribes to.

    An alert about a task that such an event starts sends none: it could start itself.
    """
    if not named:
        return
    of_dcron = subscriptions.c.source.startswith(EVENT_PREFIX, autoescape=True)
    query = select(subscriptions.c.task_id, subscriptions.c.source)
    rows = connection.execute(query.where(subscriptions.c.kind == "event", of_dcron)).all()
    if not rows:
        return
    handlers, subscribed = {row.task_id for row in rows}, {row.source for row in rows}
    values = [
        {
            "name": name,
            "payload": _payload(name, row),
            "key": f"alert:{row.id}:{name}",
            "created_at": now,
            "created_by": ACTOR,
        }
        for name, row in named
        if name in subscribed and row.task_id not in handlers
    ]
    if values:
        connection.execute(database.insert_if_absent(events), values)
        database.notify(connection)


def _payload(name: str, row: Row[Any]) -> str:
    about = {"alert": row.id, "kind": row.kind, "subject": row.subject, "task": row.task, "run": row.run_id}
    return json.dumps({"event": name, **about})


# The ends of runs ---------------------------------------------------------------------------------------


def any_open_of(task_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that the task of a run has open alerts."""
    return exists().where(alerts.c.task_id == task_id, text(OPEN))


@dataclass(frozen=True)
class End:
    """How a run of a task ended, as its alerts need to know it."""

    run_id: int
    task: Task
    state: RunState
    at: datetime
    seconds: float | None
    """How long it ran, as far as that is known."""
    checks_runtime: bool
    """Whether the task itself expects something of that."""
    is_final: bool
    """Whether it failed, and nothing more is tried."""
    has_alerts: bool
    """Whether its task had open alerts."""


def follow_ends(connection: Connection, database: Database, ends: Sequence[End], now: datetime) -> None:
    """Open and close the alerts that follow from these ends, in the order of each task's runs."""
    decisive = [end for end in ends if end.is_final or end.has_alerts or end.checks_runtime]
    known = read_settings(connection) if decisive else {}
    left = sorted(decisive, key=lambda end: (end.task.id, end.run_id))
    while left:
        first_of_task: dict[int, End] = {}
        for end in left:
            first_of_task.setdefault(end.task.id, end)
        page = list(first_of_task.values())[:_AT_ONCE]
        _follow(connection, database, page, {end.task.id: rules_of(known, end.task) for end in page}, now)
        done = {end.run_id for end in page}
        left = [end for end in left if end.run_id not in done]


def _follow(
    connection: Connection,
    database: Database,
    ends: Sequence[End],
    rules: Mapping[int, Rules],
    now: datetime,
) -> None:
    """Open and close the alerts that follow from one end each of several tasks. `rules` are by task."""
    failing = _failing(connection, database, [end for end in ends if end.is_final], rules)
    of_bad_time = _out_of_bounds(connection, ends, rules)
    report(connection, database, [*failing, *of_bad_time], now)
    lasting = {cause.task_id: cause.kind for cause in of_bad_time}
    over = [
        and_(
            alerts.c.task_id == end.task.id,
            alerts.c.kind.in_(_closed_by(end, lasting.get(end.task.id))),
            or_(alerts.c.last_run_id.is_(None), alerts.c.last_run_id <= end.run_id),
        )
        for end in ends
        if end.has_alerts
    ]
    if over:
        ended_by = {end.task.id: end.run_id for end in ends}
        close(connection, database, [alerts.c.task_id.in_(ended_by), or_(*over)], now, ended_by)


def _closed_by(end: End, lasting: AlertKind | None) -> list[AlertKind]:
    """Return the kinds of alerts that the end closes. The run has just opened one of the kind `lasting`."""
    closed = [*CLOSED_BY_END]
    if end.state is RunState.CANCELLED:
        closed += CLOSED_BY_CANCEL
    if end.state is RunState.SUCCEEDED:
        closed += [*CLOSED_BY_SUCCESS, *(kind for kind in CLOSED_BY_GOOD_TIME if kind is not lasting)]
    return closed


def _failing(
    connection: Connection, database: Database, ends: Sequence[End], rules: Mapping[int, Rules]
) -> list[Cause]:
    """Return the alerts `failing`, except where a later run has succeeded: the end came late, by a spool."""
    if not ends:
        return []
    given = database.values(_RUNS, [(end.task.id, end.run_id) for end in ends])
    has_recovered = set(connection.scalars(_with_later_success(database.rows(_RUNS)), given))
    return [
        Cause.of_task(AlertKind.FAILING, end.task, end.at, of_task, run_id=end.run_id)
        for end in ends
        if end.task.id not in has_recovered
        and ((of_task := rules[end.task.id]).after <= 1 or _is_in_a_row(connection, end, of_task.after))
    ]


_RUNS = Columns(task_id=BigInteger(), run_id=BigInteger())


@cache
def _with_later_success(batch: FromClause) -> Executable:
    later = exists().where(
        runs.c.task_id == batch.c.task_id, runs.c.id > batch.c.run_id, runs.c.state == RunState.SUCCEEDED
    )
    return select(batch.c.task_id).where(later)


def _is_in_a_row(connection: Connection, end: End, number: int) -> bool:
    """Return whether this many runs in a row have failed, with all their attempts."""
    retry = runs.alias("retry")
    last_attempt = ~exists().where(retry.c.retry_of == runs.c.id, retry.c.retry_of.is_not(None))
    decisive = runs.c.state.in_([RunState.SUCCEEDED, RunState.FAILED, RunState.LOST])
    earlier = (runs.c.task_id == end.task.id, runs.c.id < end.run_id, decisive, last_attempt)
    query = select(runs.c.state).where(*earlier).order_by(runs.c.id.desc()).limit(number - 1)
    states = list(connection.scalars(query))
    return len(states) == number - 1 and RunState.SUCCEEDED not in states


def _out_of_bounds(connection: Connection, ends: Sequence[End], rules: Mapping[int, Rules]) -> list[Cause]:
    """Return the alerts `too-short` of runs that succeeded too soon, `too-long` of those that took long."""
    timed = [end for end in ends if end.state in _TIMED and end.seconds is not None]
    automatic = {end.task.id: end.run_id for end in timed if rules[end.task.id].runtime == AUTO}
    learned = durations.of_tasks(connection, list(automatic), automatic)
    causes: list[Cause] = []
    for end in timed:
        of_task, seconds = rules[end.task.id], end.seconds or 0.0
        shortest, longest = bounds_of(of_task.runtime, learned_bounds(learned.get(end.task.id, ())))
        if longest is not None and seconds > longest:
            kind, expected = AlertKind.TOO_LONG, longest
        elif shortest is not None and seconds < shortest and end.state is RunState.SUCCEEDED:
            if not end.checks_runtime:
                continue
            kind, expected = AlertKind.TOO_SHORT, shortest
        else:
            continue
        facts = {"seconds": seconds, "expected": expected}
        causes.append(Cause.of_task(kind, end.task, end.at, of_task, run_id=end.run_id, facts=facts))
    return causes


_TIMED = (RunState.SUCCEEDED, RunState.FAILED)


def dismissed(connection: Connection, database: Database, task_ids: Collection[int], now: datetime) -> None:
    """Close the alert `failing` of these tasks where they have no dead letters any more."""
    dead = exists().where(runs.c.task_id == alerts.c.task_id, text(DEAD))
    close(
        connection, database, [alerts.c.task_id.in_(task_ids), alerts.c.kind == AlertKind.FAILING, ~dead], now
    )
