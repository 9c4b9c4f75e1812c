"""Make runs that no schedule makes: for events, and for past occurrences (backfill)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.errors import Refused, UsageError
from dcron.model import Event, Run, Task, Trigger
from dcron.policy.conditions.rules import EVENT_PREFIX
from dcron.policy.starting import catch_up, lanes
from dcron.policy.starting.occurrences import is_timed, next_not_excluded
from dcron.policy.validation import require_event, require_runnable, require_text
from dcron.services.service import Service
from dcron.store import changes
from dcron.store.claims import finishing
from dcron.store.nodes import rows as nodes
from dcron.store.planning import events, planning
from dcron.store.retention import history as past
from dcron.store.runs import blocked, durations
from dcron.store.runs import rows as runs
from dcron.store.tasks import queues

MOST_OCCURRENCES = 10_000
"""Most occurrences of one backfill."""


@dataclass(frozen=True)
class Emitted:
    """The effect of an event."""

    event: Event | None
    """None if an event with the same name and key was sent before; then nothing was done."""
    runs: Sequence[Run]
    """One for each task that waits for the event; skipped if the task is paused."""


@dataclass(frozen=True)
class Backfill:
    """The effect of a backfill."""

    occurrences: Sequence[datetime]
    already_done: int
    """How many of the occurrences have succeeded, wait or run already; they are left alone."""


@dataclass(frozen=True)
class Outlook:
    """What the runs of a backfill would take."""

    at_once: int
    """How many of them can be active at the same time on the present nodes; 0 without a node for them."""
    p95: float | None
    """Seconds that 95 % of the task's last successful runs do not exceed; None if there are none."""
    created_at: datetime | None
    """When the task was added, if that is on record."""

    def seconds(self, count: int) -> float | None:
        """Return about how long so many runs take; None if it is unknown."""
        return None if self.p95 is None or not self.at_once else self.p95 * count / self.at_once


class Triggers(Service):
    """Makes runs in a crontab. Every method is one transaction."""

    def emit(self, name: str, payload: str | None = None, key: str | None = None) -> Emitted:
        """Send an event: each task whose schedule names it runs once, with the payload. Raises UsageError."""
        require_event(name, key)
        if name.startswith(EVENT_PREFIX):
            raise UsageError(
                f"{name}: dcron itself sends the events that begin with {EVENT_PREFIX}; rename it"
            )
        if payload is not None:
            require_text("payload", payload)
        with self.database.write() as connection:
            now = self.database.now(connection)
            event = events.add(
                connection, self.database, now, self.actor, name=name, payload=payload, key=key
            )
            if event is None:
                return Emitted(None, ())
            events.handle(connection, self.database, event, now)
            self.database.notify(connection)
            return Emitted(event, runs.of_event(connection, event.id))

    def outlook(self, task: Task, count: int) -> Outlook:
        """Return what `count` more runs of this task would take now."""
        lane = lanes.lane_of(task, Trigger.BACKFILL)
        with self.database.read() as connection:
            seconds = durations.of_tasks(connection, [task.id]).get(task.id, [])
            living = nodes.living(connection, self.database.now(connection))
            limit = queues.limits(connection).get(task.queue)
            first = changes.first_of_task(connection, task.id)
        slots = sum(node.slots for node in living if not node.draining and lanes.served_by(lane, node))
        limits = [each for each in (task.max_running, limit) if each is not None]
        is_first = first is not None and first.has_states and first.state_before is None
        return Outlook(
            min([slots, count, *limits]),
            seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))] if seconds else None,
            first.at if first and is_first else None,
        )

    def backfill(
        self, task: Task, first: datetime, last: datetime, *, dry_run: bool = False, force: bool = False
    ) -> Backfill:
        """Make runs for the task's occurrences from `first` to `last`, both included, that never succeeded.

        They start within the task's limits, after runs that are due now. Raises UsageError; and Refused,
        unless with `force`, if runs of that time were pruned: whether they succeeded is unknown.
        """
        require_runnable(task)
        if not is_timed(task):
            raise UsageError(f"{task.name} has no occurrences to backfill: its schedule is {task.schedule}")
        with self.database.read() as connection:
            now = self.database.now(connection)
        requested = _occurrences(task, first, min(last, now))
        with self.database.write(keeps=not dry_run) as connection:
            # Lock before reading: if two users do the same, the second one finds the runs of the first.
            finishing.lock_tasks(connection, {task.id: task.name})
            done = runs.occurrences_done(connection, task.id, first, last)
            missing = [occurrence for occurrence in requested if occurrence not in done]
            if missing and not force and past.was_pruned(connection, missing[0], missing[-1]):
                raise Refused(
                    f"runs of that time have been pruned, and {task.name} may have succeeded then: begin"
                    " later, or repeat it with --force"
                )
            if missing and not dry_run:
                ids = planning.add_backfill(connection, task, missing, now)
                blocked.unblock(connection, [task.id], now)
                detail = {"from": first.isoformat(), "to": last.isoformat(), "runs": len(missing)}
                made = {"first_run": min(ids), "last_run": max(ids)}
                self._record_run(connection, "backfill", task, detail | made)
                self.database.notify(connection)
            return Backfill(missing, len(requested) - len(missing))


def _occurrences(task: Task, first: datetime, last: datetime) -> list[datetime]:
    if last < first:
        raise UsageError("--until is before --from, or --from is in the future; there is nothing to backfill")
    found: list[datetime] = []
    occurrence = next_not_excluded(task, first - catch_up.INSTANT)
    while occurrence and occurrence <= last:
        if len(found) == MOST_OCCURRENCES:
            raise Refused(
                f"more than {MOST_OCCURRENCES:,} occurrences from {first:%Y-%m-%dT%H:%M:%SZ} on;"
                f" the {MOST_OCCURRENCES:,}th is {found[-1]:%Y-%m-%dT%H:%M:%SZ}: go up to that one first"
            )
        found.append(occurrence)
        occurrence = next_not_excluded(task, occurrence)
    return found
