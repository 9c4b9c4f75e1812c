"""The queries behind all lists: first the ids that pass a filter, in order, then the rows on the screen.

A list of ids is cheap however long it is: the caller reads the rows that it shows by id.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    FromClause,
    Select,
    and_,
    false,
    func,
    or_,
    select,
    text,
)

from dcron.database import Reply, one_of
from dcron.model import Run, Task
from dcron.policy.starting.lanes import Lane
from dcron.schema.conditions import ALIVE, DEAD, DUE, FINISHED, NO_TRIAL, WAITING
from dcron.schema.tables import changes, crontab, runs
from dcron.store.lateness import Lateness, is_requested
from dcron.store.planning import planning
from dcron.store.runs.rows import run_from, run_of
from dcron.store.tasks import rows as tasks
from dcron.store.tasks.search_terms import (
    RUN_FIELDS,
    TASK_FIELDS,
    TASK_ORDERS,
    conditions,
    first_due,
    has_dead_letter,
    has_failed,
    has_open_run,
    of_latest,
    of_task,
)
from dcron.values.lists import DeadLettersPage, DeadTask, RunCursor, RunListFilter, RunsPage, Term

MOST_IDS = 1_000_000
"""Most ids in a list: 8 MB."""
RECENT = 10
MOST_SEARCHED = 100_000
"""Most dead letters that a filter searches before they are counted by task."""
WINDOW = 20_000
"""Runs that one query searches, so that a rare match does not hold up all other queries."""
LIGHT = [runs.c[name] for name in Run.__dataclass_fields__ if name not in ("spec", "payload")]
"""The columns of a run without its spec and payload."""
_LIGHT_NAMES = [column.name for column in LIGHT]
_LEFT_OUT: dict[str, Any] = {"spec": {}, "payload": None}

_RUNS_BY_ID = select(*LIGHT).where(one_of(runs.c.id, "ids"))
_REQUESTED_RUNS = (
    select(runs.c.task_id, func.min(runs.c.due_at).label("due_at"))
    .where(one_of(runs.c.task_id, "ids"), text(DUE), is_requested())
    .group_by(runs.c.task_id)
)
_ALIVE_RUNS = select(*LIGHT).where(one_of(runs.c.task_id, "ids"), text(ALIVE)).order_by(runs.c.id)
_NEWEST = select(*(select(func.max(table.c.id)).scalar_subquery() for table in (changes, crontab)))


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
    """Return the ids of the tasks that match all terms, by one of TASK_ORDERS and then by name.

    With `coming`, only tasks that run now or have a run to come.
    """
    late = Lateness(connection, now)
    key = TASK_ORDERS[order](late)
    ordered = (key.desc() if reverse else key.asc()).nulls_last()
    ties = [] if order == "name" else [crontab.c.name]
    if order == "name":  # as the index has it: with NULLS LAST, Postgres sorts all names
        ordered = crontab.c.name.desc() if reverse else crontab.c.name.asc()
    matching = [*conditions(TASK_FIELDS, terms, late), *([has_open_run()] if coming else [])]
    query = select(crontab.c.id).where(*matching).order_by(ordered, *ties)
    return array("q", connection.scalars(query.limit(MOST_IDS)))


@dataclass(frozen=True)
class ListedTask:
    """A task as lists show it, with its runs (without their specs and payloads)."""

    task: Task
    next_run: Run | None
    """The first waiting run."""
    last_run: Run | None
    """The latest run that was started."""
    alive: Sequence[Run]
    due_since: datetime | None
    """When the first waiting run that is not blocked is, or was, due (UTC)."""
    failed: bool
    """Whether its latest finished run failed or was lost, as `has_failed` defines it."""
    dead: bool
    """Whether one of its runs is a dead letter."""


@cache  # to build it takes as long as to run it
def _listed_query() -> Select[Any]:
    next_id = of_task(runs.c.id, text(WAITING)).order_by(runs.c.due_at, runs.c.id).limit(1)
    return select(
        next_id.scalar_subquery().label("next_id"),
        of_latest(runs.c.id).label("last_id"),
        first_due().label("due_since"),
        func.coalesce(has_failed(), false()).label("failed"),
        has_dead_letter().label("dead"),
        *tasks.COLUMNS,
    ).where(one_of(crontab.c.id, "ids"))


def listed_tasks(connection: Connection, task_ids: Sequence[int]) -> list[ListedTask]:
    """Return the tasks of these ids, in this order; removed tasks are left out."""
    listed = Reply(connection, _listed_query(), {"ids": task_ids})
    living = Reply(connection, _ALIVE_RUNS, {"ids": task_ids})
    rows = {row.id: row for row in listed.rows()}
    found = runs_by_id(connection, {each for row in rows.values() for each in (row.next_id, row.last_id)})
    alive: dict[int, list[Run]] = {}
    for run in _light_runs(living):
        alive.setdefault(run.task_id, []).append(run)
    return [
        ListedTask(
            tasks.task_from(row),
            found.get(row.next_id),
            found.get(row.last_id),
            alive.get(row.id, ()),
            row.due_since,
            row.failed,
            row.dead,
        )
        for task_id in task_ids
        if (row := rows.get(task_id))
    ]


def requested_since(connection: Connection, task_ids: Sequence[int]) -> dict[int, datetime]:
    """Return since when the first due or coming run of each task waits that a person requested, by task id.

    Runs that are blocked are left out, and tasks without such a run.
    """
    rows = Reply(connection, _REQUESTED_RUNS, {"ids": task_ids}).rows()
    return {row.task_id: row.due_at for row in rows}


def runs_by_id(connection: Connection, run_ids: Collection[int | None]) -> dict[int | None, Run]:
    """Return these runs by id, without their specs and payloads."""
    ids = [each for each in run_ids if each is not None]
    return {run.id: run for run in _light_runs(Reply(connection, _RUNS_BY_ID, {"ids": ids}))} if ids else {}


def _light_runs(reply: Reply) -> list[Run]:
    """Return the runs that a statement for the columns LIGHT has read."""
    return [run_of(dict(zip(_LIGHT_NAMES, row, strict=True)) | _LEFT_OUT) for row in reply.rows()]


@cache
def _recent_query() -> Select[Any]:
    over = (runs.c.task_id == crontab.c.id, text(FINISHED))
    tenth = select(runs.c.id).where(*over).order_by(runs.c.id.desc()).limit(1).offset(RECENT - 1)
    since = func.coalesce(tenth.correlate(crontab).scalar_subquery(), 0)
    columns = (runs.c.id, runs.c.task_id, runs.c.state, runs.c.started_at, runs.c.finished_at)
    query = select(*columns).select_from(crontab).join(runs, and_(*over, runs.c.id >= since))
    return query.where(one_of(crontab.c.id, "ids")).order_by(runs.c.id)


def ask_recent_runs(connection: Connection, task_ids: Sequence[int]) -> Callable[[], dict[int, list[Any]]]:
    """Read the last RECENT finished runs of each task: state, start and end; the oldest first.

    They are read together with the statements that follow; return the function that returns them.
    """
    reply = Reply(connection, _recent_query(), {"ids": task_ids})

    def by_task() -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for row in reply.rows():
            found.setdefault(row.task_id, []).append(row)
        return found

    return by_task


def tasks_token(connection: Connection) -> tuple[int, int]:
    """Return a value that differs after tasks were added, removed or edited; it reads two index ends."""
    return ask_tasks_token(connection)()


def ask_tasks_token(connection: Connection) -> Callable[[], tuple[int, int]]:
    """Read the same together with the statements that follow; return the function that returns it."""
    reply = Reply(connection, _NEWEST)

    def token() -> tuple[int, int]:
        ((change, task),) = reply.rows()
        return change or 0, task or 0

    return token


def count_tasks(connection: Connection, *terms: Term, now: datetime) -> int:
    """Return how many tasks match all terms; reads all tasks."""
    matching = conditions(TASK_FIELDS, terms, Lateness(connection, now))
    return connection.scalar(select(func.count()).select_from(crontab).where(*matching)) or 0


def count_first(connection: Connection, terms: Sequence[Term], now: datetime, most: int) -> int:
    """Return how many tasks match all terms, up to `most`; stops reading when it has found `most`."""
    matching = conditions(TASK_FIELDS, terms, Lateness(connection, now))
    found = select(crontab.c.id).where(*matching).limit(most).subquery()
    return connection.scalar(select(func.count()).select_from(found)) or 0


def count_alive(connection: Connection) -> int:
    """Return how many runs are claimed or running."""
    return connection.scalar(select(func.count()).select_from(runs).where(text(ALIVE))) or 0


def count_dead(connection: Connection, most: int) -> int:
    """Return how many dead letters there are, up to `most`."""
    found = select(runs.c.id).where(text(DEAD)).limit(most).subquery()
    return connection.scalar(select(func.count()).select_from(found)) or 0


def failed_now(connection: Connection, task_ids: Collection[int]) -> set[int]:
    """Return which of these tasks still exist and have a latest finished run that failed or was lost."""
    failed = select(crontab.c.id).where(one_of(crontab.c.id, "ids"), has_failed())
    return set(connection.scalars(failed, {"ids": list(task_ids)}))


class LateTasks(NamedTuple):
    """Tasks with a late run, as `policy.conditions.lateness` defines it."""

    number: int
    since: datetime | None
    """Since when the first of these runs has waited, frozen time excluded; None if no task is late."""


def late_tasks(connection: Connection, now: datetime, most: int = 1_000) -> LateTasks:
    """Return how many tasks are late, up to `most`, and since when; reads only late runs, lane by lane."""
    found: dict[int, datetime] = {}
    late = Lateness(connection, now)
    for head in planning.all_heads(connection):
        if late.may_be(head.due_at) and len(found) < most:
            for task_id, since in _late_tasks(connection, head.lane, late, most):
                found[task_id] = min(since, found.get(task_id, since))
    return LateTasks(min(len(found), most), min(found.values(), default=None))


def _late_tasks(
    connection: Connection, lane: Lane, late: Lateness, most: int
) -> Iterator[tuple[int, datetime]]:
    """Yield the ids of the late tasks of a lane, and since when each waits; the longest wait first."""
    if (before := late.of_lane(lane)) is None:
        return
    of_lane = (text(DUE), runs.c.lane == str(lane), runs.c.due_at < before, text(NO_TRIAL))
    due_at = func.min(runs.c.due_at)
    query = select(runs.c.task_id, due_at).where(*of_lane).group_by(runs.c.task_id).order_by(due_at)
    frozen = late.frozen_for(lane)
    for task_id, due in connection.execute(query.limit(most)):
        yield task_id, late.now - frozen.waited(due, late.now)


# Runs -------------------------------------------------------------------------------------------------


def light_runs(connection: Connection, query: Select[Any]) -> list[Run]:
    """Return the runs of a query for LIGHT: their specs and payloads are empty."""
    return [run_from(row, **_LEFT_OUT) for row in connection.execute(query)]


def finished_runs(
    connection: Connection, only: RunListFilter, after: RunCursor | None, limit: int, now: datetime
) -> RunsPage:
    """Return a page of finished runs, the latest end first, from behind `after` on.

    Those of one task contain its trials.
    """
    page = _finished_page(connection, only, after, limit, now)
    if only.task_id is None:
        return page
    trials = _window(replace(only, task_id=-only.task_id), after).limit(limit)
    if page.end:
        trials = trials.where(runs.c.id > page.end.id)
    searched = trials.subquery()
    query = select(searched).where(*conditions(RUN_FIELDS, only.terms, Lateness(connection, now), searched.c))
    found = [*page.runs, *light_runs(connection, query)]
    return RunsPage(sorted(found, key=lambda run: -run.id), page.end)


def _finished_page(
    connection: Connection, only: RunListFilter, after: RunCursor | None, limit: int, now: datetime
) -> RunsPage:
    window = _window(only, after)
    if not only.terms:
        found = light_runs(connection, window.limit(limit))
        return RunsPage(found, _cursor(found[-1]) if len(found) == limit else None)
    # One window at a time: matches may be rare, and the terms have no index.
    searched = window.limit(WINDOW).subquery()
    matching = conditions(RUN_FIELDS, only.terms, Lateness(connection, now), searched.c)
    newest_first = (searched.c.finished_at.desc(), searched.c.id.desc())
    query = select(searched).where(*matching).order_by(*newest_first).limit(limit)
    found = light_runs(connection, query)
    if len(found) == limit:
        return RunsPage(found, _cursor(found[-1]))
    return RunsPage(found, _window_end(connection, window))


def unfinished_runs(connection: Connection, only: RunListFilter, limit: int, now: datetime) -> list[Run]:
    """Return the living runs, the latest first; of one task also the waiting runs."""
    query = select(*LIGHT).where(*conditions(RUN_FIELDS, only.terms, Lateness(connection, now), runs.c))
    if only.node_id:
        query = query.where(runs.c.owner == only.node_id)
    alive = query.where(text(ALIVE))
    if only.task_id is not None:
        alive = alive.where(runs.c.task_id.in_((only.task_id, -only.task_id)))
    # By id + 0: the database looks up the few and sorts them, instead of reading the history in order.
    found = light_runs(connection, alive.order_by((runs.c.id + 0).desc()).limit(limit))
    if only.task_id is None or only.node_id:
        return found
    waiting = query.where(text(WAITING), runs.c.task_id.in_((only.task_id, -only.task_id)))
    return light_runs(connection, waiting.order_by((runs.c.id + 0).desc()).limit(limit)) + found


def dead_tasks(connection: Connection, terms: Sequence[Term], limit: int, now: datetime) -> list[DeadTask]:
    """Return the tasks with dead letters that match all terms, those with the newest first.

    With terms, search only the newest MOST_SEARCHED dead letters.
    """
    source: FromClause = runs
    dead: list[Any] = [text(DEAD)]
    if terms:
        newest_ones = select(*LIGHT).where(text(DEAD)).order_by(runs.c.id.desc()).limit(MOST_SEARCHED)
        source = newest_ones.subquery()
        dead = conditions(RUN_FIELDS, terms, Lateness(connection, now), source.c)
    newest = func.max(source.c.id)
    counted = (
        select(source.c.task_id, func.count().label("letters"), func.min(source.c.id).label("first"), newest)
        .where(*dead)
        .group_by(source.c.task_id)
        .order_by(newest.desc())
        .limit(limit)
    )
    groups = connection.execute(counted).all()
    found = runs_by_id(connection, {run_id for group in groups for run_id in (group[2], group[3])})
    return [
        DeadTask(task_id, found[last].task, count, found[first], found[last])
        for task_id, count, first, last in groups
        if first in found and last in found
    ]


def dead_letters(
    connection: Connection,
    terms: Sequence[Term],
    before_id: int | None,
    limit: int,
    now: datetime,
    task_id: int | None = None,
) -> DeadLettersPage:
    """Return a page of the dead letters that match all terms, with ids below `before_id`.

    With `task_id`, only those of this task.
    """
    dead = select(*LIGHT).where(text(DEAD)).order_by(runs.c.id.desc())
    if task_id is not None:
        dead = dead.where(runs.c.task_id == task_id)
    if before_id is not None:
        dead = dead.where(runs.c.id < before_id)
    searched = dead.limit(WINDOW).subquery()
    query = select(searched).where(*conditions(RUN_FIELDS, terms, Lateness(connection, now), searched.c))
    found = light_runs(connection, query.order_by(searched.c.id.desc()).limit(limit))
    if len(found) == limit:
        return DeadLettersPage(found, found[-1].id)
    last = dead.with_only_columns(runs.c.id).limit(1).offset(WINDOW - 1)
    return DeadLettersPage(found, connection.scalar(last))


def dead_ids(connection: Connection, since_id: int) -> set[int]:
    """Return the ids of the dead letters from this id on."""
    query = select(runs.c.id).where(text(DEAD), runs.c.id >= since_id)
    return set(connection.scalars(query.order_by(runs.c.id.desc()).limit(MOST_IDS)))


def waiting_runs(connection: Connection, task_id: int, limit: int) -> list[Run]:
    """Return the waiting runs of the task, the first due first."""
    waiting = select(*LIGHT).where(text(WAITING), runs.c.task_id == task_id)
    return light_runs(connection, waiting.order_by(runs.c.due_at).limit(limit))


def _window(only: RunListFilter, after: RunCursor | None) -> Select[Any]:
    query = select(*LIGHT).where(text(FINISHED))
    if only.task_id is not None:
        query = query.where(runs.c.task_id == only.task_id)
    if only.node_id:
        query = query.where(runs.c.owner == only.node_id)
    if only.node_since:
        query = query.where(runs.c.finished_at >= only.node_since)
    if after and only.task_id is not None:
        query = query.where(runs.c.id < after.id)
    elif after:
        earlier = or_(
            runs.c.finished_at < after.finished_at,
            and_(runs.c.finished_at == after.finished_at, runs.c.id < after.id),
        )
        query = query.where(runs.c.finished_at <= after.finished_at, earlier)
    if only.task_id is not None:  # a task's runs have an index by id
        return query.order_by(runs.c.id.desc())
    return query.order_by(runs.c.finished_at.desc(), runs.c.id.desc())


def _window_end(connection: Connection, window: Select[Any]) -> RunCursor | None:
    """Return the end of a full window; None when it is the last one."""
    places = window.with_only_columns(runs.c.finished_at, runs.c.id)
    row = connection.execute(places.limit(1).offset(WINDOW - 1)).first()
    return RunCursor(row.finished_at, row.id) if row else None


def _cursor(run: Run) -> RunCursor:
    assert run.finished_at
    return RunCursor(run.finished_at, run.id)
