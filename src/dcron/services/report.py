"""What happened to the whole crontab in a span: `dcron report`."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from dcron.model import LATE_AFTER, Alert, Run, RunState
from dcron.policy.history import RecordedChange
from dcron.policy.selectors import Selector
from dcron.policy.statistics import Span, Statistics, Totals, sum_of
from dcron.presentation import alerts
from dcron.services.service import Service
from dcron.services.statistics import RunStatistics
from dcron.store import changes, listings, selectors
from dcron.store.alerts import listing as alert_list
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import unsuccessful
from dcron.store.statistics.finished_runs import Place
from dcron.store.statistics.unsuccessful import Unsuccessful


@dataclass(frozen=True)
class FailedTask:
    """A task that had failures in the span."""

    name: str
    failures: int
    """Failed and lost runs."""
    last_run: Run | None
    """The last of them; None where it was pruned."""
    still_fails: bool
    """Whether its latest finished run failed or was lost."""
    is_removed: bool


@dataclass(frozen=True)
class SkippedGroup:
    """The runs that were skipped for one reason."""

    code: str | None
    """None where the runs were pruned, so that only their number is known."""
    occurrences: int
    tasks: Sequence[tuple[str, int]]
    """Each task with its skipped occurrences, the most first."""
    first: datetime | None
    until: datetime | None
    """The first and last time for which they were."""


@dataclass(frozen=True)
class LateTask:
    """A task of which a run started late."""

    name: str
    runs: int
    """How many runs started."""
    p95: float
    """How many seconds after their due times 95 % of its runs started at most."""
    latest: float
    """The same for all of its runs."""


@dataclass(frozen=True)
class LostNode:
    """A node that died without being stopped."""

    id: str
    died_at: datetime
    runs_lost: int


@dataclass(frozen=True)
class AlertGroup:
    """The alerts of one kind that were opened."""

    kind: str
    opened: int
    open: Sequence[str]
    """The subjects of those that are still open."""


@dataclass(frozen=True, kw_only=True)
class CrontabReport:
    """What happened in a span."""

    span: Span
    totals: Totals
    before: Totals
    """The totals of the span before, which is as long."""
    failed: Sequence[FailedTask]
    """Tasks that still fail come first, then those with the most failures."""
    skipped: Sequence[SkippedGroup]
    """The largest group first."""
    late: Sequence[LateTask]
    """The latest first."""
    lost_nodes: Sequence[LostNode]
    """The first first."""
    changes: Sequence[RecordedChange]
    """The latest first."""
    more_changes: bool
    slower: Sequence[Statistics]
    """Tasks whose durations have grown, the most first."""
    dead_letters: Sequence[tuple[str, int]]
    """Each task with its new dead letters, the most first."""
    alerts: Sequence[AlertGroup]
    """By kind."""
    pruned_until: date | None
    """The last day of the span of which runs were pruned; None if there is none."""
    is_incomplete: bool
    """Whether figures of these days miss runs, because the daily statistics do not have them."""


class Reports(Service):
    """Reports on a crontab. A report takes many short transactions that only read."""

    def since(self, since: datetime, selector: Selector | None = None) -> CrontabReport:
        """Return what happened since this time. Raises UsageError for a time in the future.

        With a selector: to the tasks that it chooses, and the nodes on which their runs were lost.
        """
        statistics = RunStatistics(self).of(since, selector=selector, exact=True)
        found = {each.task_id: each for each in statistics.found if each.task_id is not None}
        span, days = statistics.span, statistics.span.days
        groups = self._unsuccessful(span)
        with self.database.read() as connection:
            chosen = selectors.task_ids(connection, selector) if selector else None
            died = unsuccessful.lost_nodes(connection, span)
            opened = alert_list.opened_since(connection, span.start)
            changed, more_changes = changes.in_span(connection, span, chosen)
            pruned = daily_statistics.pruned(connection, days[0], days[-1])
        if chosen is not None:
            groups = [each for each in groups if each.task_id in chosen]
            opened = [alert for alert in opened if alert.task_id in chosen]
        lost = Counter[str]()
        for each in groups:
            if each.owner:
                lost[each.owner] += each.runs
        return CrontabReport(
            span=span,
            totals=sum_of(each.now for each in found.values()),
            before=sum_of(each.before for each in found.values()),
            failed=self._failed(found, groups),
            skipped=_skipped(found, groups),
            late=_late(found.values()),
            lost_nodes=[
                LostNode(node, at, lost[node]) for node, at in died if chosen is None or node in lost
            ],
            changes=changed,
            more_changes=more_changes,
            slower=_slower(found.values()),
            dead_letters=_by_task(groups, lambda each: each.dead),
            alerts=_alerts(opened),
            pruned_until=max(pruned, default=None),
            is_incomplete=statistics.pruned_until is not None and statistics.pruned_until >= days[0],
        )

    def _unsuccessful(self, span: Span) -> list[Unsuccessful]:
        found: list[Unsuccessful] = []
        after: Place | None = None
        while True:
            with self.database.read() as connection:
                groups, after = unsuccessful.unsuccessful(connection, span, after)
            found += groups
            if after is None:
                return found

    def _failed(self, found: Mapping[int, Statistics], groups: Iterable[Unsuccessful]) -> list[FailedTask]:
        last: dict[int, int] = {}
        for each in groups:
            if each.state.is_failure:
                last[each.task_id] = max(each.last_run, last.get(each.task_id, 0))
        failed = {task_id: each for task_id, each in found.items() if each.now.failures}
        with self.database.read() as connection:
            failing = listings.failed_now(connection, failed)
            runs = listings.runs_by_id(connection, set(last.values()))
        tasks = [
            FailedTask(
                each.name,
                each.now.failures,
                runs.get(last.get(task_id, 0)),
                task_id in failing,
                each.is_removed,
            )
            for task_id, each in failed.items()
        ]
        return sorted(tasks, key=lambda task: (not task.still_fails, -task.failures, task.name))


def _skipped(found: Mapping[int, Statistics], groups: Iterable[Unsuccessful]) -> list[SkippedGroup]:
    by_code: dict[str | None, list[Unsuccessful]] = {}
    known: Counter[int] = Counter()
    for each in groups:
        if each.state is RunState.SKIPPED:
            by_code.setdefault(each.code, []).append(each)
            known[each.task_id] += each.runs
    skipped = [
        SkippedGroup(
            code,
            sum(each.occurrences for each in same),
            _by_task(same, lambda each: each.occurrences),
            min(each.first for each in same),
            max(each.until for each in same),
        )
        for code, same in by_code.items()
    ]
    pruned = {each.name: each.now.skipped - known[task_id] for task_id, each in found.items()}
    if rest := [(name, count) for name, count in pruned.items() if count > 0]:
        skipped.append(SkippedGroup(None, sum(count for _, count in rest), _most_first(rest), None, None))
    return sorted(skipped, key=lambda group: -group.occurrences)


def _alerts(opened: Iterable[Alert]) -> list[AlertGroup]:
    by_kind: dict[str, list[Alert]] = {}
    for alert in opened:
        by_kind.setdefault(alert.kind, []).append(alert)
    return [
        AlertGroup(kind, len(same), [alerts.name(each) for each in same if each.closed_at is None])
        for kind, same in sorted(by_kind.items())
    ]


def _late(found: Iterable[Statistics]) -> list[LateTask]:
    late = [
        LateTask(each.name, totals.count, totals.percentile(0.95) or 0.0, totals.longest / 1000)
        for each in found
        if (totals := each.now.late).longest > LATE_AFTER.total_seconds() * 1000
    ]
    return sorted(late, key=lambda task: (-task.latest, task.name))


def _slower(found: Iterable[Statistics]) -> list[Statistics]:
    slower = [each for each in found if each.has_changed and (each.trend or 0) > 1]
    return sorted(slower, key=lambda each: (-(each.trend or 0), each.name))


def _by_task(
    groups: Iterable[Unsuccessful], count_of: Callable[[Unsuccessful], int]
) -> list[tuple[str, int]]:
    """Return each task with the sum of its counts, the most first; none without one."""
    counts: Counter[str] = Counter()
    for each in groups:
        counts[each.task] += count_of(each)
    return _most_first((name, count) for name, count in counts.items() if count)


def _most_first(counts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(counts, key=lambda each: (-each[1], each[0]))
