"""Read what happened in a span: the runs that did not succeed, and the nodes that died.

Every query reads a range of an index, and a long one page by page.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, func, or_, select, text

from dcron.model import Run, RunState, SkipCode
from dcron.policy.statistics import Span
from dcron.schema.conditions import FINISHED, NO_TRIAL
from dcron.schema.tables import crontab, nodes, runs
from dcron.store import listings
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks.search_terms import has_failed
from dcron.values.unreadable import UnreadableTime

WINDOW = 5_000
"""Finished runs that one query searches for those that did not succeed: some 25 ms."""
MOST_NODES = 1_000
_PAGE = 500
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
    window = select(*(runs.c[name] for name in _COLUMNS)).where(text(FINISHED), ended >= span.start)
    window = window.where(ended < span.end, text(NO_TRIAL))
    if after:
        behind = or_(ended > after.finished_at, and_(ended == after.finished_at, runs.c.id > after.id))
        window = window.where(ended >= after.finished_at, behind)
    window = window.order_by(ended, runs.c.id)
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


def failed_now(connection: Connection, task_ids: Collection[int]) -> set[int]:
    """Return which of these tasks still exist and have a latest finished run that failed or was lost."""
    found: set[int] = set()
    for some in _pages(sorted(task_ids)):
        found.update(connection.scalars(select(crontab.c.id).where(crontab.c.id.in_(some), has_failed())))
    return found


def runs_of(connection: Connection, run_ids: Collection[int]) -> dict[int, Run]:
    """Return these runs by id."""
    found: dict[int, Run] = {}
    for some in _pages(sorted(run_ids)):
        rows = connection.execute(select(*listings.LIGHT).where(runs.c.id.in_(some)))
        found |= {row.id: listings.light_run(row) for row in rows}
    return found


@dataclass(frozen=True)
class LostNode:
    """A node that died without being stopped."""

    id: str
    name: str
    died_at: datetime


def lost_nodes(connection: Connection, span: Span) -> list[LostNode]:
    """Return the nodes that died in the span, the first first."""
    died = (nodes.c.died_at >= span.start, nodes.c.died_at < span.end)
    query = select(nodes.c.id, nodes.c.name, nodes.c.died_at).where(*died, nodes.c.died_how == "dead")
    rows = connection.execute(query.order_by(nodes.c.died_at).limit(MOST_NODES))
    return [LostNode(**row._mapping) for row in rows if not isinstance(row.died_at, UnreadableTime)]


def _pages(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(ids), _PAGE):
        yield ids[first : first + _PAGE]
