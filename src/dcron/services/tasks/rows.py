"""Tasks as lists and views show them: with their runs, and with what follows from these."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection

from dcron.errors import UsageError
from dcron.model import Alert, Block, Freeze, Node, Run, RunState, Task, Trigger
from dcron.policy.conditions.lateness import is_late
from dcron.policy.starting import catch_up, occurrences
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.starting.lanes import idle, read_lane, why_unschedulable
from dcron.schedule.transitions import clock
from dcron.schedule.zones import zone
from dcron.services import node_rules
from dcron.services.changes.task_writer import AddedTask
from dcron.services.node_rules import FleetRules
from dcron.services.recent_statistics import NONE, Recent
from dcron.store import freezes, listings
from dcron.store.alerts import listing as alert_list
from dcron.store.nodes import rows as nodes


@dataclass(frozen=True)
class RecentRun:
    """A finished run, as the picture of the last ten needs it."""

    state: RunState
    seconds: float | None
    """How many seconds it ran; None if it was never started."""


@dataclass(frozen=True)
class TaskRow:
    """A task with its runs, without the commands that these execute."""

    task: Task
    next_run: Run | None
    """The first waiting run; a calendar may yet exclude it."""
    last_run: Run | None
    """The latest run that was started."""
    alive: Sequence[Run]
    next_run_at: datetime | None
    """When the task runs next, calendars included; None if it does not, or if that is not known yet."""
    due_since: datetime | None
    """The time at which the first waiting run that is not blocked is, or was, due."""
    failed: bool
    """Whether the latest finished run failed or was lost; skipped and cancelled runs do not count."""
    dead: bool
    """Whether one of its runs is a dead letter."""
    unserved: str | None = None
    """Why no living node can take the next run; None when one can, or there is no next run."""
    recent: Sequence[RecentRun] = ()
    """The last runs, the oldest first; empty unless requested."""
    clock_change: bool = False
    """Whether the clocks of the task's zone change before its next run; False unless requested."""
    statistics: Recent = NONE
    """Its statistics; empty unless the dashboard adds them."""
    alerts: Sequence[Alert] = ()
    """Its open alerts, the oldest first; empty on the screen's lists."""
    requested_since: datetime | None = None
    """`due_since` of the first run that a person requested, if there are freezes: none holds it back."""
    frozen: FrozenTime = NEVER
    """When the crontab is and will be frozen, and was shortly before; empty where `read` did not need it."""

    @property
    def next_at(self) -> datetime | None:
        """Return the same as `next_run_at`, but None while a pause holds the run back."""
        is_paused = self.next_run is not None and self.next_run.blocked is Block.PAUSED
        return None if is_paused else self.next_run_at

    def settled_until(self, now: datetime) -> datetime | None:
        """Return the time up to which its occurrences do not start any more; None if that is not known."""
        if self.next_run is None:
            return None if self.alive else now
        is_scheduled = self.next_run.trigger is Trigger.SCHEDULE
        return self.next_run.scheduled_for - catch_up.INSTANT if is_scheduled else None

    def is_late(self, now: datetime) -> bool:
        """Return whether one of its runs is late."""
        return self.late_by(now) is not None

    def late_by(self, now: datetime) -> timedelta | None:
        """Return the longest time that a late run has waited, frozen time excluded; None without any."""
        firsts = ((self.due_since, self.frozen), (self.requested_since, NEVER))
        waited = (frozen.waited(due, now) for due, frozen in firsts if due and is_late(due, now, frozen))
        return max(waited, default=None)

    def held_by(self, now: datetime) -> Freeze | None:
        """Return the freeze that holds its first due run back; None if none does."""
        is_due = self.due_since is not None and self.due_since <= now
        return self.frozen.at(now) if is_due and self.due_since != self.requested_since else None


def read(
    connection: Connection,
    task_ids: Sequence[int],
    now: datetime,
    *,
    for_screen: bool = False,
    with_freezes: bool = False,
    ask_statistics: Callable[[], Mapping[int, Recent]] = dict,
) -> list[TaskRow]:
    """Return the rows of these tasks, in this order; removed tasks are left out.

    With `for_screen`, add their recent runs and clock changes, and leave out their alerts. `unserved` is then
    None while no agent claims runs at all: the screen reports that once. The freezes are read if a run is
    due, and always with `for_screen` or `with_freezes`: then a run may become due before the rows are drawn.
    """
    if not task_ids:
        return []
    ask_fleet = nodes.ask_living(connection, now)
    ask_recent = listings.ask_recent_runs(connection, task_ids) if for_screen else dict
    sent = freezes.send_recent(connection, now) if for_screen or with_freezes else None
    listed = listings.listed_tasks(connection, task_ids)
    if sent is None and any(each.due_since and each.due_since <= now for each in listed):
        sent = freezes.send_recent(connection, now)
    frozen = freezes.read_recent(sent) if sent else NEVER
    requested = listings.requested_since(connection, task_ids) if frozen else {}
    fleet, recent, statistics = ask_fleet(), ask_recent(), ask_statistics()
    alerts = {} if for_screen else alert_list.of_tasks(connection, task_ids)
    is_idle = for_screen and idle(fleet) is not None
    rules = node_rules.read(connection, fleet)
    clock_changes = cache(partial(_clock_changes, now))
    rows = []
    for each in listed:
        next_at = _next_run_at(each.task, each.next_run)
        rows.append(
            TaskRow(
                task=each.task,
                next_run=each.next_run,
                last_run=each.last_run,
                alive=each.alive,
                next_run_at=next_at,
                due_since=each.due_since,
                requested_since=requested.get(each.task.id),
                frozen=frozen,
                failed=each.failed,
                dead=each.dead,
                unserved=None if is_idle else _why_refused(each.task, each.next_run, fleet, rules),
                recent=[_recent(row) for row in recent.get(each.task.id, ())],
                statistics=statistics.get(each.task.id, NONE),
                alerts=alerts.get(each.task.id, ()),
                clock_change=for_screen and clock_changes(each.task.timezone, next_at),
            )
        )
    return rows


def of_added(added: AddedTask, fleet: Sequence[Node], rules: FleetRules) -> TaskRow:
    """Return the row of a task that was just added."""
    task, run = added.task, added.first_run
    return TaskRow(
        task=task,
        next_run=run,
        last_run=None,
        alive=[],
        next_run_at=_next_run_at(task, run),
        due_since=run.due_at if run else None,
        failed=False,
        dead=False,
        unserved=_why_refused(task, run, fleet, rules),
    )


def _why_refused(task: Task, run: Run | None, fleet: Sequence[Node], rules: FleetRules) -> str | None:
    if run is None:
        return None
    return why_unserved([run], fleet) or rules.why_refused(task, read_lane(run.lane))


def why_unserved(waiting: Sequence[Run], fleet: Sequence[Node]) -> str | None:
    """Return why no living node can take the first of these runs that none can; None when all have one."""
    lanes = filter(None, (read_lane(run.lane) for run in waiting))
    return next(filter(None, (why_unschedulable(lane, fleet) for lane in lanes)), None)


def _next_run_at(task: Task, run: Run | None) -> datetime | None:
    if run is None or run.blocked is Block.DELAY:
        return None  # with a delay, it is counted from the end of a run that is not over
    if run.trigger is not Trigger.SCHEDULE:
        return run.due_at
    try:
        if not occurrences.rules_of(task).has_calendars:
            return run.due_at
        occurrence = occurrences.next_not_excluded(task, run.scheduled_for - catch_up.INSTANT)
        return occurrence and occurrences.due_at(task, occurrence)
    except UsageError:
        return None  # its calendar cannot be read, so its runs are skipped


def _recent(row: Any) -> RecentRun:
    ran = row.finished_at - row.started_at if row.started_at else None
    return RecentRun(RunState(row.state), max(0.0, ran.total_seconds()) if ran else None)


def _clock_changes(now: datetime, timezone: str, due: datetime | None) -> bool:
    if due is None:
        return False
    try:
        return next(clock(zone(timezone)).transitions(now, due), None) is not None
    except UsageError:  # this machine's tz database does not have the zone
        return False
