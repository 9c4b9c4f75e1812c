"""Read what is known about alerts: their runs, the last success, the next run, and what changed before.

The number of statements does not depend on the number of alerts, up to MOST.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Executable, bindparam, func, select

from dcron.model import Alert
from dcron.policy.alert_facts import AlertFacts, Origin
from dcron.schema.conditions import WAITING
from dcron.schema.tables import alerts, changes, crontab, nodes, output, runs
from dcron.store import listings
from dcron.store.changes import COLUMNS, change_from
from dcron.store.tasks.search_terms import first_due, last_success
from dcron.values.unreadable import UnreadableTime

MOST = 500
"""Alerts in one round of statements."""
CHANGES_BACK = 200
"""Latest changes of a task among which the one before an alert is searched."""
OUTPUT_LINES = 20
OUTPUT_BYTES = 64 * 1024
"""Bytes at the end of an output among which the last lines are."""
_CHANGING = ("add", "set", "restore")
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)


def read(
    connection: Connection, found: Sequence[Alert], now: datetime, *, with_output: bool = False
) -> list[AlertFacts]:
    """Return what is known about these alerts, in their order.

    `with_output` costs a statement for each alert.
    """
    facts: list[AlertFacts] = []
    for first in range(0, len(found), MOST):
        facts += _Facts(connection, found[first : first + MOST]).all(now, with_output=with_output)
    return facts


class _Facts:
    """The rows that belong to some alerts."""

    def __init__(self, connection: Connection, found: Sequence[Alert]) -> None:
        self._connection = connection
        self._alerts = found
        self._tasks = {row.id: row for row in self._rows(_tasks(), [each.task_id for each in found])}
        about = [run_id for each in found for run_id in (each.run_id, each.last_run_id)]
        about += [row.success_id for row in self._tasks.values()]
        self._runs = listings.runs_by_id(connection, set(about))
        self._tzdata = {row.id: row.tzdata for row in self._rows(_TZDATA, about)}
        owners = [run.owner for run in self._runs.values()]
        self._nodes = {row.id: row for row in self._rows(_NODES, owners)}
        of_alerts = [each.id for each in found if each.task_id is not None]
        change_ids = {row.id: row.change_id for row in self._rows(_changes(), of_alerts)}
        changed = {row.id: change_from(row) for row in self._rows(_CHANGES, change_ids.values())}
        self._changes = {alert_id: changed.get(change_id) for alert_id, change_id in change_ids.items()}

    def all(self, now: datetime, *, with_output: bool) -> Iterator[AlertFacts]:
        """Yield the facts of each alert."""
        for alert in self._alerts:
            task = self._tasks.get(alert.task_id)
            run = self._runs.get(alert.last_run_id or alert.run_id or 0)
            yield AlertFacts(
                alert,
                run,
                task.timezone if task else None,
                self._origin(task.success_id if task else None),
                _readable(task.next_due) if task and task.enabled else None,
                self._changes.get(alert.id),
                last_lines(self._connection, run.id) if with_output and run and run.started_at else (),
                self._origin(alert.run_id),
            )

    def _rows(self, query: Executable, ids: Collection[Any]) -> Sequence[Any]:
        """Return the rows of these ids."""
        known = sorted({each for each in ids if each is not None})
        return self._connection.execute(query, {"ids": known}).all() if known else ()

    def _origin(self, run_id: int | None) -> Origin | None:
        """Return the run with what it had where it ran."""
        if (run := self._runs.get(run_id or 0)) is None:
            return None
        node = self._nodes.get(run.owner)
        version, began_at = (node.version, node.started_at) if node else (None, None)
        return Origin(run, version, began_at, self._tzdata.get(run.id))


@cache
def _tasks() -> Executable:
    """Return the query for the tasks with their next run and their last success."""
    _, success_id = last_success()
    found = (first_due(WAITING).label("next_due"), success_id.label("success_id"))
    query = select(crontab.c.id, crontab.c.timezone, crontab.c.enabled, *found)
    return query.where(crontab.c.id.in_(_IDS))


@cache
def _changes() -> Executable:
    """Return the query for the last change of its task before each alert was opened."""
    own = select(changes.c.id).where(changes.c.task_id == alerts.c.task_id).correlate(alerts)
    bound = own.order_by(changes.c.id.desc()).limit(1).offset(CHANGES_BACK - 1).scalar_subquery()
    before = own.where(
        changes.c.id >= func.coalesce(bound, 0),
        changes.c.action.in_(_CHANGING),
        changes.c.at <= alerts.c.opened_at,
    )
    last = before.order_by(changes.c.id.desc()).limit(1).scalar_subquery().label("change_id")
    return select(alerts.c.id, last).where(alerts.c.id.in_(_IDS))


_TZDATA = select(runs.c.id, runs.c.tzdata).where(runs.c.id.in_(_IDS))
_NODES = select(nodes.c.id, nodes.c.version, nodes.c.started_at).where(nodes.c.id.in_(_IDS))
_CHANGES = select(*COLUMNS).where(changes.c.id.in_(_IDS))


def _readable(at: datetime | None) -> datetime | None:
    return None if isinstance(at, UnreadableTime) else at


def last_lines(connection: Connection, run_id: int, lines: int = OUTPUT_LINES) -> list[bytes]:
    """Return the last lines that the run wrote to stdout and stderr."""
    query = select(output.c.data).where(output.c.run_id == run_id).order_by(output.c.byte_offset.desc())
    kept: list[bytes] = []
    size = 0
    for data in connection.scalars(query.limit(200)):
        kept.append(bytes(data))
        size += len(data)
        if size >= OUTPUT_BYTES or sum(each.count(b"\n") for each in kept) > lines:
            break
    return b"".join(reversed(kept))[-OUTPUT_BYTES:].splitlines()[-lines:]
