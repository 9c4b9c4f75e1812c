"""What tests of the policies look at: runs by their states, reasons and times."""

from datetime import datetime

from dcron.model import Run, RunState, Task
from tests.support.stage import Stage


def states(stage: Stage, task: Task) -> list[RunState]:
    """The states of the line's runs, the oldest first."""
    return [run.state for run in stage.runs(task.id)]


def times(stage: Stage, task: Task, *of: RunState) -> list[str]:
    """The occurrences for which the line has runs in these states, as clock times."""
    return [clock_time(run.scheduled_for) for run in stage.runs(task.id, *of)]


def clock_time(moment: datetime) -> str:
    """A time of the day on which tests play, as `stage.at` takes it."""
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def reasons(stage: Stage, task: Task) -> list[str]:
    """Why the line's skipped runs were skipped."""
    return [str(run.reason) for run in stage.runs(task.id, RunState.SKIPPED)]


def held_back(stage: Stage, task: Task | None = None) -> list[Run]:
    """The runs that are kept waiting, of this line or of all."""
    return [run for run in stage.runs(task.id if task else None, RunState.WAITING) if run.blocked]


def find(stage: Stage, run_id: int) -> Run:
    """The run as it is now."""
    return stage.crontab.find_run(run_id)
