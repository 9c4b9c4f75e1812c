"""What `add`, `set` and `preview` say of a schedule on stderr: doubts, and what the clocks do to it."""

from datetime import datetime
from typing import TYPE_CHECKING

from dcron.cli import printing
from dcron.model import Definition, Trigger
from dcron.schedule import Rules
from dcron.telling import forecast

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab, TaskView

COUNTED = 100
"""Tasks that start in one minute; whether there are more makes no difference."""


def print_warnings(line: Definition, now: datetime, rules: Rules | None = None) -> None:
    """Say what is probably not meant."""
    for code, message in forecast.warnings(line, now, rules):
        printing.complain(f"warning: {message} [{code}]")


def print_crowd(crontab: "Crontab", view: "TaskView", now: datetime) -> None:
    """Say so where the task's next turn falls in a minute in which many others start."""
    turn = view.next_run
    if turn is None or turn.trigger is not Trigger.SCHEDULE or view.task.once:
        return
    minute = turn.due_at.replace(second=0, microsecond=0)
    others = crontab.starting(minute, COUNTED)
    for code, message in forecast.crowd(view.task, others, minute, now, more=len(others) == COUNTED):
        printing.complain(f"warning: {message} [{code}]")


def print_clock_changes(line: Definition, after: datetime, rules: Rules | None = None) -> None:
    """Say what the clock changes that come next do to the schedule, also where they lie far off."""
    for change in forecast.clock_changes(line, after, rules):
        printing.note(f"clock change {change.local:%a %Y-%m-%d}: {change.text}")
