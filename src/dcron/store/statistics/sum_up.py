"""The maintenance job that sums up the runs of a UTC day, six hours after its end, before they are pruned."""

from collections.abc import Mapping
from datetime import date, datetime

from sqlalchemy import Connection

from dcron.database import Database
from dcron.policy.statistics import DAY, Span, Totals, day_of, last_settled_day, start_of
from dcron.store import maintenance
from dcron.store.daily_jobs import DailyJob, DayUnderWay
from dcron.store.maintenance import Hold
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import finished_runs
from dcron.store.statistics.daily import JOB, TaskDay
from dcron.store.statistics.finished_runs import Place

ROWS = 2_000
"""Rows in one transaction."""
_EARLIEST = datetime.fromisoformat("0001-01-03T00:00:00+00:00")


class _Count(DayUnderWay):
    """The day under way, as far as its runs are counted."""

    def __init__(self, day: date, due_at: datetime | None) -> None:
        super().__init__(JOB, day.isoformat(), due_at)
        self._date = day
        self._after: Place | None = None
        self._totals: dict[int, Totals] = {}
        self._names: dict[int, str] = {}

    def read_page(self, database: Database) -> None:
        """Count the next runs."""
        span = Span(start_of(self._date), start_of(self._date + DAY))
        with database.read() as connection:
            found, self._after = finished_runs.page(connection, span, self._after)
        finished_runs.add(self._totals, found, finished_runs.task_of)
        self._names.update((row.task_id, row.task) for row in found)
        self.is_complete = self._after is None

    def record(self, database: Database, hold: Hold) -> Mapping[str, int] | None:
        """Write the rows of the day, the last of them together with the mark that it is summed up."""
        rows = [TaskDay(task, self._date, self._names[task], totals) for task, totals in self._totals.items()]
        batches = [rows[first : first + ROWS] for first in range(0, len(rows), ROWS)] or [[]]
        for number, batch in enumerate(batches):
            with database.write() as connection:
                now = database.now(connection)
                hold.renew(connection, now, self.position)  # from here on, late ends wait
                if self.has_late_end(connection):
                    return None
                if number == 0:
                    daily_statistics.clear(connection, self._date)
                daily_statistics.write(connection, batch)
                if number == len(batches) - 1:
                    daily_statistics.mark(connection, self._date, now)
        return {"days": 1}


class SumUpDays(DailyJob):
    """Sums up one day after the other, the oldest first."""

    name = JOB
    kinds = ("days",)

    def first_day(self, connection: Connection, now: datetime) -> _Count | None:
        """Return the first day that is over and not summed up."""
        last = last_settled_day(now)
        daily_statistics.forget_after(connection, last)
        day = _first_day_to_do(connection, last)
        return _Count(day, maintenance.due_at(connection, JOB)) if day else None


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
