"""The facts about a task, for the panel beside the tasks."""

from collections.abc import Iterator
from datetime import datetime

from dcron.model import Run, Task
from dcron.presentation import alerts, humanize, next_runs, owned_tasks, statistics
from dcron.presentation import policies as policies
from dcron.presentation.graph import graph_lines
from dcron.services.dashboard import TaskDetail
from dcron.tui.detail_panel import Fact

LISTED = 5
"""Most waiting runs, and most runs to come, that are listed."""


def detail_facts(detail: TaskDetail, now: datetime) -> Iterator[Fact]:
    """Yield names and values about a task; what keeps it from running comes first."""
    task, row = detail.row.task, detail.row
    yield "", task.describe or ""
    yield "when", f"{task.schedule}\n  {detail.explanation}"
    yield "zone", task.timezone
    for alert in row.alerts:
        yield "alert", f"{alerts.word(alert.kind)}, {humanize.ago(alert.opened_at, now)}"
    yield "suspended", task.error or ""
    yield "paused", _paused(task, now)
    yield "agents", f"none takes its next run:\n  {row.unserved}" if row.unserved and task.enabled else ""
    yield "waiting", _waiting(detail, now)
    for start in detail.coming[:LISTED]:  # a calendar may skip hundreds
        each, moved = start.occurrence, next_runs.moved_by_jitter(start)
        note = each.reason or each.note
        remarks = (f"\n  {moved}" if moved else "") + (f"\n  ! {note}" if note else "")
        yield "next", f"{humanize.full(each.local)}{remarks}"
    yield "graph", "".join(f"\n  {line}" for line in graph_lines(detail.graph, task.name))
    yield "command", task.command
    yield "user", task.user or ""
    yield from policies.asked(task)
    for run in row.alive:
        yield "now", _run_text(run, now)
    yield from statistics.lines(detail.statistics)
    for run in detail.last:
        yield "last", _run_text(run, now)
    yield "source", owned_tasks.source(task) or ""
    yield "changed", f"{humanize.ago(task.changed_at, now)} by {task.changed_by or 'unknown'}"


def _paused(task: Task, now: datetime) -> str:
    if task.enabled:
        return ""
    since = humanize.ago(task.paused_at, now) if task.paused_at else ""
    by = f" by {task.paused_by}" if task.paused_by else ""
    until = f", until {humanize.full(task.paused_until)}" if task.paused_until else ""
    return f"{since}{by}{until} {task.paused_reason or ''}"


def _waiting(detail: TaskDetail, now: datetime) -> str:
    shown = [f"{run.id} {humanize.waits(run, detail.row.task.tries, now)}" for run in detail.waiting[:LISTED]]
    more = len(detail.waiting) - len(shown)
    return "\n  ".join([*shown, *([f"and {more} more"] if more else [])])


def _run_text(run: Run, now: datetime) -> str:
    ended = f" {humanize.ago(run.finished_at, now)}" if run.finished_at else ""
    where = f" on {run.node}" if run.node else ""
    reason = f": {run.reason}" if run.reason and run.exit_code is None else ""
    return f"{run.id} {humanize.result(run, now)}{ended}{where}{reason}"
