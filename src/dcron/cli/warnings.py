"""Warnings that verbs print on stderr: about schedules, accounts and missing agents."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import own_zone
from dcron.model import Definition, Node, Task
from dcron.presentation.emphasis import Notable

if TYPE_CHECKING:
    from dcron.schedule import ClockTransition, Rules
    from dcron.services.crontab import Crontab
    from dcron.services.task_rows import TaskRow

NAMES_SHOWN = 5
"""Names within a sentence."""


def print_warnings(task: Definition, now: datetime, rules: "Rules | None" = None) -> None:
    """Print warnings about a schedule, and the effects of the next clock changes."""
    from dcron.presentation import next_runs
    from dcron.schedule.dst_notes import is_steady

    warnings = next_runs.warnings(task, now, rules)
    print_doubts(warnings)
    messages = [message for _, message in warnings]
    changes = [] if is_steady(next_runs.schedule_of(task)) else next_runs.clock_changes(task, now, rules)
    print_clock_changes(each for each in changes if not any(each.text in message for message in messages))


def print_doubts(warnings: Iterable[tuple[str, str]]) -> None:
    """Print warnings: codes and messages."""
    for code, message in warnings:
        console.complain(f"warning: {message} [{code}]")


def print_missing_home(task: Definition) -> None:
    """Print a warning if the account of the command has no home directory."""
    from dcron.cli.import_source import missing_home

    if task.user and task.cwd is None and (warning := missing_home(task.user)):
        console.complain(f"warning: {warning}")


def print_crowd(view: "TaskRow", same_minute: Sequence[Task], now: datetime) -> None:
    """Print a warning if many tasks start in the minute of the task's next scheduled run."""
    from dcron.presentation import next_runs
    from dcron.services.tasks import COUNTED

    if view.next_run and same_minute:
        minute = view.next_run.due_at.replace(second=0, microsecond=0)
        more = len(same_minute) == COUNTED
        print_doubts(next_runs.crowd(view.task, same_minute, minute, now, more=more))


def print_owned(changed: Iterable[Task]) -> None:
    """Print a note about tasks that a source owns: the change belongs there, too."""
    from dcron.policy.ownership import is_owned
    from dcron.presentation.humanize import first_few

    by_source: dict[str, list[str]] = {}
    for task in changed:
        if is_owned(task):
            by_source.setdefault(task.source or "", []).append(task.name)
    for source, names in by_source.items():
        belongs = "belongs" if len(names) == 1 else "belong"
        named = first_few(names, NAMES_SHOWN)
        console.note(f"{named} {belongs} to {source}: change it there, too")


def print_unserved(view: "TaskRow", fleet: Sequence[Node]) -> None:
    """Print a warning if agents are running, but none can claim the task's next run."""
    if view.unserved and view.task.enabled and not why_idle(fleet):
        print_doubts([("unserved", f"no agent can claim its next run: {view.unserved}")])


def print_unsendable(channels: Iterable[str], fleet: Sequence[Node]) -> None:
    """Print a warning if agents are running, but none can send by one of these channels."""
    from dcron.policy.channels import advice, unsendable

    if fleet and (missing := unsendable(channels, fleet)):
        named = ", ".join(missing)
        print_doubts([("no-channel", f"no running agent can send to {named}: {advice(missing)}")])


def print_clock_changes(changes: "Iterable[ClockTransition]") -> None:
    """Print the effects of clock changes on the schedule."""
    for change in changes:
        console.note(Notable(f"clock change {change.local:%a %Y-%m-%d}: {change.text}"))


def why_idle(fleet: Sequence[Node]) -> str | None:
    """Return why none of the living nodes claims any run, or None if one does."""
    from dcron import policy

    until = "one of them is restarted" if fleet else "one does (`dcron agent`)"
    cause = policy.idle(fleet)
    return f"{cause}: nothing starts until {until}" if cause else None


def living_nodes(crontab: "Crontab") -> list[Node]:
    """Return the living nodes of the crontab."""
    from dcron.services.fleet import Fleet

    return Fleet(crontab).living()


def print_idle_agents(crontab: "Crontab") -> None:
    """Print why no agent claims new runs, if none does."""
    print_idle(living_nodes(crontab))


def print_idle(fleet: Sequence[Node]) -> None:
    """Print why none of the living nodes claims new runs, if none does."""
    if cause := why_idle(fleet):
        console.note(cause)


def print_frozen(crontab: "Crontab") -> None:
    """Print who froze the crontab, until when and why, if it is frozen."""
    from dcron.presentation.freezes import sentence
    from dcron.schedule import zone
    from dcron.services.freezes import Freezes

    if freeze := Freezes(crontab).active():
        said = sentence(freeze, zone(own_zone()), crontab.now())
        console.note(f"{said}; nothing starts by itself until `dcron thaw {freeze.id}`")
