"""The JSON that scripts read. Keys are added, never renamed or taken away (docs/cli.md)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dcron.cli.words import offset_of
from dcron.model import Node, Run, Task

if TYPE_CHECKING:  # these load SQLAlchemy or croniter; `preview` needs no database
    from dcron.crontab import TaskView
    from dcron.schedule import Occurrence
    from dcron.store.output import Chunk


def instant(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, ending in Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None


def seconds(duration: float | None) -> float | int | None:
    """A duration; whole seconds as an integer, others to the millisecond."""
    if duration is None:
        return None
    return int(duration) if duration == int(duration) else round(duration, 3)


def task_shape(view: "TaskView", now: datetime) -> dict[str, Any]:
    """A task with its next and last run."""
    task = view.task
    holder = view.alive[-1] if view.alive else None
    return {
        "name": task.name,
        "schedule": task.schedule,
        "timezone": task.timezone,
        "command": task.command,
        "argv": list(task.argv) if task.argv else None,
        "enabled": task.enabled,
        "paused_reason": task.paused_reason,
        "paused_by": task.paused_by,
        "paused_until": instant(task.paused_until),
        "next_run_at": instant(view.next_run_at),
        "last_run": run_shape(view.last_run, now) if view.last_run else None,
        "owner": holder.owner if holder else None,
        "version": task.version,
        "once": task.once,
        "error": task.error,
        **_options(task),
    }


def _options(task: Task) -> dict[str, Any]:
    """The options of `add`, each by its long name."""
    return {
        "stdin": task.stdin,
        "env": dict(task.env),
        "cwd": task.cwd,
        "shell": task.shell,
        "user": task.user,
        "timeout": seconds(task.timeout),
        "max_running": task.max_running,
        "gap": task.gap,
        "fold": task.fold,
        "not_before": instant(task.not_before),
        "not_after": instant(task.not_after),
        "except": task.except_calendar,
        "only": task.only_calendar,
        "describe": task.describe,
    }


def run_shape(run: Run, now: datetime) -> dict[str, Any]:
    """One run."""
    return {
        "id": run.id,
        "task": run.task,
        "state": run.state.value,
        "reason": run.reason,
        "trigger": run.trigger.value,
        "attempt": run.attempt,
        "scheduled_for": instant(run.scheduled_for),
        "due_at": instant(run.due_at),
        "claimed_at": instant(run.claimed_at),
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "owner": run.owner,
        "node": run.node,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "duration": seconds(run.duration(now)),
        "retry_of": run.retry_of,
        "dead": run.dead_at is not None,
    }


def node_shape(node: Node, now: datetime) -> dict[str, Any]:
    """One node."""
    return {
        "id": node.id,
        "name": node.name,
        "host": node.host,
        "pid": node.pid,
        "state": node.state(now).value,
        "tags": [],
        "queues": [],
        "slots": node.slots,
        "running": node.running,
        "version": node.version,
        "tzdata": node.tzdata,
        "started_at": instant(node.started_at),
        "alive_until": instant(node.alive_until),
        "clock_offset": seconds(node.clock_offset),
    }


def preview_shape(
    schedule: str | None, timezone: str, explanation: str | None, warnings: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """What `preview` shows of one schedule, or of all (None), but for its occurrences.

    A warning is its code and its message.
    """
    return {
        "schedule": schedule,
        "timezone": timezone,
        "explanation": explanation,
        "occurrences": [],
        "warnings": [{"code": code, "message": message} for code, message in warnings],
    }


def occurrence_shape(occurrence: "Occurrence") -> dict[str, Any]:
    """One turn in a preview."""
    return {
        "at": instant(occurrence.at),
        "local": occurrence.local.isoformat(),
        "offset": offset_of(occurrence.local),
        "note": occurrence.note,
        "reason": occurrence.reason,
    }


def chunk_shape(chunk: "Chunk") -> dict[str, Any]:
    """A piece of a run's output. `offset` counts the bytes of both streams; a gap is what was dropped."""
    return {
        "run": chunk.run_id,
        "offset": chunk.byte_offset,
        "stream": chunk.stream,
        "at": instant(chunk.at),
        "text": chunk.data.decode("utf-8", errors="replace"),
    }
