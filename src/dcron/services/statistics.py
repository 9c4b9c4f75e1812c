"""Statistics of tasks, nodes and queues, of a span and of the one before.

Days that are summed up are read from the daily statistics, which outlive the runs. Other days, and all that
is not by task, are counted from the runs, page by page.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Row

from dcron.database import Database
from dcron.errors import UsageError
from dcron.policy.selectors import Selector
from dcron.policy.statistics import DAY, Span, Statistics, Totals, day_of, span_since, start_of
from dcron.services import task_names
from dcron.services.service import Service
from dcron.store import selectors
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import finished_runs
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks import rows as tasks

GROUPS: Mapping[str, finished_runs.GroupOf] = {
    "task": finished_runs.task_of,
    "node": finished_runs.node_of,
    "queue": lambda row: str(row.queue),
}
DAYS_AT_ONCE = 7
"""Days whose rows one transaction reads."""


@dataclass(frozen=True)
class Report:
    """Statistics of a span."""

    span: Span
    found: Sequence[Statistics]
    """In no order."""
    pruned_until: date | None
    """The last day of which runs are missing here, because they were pruned; None if there is none."""


class RunStatistics(Service):
    """Statistics of the runs of a crontab. A report takes many short transactions."""

    def of(
        self,
        since: datetime,
        name: str | None = None,
        selector: Selector | None = None,
        *,
        by: str = "task",
        exact: bool = False,
    ) -> Report:
        """Return the statistics since this time of each of GROUPS that had runs: of all tasks, one, or some.

        With `exact`, also a long span begins at this time, and not with its day. Raises NotFound or
        UsageError.
        """
        with self.database.read() as connection:
            end = self.database.now(connection)
            if since >= end:
                raise UsageError("--since: give a time in the past")
            task_id = task_names.id_of(connection, name) if name is not None else None
            chosen = selectors.task_ids(connection, selector) if selector else None
            span = Span(since, end) if exact else span_since(since, end)
            counter = _Counter(self.database, span, task_id, chosen, GROUPS[by])
            if by == "task":
                counter.summed = daily_statistics.days(connection, *counter.days)
        before, current = counter.totals(span.before), counter.totals(span)
        if by == "task" and task_id is not None:
            current.setdefault(task_id, Totals())
        found = [Statistics(str(each), now, before.get(each, Totals())) for each, now in current.items()]
        if by == "task":
            names = {task_id or 0: name or "", **counter.names}
            found = list(self._named(zip(current, found, strict=True), task_id, names))
        return Report(span, found, counter.pruned_until())

    def _named(
        self, found: Iterable[tuple[int, Statistics]], task_id: int | None, names: Mapping[int, str]
    ) -> Iterator[Statistics]:
        """Yield the statistics of tasks with their names, or the last ones of those that were removed."""
        with self.database.read() as connection:
            present = tasks.names(connection, task_id)
        for each, statistics in found:
            name = present.get(each) or names.get(each) or ""
            yield replace(statistics, name=name, is_removed=each not in present, task_id=each)


class _Counter:
    """Counts the runs of all tasks, or of one, or of those chosen, by groups."""

    def __init__(
        self,
        database: Database,
        span: Span,
        task_id: int | None,
        chosen: AbstractSet[int] | None,
        group_of: finished_runs.GroupOf,
    ) -> None:
        self._database, self.span = database, span
        self._task_id, self._chosen, self._group_of = task_id, chosen, group_of
        self.summed: AbstractSet[date] = set()
        """The days that are read from the daily statistics."""
        self.names: dict[int, str] = {}
        """The last names of the tasks that were counted."""

    @property
    def days(self) -> tuple[date, date]:
        """The first and last day of the span and of the one before."""
        return self.span.before.days[0], self.span.days[-1]

    def pruned_until(self) -> date | None:
        """Return the last day that was counted without some of its runs."""
        with self._database.read() as connection:
            pruned = daily_statistics.pruned(connection, *self.days)
        return max((day for day in pruned if not self._is_summed(day)), default=None)

    def _is_summed(self, day: date) -> bool:
        """Return whether the day is read from the daily statistics: its rows are of the whole day."""
        cut = {
            day_of(end) for end in (self.span.before.start, self.span.start) if end != start_of(day_of(end))
        }
        return day in self.summed and day not in cut

    def totals(self, span: Span) -> dict[Any, Totals]:
        """Return the totals of each group in the span."""
        found: dict[Any, Totals] = {}
        for is_summed, group in groupby(span.days, self._is_summed):
            days = list(group)
            if is_summed:
                self._add_days(found, days)
            else:
                part = Span(max(span.start, start_of(days[0])), min(span.end, start_of(days[-1] + DAY)))
                self._add_runs(found, part)
        return found

    def _add_days(self, found: dict[Any, Totals], days: Sequence[date]) -> None:
        only = None if self._task_id is None else [self._task_id]
        for first in range(0, len(days), DAYS_AT_ONCE):
            some = days[first : first + DAYS_AT_ONCE]
            with self._database.read() as connection:
                for row in daily_statistics.read(connection, some[0], some[-1], only):
                    if self._chosen is not None and row.task_id not in self._chosen:
                        continue
                    found.setdefault(row.task_id, Totals()).merge(row.totals)
                    self.names[row.task_id] = row.task

    def _add_runs(self, found: dict[Any, Totals], span: Span) -> None:
        for page in self._pages(span):
            if self._chosen is not None:
                page = [row for row in page if row.task_id in self._chosen]
            finished_runs.add(found, page, self._group_of)
            self.names.update((row.task_id, row.task) for row in page)

    def _pages(self, span: Span) -> Iterator[list[Row[Any]]]:
        after: Place | None = None
        while True:
            with self._database.read() as connection:
                if self._task_id is None:
                    found, after = finished_runs.page(connection, span, after)
                else:
                    found, after = finished_runs.page_of_task(connection, self._task_id, span, after)
            yield found
            if after is None:
                return
