"""Warnings that verbs print on stderr: about schedules, accounts and missing agents."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dcron import policy, presentation, services
from dcron.cli.asking.import_source import doubts_about, missing_home
from dcron.cli.output import console
from dcron.cli.running.context import own_zone
from dcron.model import Definition, Node, Run, Task
from dcron.presentation import humanize
from dcron.presentation.emphasis import Notable
from dcron.schedule.zones import zone

if TYPE_CHECKING:
    from dcron.schedule.next_run import ClockTransition

KEEP_WITHOUT_TIMEOUT = "keep-without-timeout"
NAMES_SHOWN = 5
"""Names within a sentence."""


def print_warnings(task: Definition, now: datetime) -> None:
    """Print warnings about a schedule, and the effects of the next clock changes."""
    from dcron.schedule.dst_notes import is_steady

    warnings = presentation.next_runs.warnings(task, now)
    print_doubts(warnings)
    messages = [message for _, message in warnings]
    changes = (
        []
        if is_steady(policy.starting.occurrences.schedule_of(task))
        else presentation.next_runs.clock_changes(task, now)
    )
    print_clock_changes(each for each in changes if not any(each.text in message for message in messages))


def print_doubts(warnings: Iterable[tuple[str, str]]) -> None:
    """Print warnings: codes and messages."""
    for code, message in warnings:
        _print_doubt(code, message)


def _print_doubt(code: str, message: str) -> None:
    console.complain(f"warning: {message} [{code}]")


def print_place_warnings(task: Definition) -> None:
    """Print warnings about the account of the command, and about a program that has no place of its own."""
    if task.user and (doubt := doubts_about(task.user)) and not (task.cwd and missing_home(task.user)):
        _print_doubt("account", doubt)
    program = (task.argv or tuple(task.command.split(maxsplit=1)))[0]
    if program.startswith(("./", "../")) and task.cwd is None:
        _print_doubt(
            "relative-path",
            f"{program} is looked for in the home directory of the account, on the node that runs it;"
            " write its whole path, or name a directory with --cwd",
        )


_SHELL = re.compile(r"[0-9]*(?:>>?|<)(?:&[0-9])?|\|\|?|&&?|;|2>&1|[0-9]?>.+")
"""Words that mean something to a shell only."""


def print_shell_words(argv: Sequence[str]) -> None:
    """Print a warning about words of a command that only a shell understands: none runs it."""
    line = " ".join(argv)
    if len(argv) < 2:
        return
    if found := next((word for word in argv[1:] if _SHELL.fullmatch(word)), None):
        message = f"{found!r} is passed to {argv[0]} as a word; for a shell put the line in quotes: '{line}'"
    elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", argv[0]):
        message = f"{argv[0]!r} is run as a program; a variable is given with -e {argv[0]}"
    elif argv[0] in ("cd", "export", "source", ".", "set", "if", "for", "while"):
        message = f"{argv[0]!r} is a word of the shell, not a program; put the line in quotes: '{line}'"
        if argv[0] == "cd":
            message += ", or use --cwd"
    else:
        return
    _print_doubt("shell-word", message)


def print_crowd(view: "services.tasks.rows.TaskRow", same_minute: Sequence[Task], now: datetime) -> None:
    """Print a warning if many tasks start in the minute of the task's next scheduled run."""
    if view.next_run and same_minute:
        minute = view.next_run.due_at.replace(second=0, microsecond=0)
        more = len(same_minute) == services.tasks.tasks.COUNTED
        print_doubts(presentation.next_runs.crowd(view.task, same_minute, minute, now, more=more))


def print_owned(changed: Iterable[Task]) -> None:
    """Print a note about tasks that a source owns: the change belongs there, too."""
    by_source: dict[str, list[str]] = {}
    for task in changed:
        if policy.ownership.is_owned(task):
            by_source.setdefault(task.source or "", []).append(task.name)
    for source, names in by_source.items():
        belongs = "belongs" if len(names) == 1 else "belong"
        named = humanize.first_few(names, NAMES_SHOWN)
        console.note(f"{named} {belongs} to {source}: change it there, too")


def print_unheard(crontab: "services.crontab.Crontab", left: Sequence[Run]) -> None:
    """Print the unheard runs that removed tasks leave: a new task of the same name does not wait for them."""
    for run in left[:NAMES_SHOWN]:
        since = humanize.not_heard_of(run, zone(own_zone()), crontab.now())
        message = (
            f"run {run.id} of {run.task} on {run.owner} is left, {since}: its command may still run, a new"
            f" task of this name does not wait for it; dcron cancel {run.id} --lost gives it up"
        )
        _print_doubt("unheard", message)
    if len(left) > NAMES_SHOWN:
        console.note(f"{len(left) - NAMES_SHOWN:,} more runs are left that are not heard of")


def print_kept(task: Definition) -> None:
    """Print a warning about a command that outlives the database without a timeout."""
    if doubt := policy.starting.disconnect.endless(task):
        _print_doubt(KEEP_WITHOUT_TIMEOUT, doubt)


def print_unserved(view: "services.tasks.rows.TaskRow", fleet: Sequence[Node]) -> None:
    """Print a warning if agents are running, but none can claim the task's next run."""
    if view.unserved and view.task.enabled and not why_idle(fleet):
        _print_doubt("unserved", f"no agent can claim its next run: {view.unserved}")


def print_unsendable(channels: Iterable[str], fleet: Sequence[Node]) -> None:
    """Print a warning if agents are running, but none can send by one of these channels."""
    if fleet and (missing := policy.channels.unsendable(channels, fleet)):
        advice = policy.channels.advice(missing)
        _print_doubt("no-channel", f"no running agent can send to {', '.join(missing)}: {advice}")


def print_clock_changes(changes: "Iterable[ClockTransition]") -> None:
    """Print the effects of clock changes on the schedule."""
    for change in changes:
        console.note(Notable(f"clock change {change.local:%a %Y-%m-%d}: {change.text}"))


def why_idle(fleet: Sequence[Node]) -> str | None:
    """Return why none of the living nodes claims any run, or None if one does."""
    until = "one of them is restarted" if fleet else "one does (`dcron agent`)"
    cause = policy.starting.lanes.idle(fleet)
    return f"{cause}: nothing starts until {until}" if cause else None


def living_nodes(crontab: "services.crontab.Crontab") -> list[Node]:
    """Return the living nodes of the crontab."""
    return services.fleet.Fleet(crontab).living()


def print_idle_agents(crontab: "services.crontab.Crontab") -> None:
    """Print why no agent claims new runs, if none does."""
    print_idle(living_nodes(crontab))


def print_idle(fleet: Sequence[Node]) -> None:
    """Print why none of the living nodes claims new runs, if none does."""
    if cause := why_idle(fleet):
        console.note(cause)


def print_frozen(crontab: "services.crontab.Crontab") -> None:
    """Print who froze the crontab, until when and why, if it is frozen."""
    if freeze := services.freezes.Freezes(crontab).active():
        said = presentation.freezes.sentence(freeze, zone(own_zone()), crontab.now())
        console.note(f"{said}; nothing starts by itself until `dcron thaw {freeze.id}`")
