"""The maintenance job that sums up the runs of a UTC day, six hours after its end, before they are pruned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection

from dcron.database import Database
from dcron.policy.statistics import DAY, Span, Totals, day_of, last_settled_day, start_of
from dcron.store import daily_statistics, finished_runs, maintenance
from dcron.store.daily_statistics import JOB, TaskDay
from dcron.store.finished_runs import Place
from dcron.store.maintenance import Hold, Step

ROWS = 2_000
"""Rows in one transaction."""
_EARLIEST = datetime.fromisoformat("0001-01-03T00:00:00+00:00")
_REST = 0.1
"""Seconds between two pages: other transactions go first."""


@dataclass
class _Count:
    """The day under way, as far as its runs are counted."""

    day: date
    due_at: datetime | None
    """When the job was due. A late end makes it due again."""
    after: Place | None = None
    totals: dict[int, Totals] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    is_complete: bool = False

    @property
    def span(self) -> Span:
        """The day."""
        return Span(start_of(self.day), start_of(self.day + DAY))

    @property
    def position(self) -> Mapping[str, Any]:
        """The position of the job."""
        return {"day": self.day.isoformat()}

    def rows(self) -> list[TaskDay]:
        """Return the rows of the day."""
        return [TaskDay(task, self.day, self.names[task], totals) for task, totals in self.totals.items()]


class SumUpDays:
    """Sums up one day after the other, the oldest first. One page of runs is a step."""

    name = JOB
    interval = 3600.0

    def __init__(self) -> None:
        """Begin without a day."""
        self._count: _Count | None = None
        self._days = 0

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Count a page of the day's runs, or write the day when all are counted.

        The totals of the day under way are in memory: a node that takes the job over counts the day again.
        """
        count = self._count
        if count is None or position != count.position:
            return self._begin_day(database, hold, is_new_round=not position)
        if not count.is_complete:
            _count_page(database, count)
        else:
            self._days += _write(database, hold, count)
            self._count = None
        return Step(count.position, rest=_REST)

    def _begin_day(self, database: Database, hold: Hold, *, is_new_round: bool) -> Step:
        if is_new_round:
            self._days = 0
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, {})
            last = last_settled_day(now)
            daily_statistics.forget_after(connection, last)
            day = _first_day_to_do(connection, last)
            self._count = _Count(day, maintenance.due_at(connection, JOB)) if day else None
        if self._count is None:
            return Step(None, {"days": self._days})
        return Step(self._count.position)


def _count_page(database: Database, count: _Count) -> None:
    with database.read() as connection:
        found, count.after = finished_runs.page(connection, count.span, count.after)
    finished_runs.add(count.totals, found, finished_runs.task_of)
    count.names.update((row.task_id, row.task) for row in found)
    count.is_complete = count.after is None


def _write(database: Database, hold: Hold, count: _Count) -> bool:
    """Write the rows of the day, the last of them together with the mark that it is summed up.

    Return False if a run of a day was recorded late meanwhile: the day has to be counted again.
    """
    rows = count.rows()
    batches = [rows[first : first + ROWS] for first in range(0, len(rows), ROWS)] or [[]]
    for number, batch in enumerate(batches):
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, count.position)  # from here on, late ends wait
            # A late end makes the job due again (`daily_statistics.correct`).
            if maintenance.due_at(connection, JOB) != count.due_at:
                return False
            if number == 0:
                daily_statistics.clear(connection, count.day)
            daily_statistics.write(connection, batch)
            if number == len(batches) - 1:
                daily_statistics.mark(connection, count.day, now)
    return True


def _first_day_to_do(connection: Connection, last: date) -> date | None:
    """Return the first day with runs, up to `last`, that is not summed up."""
    since = _EARLIEST
    while ended_at := finished_runs.first_end(connection, since):
        day = day_of(ended_at)
        if day > last:
            return None
        summed = daily_statistics.days(connection, day, last)
        if day not in summed:
            return day
        while day in summed:
            day += DAY
        since = start_of(day)
    return None
