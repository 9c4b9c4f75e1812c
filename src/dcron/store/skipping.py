"""Occurrences that never had a waiting row of their own: those of a span are recorded together, in one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert

from dcron.model import RunState, Task, Trigger
from dcron.policy import MissedRange
from dcron.schema import runs


@dataclass(frozen=True)
class MissedOccurrences:
    """Occurrences that will not run, and why."""

    task: Task
    span: MissedRange
    reason: str


def record(connection: Connection, skips: Sequence[MissedOccurrences], now: datetime) -> None:
    """A skipped row for each of these, at the last of its occurrences."""
    values = [
        {
            "task_id": each.task.id,
            "task": each.task.name,
            "trigger": Trigger.SCHEDULE,
            "state": RunState.SKIPPED,
            "reason": f"{each.reason} ({each.span})",
            "scheduled_for": each.span.last,
            "due_at": each.span.last,
            "finished_at": now,
            "spec": each.task.spec(),
        }
        for each in skips
    ]
    if values:
        connection.execute(insert(runs), values)
