"""Read which runs of a span did not succeed, and which nodes died in it.

Every query reads a range of an index, and a long one page by page.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, func, select

from dcron.model import RunState, SkipCode
from dcron.policy.statistics import Span
from dcron.schema.tables import nodes, runs
from dcron.store.statistics.finished_runs import Place, ended_in
from dcron.values.unreadable import UnreadableTime

WINDOW = 5_000
"""Finished runs that one query searches for those that did not succeed: some 25 ms."""
MOST_NODES = 1_000
_FAILURES = [state for state in RunState if state.is_failure]


@dataclass(frozen=True)
class Unsuccessful:
    """Runs of one task that ended alike."""

    task_id: int
    task: str
    state: RunState
    code: str | None
    """Why they were skipped; None for other states."""
    owner: str | None
    """The node on which they were lost; None for other states."""
    runs: int
    occurrences: int
    """How many occurrences the runs cover."""
    dead: int
    """How many of them still are dead letters."""
    first: datetime
    until: datetime
    """The first and last time for which they were."""
    last_run: int


def unsuccessful(
    connection: Connection, span: Span, after: Place | None
) -> tuple[list[Unsuccessful], Place | None]:
    """Return the runs that failed, were lost or were skipped, among the next WINDOW that ended in the span.

    Also return where the next window begins; None behind the last one.
    """
    ended = runs.c.finished_at
    columns = (runs.c[name] for name in _COLUMNS)
    window = select(*columns).where(*ended_in(span, after)).order_by(ended, runs.c.id)
    found = window.limit(WINDOW).subquery().c
    kind = (
        found.task_id,
        found.task,
        found.state,
        found.skip_code,
        case((found.state == RunState.LOST, found.owner)),
    )
    query = select(
        *kind,
        func.count(),
        func.sum(func.coalesce(found.covers_count, 1)),
        func.count(found.dead_at),
        func.min(func.coalesce(found.covers_from, found.scheduled_for)),
        func.max(func.coalesce(found.covers_until, found.scheduled_for)),
        func.max(found.id),
    )
    rows = connection.execute(query.where(found.state.in_([*_FAILURES, RunState.SKIPPED])).group_by(*kind))
    groups = [_unsuccessful(row) for row in rows]
    end = connection.execute(window.with_only_columns(ended, runs.c.id).limit(1).offset(WINDOW - 1)).first()
    if end is None or isinstance(end.finished_at, UnreadableTime):
        return groups, None
    return groups, Place(end.finished_at, end.id)


_COLUMNS = (
    *("id", "task_id", "task", "state", "skip_code", "owner", "dead_at", "scheduled_for", "finished_at"),
    *("covers_count", "covers_from", "covers_until"),
)


def _unsuccessful(row: Any) -> Unsuccessful:
    task_id, task, state, code, owner, count, occurrences, dead, first, until, last = row
    state = RunState(state)
    if state is RunState.SKIPPED:
        code = code.value if isinstance(code, SkipCode) else SkipCode.OTHER.value
    return Unsuccessful(task_id, task, state, code, owner, count, int(occurrences), dead, first, until, last)


def lost_nodes(connection: Connection, span: Span) -> list[tuple[str, datetime]]:
    """Return the ids of the nodes that died in the span, and when; the first first."""
    died = (nodes.c.died_at >= span.start, nodes.c.died_at < span.end)
    query = select(nodes.c.id, nodes.c.died_at).where(*died, nodes.c.died_how == "dead")
    rows = connection.execute(query.order_by(nodes.c.died_at).limit(MOST_NODES))
    return [(row.id, row.died_at) for row in rows if not isinstance(row.died_at, UnreadableTime)]
