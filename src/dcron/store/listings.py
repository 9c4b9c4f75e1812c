"""What is looked at all day: ids alone, filtered and in order, and then the few rows that are in sight.

A list of ids is cheap however long it is; whoever shows it asks for what is on the screen by id.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, or_, select, text, union_all

from dcron.model import Block, Run, RunState, Task, Trigger
from dcron.schema import ALIVE, DEAD, DUE, changes, crontab, runs
from dcron.store import planning, tasks
from dcron.store.search_terms import (
    LATENESS,
    RUN_FIELDS,
    TASK_FIELDS,
    TASK_ORDERS,
    Term,
    comes,
    conditions,
    of_latest,
    of_line,
)

MOST_LINES = 1_000_000
"""Ids in a list at most: 8 MB."""
RECENT = 10
WINDOW = 20_000
"""Runs that one question looks through for those wanted, so that a rare one does not hold up all others."""
_PAGES_OF_LANES = 10
"""Pages of lanes that are looked through for late runs."""
LIGHT = [runs.c[name] for name in Run.__dataclass_fields__ if name not in ("spec", "payload")]
"""A run without what it executes."""

_WAITING = "state = 'waiting'"
_FINISHED = "finished_at IS NOT NULL"


# Tasks ------------------------------------------------------------------------------------------------


def task_ids(
    connection: Connection,
    terms: Sequence[Term],
    order: str,
    now: datetime,
    *,
    reverse: bool = False,
    coming: bool = False,
) -> "array[int]":
    """The ids of the lines wanted, by one of TASK_ORDERS and then by name.

    With `coming` only those that run now or have a turn to come.
    """
    key = TASK_ORDERS[order](now)
    ordered = (key.desc() if reverse else key.asc()).nulls_last()
    ties = [] if order == "name" else [crontab.c.name]
    if order == "name":  # as the index has it: a word about NULL makes Postgres sort them all
        ordered = crontab.c.name.desc() if reverse else crontab.c.name.asc()
    wanted = [*conditions(TASK_FIELDS, terms, now), *([comes()] if coming else [])]
    query = select(crontab.c.id).where(*wanted).order_by(ordered, *ties)
    return array("q", connection.scalars(query.limit(MOST_LINES)))


def tasks_by_id(connection: Connection, ids: Sequence[int]) -> list[Task]:
    """These lines, as far as they still stand, in no order."""
    query = select(*tasks.COLUMNS).where(crontab.c.id.in_(ids))
    return [tasks.task_from(row) for row in connection.execute(query)]


@dataclass
class RunsOfTasks:
    """What a list of tasks tells of runs, by the task's id; what they execute is left out."""

    following: dict[int, Run] = field(default_factory=dict)
    """The first that waits."""
    last: dict[int, Run] = field(default_factory=dict)
    """The latest that was started."""
    alive: dict[int, list[Run]] = field(default_factory=dict)


def runs_of_tasks(connection: Connection, task_ids: Sequence[int]) -> RunsOfTasks:
    """The runs that tell how these lines stand: at most two of each, and those alive."""
    found = RunsOfTasks()
    lines = crontab.c.id.in_(task_ids)
    first = of_line(runs.c.id, text(_WAITING)).order_by(runs.c.due_at).limit(1).scalar_subquery()
    either = union_all(select(first).where(lines), select(of_latest(runs.c.id)).where(lines))
    for row in connection.execute(select(*LIGHT).where(runs.c.id.in_(either))):
        told = found.following if row.state == RunState.WAITING else found.last
        told[row.task_id] = light_run(row)
    alive = select(*LIGHT).where(runs.c.task_id.in_(task_ids), text(ALIVE)).order_by(runs.c.id)
    for row in connection.execute(alive):
        found.alive.setdefault(row.task_id, []).append(light_run(row))
    return found


def recent_runs(connection: Connection, task_ids: Sequence[int]) -> dict[int, list[Any]]:
    """The last RECENT runs of each line that are over: state, start and end; the oldest first."""
    over = (runs.c.task_id == crontab.c.id, text(_FINISHED))
    tenth = select(runs.c.id).where(*over).order_by(runs.c.id.desc()).limit(1).offset(RECENT - 1)
    since = func.coalesce(tenth.correlate(crontab).scalar_subquery(), 0)
    columns = (runs.c.id, runs.c.task_id, runs.c.state, runs.c.started_at, runs.c.finished_at)
    query = select(*columns).select_from(crontab).join(runs, and_(*over, runs.c.id >= since))
    found: dict[int, list[Any]] = {}
    for row in connection.execute(query.where(crontab.c.id.in_(task_ids)).order_by(runs.c.id)):
        found.setdefault(row.task_id, []).append(row)
    return found


def lines_token(connection: Connection) -> tuple[int, int]:
    """Differs after lines have come, gone or been edited; two looks at the ends of indexes."""
    change = connection.scalar(select(func.max(changes.c.id)))
    line = connection.scalar(select(func.max(crontab.c.id)))
    return change or 0, line or 0


def count_tasks(connection: Connection, *terms: Term, now: datetime) -> int:
    """How many lines are so; reads all of them."""
    query = select(func.count()).select_from(crontab).where(*conditions(TASK_FIELDS, terms, now))
    return connection.scalar(query) or 0


def count_alive(connection: Connection) -> int:
    """How many runs are claimed or running."""
    return connection.scalar(select(func.count()).select_from(runs).where(text(ALIVE))) or 0


def count_late(connection: Connection, now: datetime, most: int = 1_000) -> int:
    """How many runs that may start are late, up to `most`: of each lane that has some, the first."""
    late, lane = 0, ""
    for _ in range(_PAGES_OF_LANES):
        heads, lane = planning.heads_after(connection, lane)
        late += _count_late(connection, heads, now, most - late)
        if not lane:
            break
    return late


def _count_late(connection: Connection, heads: Sequence[planning.LaneHead], now: datetime, most: int) -> int:
    late = 0
    for head in heads:
        if head.due_at < now - LATENESS and late < most:
            of_lane = (text(DUE), runs.c.lane == str(head.lane), runs.c.due_at < now - LATENESS)
            some = select(runs.c.id).where(*of_lane).limit(most - late).subquery()
            late += connection.scalar(select(func.count()).select_from(some)) or 0
    return late


# Runs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WantedRuns:
    """Which runs to list."""

    task_id: int | None = None
    node_id: str | None = None
    node_since: datetime | None = None
    """When that node started: none of its runs has ended before."""
    terms: Sequence[Term] = ()


@dataclass(frozen=True)
class Place:
    """Where a page of finished runs ends, and the next one begins."""

    finished_at: datetime
    id: int


@dataclass(frozen=True)
class RunsPage:
    """Finished runs, the latest first."""

    runs: Sequence[Run]
    end: Place | None
    """Where to go on; None when there is nothing more."""


def light_run(row: Row[Any]) -> Run:
    """The run in a row that has LIGHT; what it executes is left out."""
    values: dict[str, Any] = {**row._mapping, "spec": {}, "payload": None}
    kinds = {"trigger": Trigger(row.trigger), "state": RunState(row.state)}
    return Run(**{**values, **kinds, "blocked": row.blocked and Block(row.blocked)})


def finished_runs(
    connection: Connection, wanted: WantedRuns, after: Place | None, limit: int, now: datetime
) -> RunsPage:
    """A page of the runs that are over, the latest end first, from behind `after` on."""
    window = _window(wanted, after)
    if not wanted.terms:
        found = [light_run(row) for row in connection.execute(window.limit(limit))]
        return RunsPage(found, _place(found[-1]) if len(found) == limit else None)
    # Looked through a window at a time, for what is wanted may be rare and has no index.
    passed = window.limit(WINDOW).subquery()
    so = conditions(RUN_FIELDS, wanted.terms, now, passed.c)
    newest_first = (passed.c.finished_at.desc(), passed.c.id.desc())
    query = select(passed).where(*so).order_by(*newest_first).limit(limit)
    found = [light_run(row) for row in connection.execute(query)]
    if len(found) == limit:
        return RunsPage(found, _place(found[-1]))
    return RunsPage(found, _last_place(connection, window))


def unfinished_runs(connection: Connection, wanted: WantedRuns, limit: int, now: datetime) -> list[Run]:
    """The runs under way, the latest first; of one task also those that wait."""
    query = select(*LIGHT).where(*conditions(RUN_FIELDS, wanted.terms, now, runs.c))
    if wanted.node_id:
        query = query.where(runs.c.owner == wanted.node_id)
    alive = query.where(text(ALIVE))
    if wanted.task_id is not None:
        alive = alive.where(runs.c.task_id == wanted.task_id)
    # By id + 0: few among many are looked up and sorted, instead of walking through the history for them.
    found = [
        light_run(row) for row in connection.execute(alive.order_by((runs.c.id + 0).desc()).limit(limit))
    ]
    if wanted.task_id is None or wanted.node_id:
        return found
    waiting = query.where(text(_WAITING), runs.c.task_id == wanted.task_id)
    rows = connection.execute(waiting.order_by((runs.c.id + 0).desc()).limit(limit))
    return [light_run(row) for row in rows] + found


@dataclass(frozen=True)
class LettersPage:
    """Dead letters, the newest first."""

    runs: Sequence[Run]
    end: int | None
    """The run behind which to go on; None when there is nothing more."""


def dead_letters(
    connection: Connection, terms: Sequence[Term], before_id: int | None, limit: int, now: datetime
) -> LettersPage:
    """A page of the dead letters wanted, those made before `before_id`."""
    dead = select(*LIGHT).where(text(DEAD)).order_by(runs.c.id.desc())
    if before_id is not None:
        dead = dead.where(runs.c.id < before_id)
    passed = dead.limit(WINDOW).subquery()
    query = select(passed).where(*conditions(RUN_FIELDS, terms, now, passed.c))
    found = [light_run(row) for row in connection.execute(query.order_by(passed.c.id.desc()).limit(limit))]
    if len(found) == limit:
        return LettersPage(found, found[-1].id)
    last = dead.with_only_columns(runs.c.id).limit(1).offset(WINDOW - 1)
    return LettersPage(found, connection.scalar(last))


def dead_ids(connection: Connection, since_id: int) -> set[int]:
    """Which runs from this one on are dead letters."""
    query = select(runs.c.id).where(text(DEAD), runs.c.id >= since_id)
    return set(connection.scalars(query.order_by(runs.c.id.desc()).limit(MOST_LINES)))


def waiting_runs(connection: Connection, task_id: int, limit: int) -> list[Run]:
    """The line's runs that wait, the first due first."""
    waiting = select(*LIGHT).where(text(_WAITING), runs.c.task_id == task_id)
    return [light_run(row) for row in connection.execute(waiting.order_by(runs.c.due_at).limit(limit))]


def _window(wanted: WantedRuns, after: Place | None) -> Select[Any]:
    query = select(*LIGHT).where(text(_FINISHED))
    if wanted.task_id is not None:
        query = query.where(runs.c.task_id == wanted.task_id)
    if wanted.node_id:
        query = query.where(runs.c.owner == wanted.node_id)
    if wanted.node_since:
        query = query.where(runs.c.finished_at >= wanted.node_since)
    if after and wanted.task_id is not None:
        query = query.where(runs.c.id < after.id)
    elif after:
        earlier = or_(
            runs.c.finished_at < after.finished_at,
            and_(runs.c.finished_at == after.finished_at, runs.c.id < after.id),
        )
        query = query.where(runs.c.finished_at <= after.finished_at, earlier)
    if wanted.task_id is not None:  # a task's runs have an index by id
        return query.order_by(runs.c.id.desc())
    return query.order_by(runs.c.finished_at.desc(), runs.c.id.desc())


def _last_place(connection: Connection, window: Select[Any]) -> Place | None:
    """Where a full window ends; None when it was the last one."""
    places = window.with_only_columns(runs.c.finished_at, runs.c.id)
    row = connection.execute(places.limit(1).offset(WINDOW - 1)).first()
    return Place(row.finished_at, row.id) if row else None


def _place(run: Run) -> Place:
    assert run.finished_at
    return Place(run.finished_at, run.id)
