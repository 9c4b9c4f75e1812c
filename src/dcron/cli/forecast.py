"""What a schedule will do, in words: shared by `add`, `set`, `view` and `preview`. Needs no database."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo

from dcron.cli import printing, words
from dcron.cli.tables import Struck
from dcron.errors import UsageError
from dcron.model import Definition, Task
from dcron.policy import rules_of
from dcron.policy import schedule_of as policy_schedule_of
from dcron.schedule import Occurrence, Rules, Schedule, advise, clock_changes, explain, upcoming, zone

SKIPPED_SHOWN = 2
"""Skipped turns in a row that `add` and `view` show; `preview` shows more."""
LOCAL_CELLS = len("Sun 2026-11-22 02:30:00 CEST +01:00")


def schedule_of(line: Definition) -> Schedule:
    """The line's schedule. Raises ScheduleError."""
    return policy_schedule_of(line.schedule, line.name)


def explanation(line: Definition) -> str:
    """The line's schedule in words, with its zone; or why it cannot be read any more."""
    try:
        return explain(schedule_of(line), zone(line.timezone))
    except UsageError as error:
        return f"cannot be read: {error}"


def coming(
    line: Definition,
    after: datetime,
    rules: Rules | None = None,
    *,
    count: int | None = None,
    until: datetime | None = None,
) -> Iterator[Occurrence]:
    """The line's occurrences as the agents will see them, window and calendars considered."""
    rules = rules or rules_of(line)
    return upcoming(schedule_of(line), zone(line.timezone), after, rules, count=count, until=until)


def next_runs(line: Definition, now: datetime, count: int = 3) -> list[str] | None:
    """The next turns, one a line; None for a line that does not follow the clock."""
    try:
        return list(_few_skipped(coming(line, now, count=count), now)) or None
    except UsageError:
        return None


def _few_skipped(found: Iterable[Occurrence], now: datetime) -> Iterator[str]:
    """The lines of the turns; of those that are skipped in a row, the first ones."""
    skipped = 0
    for each in found:
        skipped = skipped + 1 if each.reason else 0
        if skipped <= SKIPPED_SHOWN:
            yield from occurrence_lines([each], now)
        elif skipped == SKIPPED_SHOWN + 1:
            yield "    and so on"


def occurrence_lines(found: Iterable[Occurrence], now: datetime, *, utc: bool = False) -> Iterator[str]:
    """Each turn in local time, in UTC if wanted, and how far it is off; below, what a clock change does.

    One that will be skipped is struck through.
    """
    for each in found:
        local = words.full(each.local)
        if utc and each.local.tzname() != "UTC":
            local = f"{local:<{LOCAL_CELLS}}   {each.at:%Y-%m-%d %H:%M:%S}Z"
        told = f"{local}   {_distance(each.at, now)}"
        yield Struck(told) if each.reason else told
        for remark in (each.note, each.reason and f"skipped: {each.reason}"):
            if remark:
                yield f"    {remark}"


def _distance(moment: datetime, now: datetime) -> str:
    return f"in {words.left(moment, now)}" if moment >= now else words.ago(moment, now)


def pause(task: Task, here: tzinfo) -> str:
    """Who paused the task, until when, and why."""
    by = f" by {task.paused_by}" if task.paused_by else ""
    until = f" until {words.full(task.paused_until.astimezone(here))}" if task.paused_until else ""
    return f"paused{by}{until}" + (f": {task.paused_reason}" if task.paused_reason else "")


def command_line(line: Definition) -> str:
    """The command, and how it is executed."""
    if line.argv:
        return f"{line.command}   ({len(line.argv)} words, no shell)"
    return f"{line.command}   (shell line, {line.shell})"


def warnings(line: Definition, now: datetime, rules: Rules | None = None) -> list[tuple[str, str]]:
    """What is valid and probably not meant: codes and messages."""
    found = advise(schedule_of(line), zone(line.timezone), now, rules or rules_of(line))
    return [(each.code, each.message) for each in found]


def print_warnings(line: Definition, now: datetime, rules: Rules | None = None) -> None:
    """Say on stderr what is probably not meant."""
    for code, message in warnings(line, now, rules):
        printing.complain(f"warning: {message} [{code}]")


def print_clock_changes(line: Definition, after: datetime, rules: Rules | None = None) -> None:
    """Say what the clock changes that come next do to the schedule, also where they lie far off."""
    for change in clock_changes(schedule_of(line), zone(line.timezone), after, rules or rules_of(line)):
        printing.note(f"clock change {change.local:%a %Y-%m-%d}: {change.text}")
