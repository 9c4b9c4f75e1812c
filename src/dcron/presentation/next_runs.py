"""What a schedule will do, in words: for every face of dcron. Needs no database."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition, Task
from dcron.policy import rules_of
from dcron.policy import schedule_of as policy_schedule_of
from dcron.policy.start_times import TaskStart, starts_of, until_ran
from dcron.presentation import humanize
from dcron.presentation.humanize import Struck
from dcron.schedule import (
    ClockTransition,
    Occurrence,
    Rules,
    Schedule,
    advise,
    advise_minute,
    explain,
    runs_often,
    upcoming,
    zone,
)
from dcron.schedule import clock_transitions as schedule_clock_changes

SKIPPED_SHOWN = 2
"""Skipped turns in a row that `add` and `view` show; `preview` shows more."""
_TELLING = (*TIMES_FIELDS, "except_calendar", "only_calendar")
"""What the next runs depend on, and advice."""
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


def starts(
    line: Definition,
    after: datetime,
    rules: Rules | None = None,
    *,
    count: int,
    until: datetime | None = None,
) -> Iterator[TaskStart]:
    """The same turns in the order in which they start, jitter considered."""
    return until_ran(starts_of(line, after, until, rules), count)


def next_runs(
    line: Definition,
    now: datetime,
    count: int = 3,
    *,
    planned: datetime | None = None,
    rules: Rules | None = None,
) -> list[str] | None:
    """The next turns, one a line, or what has to happen first; None where nothing can be told.

    `planned` is when the run of a line that does not follow the clock is due, if one waits.
    """
    try:
        if schedule_of(line).timed:
            return list(_few_skipped(starts(line, now, rules, count=count), now)) or None
        if planned:
            return [f"{humanize.full(planned.astimezone(zone(line.timezone)))}   {_distance(planned, now)}"]
        return [explanation(line)]
    except UsageError:
        return None


def times_differ(before: Definition | None, after: Definition) -> bool:
    """Whether what was said of the line's times is another than before."""
    return any(getattr(before, field, None) != getattr(after, field) for field in _TELLING)


def moved_runs(
    before: Definition | None, after: Definition, now: datetime, rules: Rules | None = None
) -> Iterator[tuple[str, str | list[str] | None]]:
    """When the line ran next, and when it will, name by name; nothing where an edit moves no run.

    `rules` are those of the line as it will be, where it does not bring its calendars along.
    """
    following = next_runs(after, now, rules=rules)
    earlier = before and next_runs(before, now)
    if earlier == following and not times_differ(before, after):
        return  # a new name alone moves only what is spread by it
    yield "when", explanation(after)
    if isinstance(after, Task) and not after.enabled:
        yield "paused", "it stays so; what follows is when it would run"
    if before and earlier != following:
        yield "before", earlier or explanation(before)
        yield "after", following
    else:
        yield "next", following


def _few_skipped(found: Iterable[TaskStart], now: datetime) -> Iterator[str]:
    """The lines of the turns; of those that are skipped in a row, the first ones."""
    skipped = 0
    for each in found:
        skipped = skipped + 1 if each.occurrence.reason else 0
        if skipped <= SKIPPED_SHOWN:
            yield from occurrence_lines([each], now)
        elif skipped == SKIPPED_SHOWN + 1:
            yield "    and so on"


def occurrence_lines(found: Iterable[TaskStart], now: datetime, *, utc: bool = False) -> Iterator[str]:
    """Each turn in local time, in UTC if wanted, and when it starts; below, what a clock change does.

    One that will be skipped is struck through.
    """
    for start in found:
        each = start.occurrence
        local = humanize.full(each.local)
        if utc and each.local.tzname() != "UTC":
            local = f"{local:<{LOCAL_CELLS}}   {each.at:%Y-%m-%d %H:%M:%S}Z"
        moved = moved_by_jitter(start)
        told = f"{local}   {f'{moved}, ' if moved else ''}{_distance(start.at, now)}"
        yield Struck(told) if each.reason else told
        for remark in (each.note, each.reason and f"skipped: {each.reason}"):
            if remark:
                yield f"    {remark}"


def moved_by_jitter(start: TaskStart) -> str:
    """`starts 05:49:55 by its jitter`, with the date where that is another; nothing for nothing."""
    turn, local = start.occurrence, start.at.astimezone(start.occurrence.local.tzinfo)
    if start.at == turn.at:
        return ""
    date = "" if local.date() == turn.local.date() else f"{local:%Y-%m-%d} "
    return f"starts {date}{local:%H:%M:%S} by its jitter"


def _distance(moment: datetime, now: datetime) -> str:
    return f"in {humanize.left(moment, now)}" if moment >= now else humanize.ago(moment, now)


def pause(task: Task, here: tzinfo) -> str:
    """Who paused the task, until when, and why."""
    by = f" by {task.paused_by}" if task.paused_by else ""
    until = f" until {humanize.full(task.paused_until.astimezone(here))}" if task.paused_until else ""
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


def crowd(
    line: Task, others: Sequence[Task], minute: datetime, now: datetime, *, more: bool = False
) -> list[tuple[str, str]]:
    """The warning, if any, that the line starts in one minute with these others, and with `more` yet."""
    together = [line, *(other for other in others if other.id != line.id)]
    names = [each.name for each in together if not _runs_often(each, now)]
    found = advise_minute(minute, names, more=more) if line.name in names else []
    return [(each.code, each.message) for each in found]


def _runs_often(line: Definition, now: datetime) -> bool:
    try:
        return runs_often(schedule_of(line), zone(line.timezone), now)
    except UsageError:  # nobody can say, so it is not counted
        return True


def clock_changes(line: Definition, after: datetime, rules: Rules | None = None) -> list[ClockTransition]:
    """What the clock changes that come next do to the schedule, also where they lie far off."""
    return schedule_clock_changes(schedule_of(line), zone(line.timezone), after, rules or rules_of(line))
