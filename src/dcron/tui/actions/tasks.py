"""Acts on tasks."""

from collections.abc import Callable, Sequence
from datetime import datetime

from dcron.errors import ScheduleError, UsageError
from dcron.model import Definition, Run, Task
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import groups_in_order
from dcron.policy.validation import require_text
from dcron.presentation import owned_tasks
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone
from dcron.services.crontab import Crontab
from dcron.tui.actions.subjects import MOST_LISTED, listed, subject
from dcron.tui.forms.dialogs import Question, fill
from dcron.tui.forms.fields import text_or_file
from dcron.tui.forms.screen import TaskForm
from dcron.tui.forms.text import TextEdit
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act, on_task

TYPED_FROM = 6
"""Number of tasks from which on deleting asks for this number to be typed."""


def new(host: Host) -> None:
    """Open the form of a new task."""
    if host.may_act([host]):
        draft = Definition(name="", schedule="", timezone=host.new_task_zone, command="")
        host.push_screen(TaskForm(draft, is_new=True))


def edit(host: Host, task: Task | None) -> None:
    """Open the form of a task as it is now."""
    if task and host.may_act([task]):
        name = task.name
        host.fetch(lambda board: board.crontab.get(name), lambda now: host.push_screen(TaskForm(now)))
    elif not task:
        host.may_act([])


def edit_as_text(host: Host, tasks: Sequence[Task]) -> None:
    """Open the person's editor on these tasks as text."""
    if host.may_act(tasks):
        TextEdit(host, [task.name for task in tasks]).begin()


def run_now(host: Host, tasks: Sequence[Task], group: str = "") -> None:
    """Make a run of each task that is due now; asks if there are several, or a group."""
    if not host.may_act(tasks):
        return

    def go() -> None:
        host.act([on_task(task, "run", [], Crontab.run, _is_due) for task in tasks])

    if len(tasks) == 1 and not group:
        go()
    else:
        host.confirm(f"run {_subject(tasks, group)} now", _names(tasks), go)


def run_with_payload(host: Host, task: Task | None) -> None:
    """Run a task now, with a payload for its command to read."""
    if not host.may_act([task] if task else []):
        return
    assert task

    def act(text: str) -> Act:
        return on_task(
            task, "run", ["--payload", text], lambda crontab, task: crontab.run(task, _payload(text)), _is_due
        )

    question = Question("payload", "TEXT, or @FILE: its stdin and $DCRON_PAYLOAD", _payload)
    fill(host, f"run {task.name} now with a payload", [question], lambda text: host.act([act(text)]))


def _is_due(run: Run) -> str:
    return f"run {run.id} of {run.task} is due"


def pause_or_resume(host: Host, tasks: Sequence[Task], group: str = "") -> None:
    """Pause the tasks that are not paused; if all of them are, resume them."""
    act = pause if any(task.enabled for task in tasks) else resume
    act(host, tasks, group)


def resume(host: Host, tasks: Sequence[Task], group: str = "") -> None:
    """Resume these tasks; asks if they are a group."""
    if not host.may_act(tasks):
        return

    def go() -> None:
        host.act([_simple(task, "resume", [], Crontab.resume, "resumed") for task in tasks])

    if group:
        host.confirm(f"resume {_subject(tasks, group)}", _names(tasks), go)
    else:
        go()


def pause(host: Host, tasks: Sequence[Task], group: str = "") -> None:
    """Ask for a reason and an end, and pause the tasks that are not paused yet."""
    if not host.may_act(tasks):
        return
    enabled = [task for task in tasks if task.enabled]
    if not enabled:
        which = f"{tasks[0].name} is" if len(tasks) == 1 else "all of them are"
        host.report(f"{which} paused already")
        return

    def check_end(text: str) -> None:
        for task in enabled:
            _pause_end(text, task, host.health.now())

    names = f"\n{', '.join(_names(enabled))}" if len(enabled) > 1 else ""
    questions = [
        Question("reason", "for the others; may be empty", lambda text: require_text("reason", text)),
        Question("until", "tomorrow 09:00, +2h; empty: until it is resumed", check_end),
    ]
    fill(
        host,
        f"pause {_subject(enabled, group)}: why?{names}",
        questions,
        lambda reason, until: host.act([_pause(task, reason.strip(), until.strip()) for task in enabled]),
    )


def delete(host: Host, tasks: Sequence[Task], group: str = "") -> None:
    """Remove tasks. Always asks; if there are many, their number must be typed."""
    if not host.may_act(tasks):
        return

    def go() -> None:
        host.act(
            [_simple(task, "rm", ["--force"], Crontab.remove, "removed") for task in _downstream_first(tasks)]
        )

    which = _subject(tasks, group)
    reminders = list(owned_tasks.reminders(tasks, "remove"))[:MOST_LISTED]
    details = [*_names(tasks), *reminders, "past runs are kept; running commands go on"]
    if len(tasks) < TYPED_FROM:
        host.confirm(f"delete {which}", details, go)
        return
    number = str(len(tasks))
    host.ask_for(
        f"delete {which}?\n" + "\n".join(details),
        lambda _: go(),
        hint=f"type {number} and Enter to delete them",
        must_be=number,
    )


def _downstream_first(tasks: Sequence[Task]) -> list[Task]:
    """Return each task before those that it waits for: no task is removed while another one waits for it."""
    by_name = {task.name: task for task in tasks}
    groups = groups_in_order({task.name: _upstream(task) for task in reversed(tasks)})
    return [by_name[name] for group in reversed(groups) for name in group]


def _upstream(task: Task) -> Sequence[str]:
    try:
        return occurrences.schedule_of(task).after
    except ScheduleError:  # nothing can wait by a schedule that cannot be read
        return ()


def _simple(
    task: Task, verb: str, words: Sequence[str], do: Callable[[Crontab, Task], object], done: str
) -> Act:
    """Return an act on a task that is reported as `done`: `removed backup`."""
    return on_task(task, verb, words, do, lambda _: f"{done} {task.name}")


def _pause(task: Task, reason: str, until: str) -> Act:
    def do(crontab: Crontab, task: Task) -> None:
        crontab.pause(task, reason or None, _pause_end(until, task, crontab.now()))

    words = [*(["--until", until] if until else []), *(["--reason", reason] if reason else [])]
    return _simple(task, "pause", words, do, "paused")


def _pause_end(text: str, task: Task, now: datetime) -> datetime | None:
    """Return the end of the pause, typed in the task's local time. Raises UsageError."""
    if not text.strip():
        return None
    end = parse_time(text, zone(task.timezone), now)
    if end <= now:
        raise UsageError(f"{end:%Y-%m-%dT%H:%M:%SZ} has passed; give a time in the future")
    return end


def _payload(text: str) -> str:
    payload = text_or_file(text, "payload")
    require_text("payload", payload)
    return payload


def _subject(tasks: Sequence[Task], group: str) -> str:
    """Return what a question is about: the name of the task, or the number of tasks, and their group."""
    which = subject([task.name for task in tasks], "task")
    return f"{which} of {group}" if group else which


def _names(tasks: Sequence[Task]) -> list[str]:
    if len(tasks) == 1:
        return [f"{tasks[0].schedule}  {tasks[0].command}"]
    return listed([task.name for task in tasks])
