"""The values of a new waiting run, with one function for each way in which a run is made.

A run executes a copy of its task (`spec`), so that a later edit does not change a run that is alive.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from dcron.model import Block, RunState, Task, Trigger
from dcron.policy.starting import lanes
from dcron.policy.starting.occurrences import due_at as due_time
from dcron.policy.starting.occurrences import expiry_of
from dcron.schedule.zones import tzdata_version
from dcron.store.runs.candidates import ClaimedRun

Values = dict[str, Any]

_REQUESTED = (Trigger.MANUAL, Trigger.BACKFILL)


def of_task(task: Task, trigger: Trigger, scheduled_for: datetime, due_at: datetime | None = None) -> Values:
    """Return the values of a run of the task as it is now.

    A scheduled run is due at its time plus its jitter, any other one at its time, unless `due_at` is given.
    """
    if due_at is None:
        due_at = due_time(task, scheduled_for) if trigger is Trigger.SCHEDULE else scheduled_for
    return {
        "task_id": task.id,
        "task": task.name,
        "trigger": trigger,
        "state": RunState.WAITING,
        "scheduled_for": scheduled_for,
        "due_at": due_at,
        "expires_at": expiry_of(task, due_at),
        "lane": str(lanes.lane_of(task, trigger)),
        "queue": task.queue,
        "spec": task.spec(),
        "tzdata": tzdata_version(),
    }


def scheduled(task: Task, scheduled_for: datetime) -> Values:
    """Return the values of the task's next scheduled run."""
    return of_task(task, Trigger.SCHEDULE, scheduled_for)


def after_claimed(run: ClaimedRun, now: datetime, *, running: bool) -> Values | None:
    """Return the values of the scheduled run that follows this one; None when none does.

    One that is counted from this run's end is blocked while this one is `running`.
    """
    scheduled_for = now + run.delay if run.delay else run.successor
    if scheduled_for is None:
        return None
    until = run.backlog_until
    return scheduled(run.task, scheduled_for) | {
        "blocked": Block.DELAY.value if run.delay and running else None,
        "backlog_until": until if until and scheduled_for <= until else None,
    }


def manual(task: Task, now: datetime, payload: str | None) -> Values:
    """Return the values of a run that a person requested: due at once."""
    return of_task(task, Trigger.MANUAL, now) | {"payload": payload}


def trial(
    task_id: int,
    task: str,
    lane: lanes.Lane,
    spec: Mapping[str, Any],
    now: datetime,
    *,
    scheduled_for: datetime | None = None,
    payload: str | None = None,
) -> Values:
    """Return the values of a trial: a run of this spec, due at once, apart from the runs of the task."""
    return {
        "task_id": -task_id,
        "task": task,
        "trigger": Trigger.MANUAL,
        "state": RunState.WAITING,
        "scheduled_for": scheduled_for or now,
        "due_at": now,
        "for_node": lane.node,
        "payload": payload,
        "lane": str(lane),
        "queue": lane.queue,
        "spec": dict(spec),
        "tzdata": tzdata_version(),
    }


def backfills(task: Task, occurrences: Iterable[datetime], now: datetime) -> list[Values]:
    """Return the values of runs for past occurrences, all blocked; `unblock` releases as many as may run."""
    blocked = {"expires_at": None, "blocked": Block.LIMIT if task.enabled else Block.PAUSED}
    return [of_task(task, Trigger.BACKFILL, occurrence, now) | blocked for occurrence in occurrences]


def at_reboot(task: Task, node_id: str, now: datetime) -> Values:
    """Return the values of a run for the start of a node."""
    lane = lanes.lane_of(task).on(node_id)
    return of_task(task, Trigger.REBOOT, now) | {"for_node": node_id, "lane": str(lane)}


def of_event(task: Task, event_id: int, payload: str | None, now: datetime) -> Values:
    """Return the values of a run that an event starts."""
    return of_task(task, Trigger.EVENT, now) | {"payload": payload, "event_id": event_id}


def in_flow(task: Task, flow: int, scheduled_for: datetime, due_at: datetime | None = None) -> Values:
    """Return the values of a run after its upstream tasks in a flow; it has their scheduled time."""
    return of_task(task, Trigger.AFTER, scheduled_for, due_at) | {"flow": flow}


def retry_of(run: Any, task: Task, due_at: datetime) -> Values:
    """Return the values of the attempt that follows `run`; it executes the task as it is now."""
    trigger = Trigger.BACKFILL if run.trigger == Trigger.BACKFILL else Trigger.SCHEDULE
    return of_task(task, Trigger.RETRY, run.scheduled_for, due_at) | {
        "attempt": run.attempt + 1,
        "retry_of": run.id,
        "for_node": run.for_node,
        "lane": str(lanes.lane_of(task, trigger).on(run.for_node)),
        "payload": run.payload,
        "flow": run.flow,
        "event_id": run.event_id,
    }


def requested_retry_of(run: Any, task: Task, now: datetime) -> Values:
    """Return the values of an attempt that a person requested: due at once."""
    values = retry_of(run, task, now)
    trigger = Trigger.BACKFILL if run.trigger == Trigger.BACKFILL else Trigger.SCHEDULE
    return values | {"lane": str(lanes.lane_of(task, trigger).requested().on(run.for_node))}


def share_of(run: ClaimedRun, node_id: str) -> Values:
    """Return the values of another node's share of a run that every node executes.

    A share of a run that a person requested keeps its trigger. Of an event's shares only the first keeps it,
    because an event starts one run of a task.
    """
    return {
        "task_id": run.task.id,
        "task": run.task.name,
        "trigger": run.trigger if run.trigger in _REQUESTED else Trigger.NODE,
        "state": RunState.WAITING,
        "scheduled_for": run.scheduled_for,
        "due_at": run.due_at,
        "expires_at": run.expires_at,
        "backlog_until": run.backlog_until,
        "for_node": node_id,
        "payload": run.payload,
        "spec": run.spec,
        "event_id": run.event_id,
        "flow": run.flow,
        "lane": str(run.lane.on(node_id)),
        "queue": run.lane.queue,
    }
