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


def print_json(crontab: "Crontab", changed: "Sequence[Task]", *, as_list: bool = False) -> None:
    """Print the tasks as JSON: one as an object unless `as_list`, several as an array."""
    from dcron.cli import json_output

    now = crontab.now()
    shapes = (json_output.task_shape(row, now) for row in crontab.rows([task.id for task in changed]))
    if as_list:
        console.emit_list(shapes)
    else:
        console.emit_one_or_list(list(shapes))


def print_done(done: str, crontab: "Crontab", changed: "Sequence[Task]", *, as_json: bool) -> None:
    """Print what was done to tasks that a selector chose: a line each, or an array."""
    if as_json:
        print_json(crontab, changed, as_list=True)
        return
    for task in changed:
        console.data(f"{done}  {task.name}")
