"""What can be done to tasks and runs from the screen: asked about first where it destroys something."""

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dcron.errors import NotFound
from dcron.model import Run, RunState, Task
from dcron.presentation.humanize import plural
from dcron.services.crontab import Crontab
from dcron.tui.acting import Act

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp

NAMES_SHOWN = 8
TYPED_FROM = 6
"""From so many tasks on, deleting asks for their number to be typed."""


def on_task(task: Task, verb: str, words: Sequence[str], do: Callable[[Crontab, Task], str]) -> Act:
    """An act on a line as it was read, which can be repeated on the line as it is then."""

    def afresh(crontab: Crontab) -> str:
        line = crontab.tasks_by_id([task.id]).get(task.id)
        if line is None:
            raise NotFound(f"{task.name} was removed meanwhile")
        return do(crontab, line)

    command = shlex.join(["dcron", verb, task.name, *words])
    return Act(f"{verb} {task.name}", command, lambda crontab: do(crontab, task), afresh, task)


def run_now(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Make a run of each that is due now."""

    def do(crontab: Crontab, task: Task) -> str:
        return f"run {crontab.run(task).id} of {task.name} is due"

    def go(yes: bool | None = True) -> None:
        if yes:
            app.act([on_task(task, "run", [], do) for task in tasks])

    if not app.may_act(tasks):
        return
    if len(tasks) == 1:
        go()
    else:
        app.confirm(f"run {plural(len(tasks), 'task')} now", _names(tasks), go)


def pause_or_resume(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Pause those that are not paused, with a reason; when all of them are, resume them."""
    act = pause if any(task.enabled for task in tasks) else resume
    act(app, tasks)


def resume(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """End the pauses of these."""
    if app.may_act(tasks):
        app.act([_resume(task) for task in tasks])


def pause(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Pause those that are not paused yet, with a reason."""
    if not app.may_act(tasks):
        return
    enabled = [task for task in tasks if task.enabled]
    if not enabled:
        app.tell(
            f"{tasks[0].name} is paused already" if len(tasks) == 1 else "all of them are paused already"
        )
        return

    from dcron.tui.forms.pausing import ask_to_pause

    ask_to_pause(app, enabled)


def delete(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Take the lines out. Always asks; for many, or one that would still run, more than a key."""
    if not app.may_act(tasks):
        return

    def do(crontab: Crontab, task: Task) -> str:
        crontab.remove(task)
        return f"removed {task.name}"

    def go(yes: bool | None) -> None:
        if yes:
            app.act([on_task(task, "rm", ["--force"], do) for task in tasks])

    many = len(tasks) >= TYPED_FROM
    what = tasks[0].name if len(tasks) == 1 else plural(len(tasks), "task")
    details = [*_names(tasks), "past runs stay on record; what runs now runs on"]
    if not many:
        app.confirm(f"delete {what}", details, go)
        return
    number = str(len(tasks))
    app.ask_for(
        f"delete {what}?\n" + "\n".join(details),
        lambda typed: go(typed == number),
        hint=f"type {number} and Enter to delete them",
        must_be=number,
    )


def cancel(app: "DcronApp", runs: Sequence[Run]) -> None:
    """End waiting runs, and have live ones stopped. Always asks."""
    if not app.may_act(runs):
        return
    over = [run for run in runs if run.state.is_final]
    if over:
        app.tell(f"run {over[0].id} of {over[0].task} is over: {over[0].state.value}")
        return
    what = f"run {runs[0].id} of {runs[0].task}" if len(runs) == 1 else plural(len(runs), "run")

    def go(yes: bool | None) -> None:
        if yes:
            app.act([_cancel(run) for run in runs])

    app.confirm(f"cancel {what}", [_where(run) for run in runs[:NAMES_SHOWN]], go)


def _resume(task: Task) -> Act:
    def do(crontab: Crontab, line: Task) -> str:
        crontab.resume(line)
        return f"resumed {line.name}"

    return on_task(task, "resume", [], do)


def _cancel(run: Run) -> Act:
    def do(crontab: Crontab) -> str:
        cancelled = crontab.cancel(run.id)
        if cancelled.state.is_final:
            return f"cancelled run {run.id} of {run.task}"
        return f"{cancelled.node} has been asked to stop run {run.id} of {run.task}"

    return Act(f"cancel run {run.id}", f"dcron cancel {run.id} --force", do)


def _where(run: Run) -> str:
    if run.state is RunState.RUNNING:
        return f"run {run.id} of {run.task} runs on {run.node}"
    return f"run {run.id} of {run.task}: {run.state.value}"


def _names(tasks: Sequence[Task]) -> list[str]:
    if len(tasks) == 1:
        return [f"{tasks[0].schedule}  {tasks[0].command}"]
    shown = [task.name for task in tasks[:NAMES_SHOWN]]
    more = len(tasks) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown
