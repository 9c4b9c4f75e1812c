"""What people look at: a service beside the crontab's, for faces that show it all day.

Every method is one short transaction that only reads.
"""

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import UsageError
from dcron.model import Node, Run, RunState, Task, Trigger
from dcron.policy.start_times import (
    Filled,
    Minutes,
    StartSpan,
    TaskStart,
    filled,
    minutes_of,
    starts_of,
    until_ran,
)
from dcron.schedule import explain, zone
from dcron.schedule.transitions import clock
from dcron.services.crontab import Crontab
from dcron.services.runs import ENDED_NODES_SHOWN
from dcron.services.tasks import TaskView
from dcron.store import dependencies, listings, nodes
from dcron.store.listings import LettersPage, Place, RunsPage, WantedRuns
from dcron.store.search_terms import LATENESS, Term

MOST_ALIVE = 1000
OCCURRENCES = 5
LAST_RUNS = 8
WAITING_RUNS = 20


@dataclass(frozen=True)
class PollResult:
    """One look at the database: its time, and a token that differs when others have written."""

    token: object
    now: datetime


@dataclass(frozen=True)
class Recent:
    """A run that is over, as far as a picture of ten needs it."""

    state: RunState
    seconds: float | None
    """How long it ran; None if it was never started."""


@dataclass(frozen=True)
class TaskRow:
    """A line as a list shows it."""

    view: TaskView
    next_at: datetime | None
    """When it runs next, calendars considered."""
    clock_change: bool
    """Whether the clocks of its zone change before that."""
    recent: Sequence[Recent]
    """The oldest first."""

    @property
    def task(self) -> Task:
        """The line itself."""
        return self.view.task

    def is_late(self, now: datetime) -> bool:
        """Whether a turn of the task has been due for a while."""
        waiting, due = self.view.next_run, self.next_at
        free = self.task.enabled and waiting and not waiting.blocked
        return bool(free and due and due < now - LATENESS)


@dataclass(frozen=True)
class TimelineRow(TaskRow):
    """A line with what it does in each cell of a span."""

    span: StartSpan
    cells: Sequence[Filled]
    """None at all where its schedule cannot be read."""


@dataclass(frozen=True)
class BusiestMinute:
    """The minute in which most lines start, as far as they were counted."""

    counted: int
    """How many of the lines that were asked about."""
    seconds: float
    """How long the counting took."""
    minute: datetime | None = None
    """None when none of them starts."""
    starts: int = 0


@dataclass(frozen=True)
class TaskRows:
    """The lines asked for, by id; those that are gone are left out."""

    rows: Mapping[int, TaskRow]
    token: object
    """Differs after lines have come, gone or been edited."""


@dataclass(frozen=True)
class Activity:
    """What can be asked after every change, for it costs next to nothing."""

    running: int
    idle: str | None
    """Why no agent takes any run at all; None when one may."""


@dataclass(frozen=True)
class Counts:
    """How the crontab stands as a whole."""

    tasks: int
    activity: Activity
    failed: int
    paused: int
    late: int


@dataclass(frozen=True)
class TaskDetail:
    """All there is to say about a line in a narrow pane."""

    row: TaskRow
    explanation: str
    coming: Sequence[TaskStart]
    waiting: Sequence[Run]
    """What waits besides its turn, and the turn itself when it is held back; the first due first."""
    last: Sequence[Run]
    graph: Mapping[str, Sequence[str]]
    """What comes after what in all that hangs together with it."""


@dataclass(frozen=True)
class DeadLetterPage:
    """The first page of the dead letters, and which of those that were known still are."""

    page: LettersPage
    standing: set[int]


@dataclass(frozen=True)
class LatestRuns:
    """The runs under way, and the first page of those that are over."""

    unfinished: Sequence[Run]
    page: RunsPage


class Dashboard:
    """The crontab as it is shown. For one thread at a time: its change tokens are of one connection."""

    def __init__(self, crontab: Crontab) -> None:
        """Look at the crontab's database."""
        self.crontab = crontab
        self.database = crontab.database

    def look(self) -> PollResult:
        """The database's time, and whether anything changed: compare the tokens of two looks."""
        with self.database.read() as connection:
            token = self.database.change_token(connection)
            return PollResult(token, self.database.now(connection))

    # Tasks ------------------------------------------------------------------------------------------

    def task_ids(
        self, terms: Sequence[Term], order: str, *, reverse: bool, coming: bool = False
    ) -> "array[int]":
        """The ids of the lines wanted, in order; with `coming` of those that run, or will."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.task_ids(connection, terms, order, now, reverse=reverse, coming=coming)

    def task_rows(self, ids: Sequence[int]) -> TaskRows:
        """What a list shows of these lines."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            token = listings.lines_token(connection)
            lines = listings.tasks_by_id(connection, ids)
            known = listings.runs_of_tasks(connection, ids)
            recent = listings.recent_runs(connection, ids)
            fleet = nodes.living(connection, now)
        if policy.idle(fleet):  # that is told once, and not of each line
            fleet = []
        views = (
            TaskView(
                task,
                known.following.get(task.id),
                known.last.get(task.id),
                known.alive.get(task.id, ()),
                _unserved([run], fleet) if fleet and (run := known.following.get(task.id)) else None,
            )
            for task in lines
        )
        rows = {view.task.id: _task_row(view, recent.get(view.task.id, ()), now) for view in views}
        return TaskRows(rows, token)

    def task_detail(self, task_id: int) -> TaskDetail | None:
        """The line at length; None when it is gone."""
        row = self.task_rows([task_id]).rows.get(task_id)
        if row is None:
            return None
        with self.database.read() as connection:
            now = self.database.now(connection)
            waiting = listings.waiting_runs(connection, task_id, WAITING_RUNS)
            last = listings.finished_runs(connection, WantedRuns(task_id), None, LAST_RUNS, now).runs
            graph = dependencies.graph_around(connection, row.task.name)
            view = replace(row.view, unserved=_unserved(waiting, nodes.living(connection, now)))
        held = [run for run in waiting if run.blocked or run.trigger is not Trigger.SCHEDULE]
        return TaskDetail(replace(row, view=view), *_schedule_told(row.task, now), held, last, graph)

    def counts(self) -> Counts:
        """How the crontab stands; reads every line, so not to be asked at every turn."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return Counts(
                tasks=listings.count_tasks(connection, now=now),
                activity=_pulse(connection, now),
                failed=listings.count_tasks(connection, Term("failed"), now=now),
                paused=listings.count_tasks(connection, Term("paused"), now=now),
                late=listings.count_late(connection, now),
            )

    def activity(self) -> Activity:
        """Count the runs under way, and look whether an agent takes runs."""
        with self.database.read() as connection:
            return _pulse(connection, self.database.now(connection))

    # The timeline -----------------------------------------------------------------------------------

    def timeline_rows(self, ids: Sequence[int], span: StartSpan) -> TaskRows:
        """What a picture of this span shows of these lines."""
        found = self.task_rows(ids)
        rows = {
            i: TimelineRow(**vars(row), span=span, cells=_cells(row.task, span))
            for i, row in found.rows.items()
        }
        return TaskRows(rows, found.token)

    def count_starts(
        self, minutes: Minutes, ids: Sequence[int], begin: datetime, end: datetime, seconds: float
    ) -> BusiestMinute:
        """Add the starts of these lines before `end` to `minutes`; after so many seconds it stops there."""
        begun, counted = time.monotonic(), 0
        lines = self.crontab.tasks_by_id(ids)
        for counted, task_id in enumerate(ids, 1):  # noqa: B007 - told to whoever goes on from there
            if task := lines.get(task_id):
                minutes.add(_minutes(task, begin, end))
            if time.monotonic() - begun > seconds:
                break
        return BusiestMinute(counted, time.monotonic() - begun, *next(iter(minutes.busiest(1)), ()))

    # Runs and nodes ---------------------------------------------------------------------------------

    def latest_runs(self, wanted: WantedRuns, limit: int) -> LatestRuns:
        """The runs under way, and the latest of those that are over."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return LatestRuns(
                listings.unfinished_runs(connection, wanted, MOST_ALIVE, now),
                listings.finished_runs(connection, wanted, None, limit, now),
            )

    def more_runs(self, wanted: WantedRuns, after: Place, limit: int) -> RunsPage:
        """The page of finished runs behind `after`."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.finished_runs(connection, wanted, after, limit, now)

    def dead_letters(self, terms: Sequence[Term], since_id: int | None, limit: int) -> DeadLetterPage:
        """The newest dead letters wanted, and which of those from `since_id` on still are some."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            standing = set() if since_id is None else listings.dead_ids(connection, since_id)
            return DeadLetterPage(listings.dead_letters(connection, terms, None, limit, now), standing)

    def more_dead_letters(self, terms: Sequence[Term], before_id: int, limit: int) -> LettersPage:
        """The page of dead letters behind the run `before_id`."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.dead_letters(connection, terms, before_id, limit, now)

    def nodes(self) -> list[Node]:
        """The nodes that live, and those that ended within a day."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return nodes.listing(connection, now, ended_since=now - ENDED_NODES_SHOWN)


def _pulse(connection: Connection, now: datetime) -> Activity:
    return Activity(listings.count_alive(connection), policy.idle(nodes.living(connection, now)))


def _task_row(view: TaskView, recent: Sequence[Any], now: datetime) -> TaskRow:
    try:
        due = view.comes_at
    except UsageError:  # a zone or calendar that this machine cannot read
        due = view.next_run.due_at if view.next_run else None
    told = [Recent(RunState(row.state), _seconds(row)) for row in recent]
    return TaskRow(view, due, due is not None and _clock_changes(view.task.timezone, now, due), told)


def _cells(task: Task, span: StartSpan) -> Sequence[Filled]:
    try:
        return filled(task, span, None if task.enabled else task.paused_until or span.end)
    except UsageError:
        return ()


def _minutes(task: Task, begin: datetime, end: datetime) -> Sequence[int]:
    """The minutes in which the line starts, its pause considered; none where its schedule cannot be read."""
    try:
        return minutes_of(task, begin if task.enabled else max(begin, task.paused_until or end), end)
    except UsageError:
        return ()


def _unserved(waiting: Sequence[Run], fleet: Sequence[Node]) -> str | None:
    """Why no living node can take the first of these runs that none can; None when all have one."""
    lanes = filter(None, (policy.read_lane(run.lane) for run in waiting))
    return next(filter(None, (policy.why_unschedulable(lane, fleet) for lane in lanes)), None)


def _seconds(row: Any) -> float | None:
    return max(0.0, (row.finished_at - row.started_at).total_seconds()) if row.started_at else None


def _clock_changes(timezone: str, now: datetime, due: datetime) -> bool:
    try:
        return next(clock(zone(timezone)).transitions(now, due), None) is not None
    except UsageError:  # this machine's tz database does not have the zone
        return False


def _schedule_told(task: Task, now: datetime) -> tuple[str, list[TaskStart]]:
    """The schedule in words, and its next turns, by the function that the agents use."""
    try:
        schedule = policy.schedule_of(task.schedule, task.name)
        told = explain(schedule, zone(task.timezone))
        is_coming = schedule.timed and task.enabled
        return told, list(until_ran(starts_of(task, now), OCCURRENCES)) if is_coming else []
    except UsageError as error:
        return f"cannot be read: {error}", []
