"""Statistics of tasks, nodes and queues, of a span and of the one before.

Days that are summed up are read from the daily statistics, which outlive the runs. Other days, and all that
is not by task, are counted from the runs, page by page.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
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

    def by_task(
        self,
        since: datetime,
        name: str | None = None,
        selector: Selector | None = None,
        *,
        exact: bool = False,
    ) -> Report:
        """Return the statistics since this time of each task that had runs, or of one, or of those selected.

        With `exact`, also a long span begins at this time, and not with its day. Raises NotFound or
        UsageError.
        """
        counter = self._counter(since, name, selector, exact=exact)
        span = counter.span
        with self.database.read() as connection:
            counter.summed = daily_statistics.days(connection, *counter.days)
        before, current = (
            counter.totals(span.before, finished_runs.task_of),
            counter.totals(span, finished_runs.task_of),
        )
        if counter.task_id is not None:
            current.setdefault(counter.task_id, Totals())
        with self.database.read() as connection:
            present = tasks.names(connection, counter.task_id)
        found = [
            Statistics(
                present.get(task_id) or counter.names.get(task_id) or name or "",
                totals,
                before.get(task_id, Totals()),
                is_removed=task_id not in present,
                task_id=task_id,
            )
            for task_id, totals in current.items()
        ]
        return Report(span, found, counter.pruned_until())

    def by_node(self, since: datetime, name: str | None = None, selector: Selector | None = None) -> Report:
        """Return the statistics since this time of each node's runs. Raises NotFound or UsageError."""
        return self._from_runs(since, name, selector, finished_runs.node_of)

    def by_queue(self, since: datetime, name: str | None = None, selector: Selector | None = None) -> Report:
        """Return the statistics since this time of each queue's runs. Raises NotFound or UsageError."""
        return self._from_runs(since, name, selector, lambda row: str(row.queue))

    def _from_runs(
        self,
        since: datetime,
        name: str | None,
        selector: Selector | None,
        group_of: Callable[[Row[Any]], str],
    ) -> Report:
        counter = self._counter(since, name, selector)
        before = counter.totals(counter.span.before, group_of)
        current = counter.totals(counter.span, group_of)
        found = [Statistics(each, totals, before.get(each, Totals())) for each, totals in current.items()]
        return Report(counter.span, found, counter.pruned_until())

    def _counter(
        self, since: datetime, name: str | None, selector: Selector | None, *, exact: bool = False
    ) -> "_Counter":
        with self.database.read() as connection:
            now = self.database.now(connection)
            if since >= now:
                raise UsageError("--since: give a time in the past")
            task_id = task_names.id_of(connection, name) if name is not None else None
            chosen = selectors.task_ids(connection, selector) if selector else None
        span = Span(since, now) if exact else span_since(since, now)
        return _Counter(self.database, span, task_id, chosen)


class _Counter:
    """Counts the runs of all tasks, or of one, or of those chosen, by groups."""

    def __init__(
        self, database: Database, span: Span, task_id: int | None, chosen: AbstractSet[int] | None
    ) -> None:
        self._database = database
        self.span = span
        self.task_id = task_id
        self._chosen = chosen
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

    def totals(self, span: Span, group_of: Callable[[Row[Any]], Any]) -> dict[Any, Totals]:
        """Return the totals of each group in the span."""
        found: dict[Any, Totals] = {}
        for is_summed, group in groupby(span.days, self._is_summed):
            days = list(group)
            if is_summed:
                self._add_days(found, days)
            else:
                part = Span(max(span.start, start_of(days[0])), min(span.end, start_of(days[-1] + DAY)))
                self._add_runs(found, part, group_of)
        return found

    def _add_days(self, found: dict[Any, Totals], days: Sequence[date]) -> None:
        only = None if self.task_id is None else [self.task_id]
        for first in range(0, len(days), DAYS_AT_ONCE):
            some = days[first : first + DAYS_AT_ONCE]
            with self._database.read() as connection:
                for row in daily_statistics.read(connection, some[0], some[-1], only):
                    if self._chosen is not None and row.task_id not in self._chosen:
                        continue
                    found.setdefault(row.task_id, Totals()).merge(row.totals)
                    self.names[row.task_id] = row.task

    def _add_runs(self, found: dict[Any, Totals], span: Span, group_of: Callable[[Row[Any]], Any]) -> None:
        for page in self._pages(span):
            if self._chosen is not None:
                page = [row for row in page if row.task_id in self._chosen]
            finished_runs.add(found, page, group_of)
            self.names.update((row.task_id, row.task) for row in page)

    def _pages(self, span: Span) -> Iterator[list[Row[Any]]]:
        after: Place | None = None
        while True:
            with self._database.read() as connection:
                if self.task_id is None:
                    found, after = finished_runs.page(connection, span, after)
                else:
                    found, after = finished_runs.page_of_task(connection, self.task_id, span, after)
            yield found
            if after is None:
                return
