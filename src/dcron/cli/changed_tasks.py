"""Print changed tasks, for `set`, `pause` and `resume`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcron.cli import console

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.services.crontab import Crontab


def print_changed(done: str, task: "Task", crontab: "Crontab") -> None:
    """Print what was done to a task, its schedule and its next runs."""
    from dcron.cli.tables import print_facts
    from dcron.presentation import next_runs
    from dcron.presentation import policies as policies

    row, now = crontab.view(task.name), crontab.now()
    following = next_runs.next_runs(task, now, planned=row.next_run_at, settled_until=row.settled_until(now))
    facts = [
        ("when", next_runs.explanation(task)),
        ("next", following if task.enabled else "paused"),
        ("with", policies.lines(task)),
    ]
    print_facts([(done, task.name), *facts])


def print_json(crontab: "Crontab", changed: "Sequence[Task]") -> None:
    """Print the tasks as JSON: one as an object, several as an array."""
    from dcron.cli import json_output

    now = crontab.now()
    console.emit_one_or_list([json_output.task_shape(crontab.view(task.name), now) for task in changed])
