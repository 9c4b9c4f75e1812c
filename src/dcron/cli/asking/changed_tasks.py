"""Print changed tasks, for `set`, `pause` and `resume`."""

from collections.abc import Sequence

from dcron import presentation, services
from dcron.cli.asking.which import Chosen
from dcron.cli.output import console, json_output
from dcron.cli.output.documents import Document
from dcron.cli.output.tables import print_facts
from dcron.model import Task


def print_changed(done: str, task: Task, crontab: "services.crontab.Crontab") -> None:
    """Print what was done to a task, its schedule and its next runs."""
    row, now = crontab.view(task.name), crontab.now()
    following = presentation.next_runs.next_runs(
        task, now, planned=row.next_run_at, settled_until=row.settled_until(now)
    )
    facts = [
        ("when", presentation.next_runs.explanation(task)),
        ("next", following if task.enabled else "paused"),
        ("with", presentation.policies.lines(task)),
    ]
    print_facts([(done, task.name), *facts])


def task_shapes(crontab: "services.crontab.Crontab", tasks: Sequence[Task]) -> list[Document]:
    """Return these tasks, with their runs of now, as JSON."""
    now = crontab.now()
    return [json_output.task_shape(row, now) for row in crontab.rows([task.id for task in tasks])]


def print_done(
    done: str, crontab: "services.crontab.Crontab", chosen: Chosen, changed: Sequence[Task], *, as_json: bool
) -> None:
    """Print what was done to tasks: in full where they were named, else a line each."""
    if as_json:
        console.emit_one_or_list(task_shapes(crontab, changed), as_list=chosen.is_list)
        return
    for task in changed:
        if chosen.selector:
            console.data(f"{done}  {task.name}")
        else:
            print_changed(done, task, crontab)
