"""What the TUI shows all day: lists, counts, one task in detail, and the timeline.

Every method is one short transaction that only reads.
"""

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from dcron.errors import UsageError
from dcron.model import Freeze, Node, Run, Task, Trigger
from dcron.policy.alert_facts import AlertFacts
from dcron.policy.forecast.start_times import (
    MINUTE,
    Filled,
    Minutes,
    StartSpan,
    TaskStart,
    filled,
    minutes_of,
    starts_of,
    until_ran,
)
from dcron.policy.starting import lanes, occurrences
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.statistics import Statistics
from dcron.schedule.explain import explain
from dcron.schedule.zones import zone
from dcron.services import recent_statistics
from dcron.services.crontab import Crontab
from dcron.services.recent_statistics import RecentStatistics
from dcron.services.tasks import rows as task_rows
from dcron.services.tasks.rows import TaskRow
from dcron.store import freezes, listings, selectors
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import listing as alert_list
from dcron.store.listings import LateTasks
from dcron.store.nodes import rows as nodes
from dcron.store.planning import dependencies
from dcron.store.retention.history import EARLIEST
from dcron.store.retention.walk import pruning
from dcron.store.statistics import finished_runs, fleet_figures
from dcron.store.statistics.fleet_figures import DueRuns
from dcron.store.tasks import queues
from dcron.store.tasks import rows as tasks
from dcron.store.tasks.search_terms import RUN_FIELDS, TASK_FIELDS, TASK_ORDERS
from dcron.values.lists import (
    DeadLettersPage,
    DeadTask,
    RunCursor,
    RunListFilter,
    RunsPage,
    Term,
    UnacknowledgedAlerts,
)

MOST_ALIVE = 1000
MOST_ALERTS = 500
MOST_DEAD_TASKS = 1000
MOST_DEAD_COUNTED = 1000
"""Most dead letters that the header counts."""
ORDERS = (*TASK_ORDERS, *recent_statistics.ORDERS)
"""The orders of tasks."""
TASK_TERMS, RUN_TERMS = tuple(TASK_FIELDS), tuple(RUN_FIELDS)
"""The fields by which tasks and runs are filtered."""
OCCURRENCES = 5
LAST_RUNS = 8
WAITING_RUNS = 20
HOUR = timedelta(hours=1)
MOST_STARTING = 5000
"""Most tasks whose starts of the next hour are counted."""
COUNTED_AT_ONCE = 200
"""Most of these tasks that one query reads."""
COUNTING_SECONDS = 0.4
"""Seconds of CPU time after which the counting stops."""


@dataclass(frozen=True)
class PollResult:
    """The database's time, and a token that differs after another process has written."""

    token: object
    now: datetime


@dataclass(frozen=True, kw_only=True)
class TimelineRow(TaskRow):
    """A task with its runs in each cell of a span."""

    span: StartSpan
    cells: Sequence[Filled]
    """Empty where its schedule cannot be read."""


@dataclass(frozen=True)
class BusiestMinute:
    """The minute in which most tasks start, among those that were counted."""

    counted: int
    """How many of the tasks were counted."""
    seconds: float
    """Seconds of CPU time that the counting took."""
    minute: datetime | None = None
    """None when none of them starts."""
    starts: int = 0


@dataclass(frozen=True)
class TaskGroup:
    """Tasks with the same value of a label."""

    value: str | None
    """None: they do not have the label."""
    ids: Sequence[int]
    failed: int
    """How many of them failed, or were lost, when they ran last."""


@dataclass(frozen=True)
class TaskRows:
    """Tasks by id; removed tasks are left out."""

    rows: Mapping[int, TaskRow]
    token: object
    """Differs after tasks were added, removed or edited."""


@dataclass(frozen=True)
class Activity:
    """The figures that are cheap enough to be read after every change."""

    running: int
    idle: str | None
    """Why no agent takes any run at all; None when one may."""
    alerts: UnacknowledgedAlerts | None
    """The open alerts that are not acknowledged; None without any."""
    frozen: Freeze | None = None
    """The freeze that holds now; of several the one that ends last."""


@dataclass(frozen=True)
class Counts:
    """The figures of the header: how many tasks there are, and how many are failed, paused or late."""

    tasks: int
    activity: Activity
    failed: int
    paused: int
    late: LateTasks
    dead: int
    """Dead letters, up to MOST_DEAD_COUNTED."""
    pruned_at: datetime | None = None
    """When the last round of pruning ended."""
    pruned_runs: int = 0
    oldest_end: datetime | None = None
    """When the oldest run in the history ended."""

    @property
    def has_more_dead(self) -> bool:
        """Return whether there may be more dead letters than were counted."""
        return self.dead >= MOST_DEAD_COUNTED


@dataclass(frozen=True)
class TaskDetail:
    """Everything that the detail panel shows of a task."""

    row: TaskRow
    explanation: str
    coming: Sequence[TaskStart]
    waiting: Sequence[Run]
    """Its waiting runs, the first due first; its next scheduled run only where something holds it back."""
    last: Sequence[Run]
    statistics: Statistics
    """Of the last 30 days."""
    graph: Mapping[str, Sequence[str]]
    """The dependency graph around the task: for each name the names of its upstream tasks."""


@dataclass(frozen=True)
class FirstDeadLetters:
    """The first page of the dead letters, and the ids of all that still are dead letters."""

    page: DeadLettersPage
    dead_ids: set[int]


class QueueUse(NamedTuple):
    """A queue with its living runs, its limit and its due runs."""

    name: str
    alive: int
    limit: int | None
    due: int


@dataclass(frozen=True)
class FleetFigures:
    """The work of all nodes together."""

    due: DueRuns
    queues: Sequence[QueueUse]
    """Those with a limit, living runs or due runs."""
    begin: datetime
    """The minute with which `starts` begins."""
    starts: Sequence[int]
    """How many tasks start by the clock in each minute of the next hour."""
    has_more: bool
    """Whether not all tasks were counted."""


@dataclass(frozen=True)
class HourStarts:
    """The starts of an hour. They are counted again after a minute, or when tasks were edited."""

    begin: datetime
    edits: object
    """The change token of the tasks that were counted."""
    numbers: Sequence[int]
    """How many tasks start in each minute."""
    has_more: bool


@dataclass(frozen=True)
class LatestRuns:
    """The runs that are not over, and the first page of those that are."""

    unfinished: Sequence[Run]
    page: RunsPage
    frozen: FrozenTime = NEVER
    """When the crontab is and will be frozen; of the runs of one task."""


class Dashboard:
    """The crontab as the TUI shows it. For one thread: its change tokens belong to one connection."""

    def __init__(self, crontab: Crontab) -> None:
        """Read the crontab's database."""
        self.crontab = crontab
        self.database = crontab.database
        self._statistics = RecentStatistics()
        self._next_hour: HourStarts | None = None

    def poll(self) -> PollResult:
        """Return the database's time, and a token: another token than before means that data changed."""
        with self.database.read() as connection:
            token = self.database.change_token(connection)
            return PollResult(token, self.database.now(connection))

    # Tasks ------------------------------------------------------------------------------------------

    def task_ids(
        self, terms: Sequence[Term], order: str, *, reverse: bool, coming: bool = False
    ) -> "array[int]":
        """Return the ids of the tasks that match all terms, by one of ORDERS."""
        if order not in recent_statistics.ORDERS:
            return self.crontab.task_ids(terms, order, reverse=reverse, coming=coming)
        ids = self.crontab.task_ids(terms, "name", coming=coming)
        with self.database.read() as connection:
            now = self.database.now(connection)
            return self._statistics.ordered(connection, ids, order, now, reverse=reverse)

    def count_tasks(self, terms: Sequence[Term], most: int) -> int:
        """Return how many tasks match all terms, up to `most`."""
        with self.database.read() as connection:
            return listings.count_first(connection, terms, self.database.now(connection), most)

    def label_keys(self) -> list[str]:
        """Return the keys of all labels, in order."""
        with self.database.read() as connection:
            return selectors.keys(connection)

    def label_values(self, key: str) -> list[str]:
        """Return the values of a label, in order."""
        with self.database.read() as connection:
            return list(selectors.values(connection, key))

    def task_groups(self, terms: Sequence[Term], order: str, key: str, *, reverse: bool) -> list[TaskGroup]:
        """Return the tasks that match all terms in groups by a label; those without the label come last."""
        ids = self.task_ids(terms, order, reverse=reverse)
        failed = set(self.task_ids([*terms, Term("failed")], "name", reverse=False))
        with self.database.read() as connection:
            values = selectors.values_by_task(connection, key)
        groups: dict[str | None, list[int]] = {}
        for task_id in ids:
            groups.setdefault(values.get(task_id), []).append(task_id)
        return [
            TaskGroup(value, groups[value], sum(each in failed for each in groups[value]))
            for value in sorted(groups, key=lambda value: (value is None, value or ""))
        ]

    def task_rows(self, ids: Sequence[int]) -> TaskRows:
        """Return these tasks as a list shows them."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            token = listings.ask_tasks_token(connection)
            statistics = self._statistics.ask(connection, ids, now)
            rows = task_rows.read(connection, ids, now, for_screen=True, ask_statistics=statistics)
            return TaskRows({row.task.id: row for row in rows}, token())

    def task_detail(self, task_id: int) -> TaskDetail | None:
        """Return everything about the task; None when it was removed."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            rows = task_rows.read(connection, [task_id], now, with_freezes=True)
            if not rows:
                return None
            (row,) = rows
            waiting = listings.waiting_runs(connection, task_id, WAITING_RUNS)
            last = listings.finished_runs(connection, RunListFilter(task_id), None, LAST_RUNS, now).runs
            statistics = recent_statistics.of_task(connection, task_id, row.task.name, now)
            graph = dependencies.graph_around(connection, row.task.name)
            unserved = task_rows.why_unserved(waiting, nodes.living(connection, now)) or row.unserved
        held = [run for run in waiting if run.blocked or run.trigger is not Trigger.SCHEDULE]
        row = replace(row, unserved=unserved)
        explanation, coming = _explained(row, now, row.frozen)
        return TaskDetail(row, explanation, coming, held, last, statistics, graph)

    def rows_by_name(self, names: Sequence[str]) -> Mapping[str, TaskRow]:
        """Return the tasks of these names as a list shows them; missing tasks are left out."""
        with self.database.read() as connection:
            ids = [task.id for task in tasks.by_names(connection, names)]
            found = task_rows.read(connection, ids, self.database.now(connection), for_screen=True)
        return {row.task.name: row for row in found}

    def counts(self) -> Counts:
        """Count the tasks by state. It reads every task, so do not call it after every change."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            pruned = pruning(connection, now)
            return Counts(
                tasks=listings.count_tasks(connection, now=now),
                activity=_activity(connection, now),
                failed=listings.count_tasks(connection, Term("failed"), now=now),
                paused=listings.count_tasks(connection, Term("paused"), now=now),
                late=listings.late_tasks(connection, now),
                dead=listings.count_dead(connection, MOST_DEAD_COUNTED),
                pruned_at=pruned.ran_at,
                pruned_runs=pruned.runs,
                oldest_end=finished_runs.first_end(connection, EARLIEST),
            )

    def activity(self) -> Activity:
        """Count the living runs, and return whether an agent takes runs."""
        with self.database.read() as connection:
            return _activity(connection, self.database.now(connection))

    # The timeline -----------------------------------------------------------------------------------

    def timeline_rows(self, ids: Sequence[int], span: StartSpan) -> TaskRows:
        """Return what the timeline of this span shows of these tasks."""
        found, frozen = self.task_rows(ids), self._frozen_time()
        rows = {
            i: TimelineRow(**vars(row), span=span, cells=_cells(row.task, span, frozen))
            for i, row in found.rows.items()
        }
        return TaskRows(rows, found.token)

    def count_starts(
        self, minutes: Minutes, ids: Sequence[int], begin: datetime, end: datetime, seconds: float
    ) -> BusiestMinute:
        """Add the starts of these tasks before `end` to `minutes`; stop after `seconds` of CPU time.

        Wall-clock time would be too short on a busy machine, or with a slow database: the count would stop
        after one task.
        """
        begun, counted = time.thread_time(), 0
        tasks, frozen = self.crontab.tasks_by_id(ids), self._frozen_time()
        for counted, task_id in enumerate(ids, 1):  # noqa: B007 - the caller continues from there
            if task := tasks.get(task_id):
                minutes.add(_minutes(task, begin, end, frozen))
            if time.thread_time() - begun > seconds:
                break
        return BusiestMinute(counted, time.thread_time() - begun, *next(iter(minutes.busiest(1)), ()))

    def _frozen_time(self) -> FrozenTime:
        with self.database.read() as connection:
            return freezes.frozen_time(connection, self.database.now(connection))

    # Runs and nodes ---------------------------------------------------------------------------------

    def latest_runs(self, only: RunListFilter, limit: int) -> LatestRuns:
        """Return the runs that are not over, and the latest of those that are."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return LatestRuns(
                listings.unfinished_runs(connection, only, MOST_ALIVE, now),
                listings.finished_runs(connection, only, None, limit, now),
                NEVER if only.task_id is None else freezes.recent(connection, now),
            )

    def more_runs(self, only: RunListFilter, after: RunCursor, limit: int) -> RunsPage:
        """Return the page of finished runs behind `after`."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.finished_runs(connection, only, after, limit, now)

    def dead_tasks(self, terms: Sequence[Term] = ()) -> list[DeadTask]:
        """Return the tasks with dead letters that match all terms, at most MOST_DEAD_TASKS.

        Tasks with the newest dead letters come first.
        """
        with self.database.read() as connection:
            return listings.dead_tasks(connection, terms, MOST_DEAD_TASKS, self.database.now(connection))

    def dead_letters(
        self, terms: Sequence[Term], since_id: int | None, limit: int, task_id: int | None = None
    ) -> FirstDeadLetters:
        """Return the newest dead letters that match all terms, and the ids of all from `since_id` on."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            dead_ids = set() if since_id is None else listings.dead_ids(connection, since_id)
            page = listings.dead_letters(connection, terms, None, limit, now, task_id)
            return FirstDeadLetters(page, dead_ids)

    def more_dead_letters(
        self, terms: Sequence[Term], before_id: int, limit: int, task_id: int | None = None
    ) -> DeadLettersPage:
        """Return the page of dead letters with ids below `before_id`."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.dead_letters(connection, terms, before_id, limit, now, task_id)

    def alerts(self) -> list[AlertFacts]:
        """Return the newest open alerts, up to MOST_ALERTS."""
        with self.database.read() as connection:
            found = alert_list.page(connection, closed=False, limit=MOST_ALERTS)
            return alert_facts.read(connection, found, self.database.now(connection))

    def fleet(self) -> FleetFigures:
        """Return the queues, the due runs, and the starts of the next hour as far as they can be counted."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            due = fleet_figures.due_runs(connection, now)
            known = {queue.name: queue for queue in queues.listing(connection)}
            edits = listings.tasks_token(connection)
        starts = self._next_hour
        if starts is None or (starts.begin, starts.edits) != (_minute(now), edits):
            starts = self._next_hour = self._starts_of_hour(now, edits)
        used = [
            QueueUse(
                name,
                known[name].alive if name in known else 0,
                known[name].max_running if name in known else None,
                due.by_queue.get(name, 0),
            )
            for name in sorted({*known, *due.by_queue})
        ]
        return FleetFigures(due, used, starts.begin, starts.numbers, starts.has_more)

    def _starts_of_hour(self, now: datetime, edits: object) -> HourStarts:
        """Count the starts of the next hour, for COUNTING_SECONDS at most."""
        with self.database.read() as connection:
            ids = fleet_figures.starting_tasks(connection, now + HOUR, MOST_STARTING)
        span = StartSpan(_minute(now), MINUTE, HOUR // MINUTE)
        minutes, counted, begun = Minutes(), 0, time.thread_time()
        while counted < len(ids) and (left := COUNTING_SECONDS - (time.thread_time() - begun)) > 0:
            some = ids[counted : counted + COUNTED_AT_ONCE]  # reading all tasks at once may take longer
            counted += self.count_starts(minutes, some, now, span.end, left).counted
        has_more = counted < len(ids) or len(ids) >= MOST_STARTING
        return HourStarts(span.begin, edits, minutes.in_cells(span), has_more)

    def nodes(self) -> list[Node]:
        """Return the living nodes, and those that ended within a day."""
        return self.crontab.nodes()


def _activity(connection: Connection, now: datetime) -> Activity:
    return Activity(
        listings.count_alive(connection),
        lanes.idle(nodes.living(connection, now)),
        alert_list.unacknowledged(connection, now),
        freezes.active(connection, now),
    )


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _cells(task: Task, span: StartSpan, frozen: FrozenTime) -> Sequence[Filled]:
    try:
        return filled(task, span, None if task.enabled else task.paused_until or span.end, frozen)
    except UsageError:
        return ()


def _minutes(task: Task, begin: datetime, end: datetime, frozen: FrozenTime) -> Sequence[int]:
    """Return the minutes in which the task starts after its pause; none where its schedule cannot be read."""
    try:
        return minutes_of(task, begin if task.enabled else max(begin, task.paused_until or end), end, frozen)
    except UsageError:
        return ()


def _explained(row: TaskRow, now: datetime, frozen: FrozenTime) -> tuple[str, list[TaskStart]]:
    """Return the schedule in words, and its next starts."""
    task, settled_until = row.task, row.settled_until(now)
    try:
        schedule = occurrences.schedule_of(task)
        explanation = explain(schedule, zone(task.timezone))
        is_coming = schedule.timed and task.enabled
        starts = starts_of(task, now, settled_until=settled_until, frozen=frozen)
        found = starts if is_coming else iter(())
        return explanation, list(until_ran(found, OCCURRENCES))
    except UsageError as error:
        return f"cannot be read: {error}", []
