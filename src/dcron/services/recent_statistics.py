"""The recent statistics of tasks for the screen, read once a day from the daily statistics."""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from dcron.policy.statistics import (
    DAY,
    Statistics,
    Totals,
    day_of,
    last_settled_day,
    span_since,
    sum_of,
)
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import finished_runs

DAYS = 30
MOST_ROWS = 100_000
"""Rows that are read to sort all tasks: about a second. A crontab of more tasks is sorted by fewer days."""
FEW = 500
"""Tasks whose rows are looked up one by one."""
NEWEST_RUNS = 1_000
"""Runs of a task among which those of days that are not summed up yet are counted."""


@dataclass(frozen=True)
class Recent:
    """The statistics of a task's last days that are summed up."""

    p95: float | None = None
    """Seconds; None without a successful run."""
    success_rate: float | None = None
    """None without a success or failure."""


NONE = Recent()
ORDERS = ("p95", "success")
"""The orders of tasks that need statistics: the slowest first, the least successful first."""


class RecentStatistics:
    """Remembers the statistics of tasks until another day is summed up. For one thread."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._newest: date | None = None
        self._known: dict[int, Recent] = {}

    def ask(
        self, connection: Connection, task_ids: Collection[int], now: datetime
    ) -> Callable[[], Mapping[int, Recent]]:
        """Return the function that returns the statistics of these tasks, and perhaps others, by id.

        The day up to which they are known is read together with the statements that follow.
        """
        newest = daily_statistics.ask_newest(connection, last_settled_day(now))

        def by_task() -> Mapping[int, Recent]:
            self._forget_if_old(newest())
            if missing := [task_id for task_id in task_ids if task_id not in self._known]:
                self._read(connection, DAYS, missing)
            return self._known

        return by_task

    def ordered(
        self, connection: Connection, task_ids: Sequence[int], order: str, now: datetime, *, reverse: bool
    ) -> "array[int]":
        """Return the ids by one of ORDERS; tasks without statistics come last. Ties stay as they are."""
        self._forget_if_old(daily_statistics.newest(connection, last_settled_day(now)))
        missing = [task_id for task_id in task_ids if task_id not in self._known]
        if missing:
            days = max(1, min(DAYS, MOST_ROWS // len(missing)))
            self._read(connection, days, missing, all_tasks=len(missing) > FEW)
        keys: dict[int, float] = {}
        for task_id in task_ids:
            recent = self._known.get(task_id, NONE)
            key = recent.success_rate if order == "success" else recent.p95 and -recent.p95
            if key is not None:
                keys[task_id] = -key if reverse else key
        return array("q", sorted(task_ids, key=lambda task_id: keys.get(task_id, float("inf"))))

    def _forget_if_old(self, newest: date | None) -> None:
        if newest != self._newest:
            self._newest = newest
            self._known.clear()

    def _read(
        self, connection: Connection, days: int, task_ids: Collection[int], *, all_tasks: bool = False
    ) -> None:
        self._known |= dict.fromkeys(task_ids, NONE)
        if self._newest is None:
            return
        first = self._newest - (days - 1) * DAY
        totals: dict[int, Totals] = {}
        for row in daily_statistics.read(connection, first, self._newest, None if all_tasks else task_ids):
            totals.setdefault(row.task_id, Totals()).merge(row.totals)
        self._known |= {
            task_id: Recent(found.took.percentile(0.95), found.success_rate)
            for task_id, found in totals.items()
        }


def of_task(connection: Connection, task_id: int, name: str, now: datetime) -> Statistics:
    """Return the statistics of a task's last DAYS days; today's among its newest runs."""
    span = span_since(now - timedelta(days=DAYS), now)
    first, last = span.before.days[0], span.days[-1]
    summed = daily_statistics.days(connection, first, last)
    before: list[Totals] = []
    current: list[Totals] = []
    for row in daily_statistics.read(connection, first, last, [task_id]):
        if row.day in summed:
            (before if row.day < day_of(span.start) else current).append(row.totals)
    newest = finished_runs.newest_of_task(connection, task_id, span, NEWEST_RUNS)
    live: dict[int, Totals] = {}
    fresh = (run for run in newest if day_of(run.finished_at) not in summed)
    finished_runs.add(live, fresh, finished_runs.task_of)
    return Statistics(name, sum_of([*current, *live.values()]), sum_of(before))
