"""Find and delete runs that are old enough, page by page in the order of their ends.

A page is read and judged without a lock (`look`). A transaction of its own deletes what may go (`delete`): it
repeats the conditions, because a run may have changed meanwhile. The age is judged by what the task and the
settings say now; nothing about it is stored with the run.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from math import inf
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    true,
    update,
)

from dcron.fields.retention import FOREVER
from dcron.model import RunState
from dcron.policy.retention import Fate, Keep, PastRun, Verdict, judge, keep_of
from dcron.policy.statistics import DAY, day_of, start_of
from dcron.schema.conditions import FINISHED
from dcron.schema.tables import crontab, holds, output, runs, summed_days
from dcron.schema.types import DayOf
from dcron.settings.labels import for_labels
from dcron.settings.registry import labels_of
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks import settings
from dcron.values.unreadable import Unreadable, UnreadableTime

EARLIEST = datetime.fromisoformat("0001-01-03T00:00:00+00:00")
_NONE_LAST = 1 << 63
"""Instead of the oldest started run that a task keeps in any case: it keeps none."""


@dataclass(frozen=True)
class Candidate:
    """A run that may go, or whose output may go, as it was judged."""

    id: int
    state: RunState
    finished_at: datetime
    verdict: Verdict
    fate: Fate
    bytes: int = 0
    """Of its output."""


@dataclass(frozen=True)
class Page:
    """What `look` found."""

    candidates: Sequence[Candidate]
    """In the order of the walk."""
    end: Place | None
    """The place of the last run that was read; None if no run follows."""
    spare: Sequence[int] = ()
    """The tasks of the runs that are kept only because they failed, one entry for each run."""


@dataclass(frozen=True)
class Deleted:
    """How much `delete` has deleted."""

    runs: int
    outputs: int
    """Runs of which only the output was deleted."""
    bytes: int
    """Of output."""


class History:
    """The finished runs of a crontab, or of one task, and how long each is kept."""

    def __init__(
        self,
        kept: Mapping[str, Any],
        *,
        given: Mapping[str, Any] | None = None,
        task_id: int | None = None,
        needs_archive: bool = False,
    ) -> None:
        """`kept` are the settings `keep.*` without their prefix; `given` replaces them and the tasks' own.

        With `needs_archive`, nothing goes that is not archived.
        """
        self.kept = {**kept, **(given or {})}
        self._given = given or {}
        self._task_id = task_id
        self._needs_archive = needs_archive
        self._has_labels = any(labels_of(name)[1] for name in self.kept)
        self._keeps: dict[tuple[str, str], Keep] = {}
        # By task: the oldest started run that it keeps in any case. It only grows, so an old one is safe.
        self._last_kept: dict[int, int | None] = {}
        self.oldest_spare: Mapping[int, int] = {}
        """By task: the oldest run that it keeps only because it failed, for tasks that have too many."""

    def keep_of(self, own: Mapping[str, Any] | None, labels: Any = None) -> Keep:
        """Return what a task with these values of its own and labels keeps; None: the task was removed."""
        key = repr(own), repr(labels)
        if key not in self._keeps:
            kept = for_labels(self.kept, labels) if labels else self.kept
            self._keeps[key] = keep_of(kept, None if own is None else {**own, **self._given})
        return self._keeps[key]

    def look(self, connection: Connection, after: Place, before: datetime, now: datetime, limit: int) -> Page:
        """Return what may go of the next runs behind `after` that ended earlier than `before`."""
        found = connection.execute(self._page(after, before, limit)).all()
        readable = [row for row in found if not isinstance(row.finished_at, UnreadableTime)]
        end = Place(readable[-1].finished_at, readable[-1].id) if readable and len(found) == limit else None
        past = [(row, _past_run(row), self._keep_of_row(row)) for row in readable]
        self._read_last_kept(connection, past, now)
        judged, spare = list[Candidate](), list[int]()
        for row, run, keep in past:
            last_kept, spare_from = self._last_kept.get(row.task_id, 0), self.oldest_spare.get(row.task_id)
            verdict = judge(run, keep, now, last_kept, spare_from)
            if verdict.is_spare:
                spare.append(row.task_id)
            if verdict.fate is not Fate.NOTHING:
                judged.append(Candidate(run.id, run.state, run.finished_at, verdict, verdict.fate))
        return Page(_with_something_to_delete(connection, judged, self._needs_archive), end, spare)

    def delete(self, connection: Connection, candidates: Sequence[Candidate], now: datetime) -> Deleted:
        """Delete these runs, or only their output, unless a condition no longer holds."""
        query = _facts(self._needs_archive).where(runs.c.id.in_([each.id for each in candidates]))
        locking = query.with_for_update(skip_locked=True, of=runs)
        checked = _allowed(connection.execute(locking), candidates)
        whole = [each for each in checked if each.fate is Fate.ALL]
        if checked:
            connection.execute(delete(output).where(output.c.run_id.in_([each.id for each in checked])))
        if whole:
            connection.execute(delete(runs).where(runs.c.id.in_([each.id for each in whole])))
            _mark_pruned(connection, {day_of(each.finished_at).isoformat() for each in whole}, now)
        return Deleted(len(whole), len(checked) - len(whole), sum(each.bytes for each in checked))

    def _page(self, after: Place, before: datetime, limit: int) -> Select[Any]:
        columns = (runs.c.id, runs.c.task_id, runs.c.state, runs.c.started_at, runs.c.finished_at)
        more = (runs.c.dead_at, runs.c.scheduled_for)
        of_task = [crontab.c.id.label("known"), crontab.c.keep, crontab.c.paused_at]
        if self._has_labels:
            of_task.append(crontab.c.labels)
        joined = select(*columns, *more, *of_task).outerjoin_from(
            runs, crontab, crontab.c.id == runs.c.task_id
        )
        ended = runs.c.finished_at
        if self._task_id is not None:
            of_one = joined.where(runs.c.task_id == self._task_id, runs.c.id > after.id)
            return of_one.where(ended.is_not(None)).order_by(runs.c.id).limit(limit)
        query = joined.where(text(f"runs.{FINISHED}"), *after.is_before_run(), ended < before)
        return query.order_by(ended, runs.c.id).limit(limit)

    def _keep_of_row(self, row: Row[Any]) -> Keep:
        if row.known is None:
            return self.keep_of(None)
        own: Mapping[str, Any] = row.keep or {}
        if isinstance(row.keep, Unreadable):  # then everything is kept
            own = dict.fromkeys(("runs", "bad", "output", "bad-output"), FOREVER)
        return self.keep_of(own, row.labels if self._has_labels and isinstance(row.labels, Mapping) else None)

    def _read_last_kept(
        self, connection: Connection, past: Sequence[tuple[Row[Any], PastRun, Keep]], now: datetime
    ) -> None:
        """Read the oldest started run that each task keeps, for tasks of which something may go."""
        unknown: dict[int, int] = {}
        for row, run, keep in past:
            if keep.last and run.is_started and row.task_id not in self._last_kept:
                without_last = judge(run, keep, now, _NONE_LAST)
                if without_last.fate is Fate.ALL or without_last.is_spare:
                    unknown[row.task_id] = keep.last
        for last in set(unknown.values()):
            of_these = [task_id for task_id, each in unknown.items() if each == last]
            self._last_kept |= _last_kept(connection, of_these, last)


def oldest_spare(connection: Connection, task_id: int, exceeding: int) -> int | None:
    """Return the id of the failed run behind `exceeding` older ones of the task that are no dead letters."""
    bad = [state.value for state in RunState if state.is_failure]
    of_task = (runs.c.task_id == task_id, runs.c.state.in_(bad), runs.c.dead_at.is_(None))
    query = select(runs.c.id).where(*of_task).order_by(runs.c.id).offset(exceeding).limit(1)
    return connection.scalar(query)


def oldest_overdue(connection: Connection, now: datetime) -> datetime | None:
    """Return when the oldest run ended that should have gone two days ago; None if none is found.

    It looks at the 5,000 oldest runs that are old enough.
    """
    history = History(settings_kept(connection), needs_archive=needs_archive(connection))
    whole, _ = durations(connection, history)
    then, after = now - 2 * DAY, Place(EARLIEST, 0)  # rounds meet it once a day
    before = min(shift(then, min(whole, default=inf)), summed_until(connection))
    for _ in range(10):
        page = history.look(connection, after, before, then, 500)
        for each in page.candidates:
            if each.fate is Fate.ALL:
                return each.finished_at
        if page.end is None:
            break
        after = page.end
    return None


def settings_kept(connection: Connection, prefix: str = "keep.") -> dict[str, Any]:
    """Return the settings that say how long history is kept, without their prefix."""
    stored = settings.every(connection)
    return {each.name.removeprefix(prefix): each.value for each in stored if each.name.startswith(prefix)}


def needs_archive(connection: Connection) -> bool:
    """Return whether runs are archived before they are pruned."""
    return settings.by_name(connection, "archive.url") is not None


def durations(connection: Connection, history: History) -> tuple[set[float], set[float]]:
    """Return the ages at which runs may go, and those at which output may go, in seconds."""
    distinct = select(crontab.c.keep).where(crontab.c.keep != "{}").distinct().limit(100)
    own = [value for value in connection.scalars(distinct) if not isinstance(value, Unreadable)]
    whole, parts = set[float](), set[float]()
    for_some = [{labels_of(name)[0]: value} for name, value in history.kept.items() if labels_of(name)[1]]
    for keep in map(history.keep_of, ({}, *own, *for_some)):
        whole |= {keep.runs, keep.bad}
        parts |= {keep.output, keep.bad_output}
    return whole - {inf}, parts - whole - {inf}


def summed_until(connection: Connection) -> datetime:
    """Return the end of the newest day that is summed up."""
    newest = connection.scalar(select(func.max(summed_days.c.day)))
    try:
        return start_of(datetime.fromisoformat(newest).date() + DAY) if newest else EARLIEST
    except ValueError:
        return EARLIEST


def unready_since(connection: Connection) -> datetime:
    """Return the time before which all days are summed up and, if there is an archive, archived."""
    until = summed_until(connection)
    if not needs_archive(connection):
        return until
    missing = select(func.min(summed_days.c.day)).where(summed_days.c.archived_at.is_(None))
    try:
        day = connection.scalar(missing)
        return min(until, start_of(datetime.fromisoformat(day).date())) if day else until
    except ValueError:
        return until


def has_ended(connection: Connection, first: datetime, end: datetime, task_id: int | None) -> bool:
    """Return whether a run, of one task or of any, ended between these times."""
    query = select(runs.c.id).where(text(FINISHED), runs.c.finished_at >= first, runs.c.finished_at < end)
    if task_id is not None:
        query = query.where(runs.c.task_id == task_id)
    return connection.scalar(query.limit(1)) is not None


def was_pruned(connection: Connection, first: datetime, last: datetime) -> bool:
    """Return whether runs that ended between these times, or on the day after, have been pruned."""
    day = summed_days.c.day
    between = (day >= str(day_of(first)), day <= str(day_of(last) + DAY))
    query = select(day).where(*between, summed_days.c.pruned_at.is_not(None)).limit(1)
    return connection.scalar(query) is not None


def shift(now: datetime, seconds: float) -> datetime:
    """Return the time that is `seconds` before `now`, or the earliest time."""
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return EARLIEST


def _past_run(row: Row[Any]) -> PastRun:
    return PastRun(
        id=row.id,
        state=RunState(row.state),
        is_started=row.started_at is not None,
        is_dead_letter=row.dead_at is not None,
        finished_at=row.finished_at,
        scheduled_for=row.scheduled_for,
        paused_at=row.paused_at,
    )


def _last_kept(connection: Connection, task_ids: Collection[int], last: int) -> dict[int, int | None]:
    """Return the id of the `last`-newest started run of each task; None if a task has fewer."""
    newest = select(runs.c.id).where(runs.c.task_id == crontab.c.id, runs.c.started_at.is_not(None))
    nth = newest.order_by(runs.c.id.desc()).offset(bindparam("last", type_=Integer())).limit(1)
    query = select(crontab.c.id, nth.scalar_subquery().label("nth")).where(crontab.c.id.in_(list(task_ids)))
    rows = connection.execute(query, {"last": last - 1}).all()
    return dict.fromkeys(task_ids, None) | {row.id: row.nth for row in rows}


def _with_something_to_delete(
    connection: Connection, judged: Sequence[Candidate], with_archive: bool
) -> list[Candidate]:
    """Return the candidates that meet the conditions, if they or their output are there to delete."""
    if not judged:
        return []
    written = func.sum(func.length(output.c.data), type_=BigInteger()).label("bytes")
    size = select(written).where(output.c.run_id == runs.c.id).scalar_subquery().label("bytes")
    query = _facts(with_archive).add_columns(size).where(runs.c.id.in_([each.id for each in judged]))
    found = _allowed(connection.execute(query), judged)
    return [each for each in found if each.fate is Fate.ALL or each.bytes]


def _allowed(rows: Iterable[Row[Any]], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return what may go of these candidates by the facts of `_facts`, in their order."""
    facts = {row.id: row for row in rows}
    found = []
    for each in candidates:
        row = facts.get(each.id)
        is_same = row and (row.state, row.finished_at, row.dead_at) == (each.state, each.finished_at, None)
        if row and is_same and row.is_free:
            fate = each.verdict.fate if row.is_closed else each.verdict.otherwise
            if fate is not Fate.NOTHING:
                size = row._mapping.get("bytes", each.bytes) or 0
                found.append(replace(each, fate=fate, bytes=size))
    return found


@cache
def _facts(with_archive: bool) -> Select[Any]:
    """Return the query for what decides whether a run may go, apart from its age."""
    day = summed_days.c.day == DayOf(runs.c.finished_at)
    is_archived = exists(day, summed_days.c.archived_at.is_not(None))
    is_free = and_(~is_held(), is_archived) if with_archive else ~is_held()
    retry, flow, newer = (runs.alias(name) for name in ("retry", "flow", "newer"))
    is_retried = exists(retry.c.retry_of == runs.c.id, retry.c.finished_at.is_(None))
    is_open = or_(flow.c.dead_at.is_not(None), flow.c.finished_at.is_(None))
    # A task that joins several upstream tasks finds the flow by the newest flow of each of them.
    has_newer = or_(
        ~exists(crontab.c.id == runs.c.task_id),
        exists(newer.c.task_id == runs.c.task_id, newer.c.id > runs.c.id, newer.c.flow > runs.c.flow),
    )
    # Not OR: SQLite evaluates both sides of it, and would read all newer runs of the task.
    is_over = case(
        (runs.c.flow.is_(None), true()), else_=and_(~exists(flow.c.flow == runs.c.flow, is_open), has_newer)
    )
    is_closed = and_(exists(day), ~is_retried, is_over)
    columns = (runs.c.id, runs.c.state, runs.c.finished_at, runs.c.dead_at)
    return select(*columns, is_free.label("is_free"), is_closed.label("is_closed"))


def is_held() -> ColumnElement[bool]:
    """Return the condition that a run, or its task, is on hold."""
    return or_(exists(holds.c.run_id == runs.c.id), exists(holds.c.task_id == runs.c.task_id))


def exists(*conditions: ColumnElement[bool], of: FromClause = runs) -> ColumnElement[bool]:
    """Return whether a row of another table meets the conditions about a row of `of`.

    Not EXISTS: Postgres may answer it for all rows at once, by reading the whole other table.
    """
    (table,) = {table for each in conditions for table in each._from_objects} - {of}
    one = select(literal(1)).select_from(table).where(*conditions).limit(1)
    return one.correlate(of).scalar_subquery().is_not(None)


def _mark_pruned(connection: Connection, days: Collection[str], now: datetime) -> None:
    first = (summed_days.c.day.in_(sorted(days)), summed_days.c.pruned_at.is_(None))
    connection.execute(update(summed_days).where(*first).values(pruned_at=now))
