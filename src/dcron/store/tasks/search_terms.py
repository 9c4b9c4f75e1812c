"""Filter and order lists: the SQL condition of each search term, and the key of each order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    and_,
    case,
    cast,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
)
from sqlalchemy import Text as TextType

from dcron.model import RunState
from dcron.policy.selectors import NamedTasks, Selector
from dcron.schema.conditions import ALIVE, DEAD, DUE, WAITING
from dcron.schema.tables import crontab, runs
from dcron.store import selectors
from dcron.store.lateness import Lateness, is_requested
from dcron.values.lists import Term

LOOK_BACK = 100
"""Newest runs of a task among which its last success is searched. So one that always fails costs no more."""
_FAILURES = [state for state in RunState if state.is_failure]


def term_of(selector: Selector) -> Term:
    """Return the word of a filter that chooses the same tasks."""
    if isinstance(selector, NamedTasks):
        return Term("ids", " ".join(map(str, selector.ids)))
    return Term("label", str(selector))


Condition = Callable[[Any, str, Lateness], ColumnElement[bool]]


def conditions(
    fields: Mapping[str, Condition], terms: Sequence[Term], late: Lateness, columns: Any = None
) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of these terms; `columns` are the columns of runs for RUN_FIELDS."""
    found = []
    for term in terms:
        if term.field == "any":
            groups = (conditions(fields, group, late, columns) for group in term.alternatives)
            found.append(or_(*(and_(true(), *group) for group in groups)))
            continue
        matches = fields[term.field](columns, term.value, late)
        if term.field != "label":  # which is never NULL, and has an index
            matches = func.coalesce(matches, false())
        found.append(not_(matches) if term.negated else matches)
    return found


def _has(column: Any, value: str) -> ColumnElement[bool]:
    found: ColumnElement[bool] = column.icontains(value, autoescape=True)
    return found


def of_task(column: Column[Any], *which: Any) -> Select[Any]:
    """Select a column of the task's runs under these conditions."""
    return select(column).where(runs.c.task_id == crontab.c.id, *which).correlate(crontab)


def first_due(which: str = DUE, *more: ColumnElement[bool]) -> Any:
    """Select when the task's first waiting run is due; by default the first that is not blocked."""
    return of_task(runs.c.due_at, text(which), *more).order_by(runs.c.due_at).limit(1).scalar_subquery()


def of_latest(column: Column[Any]) -> Any:
    """Select a column of the task's latest started run."""
    started = of_task(column, runs.c.started_at.is_not(None))
    return started.order_by(runs.c.id.desc()).limit(1).scalar_subquery()


def _alive(*which: Any) -> ColumnElement[bool]:
    return of_task(runs.c.id, text(ALIVE), *which).exists()


def has_open_run() -> ColumnElement[bool]:
    """Return the condition that a run of the task is alive, or waits and no endless pause stops it."""
    goes_on = or_(crontab.c.enabled, crontab.c.paused_until.is_not(None))
    return or_(_alive(), and_(goes_on, of_task(runs.c.id, text(WAITING)).exists()))


def _is_late(late: Lateness) -> ColumnElement[bool]:
    """Return the condition that a run of the task is late."""
    of_requested: ColumnElement[bool] = first_due(DUE, is_requested()) < late.of_requested
    if late.of_others is None:
        return of_requested
    of_all: ColumnElement[bool] = first_due() < late.of_others
    return of_all if late.of_others == late.of_requested else or_(of_all, of_requested)


def last_success() -> tuple[Any, Any]:
    """Select the oldest of the task's LOOK_BACK newest runs, and the latest success among these."""
    oldest = of_task(runs.c.id).order_by(runs.c.id.desc()).limit(1).offset(LOOK_BACK - 1)
    since = func.coalesce(oldest.scalar_subquery(), 0)
    success = of_task(runs.c.id, runs.c.state == RunState.SUCCEEDED, runs.c.id >= since)
    return since, success.order_by(runs.c.id.desc()).limit(1).scalar_subquery()


def has_failed() -> ColumnElement[bool]:
    """Return the condition that the task's latest finished run failed or was lost.

    A success clears it. Skipped and cancelled runs do not count.
    """
    failed: ColumnElement[bool] = latest_ended(runs.c.state).in_(_literals(_FAILURES))
    return failed


def latest_ended(column: Column[Any]) -> Any:
    """Select a column of the task's latest finished run; skipped and cancelled runs do not count."""
    ended = of_task(column, runs.c.state.in_(_literals([RunState.SUCCEEDED, *_FAILURES])))
    return ended.order_by(runs.c.id.desc()).limit(1).scalar_subquery()


def _literals(states: Sequence[RunState]) -> list[ColumnElement[str]]:
    """Return the states as parts of the statement's text, so that it is compiled once."""
    return [literal_column(repr(state.value)) for state in states]


def has_dead_letter() -> ColumnElement[bool]:
    """Return the condition that a run of the task is a dead letter: neither retried nor dismissed."""
    return of_task(runs.c.id, text(DEAD)).exists()


def _rank(late: Lateness) -> Any:
    """Return the sort key `state`: tasks that need attention come first."""
    return case(
        (crontab.c.error.is_not(None), 0),
        (has_failed(), 1),
        (_is_late(late), 2),
        (_alive(), 3),
        (not_(crontab.c.enabled), 5),
        else_=4,
    )


def _in_state(value: str, late: Lateness) -> ColumnElement[bool]:
    state = value.lower()
    known: dict[str, Callable[[], ColumnElement[bool]]] = {
        "running": _alive,
        "paused": lambda: not_(crontab.c.enabled),
        "late": lambda: _is_late(late),
        "failed": has_failed,
        "error": lambda: crontab.c.error.is_not(None),
        "ok": lambda: of_latest(runs.c.state) == RunState.SUCCEEDED,
        "new": lambda: of_latest(runs.c.id).is_(None),
    }
    return known[state]() if state in known else of_latest(runs.c.state) == state


def _in_trouble(late: Lateness) -> ColumnElement[bool]:
    return or_(has_failed(), _is_late(late), crontab.c.error.is_not(None))


TASK_FIELDS: dict[str, Condition] = {
    "text": lambda _, value, late: or_(
        *(_has(crontab.c[name], value) for name in ("name", "command", "describe"))
    ),
    "name": lambda _, value, late: _has(crontab.c.name, value),
    "command": lambda _, value, late: _has(crontab.c.command, value),
    "schedule": lambda _, value, late: _has(crontab.c.schedule, value),
    "zone": lambda _, value, late: _has(crontab.c.timezone, value),
    "user": lambda _, value, late: _has(crontab.c.user, value),
    "queue": lambda _, value, late: _has(crontab.c.queue, value),
    "tag": lambda _, value, late: _has(cast(crontab.c.require, TextType), value),
    "label": lambda _, value, late: selectors.condition(Selector.parse(value)),
    "ids": lambda _, value, late: selectors.of_ids(crontab.c.id, [int(each) for each in value.split()]),
    "source": lambda _, value, late: crontab.c.source == value,
    "owner": lambda _, value, late: _alive(_has(runs.c.owner, value)),
    "node": lambda _, value, late: _has(of_latest(runs.c.owner), value),
    "exit": lambda _, value, late: cast(of_latest(runs.c.exit_code), TextType) == value,
    "st": lambda _, value, late: _in_state(value, late),
    "late": lambda _, value, late: _is_late(late),
    "failed": lambda _, value, late: has_failed(),
    "dead": lambda _, value, late: has_dead_letter(),
    "paused": lambda _, value, late: not_(crontab.c.enabled),
    "running": lambda _, value, late: _alive(),
    "errors": lambda _, value, late: _in_trouble(late),
}

TASK_ORDERS: dict[str, Callable[[Lateness], Any]] = {
    "name": lambda late: crontab.c.name,
    "next": lambda late: first_due(WAITING),
    "last": lambda late: of_latest(runs.c.started_at),
    "state": _rank,
    "schedule": lambda late: crontab.c.schedule,
}

RUN_FIELDS: dict[str, Condition] = {
    "text": lambda run, value, late: or_(_has(run.task, value), _has(run.reason, value)),
    "name": lambda run, value, late: _has(run.task, value),
    "task": lambda run, value, late: _has(run.task, value),
    "reason": lambda run, value, late: _has(run.reason, value),
    "node": lambda run, value, late: _has(run.owner, value),
    "owner": lambda run, value, late: _has(run.owner, value),
    "exit": lambda run, value, late: cast(run.exit_code, TextType) == value,
    "queue": lambda run, value, late: _has(run.queue, value),
    "trigger": lambda run, value, late: (
        run.task_id < 0 if value.lower() == "trial" else run.trigger == value.lower()
    ),
    "st": lambda run, value, late: run.state == ("succeeded" if value.lower() == "ok" else value.lower()),
    "failed": lambda run, value, late: run.state.in_(_FAILURES),
    "dead": lambda run, value, late: run.dead_at.is_not(None),
    "running": lambda run, value, late: run.state.in_([RunState.RUNNING, RunState.CLAIMED]),
    "errors": lambda run, value, late: run.state.in_(_FAILURES),
}
