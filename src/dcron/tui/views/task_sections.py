"""Everything about a task, in sections: for its page, and briefly for the panel beside the tasks."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from dcron.model import Run, Task
from dcron.presentation import alerts, freezes, humanize, next_runs, owned_tasks, policies, statistics
from dcron.presentation.graph import graph_lines
from dcron.services.dashboard import TaskDetail
from dcron.tui.table.cells import run_status
from dcron.tui.table.sections import Fact, Section

BRIEF, BRIEF_RUNS = 3, 5
"""Most runs to come, and most runs, in the panel."""
LISTED = 5
"""Most waiting runs, and most runs to come, that are listed."""
ERROR = "$text-error bold"
_COLOURS = {"ok": "$text-success", "failed": ERROR, "lost": ERROR, "running": "$text-primary"}


def task_sections(detail: TaskDetail, now: datetime) -> Iterator[Section]:
    """Yield the sections about a task; what is wrong comes first."""
    task = detail.row.task
    yield Section("What is wrong", 0, list(_wrong(detail, now)))
    yield Section("Schedule", 0, list(_schedule(detail, now)))
    yield Section("Waits for", 0, list(_waits_for(detail, now)))
    yield Section("Runs", 1, [_run_fact(run, now) for run in (*detail.row.alive, *detail.last)])
    yield Section("Statistics", 1, [Fact(name, value) for name, value in statistics.lines(detail.statistics)])
    yield Section("Command", 2, list(_command(task)))
    yield Section("Policies", 2, [Fact(name, value) for name, value in policies.asked(task)])
    yield Section("Origin", 2, list(_origin(task, now)))


def brief_sections(detail: TaskDetail, now: datetime) -> Iterator[Section]:
    """Yield the sections that matter most, for a panel: fewer runs, and the command before them."""
    task = detail.row.task
    runs = [*detail.row.alive, *detail.last][:BRIEF_RUNS]
    yield Section("What is wrong", 0, list(_wrong(detail, now)))
    yield Section("Command", 0, list(_command(task)))
    yield Section("Schedule", 0, list(_schedule(detail, now, BRIEF)))
    yield Section("Waits for", 0, list(_waits_for(detail, now)))
    yield Section("Flow", 0, [Fact("", "\n".join(graph_lines(detail.graph, task.name)))])
    yield Section("Runs", 0, [_run_fact(run, now) for run in runs])
    yield Section("Statistics", 0, [Fact(name, value) for name, value in statistics.lines(detail.statistics)])
    yield Section("Policies", 0, [Fact(name, value) for name, value in policies.asked(task)])
    yield Section("Origin", 0, list(_origin(task, now)))


def removed_section() -> Section:
    """Return the section about a task that is gone."""
    return Section("What is wrong", 0, [Fact("removed", "the task was removed; its runs are kept", ERROR)])


def _wrong(detail: TaskDetail, now: datetime) -> Iterator[Fact]:
    task, row = detail.row.task, detail.row
    for alert in row.alerts:
        lasted = humanize.rough_span((now - alert.opened_at).total_seconds())
        yield Fact("alert", f"{alerts.word(alert.kind)} for {lasted}", ERROR)
    yield Fact("suspended", task.error or "", ERROR)
    if late_by := row.late_by(now):
        yield Fact("late", f"its run has been due for {humanize.rough_span(late_by.total_seconds())}", ERROR)
    if (held := row.held_by(now)) and row.due_since:
        yield Fact(humanize.FROZEN, freezes.held_back(held, row.due_since, now))
    if row.unserved and task.enabled:
        yield Fact("agents", f"none takes its next run: {row.unserved}", ERROR)
    if row.dead:
        yield Fact("dead", "it has dead letters", ERROR)


def _schedule(detail: TaskDetail, now: datetime, count: int = LISTED) -> Iterator[Fact]:
    task = detail.row.task
    yield Fact("when", f"{task.schedule}\n{detail.explanation}")
    yield Fact("zone", task.timezone)
    if not task.enabled:
        yield Fact("paused", _paused(task, now))
    yield Fact("next", "\n".join(next_runs.short_lines(detail.coming[:count], now)))


def _paused(task: Task, now: datetime) -> str:
    since = humanize.ago(task.paused_at, now) if task.paused_at else ""
    by = f" by {task.paused_by}" if task.paused_by else ""
    until = f", until {humanize.full(task.paused_until)}" if task.paused_until else ""
    return f"{since}{by}{until} {task.paused_reason or ''}".strip()


def _waits_for(detail: TaskDetail, now: datetime) -> Iterator[Fact]:
    task = detail.row.task
    yield Fact("upstream", ", ".join(detail.graph.get(task.name, ())))
    for run in detail.waiting[:LISTED]:
        yield Fact(f"run {run.id}", humanize.waits(run, task.tries, now, detail.row.frozen))
    more = len(detail.waiting) - LISTED
    yield Fact("", f"and {more} more" if more > 0 else "")


def _run_fact(run: Run, now: datetime) -> Fact:
    ended = f"{humanize.ago(run.finished_at, now)}" if run.finished_at else ""
    where = f"on {run.node}" if run.node else ""
    reason = run.reason if run.reason and run.exit_code is None else ""
    style = _COLOURS.get(run_status(run).style, "")
    rest = f" {ended:<8} {where}  {reason}".rstrip()
    return Fact(str(run.id), f"{humanize.result(run, now):<12}", style, rest)


def _command(task: Task) -> Iterator[Fact]:
    yield Fact("about", task.describe or "")
    yield Fact("command", next_runs.command_line(task))
    for name, value in task.env.items():
        yield Fact("env", f"{name}={value}")
    yield Fact("stdin", task.stdin or "")
    yield Fact("directory", task.cwd or "")
    yield Fact("user", task.user or "")
    yield Fact("timeout", humanize.span(task.timeout) if task.timeout else "")


def _origin(task: Task, now: datetime) -> Iterator[Fact]:
    yield Fact("source", owned_tasks.source(task) or "")
    changed_by = task.changed_by or "unknown"
    yield Fact("changed", f"{humanize.ago(task.changed_at, now)} by {changed_by}, version {task.version}")


def in_tens(now: datetime) -> datetime:
    """Round down to ten seconds, so that an idle task is not drawn every second."""
    return now - timedelta(seconds=now.second % 10, microseconds=now.microsecond)
