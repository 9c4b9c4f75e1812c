"""Query runs by their states, reasons and times."""

from datetime import datetime

from dcron.model import Run, RunState, Task
from tests.support.stage import Stage


def states(stage: Stage, task: Task) -> list[RunState]:
    """Return the states of the task's runs, the oldest first."""
    return [run.state for run in stage.runs(task.id)]


def times(stage: Stage, task: Task, *of: RunState) -> list[str]:
    """Return the occurrences of the task's runs in these states, as clock times."""
    return [clock_time(run.scheduled_for) for run in stage.runs(task.id, *of)]


def clock_time(time: datetime) -> str:
    """Return the time of day as `stage.at` takes it."""
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"


def reasons(stage: Stage, task: Task) -> list[str]:
    """Return the reasons of the task's skipped runs."""
    return [str(run.reason) for run in stage.runs(task.id, RunState.SKIPPED)]


def held_back(stage: Stage, task: Task | None = None) -> list[Run]:
    """Return the blocked runs of this task, or of all."""
    return [run for run in stage.runs(task.id if task else None, RunState.WAITING) if run.blocked]


def find(stage: Stage, run_id: int) -> Run:
    """Return the run as it is now."""
    return stage.crontab.find_run(run_id)
