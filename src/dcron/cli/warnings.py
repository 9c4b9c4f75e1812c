"""What `add`, `set` and `preview` say of a schedule on stderr: doubts, and what the clocks do to it."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.model import Definition, Trigger

if TYPE_CHECKING:
    from dcron.schedule import ClockTransition, Rules
    from dcron.services.crontab import Crontab
    from dcron.services.task_rows import TaskRow

COUNTED = 100
"""Tasks that start in one minute; whether there are more makes no difference."""


def print_warnings(line: Definition, now: datetime, rules: "Rules | None" = None) -> None:
    """Say what is probably not meant, and what the next clock changes do."""
    from dcron.presentation import next_runs
    from dcron.schedule.dst_notes import is_steady

    warnings = next_runs.warnings(line, now, rules)
    print_doubts(warnings)
    said = [message for _, message in warnings]
    changes = [] if is_steady(next_runs.schedule_of(line)) else next_runs.clock_changes(line, now, rules)
    print_clock_changes(each for each in changes if not any(each.text in message for message in said))


def print_doubts(warnings: Iterable[tuple[str, str]]) -> None:
    """Say what is probably not meant: codes and messages."""
    for code, message in warnings:
        console.complain(f"warning: {message} [{code}]")


def print_homelessness(line: Definition) -> None:
    """Say so where the account of the command has no home directory to run it in."""
    from dcron.cli.import_source import homelessness

    if line.user and line.cwd is None and (warning := homelessness(line.user)):
        console.complain(f"warning: {warning}")


def print_crowd(crontab: "Crontab", view: "TaskRow", now: datetime) -> None:
    """Say so where the task's next turn falls in a minute in which many others start."""
    from dcron.presentation import next_runs

    turn = view.next_run
    if turn is None or turn.trigger is not Trigger.SCHEDULE or view.task.once:
        return
    minute = turn.due_at.replace(second=0, microsecond=0)
    others = crontab.due_in_minute(minute, COUNTED)
    print_doubts(next_runs.crowd(view.task, others, minute, now, more=len(others) == COUNTED))


def print_unserved(crontab: "Crontab", view: "TaskRow") -> None:
    """Say so where agents run, and none of them can take the task's next run."""
    if view.unserved and view.task.enabled and not why_idle(crontab):
        print_doubts([("unserved", f"none takes its next run: {view.unserved}")])


def print_clock_changes(changes: "Iterable[ClockTransition]") -> None:
    """Say what clock changes do to the schedule, also where they lie far off."""
    for change in changes:
        console.note(f"clock change {change.local:%a %Y-%m-%d}: {change.text}")


def why_idle(crontab: "Crontab") -> str | None:
    """Why nobody takes any run at all; None when somebody may."""
    from dcron import policy
    from dcron.services.fleet import Fleet

    living = Fleet(crontab).living()
    until = "one of them is started again" if living else "one does (`dcron agent`)"
    nobody = policy.idle(living)
    return f"{nobody}: nothing starts until {until}" if nobody else None


def mention_idleness(crontab: "Crontab") -> None:
    """Say so where nobody takes what was made."""
    if told := why_idle(crontab):
        console.note(told)
