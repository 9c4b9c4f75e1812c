"""Describe the coming runs of a task in words, without a database."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS, Definition, Task
from dcron.policy.forecast.start_times import TaskStart, starts_of, until_ran
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.starting.occurrences import rules_of, schedule_of
from dcron.presentation import humanize
from dcron.presentation.emphasis import Notable, Past, Struck
from dcron.schedule.explain import explain
from dcron.schedule.lint import advise, advise_minute, runs_often
from dcron.schedule.next_run import ClockTransition
from dcron.schedule.next_run import clock_transitions as schedule_clock_changes
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone

SKIPPED_SHOWN = 2
"""Skipped occurrences in a row that `add` and `view` show; of frozen ones, also `preview`."""
_TIMES_DEPEND_ON = (*TIMES_FIELDS, "except_calendar", "only_calendar")
"""The fields that the coming runs, and the warnings about a schedule, depend on."""
LOCAL_CELLS = len("Sun 2026-11-22 02:30:00 CEST +01:00")


def explanation(task: Definition) -> str:
    """Return the schedule in words, with its zone; or why it cannot be read."""
    try:
        return explain(schedule_of(task), zone(task.timezone))
    except UsageError as error:
        return f"cannot be read: {error}"


def starts(
    task: Definition,
    after: datetime,
    rules: Rules | None = None,
    *,
    count: int,
    until: datetime | None = None,
    settled_until: datetime | None = None,
    frozen: FrozenTime = NEVER,
) -> Iterator[TaskStart]:
    """Return the occurrences in the order of their starts, with jitter, as `starts_of` does."""
    found = starts_of(task, after, until, rules, settled_until=settled_until, frozen=frozen)
    return until_ran(found, count)


def next_runs(
    task: Definition,
    now: datetime,
    count: int = 3,
    *,
    planned: datetime | None = None,
    rules: Rules | None = None,
    settled_until: datetime | None = None,
) -> list[str] | None:
    """Return the next occurrences as lines, or else what starts the task; None if it cannot be computed.

    `planned` is when the waiting run of a task without times of its own is due. Occurrences up to
    `settled_until` do not start any more.
    """
    try:
        if schedule_of(task).timed:
            found = starts(task, now, rules, count=count, settled_until=settled_until)
            return list(_few_skipped(found, now)) or None
        if planned:
            return [f"{humanize.full(planned.astimezone(zone(task.timezone)))}   {_distance(planned, now)}"]
        return [explanation(task)]
    except UsageError:
        return None


def times_differ(before: Definition | None, after: Definition) -> bool:
    """Return whether a field differs that the coming runs depend on."""
    return any(getattr(before, field, None) != getattr(after, field) for field in _TIMES_DEPEND_ON)


def moved_runs(
    before: Definition | None, after: Definition, now: datetime, rules: Rules | None = None
) -> Iterator[tuple[str, str | list[str] | None]]:
    """Yield labels and texts: when the task ran before an edit and when it runs now. Nothing if no run moves.

    `rules` are those of `after`, if its calendars were not read with it.
    """
    is_new = times_differ(before, after)
    following = next_runs(after, now, rules=rules, settled_until=now if is_new else None)
    earlier = before and next_runs(before, now)
    if earlier == following and not is_new:
        return  # a new name alone matters only to schedules that depend on it
    yield "when", explanation(after)
    if isinstance(after, Task) and not after.enabled:
        yield "paused", "it stays paused; the times below are when it would run"
    if before and earlier != following:
        yield "before", earlier or explanation(before)
        yield "after", following
    else:
        yield "next", following


def _few_skipped(found: Iterable[TaskStart], now: datetime) -> Iterator[str]:
    """Yield the lines of occurrences; of several skipped ones in a row only the first."""
    skipped = 0
    for each in found:
        skipped = skipped + 1 if each.occurrence.reason else 0
        if skipped <= SKIPPED_SHOWN:
            yield from occurrence_lines([each], now)
        elif skipped == SKIPPED_SHOWN + 1:
            yield "    and so on"


def occurrence_lines(
    found: Iterable[TaskStart], now: datetime, *, utc: bool = False, frozen: FrozenTime = NEVER
) -> Iterator[str]:
    """Yield each occurrence in local time, with `utc` also in UTC, and its start; then its notes.

    A skipped occurrence is `Struck`. Any other occurrence that starts before `now` is `Past`. A note about a
    clock change, or about a start in `frozen` time, is `Notable`.
    """
    for start in found:
        each = start.occurrence
        local = humanize.full(each.local)
        if utc and each.local.tzname() != "UTC":
            local = f"{local:<{LOCAL_CELLS}}   {each.at:%Y-%m-%d %H:%M:%S}Z"
        moved = moved_by_jitter(start)
        text = f"{local}   {f'{moved}, ' if moved else ''}{_distance(start.at, now)}"
        yield Struck(text) if each.reason else Past(text) if start.at < now else text
        if each.note:
            yield Notable(f"    {each.note}")
        if each.reason:
            skipped = f"    skipped: {each.reason}"
            yield Notable(skipped) if each.reason == frozen.reason_at(start.at) else skipped


def short_lines(found: Iterable[TaskStart], now: datetime) -> Iterator[str]:
    """Yield each occurrence in local time, without a zone that all have in common; then its notes."""
    found = list(found)
    has_change = len({start.occurrence.local.tzname() for start in found}) > 1
    for start in found:
        each = start.occurrence
        form = "%a %Y-%m-%d %H:%M" + (":%S" if each.local.second else "") + (" %Z" if has_change else "")
        yield f"{each.local:{form}}  {_distance(start.at, now)}"
        for remark in (moved_by_jitter(start), each.note, each.reason and f"skipped: {each.reason}"):
            if remark:
                yield f"  {remark}"


def moved_by_jitter(start: TaskStart) -> str:
    """Return `starts 05:49:55 by its jitter`, with the date if it differs; empty without jitter."""
    occurrence, local = start.occurrence, start.at.astimezone(start.occurrence.local.tzinfo)
    if start.at == occurrence.at:
        return ""
    date = "" if local.date() == occurrence.local.date() else f"{local:%Y-%m-%d} "
    return f"starts {date}{local:%H:%M:%S} by its jitter"


def _distance(at: datetime, now: datetime) -> str:
    return f"in {humanize.left(at, now)}" if at >= now else humanize.ago(at, now)


def pause(task: Task, here: tzinfo) -> str:
    """Return that the task is paused: by whom, until when, and why."""
    by = f" by {task.paused_by}" if task.paused_by else ""
    until = f" until {humanize.full(task.paused_until.astimezone(here))}" if task.paused_until else ""
    return f"paused{by}{until}" + (f": {task.paused_reason}" if task.paused_reason else "")


def command_line(task: Definition) -> str:
    """Return the command, and how it is executed."""
    if task.argv:
        return f"{task.command}   ({len(task.argv)} words, no shell)"
    return f"{task.command}   (shell line, {task.shell})"


def warnings(task: Definition, now: datetime, rules: Rules | None = None) -> list[tuple[str, str]]:
    """Return codes and messages about a valid schedule that is probably a mistake."""
    found = advise(schedule_of(task), zone(task.timezone), now, rules or rules_of(task))
    return [(each.code, each.message) for each in found]


def crowd(
    task: Task, others: Sequence[Task], minute: datetime, now: datetime, *, more: bool = False
) -> list[tuple[str, str]]:
    """Return the warning, if any, that these tasks start in one minute; with `more`, others do, too."""
    together = [task, *(other for other in others if other.id != task.id)]
    names = [each.name for each in together if not _runs_often(each, now)]
    found = advise_minute(minute, names, more=more) if task.name in names else []
    return [(each.code, each.message) for each in found]


def _runs_often(task: Definition, now: datetime) -> bool:
    try:
        return runs_often(schedule_of(task), zone(task.timezone), now)
    except UsageError:  # it cannot be counted
        return True


def clock_changes(task: Definition, after: datetime, rules: Rules | None = None) -> list[ClockTransition]:
    """Return the effects of the next clock changes on the schedule, however far away."""
    return schedule_clock_changes(schedule_of(task), zone(task.timezone), after, rules or rules_of(task))
