"""What lists can be filtered and ordered by: the conditions of a filter's words, in SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, case, cast, false, func, not_, or_, select, text
from sqlalchemy import Text as TextType

from dcron.model import RunState
from dcron.schema import ALIVE, DUE, crontab, runs

LATENESS = timedelta(seconds=15)
"""How long a run may be due before its task is called late."""

_WAITING = "state = 'waiting'"
_UNHAPPY = [RunState.FAILED, RunState.LOST]


@dataclass(frozen=True)
class Term:
    """One word of a filter: all words have to hold."""

    field: str
    """One of TASK_FIELDS or RUN_FIELDS; `text` is looked for where people would look."""
    value: str = ""
    negated: bool = False


Condition = Callable[[Any, str, datetime], ColumnElement[bool]]


def conditions(
    fields: Mapping[str, Condition], terms: Sequence[Term], now: datetime, columns: Any = None
) -> list[ColumnElement[bool]]:
    """Those of the terms, all of which have to hold; `columns` are those of runs."""
    found = []
    for term in terms:
        holds = func.coalesce(fields[term.field](columns, term.value, now), false())
        found.append(not_(holds) if term.negated else holds)
    return found


def _has(column: Any, value: str) -> ColumnElement[bool]:
    found: ColumnElement[bool] = column.icontains(value, autoescape=True)
    return found


def of_line(column: Column[Any], *which: Any) -> Select[Any]:
    """A column of the line's runs that are so."""
    return select(column).where(runs.c.task_id == crontab.c.id, *which).correlate(crontab)


def _first_due(which: str = _WAITING) -> Any:
    return of_line(runs.c.due_at, text(which)).order_by(runs.c.due_at).limit(1).scalar_subquery()


def of_latest(column: Column[Any]) -> Any:
    """A column of the line's latest run that was started."""
    started = of_line(column, runs.c.started_at.is_not(None))
    return started.order_by(runs.c.id.desc()).limit(1).scalar_subquery()


def _alive(*which: Any) -> ColumnElement[bool]:
    return of_line(runs.c.id, text(ALIVE), *which).exists()


def comes() -> ColumnElement[bool]:
    """Whether the line runs, or has a turn before it that no pause without an end holds back."""
    goes_on = or_(crontab.c.enabled, crontab.c.paused_until.is_not(None))
    return or_(_alive(), and_(goes_on, of_line(runs.c.id, text(_WAITING)).exists()))


def _is_late(now: datetime) -> ColumnElement[bool]:
    return and_(crontab.c.enabled, _first_due(DUE) < now - LATENESS)


def has_failed() -> ColumnElement[bool]:
    """Whether the last run of the line that came to an end by itself ended badly: a success clears it."""
    ended = of_line(runs.c.state, runs.c.state.in_([RunState.SUCCEEDED, *_UNHAPPY]))
    return ended.order_by(runs.c.id.desc()).limit(1).scalar_subquery().in_(_UNHAPPY)


def _rank(now: datetime) -> Any:
    """What wants attention first."""
    return case(
        (crontab.c.error.is_not(None), 0),
        (has_failed(), 1),
        (_is_late(now), 2),
        (_alive(), 3),
        (not_(crontab.c.enabled), 5),
        else_=4,
    )


def _in_state(value: str, now: datetime) -> ColumnElement[bool]:
    state = value.lower()
    known: dict[str, Callable[[], ColumnElement[bool]]] = {
        "running": _alive,
        "paused": lambda: not_(crontab.c.enabled),
        "late": lambda: _is_late(now),
        "failed": has_failed,
        "error": lambda: crontab.c.error.is_not(None),
        "ok": lambda: of_latest(runs.c.state) == RunState.SUCCEEDED,
        "new": lambda: of_latest(runs.c.id).is_(None),
    }
    return known[state]() if state in known else of_latest(runs.c.state) == state


def _in_trouble(now: datetime) -> ColumnElement[bool]:
    return or_(has_failed(), _is_late(now), crontab.c.error.is_not(None))


TASK_FIELDS: dict[str, Condition] = {
    "text": lambda _, value, now: or_(
        *(_has(crontab.c[name], value) for name in ("name", "command", "describe"))
    ),
    "name": lambda _, value, now: _has(crontab.c.name, value),
    "command": lambda _, value, now: _has(crontab.c.command, value),
    "schedule": lambda _, value, now: _has(crontab.c.schedule, value),
    "zone": lambda _, value, now: _has(crontab.c.timezone, value),
    "user": lambda _, value, now: _has(crontab.c.user, value),
    "queue": lambda _, value, now: _has(crontab.c.queue, value),
    "tag": lambda _, value, now: _has(cast(crontab.c.require, TextType), value),
    "owner": lambda _, value, now: _alive(_has(runs.c.owner, value)),
    "node": lambda _, value, now: _has(of_latest(runs.c.owner), value),
    "exit": lambda _, value, now: cast(of_latest(runs.c.exit_code), TextType) == value,
    "st": lambda _, value, now: _in_state(value, now),
    "late": lambda _, value, now: _is_late(now),
    "failed": lambda _, value, now: has_failed(),
    "paused": lambda _, value, now: not_(crontab.c.enabled),
    "running": lambda _, value, now: _alive(),
    "errors": lambda _, value, now: _in_trouble(now),
}

TASK_ORDERS: dict[str, Callable[[datetime], Any]] = {
    "name": lambda now: crontab.c.name,
    "next": lambda now: _first_due(),
    "last": lambda now: of_latest(runs.c.started_at),
    "state": _rank,
    "schedule": lambda now: crontab.c.schedule,
}

RUN_FIELDS: dict[str, Condition] = {
    "text": lambda run, value, now: or_(_has(run.task, value), _has(run.reason, value)),
    "name": lambda run, value, now: _has(run.task, value),
    "task": lambda run, value, now: _has(run.task, value),
    "reason": lambda run, value, now: _has(run.reason, value),
    "node": lambda run, value, now: _has(run.owner, value),
    "owner": lambda run, value, now: _has(run.owner, value),
    "exit": lambda run, value, now: cast(run.exit_code, TextType) == value,
    "queue": lambda run, value, now: _has(run.queue, value),
    "trigger": lambda run, value, now: run.trigger == value.lower(),
    "st": lambda run, value, now: run.state == ("succeeded" if value.lower() == "ok" else value.lower()),
    "failed": lambda run, value, now: run.state.in_(_UNHAPPY),
    "dead": lambda run, value, now: run.dead_at.is_not(None),
    "running": lambda run, value, now: run.state.in_([RunState.RUNNING, RunState.CLAIMED]),
    "errors": lambda run, value, now: run.state.in_(_UNHAPPY),
}
