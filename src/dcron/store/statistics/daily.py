"""The totals of each task and UTC day, which outlive the runs.

A maintenance job (`sum_up.py`) writes the rows of a day after its end. From then on its runs may be pruned,
so an end that is recorded later changes the row itself: its run can no longer be counted with the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Row,
    Select,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from dcron.database import Reply
from dcron.model import RunState
from dcron.policy.statistics import DAY, Durations, Totals, day_of, last_settled_day, start_of
from dcron.schema.conditions import NO_TRIAL
from dcron.schema.tables import daily_statistics, maintenance_jobs, runs, summed_days

JOB = "statistics"
"""The maintenance job that sums up days."""
ARCHIVE_JOB = "archive"
"""The maintenance job that archives them."""
_STATES = [state.value for state in RunState if state.is_final]


class End(Protocol):
    """How a run ended."""

    @property
    def id(self) -> int:
        """The run."""

    @property
    def state(self) -> RunState:
        """Its final state."""

    @property
    def finished_at(self) -> datetime:
        """When it ended."""


@dataclass(frozen=True)
class TaskDay:
    """The totals of a task's runs of one day."""

    task_id: int
    day: date
    task: str
    totals: Totals


def days(connection: Connection, first: date, last: date) -> set[date]:
    """Return the days from `first` to `last` that are summed up."""
    return _days(connection, first, last)


def newest(connection: Connection, last: date) -> date | None:
    """Return the newest day up to `last` that is summed up."""
    return ask_newest(connection, last)()


def ask_newest(connection: Connection, last: date) -> Callable[[], date | None]:
    """Read the same together with the statements that follow; return the function that returns it."""
    reply = Reply(connection, _newest(), {"last": last.isoformat()})
    return lambda: next((_day(row.day) for row in reply.rows()), None)


@cache
def _newest() -> Executable:
    known = select(summed_days.c.day).where(summed_days.c.day <= bindparam("last"))
    return known.order_by(summed_days.c.day.desc()).limit(1)


def pruned(connection: Connection, first: date, last: date) -> set[date]:
    """Return the days from `first` to `last` of which runs were pruned."""
    return _days(connection, first, last, summed_days.c.pruned_at.is_not(None))


def _days(connection: Connection, first: date, last: date, *conditions: ColumnElement[bool]) -> set[date]:
    found = summed_days.c.day
    query = select(found).where(found >= first.isoformat(), found <= last.isoformat(), *conditions)
    return {day for text in connection.scalars(query) if (day := _day(text))}


def read(
    connection: Connection, first: date, last: date, task_ids: Collection[int] | None = None
) -> Iterable[TaskDay]:
    """Yield the rows of these days, of all tasks or some; also those of days that are not summed up."""
    table = daily_statistics.c
    query = _rows().where(table.day >= first.isoformat(), table.day <= last.isoformat())
    if task_ids is not None:
        query = query.where(table.task_id.in_(task_ids))
    for row in connection.execute(query):
        if day := _day(row.day):
            yield TaskDay(row.task_id, day, row.task, _totals(row))


def clear(connection: Connection, day: date) -> None:
    """Remove the day's rows, before it is summed up."""
    connection.execute(delete(daily_statistics).where(daily_statistics.c.day == day.isoformat()))


def write(connection: Connection, found: Collection[TaskDay]) -> None:
    """Insert these rows."""
    keys = ({"task_id": each.task_id, "day": each.day.isoformat(), "task": each.task} for each in found)
    rows = [key | _values(each.totals) for key, each in zip(keys, found, strict=True)]
    if rows:
        connection.execute(insert(daily_statistics), rows)


def mark(connection: Connection, day: date, now: datetime) -> None:
    """Record that the day is summed up. The job that archives it is then due."""
    connection.execute(insert(summed_days).values(day=day.isoformat(), summed_at=now))
    archiving = (maintenance_jobs.c.name == ARCHIVE_JOB, maintenance_jobs.c.due_at > now)
    connection.execute(update(maintenance_jobs).where(*archiving).values(due_at=now))


def forget_after(connection: Connection, last: date) -> None:
    """Forget that later days are summed up: they were while the database's clock was ahead."""
    connection.execute(delete(summed_days).where(summed_days.c.day > last.isoformat()))


# Ends that are recorded late --------------------------------------------------------------------------


@dataclass(frozen=True)
class LateEnds:
    """Runs whose ends are recorded after their days could be summed up, as they were before."""

    ends: Mapping[int, End]
    before: Sequence[Any]


def late_ends(
    connection: Connection, ended: Iterable[End], lost: Mapping[int, datetime], now: datetime
) -> LateEnds | None:
    """Return the runs that ended, or were lost, on a day that can be summed up already; usually None.

    `lost` says when they were marked as lost, by id, for those that were.
    """
    settled = start_of(last_settled_day(now) + DAY)
    late = {each.id: each for each in ended if min(each.finished_at, lost.get(each.id, now)) < settled}
    if not late:
        return None
    columns = (runs.c.id, runs.c.task_id, runs.c.task, runs.c.state, runs.c.due_at, runs.c.started_at)
    query = select(*columns, runs.c.finished_at).where(runs.c.id.in_(late), text(NO_TRIAL)).with_for_update()
    return LateEnds(late, connection.execute(query).all())


def correct(connection: Connection, late: LateEnds, written: Collection[int], now: datetime) -> None:
    """Count these ends, if they were written, in the days that are summed up.

    A run that was lost is taken away first. The days have to be archived once more.
    """
    # A job that counts or archives one of these days finds that it is due again, and begins the day again.
    for job in (JOB, ARCHIVE_JOB):  # in the order in which `mark` locks them
        connection.execute(update(maintenance_jobs).where(maintenance_jobs.c.name == job).values(due_at=now))
    changes: list[tuple[TaskDay, int]] = []
    for row in late.before:
        if row.id in written:
            end = late.ends[row.id]
            if row.finished_at is not None:
                changes.append((_alone(row, RunState(row.state), row.finished_at), -1))
            changes.append((_alone(row, end.state, end.finished_at), 1))
    touched = {each.day for each, _ in changes}
    if not touched:
        return
    summed = days(connection, min(touched), max(touched)) & touched
    for each, sign in changes:
        if each.day in summed:
            _change(connection, each, sign)
    archived = summed_days.c.day.in_([day.isoformat() for day in summed])
    connection.execute(update(summed_days).where(archived).values(archived_at=None))


def _alone(row: Row[Any], state: RunState, finished_at: datetime) -> TaskDay:
    """Return the totals of a single run."""
    totals = Totals()
    totals.add(state, row.due_at, row.started_at, finished_at)
    return TaskDay(row.task_id, day_of(finished_at), row.task, totals)


def _change(connection: Connection, each: TaskDay, sign: int) -> None:
    this = (daily_statistics.c.task_id == each.task_id, daily_statistics.c.day == each.day.isoformat())
    row = connection.execute(_rows().where(*this).with_for_update()).first()
    if row is None:
        if sign > 0:
            write(connection, [each])
        return
    totals = _totals(row)
    totals.merge(each.totals, sign)
    connection.execute(update(daily_statistics).where(*this).values(_values(totals)))


# Rows -------------------------------------------------------------------------------------------------


def _rows() -> Select[Any]:
    table = daily_statistics.c
    counts = (table[name] for name in _STATES)
    return select(table.task_id, table.day, table.task, *counts, table.seconds, table.buckets).add_columns(
        table.longest, table.latest
    )


def _values(totals: Totals) -> dict[str, Any]:
    """Return the columns of these totals."""
    return {
        **{name: max(0, getattr(totals, name)) for name in _STATES},
        "seconds": totals.work / 1000,
        "longest": totals.took.longest / 1000 if totals.took.classes else None,
        "late_seconds": totals.late.total / 1000,
        "latest": totals.late.longest / 1000 if totals.late.classes else None,
        "buckets": {"took": _stored(totals.took), "late": _stored(totals.late)},
    }


def _totals(row: Row[Any]) -> Totals:
    """Return the totals of a row. What cannot be read of it counts as nothing."""
    buckets = row.buckets if isinstance(row.buckets, dict) else {}
    return Totals(
        **{name: max(0, getattr(row, name) or 0) for name in _STATES},
        work=_milliseconds(row.seconds),
        took=Durations(_classes(buckets.get("took")), _milliseconds(row.longest)),
        late=Durations(_classes(buckets.get("late")), _milliseconds(row.latest)),
    )


def _stored(durations: Durations) -> dict[str, list[int]]:
    return {str(number): list(each) for number, each in sorted(durations.classes.items())}


def _classes(stored: Any) -> dict[int, tuple[int, int]]:
    if not isinstance(stored, dict):
        return {}
    try:
        found = {int(number): (int(count), int(total)) for number, (count, total) in stored.items()}
    except (TypeError, ValueError, OverflowError):
        return {}
    return {number: each for number, each in found.items() if each[0] > 0 and each[1] >= 0}


def _milliseconds(seconds: float | None) -> int:
    return max(0, round(seconds * 1000)) if seconds else 0


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
