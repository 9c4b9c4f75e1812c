"""Making runs besides the clock: events, and occurrences of the past."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron import policy
from dcron.errors import Refused, UsageError
from dcron.model import Event, Run, Task
from dcron.services.service import Service
from dcron.store import audit_log, blocked, events, finishing, planning, runs
from dcron.validation import require_event, require_runnable, require_text

MOST_OCCURRENCES = 10_000
"""Occurrences that one backfill makes up for."""


@dataclass(frozen=True)
class Emitted:
    """What became of an event."""

    event: Event | None
    """None when one of the same name and key had come before: then nothing was done."""
    runs: Sequence[Run]
    """One for each task that waits for it; skipped where the task is paused."""


@dataclass(frozen=True)
class Backfill:
    """Which occurrences a backfill makes up for."""

    occurrences: Sequence[datetime]
    there_already: int
    """Occurrences that have succeeded, or are about to run, and are left alone."""


class Triggers(Service):
    """Makes runs in a crontab. Every method is one transaction."""

    def emit(self, name: str, payload: str | None = None, key: str | None = None) -> Emitted:
        """Send an event: each task whose schedule names it runs once, with the payload. Raises UsageError."""
        require_event(name, key)
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

    def backfill(self, task: Task, first: datetime, last: datetime, *, dry_run: bool = False) -> Backfill:
        """Make runs for the line's occurrences from `first` up to and with `last` that never succeeded.

        They run one after the other, as far as the line's limits say, and behind what is due today.
        Raises UsageError.
        """
        require_runnable(task)
        if not policy.is_timed(task):
            raise UsageError(f"{task.name} has no times to make up for: its schedule is {task.schedule}")
        with self.database.read() as connection:
            now = self.database.now(connection)
        wanted = _occurrences(task, first, min(last, now))
        with self.database.write() as connection:
            # Before anything is looked up: of two people who do the same, the second finds it done.
            finishing.lock_tasks(connection, {task.id: task.name})
            there = runs.occurrences_done(connection, task.id, first, last)
            missing = [occurrence for occurrence in wanted if occurrence not in there]
            if missing and not dry_run:
                planning.add_backfill(connection, task, missing, now)
                blocked.unblock(connection, [task.id], now)
                detail = {"from": first.isoformat(), "to": last.isoformat(), "runs": len(missing)}
                audit_log.record(connection, now, self.actor, "backfill", after=task, detail=detail)
                self.database.notify(connection)
            return Backfill(missing, len(wanted) - len(missing))


def _occurrences(task: Task, first: datetime, last: datetime) -> list[datetime]:
    if last < first:
        raise UsageError("--to lies before --from, or --from is yet to come; there is nothing to make up for")
    found: list[datetime] = []
    occurrence = policy.next_not_excluded(task, first - policy.INSTANT)
    while occurrence and occurrence <= last:
        if len(found) == MOST_OCCURRENCES:
            raise Refused(
                f"more than {MOST_OCCURRENCES:,} occurrences from {first:%Y-%m-%dT%H:%M:%SZ} on;"
                f" the {MOST_OCCURRENCES:,}th is {found[-1]:%Y-%m-%dT%H:%M:%SZ}: go up to that one first"
            )
        found.append(occurrence)
        occurrence = policy.next_not_excluded(task, occurrence)
    return found
