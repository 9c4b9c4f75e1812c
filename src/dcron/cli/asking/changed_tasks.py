"""Print changed tasks, for `set`, `pause` and `resume`."""

from collections.abc import Sequence

from dcron import presentation, services
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


def print_json(
    crontab: "services.crontab.Crontab", changed: Sequence[Task], *, as_list: bool = False
) -> None:
    """Print the tasks as JSON: one as an object unless `as_list`, several as an array."""
    shapes = task_shapes(crontab, changed)
    if as_list:
        console.emit_list(shapes)
    else:
        console.emit_one_or_list(shapes)


def print_removed(
    removed: Sequence[Task], shapes: Sequence[Document] | None, *, as_list: bool = False
) -> None:
    """Print the removed tasks: those of `shapes`, which they had before, or a line each."""
    if shapes is None:
        for task in removed:
            console.data(f"removed  {task.name}")
        return
    names = {task.name for task in removed}
    gone = [each for each in shapes if each["name"] in names]
    (console.emit_list if as_list else console.emit_one_or_list)(gone)


def print_done(
    done: str, crontab: "services.crontab.Crontab", changed: Sequence[Task], *, as_json: bool
) -> None:
    """Print what was done to tasks that a selector chose: a line each, or an array."""
    if as_json:
        print_json(crontab, changed, as_list=True)
        return
    for task in changed:
        console.data(f"{done}  {task.name}")
