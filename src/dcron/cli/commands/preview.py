"""`preview`: the next times of a schedule, and effects of clock changes. An expression needs no database."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from dcron import policy, presentation, services
from dcron.cli.asking.options import At, Db, Json, SelectorOption, argument, flag, option, takes, whole_number
from dcron.cli.asking.task_options import RuleOptions
from dcron.cli.asking.which import read_selector, selected
from dcron.cli.output import agenda, console, documents, json_output
from dcron.cli.output.colours import Title
from dcron.cli.output.progress import watched
from dcron.cli.output.tables import print_facts, shown_line
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.cli.running.past_crontab import read_past
from dcron.errors import NotFound, ScheduleError, UsageError
from dcron.model import Definition, Task
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone

if TYPE_CHECKING:
    from dcron.schedule.next_run import ClockTransition
    from dcron.schedule.rules import Rules

DEFAULT_COUNT = 10
MOST = 100_000
"""Most occurrences of one preview; `* * * * * *` until next year would have 31 million."""
MOST_OF_ALL = 1_000_000
"""Most occurrences with --all; they are printed as they are computed."""
_HASHED = (
    "no-name",
    "H and ~ depend on the task's name, so a task runs at other times than these; "
    "`dcron preview NAME` and `dcron add` show them",
)


@takes(RuleOptions)
def command(
    options: RuleOptions,
    what: Annotated[str | None, argument("SCHEDULE|NAME", "Schedule in quotes, or name of a task.")] = None,
    selector: SelectorOption = None,
    every: Annotated[bool, flag("--all", "Show all tasks in one list.")] = False,
    tz: Annotated[
        str | None, option("-z", "--tz", "ZONE", "Time zone [default: the task's, else your own].")
    ] = None,
    begin: Annotated[
        str | None, option("--from", "TIME", "First time: '2027-03-27', tomorrow, +2d [default: now].")
    ] = None,
    count: Annotated[
        int | None,
        option(
            "-n",
            "--count",
            "N",
            "Number of times to show [default: 10, or all until --until].",
            parser=whole_number(1, MOST),
        ),
    ] = None,
    until: Annotated[str | None, option("--until", "TIME", "Last time.")] = None,
    at: At = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show when a schedule runs, as the agents compute it.

    \b
    dcron preview '30 2 * * *' -z Europe/Berlin --from 2027-03-27 -n 3
    dcron preview backup --fold both
    dcron preview --all --until tomorrow
    dcron preview --all -l team=shop
    """
    chooser = read_selector(selector, what)
    if chooser and not every:
        raise UsageError("-l chooses among all tasks; add --all")
    if every == (what is not None):
        raise UsageError("give a schedule, the name of a task, or --all")
    if at and every:
        raise UsageError("--at shows one task as it was; leave out --all")
    window = Window(begin, until, count)
    if what is not None:
        subject = _subject(what, tz, options, at, db)
        (_print_json if as_json else _print)(subject, window)
    elif not options.is_empty:
        raise UsageError("--all shows the tasks unchanged; give other rules only with a schedule or a name")
    else:
        _preview_all(tz, window, db, chooser, as_json=as_json)


class Window:
    """Which occurrences to show: from when, until when, and how many."""

    def __init__(self, begin: str | None, until: str | None, count: int | None) -> None:
        self._begin, self._until, self._count = begin, until, count
        self.now = datetime.now(UTC)

    def bounds(self, timezone: str, most: int = MOST) -> tuple[datetime, datetime | None, int]:
        """Return the time before the first, the last time, and the most occurrences. Raises UsageError."""
        here = zone(timezone)
        begin = parse_time(self._begin, here, self.now) if self._begin else None
        until = parse_time(self._until, here, begin or self.now) if self._until else None
        if until and until <= (begin or self.now):
            raise UsageError(f"--until {self._until!r} is not after the first time")
        # An occurrence exactly at --from counts; one right now is past.
        after = begin - timedelta(microseconds=1) if begin else self.now
        return after, until, self._count or (most if until else DEFAULT_COUNT)


@dataclass(frozen=True)
class Subject:
    """A task, or a schedule without one, with the rules to apply."""

    task: Definition
    rules: "Rules"
    frozen: FrozenTime | None = None
    """When the crontab is frozen; None for a schedule without a task."""
    settled_until: datetime | None = None
    """The time up to which the task's occurrences do not start any more; None if that is not known."""

    def remarks(self) -> list[tuple[str, str]]:
        """Return codes and messages of what else decides when it runs."""
        from dcron.schedule.parser import is_hashed

        task = self.task
        if not isinstance(task, Task):
            return [_HASHED] if is_hashed(policy.starting.occurrences.schedule_of(task)) else []
        remarks = []
        if not task.enabled:
            here = zone(own_zone())
            until = "until then" if task.paused_until else "until `dcron resume`"
            remarks.append(
                (
                    "paused",
                    f"{task.name} is {presentation.next_runs.pause(task, here)}; {until} it does not run",
                )
            )
        if task.error:
            remarks.append(("suspended", f"{task.name} is suspended: {task.error}"))
        return remarks


def _subject(what: str, tz: str | None, options: RuleOptions, at: str | None, db: str | None) -> Subject:
    """Return the schedule as a task without a name, or the task of this name."""
    from dcron.schedule.parser import parse

    try:
        parse(what)
    except ScheduleError as error:
        return _task(what, tz, options, at, db, error)
    if at:
        raise UsageError("--at is for a task: a schedule does not change")
    timezone = own_zone() if tz is None else zone(tz).key
    task = Definition(name="", schedule=what, timezone=timezone, command="")
    task = replace(task, **options.values(timezone))
    if task.except_calendar is None and task.only_calendar is None:
        return _checked(task, {})
    with opened_crontab(db) as crontab:
        return _checked(task, _calendars(crontab, task))


def _task(
    name: str, tz: str | None, options: RuleOptions, at: str | None, db: str | None, error: ScheduleError
) -> Subject:
    from dcron.fields.name_rules import NAME

    if not NAME.fullmatch(name):
        raise error
    from dcron.schedule.meant import hint

    with opened_crontab(db) as crontab:
        try:
            if at:
                task, settled_until = read_past(crontab, at).find(name), None
            else:
                row = crontab.view(name)
                task, settled_until = row.task, row.settled_until(crontab.now())
        except NotFound:
            if known := hint(name):
                raise UsageError(f"{name!r} is neither a task nor a schedule{known}") from None
            raise NotFound(f"{name!r} is neither a task nor a schedule ({error})") from None
        asked = options.values(task.timezone if tz is None else tz)
        if tz is not None:
            asked["timezone"] = zone(tz).key
        task = replace(task, **asked)
        other = {"except_calendar", "only_calendar"} & asked.keys()
        subject = _checked(task, _calendars(crontab, task) if other else {})
        frozen = None if at else services.freezes.Freezes(crontab).frozen_time()
        return replace(subject, settled_until=settled_until, frozen=frozen)


def _calendars(crontab: "services.crontab.Crontab", task: Definition) -> dict[str, Any]:
    """Return the calendars that the task names, as fields of its rules. Raises NotFound."""
    known = services.calendars.Calendars(crontab)
    return {
        field: (known.read(name),) if name else ()
        for field, name in (("except_on", task.except_calendar), ("only_on", task.only_calendar))
    }


def _checked(task: Definition, calendars: dict[str, Any]) -> Subject:
    if task.not_before and task.not_after and task.not_after < task.not_before:
        raise UsageError("not-after: it is before not-before, so nothing would run")
    return Subject(task, replace(policy.starting.occurrences.rules_of(task), **calendars))


def _print_json(subject: Subject, window: Window) -> None:
    task = subject.task
    after, until, count = window.bounds(task.timezone)
    found = list(islice(_starts(subject, after, until, count, window), MOST))
    warnings = [*subject.remarks(), *presentation.next_runs.warnings(task, window.now, subject.rules)]
    changes = [
        documents.make("clock-change", change, local=change.local.isoformat())
        for change in _clock_changes(task, after, subject.rules, found)
    ]
    explained = presentation.next_runs.explanation(task)
    shape = json_output.preview_shape(
        task.schedule, task.timezone, explained, warnings, clock_changes=changes
    )
    console.emit_streaming(shape, "occurrences", map(json_output.occurrence_shape, found))


def _starts(
    subject: Subject, after: datetime, until: datetime | None, count: int, window: Window
) -> "Iterator[policy.forecast.start_times.TaskStart]":
    # In the past all occurrences are shown, whatever became of them.
    settled_until = subject.settled_until if after >= window.now else None
    return presentation.next_runs.starts(
        subject.task,
        after,
        subject.rules,
        count=count,
        until=until,
        settled_until=settled_until,
        frozen=subject.frozen or NEVER,
    )


def _clock_changes(
    task: Definition,
    after: datetime,
    rules: "Rules",
    found: "Sequence[policy.forecast.start_times.TaskStart]",
) -> "list[ClockTransition]":
    """Return the clock changes that the notes of these occurrences do not mention."""
    from dcron.schedule.next_run import clock_transitions

    shown = [start.occurrence for start in found]
    return clock_transitions(
        policy.starting.occurrences.schedule_of(task), zone(task.timezone), after, rules, shown=shown
    )


def _print(subject: Subject, window: Window) -> None:
    from dcron.cli.asking import warnings

    task = subject.task
    after, until, count = window.bounds(task.timezone)
    found = islice(_starts(subject, after, until, count, window), MOST)
    print_facts(
        [
            ("schedule", task.schedule),
            ("when", presentation.next_runs.explanation(task)),
            ("zone", task.timezone),
        ]
    )
    shown = _print_starts(
        found, subject.frozen, window.now, has_next=after <= window.now, has_end=until is not None
    )
    if not shown:
        console.note("no runs" + (" in this window" if until else "") + _why_none(task))
    if len(shown) == MOST or (until and len(shown) == count):
        console.note(f"there are more than {len(shown):,} until then; the rest is left out")
    for _, message in subject.remarks():
        console.complain(f"warning: {message}")
    warnings.print_clock_changes(_clock_changes(task, after, subject.rules, shown))
    warnings.print_doubts(presentation.next_runs.warnings(task, window.now, subject.rules))


def _print_starts(
    found: "Iterable[policy.forecast.start_times.TaskStart]",
    frozen: FrozenTime | None,
    now: datetime,
    *,
    has_next: bool,
    has_end: bool,
) -> "list[policy.forecast.start_times.TaskStart]":
    """Print the starts with their notes, and return them.

    With `has_next`, the first start from `now` on is bold. Of several frozen starts in a row, print only the
    first few and how many follow. Print that number only if the period `has_end`.
    """
    frozen = frozen or NEVER
    all_found: list[policy.forecast.start_times.TaskStart] = []
    for start in presentation.frozen_starts.fold_frozen(_noted(found, all_found), frozen):
        if isinstance(start, presentation.frozen_starts.FrozenRest):
            here = all_found[-1].occurrence.local.tzinfo
            console.data(f"      {start.number_text(counts=has_end)}, {start.until_text(here)}")
            continue
        time, *notes = presentation.next_runs.occurrence_lines([start], now, utc=True, frozen=frozen)
        if has_next and start.at >= now and not start.occurrence.reason:
            time, has_next = Title(time), False
        for text in (time, *notes):
            console.drawn(f"  {shown_line(text)}")
    return all_found


def _noted(
    found: "Iterable[policy.forecast.start_times.TaskStart]",
    noted: "list[policy.forecast.start_times.TaskStart]",
) -> "Iterator[policy.forecast.start_times.TaskStart]":
    """Yield the starts, and add them to `noted`."""
    for each in found:
        noted.append(each)
        yield each


def _why_none(task: Definition) -> str:
    return (
        ""
        if policy.starting.occurrences.schedule_of(task).timed
        else f": it runs {presentation.next_runs.explanation(task)}"
    )


def _preview_all(
    tz: str | None,
    window: Window,
    db: str | None,
    chooser: "policy.selectors.Selector | None",
    *,
    as_json: bool,
) -> None:
    timezone = own_zone() if tz is None else zone(tz).key
    after, until, count = window.bounds(timezone, MOST_OF_ALL)
    with opened_crontab(db) as crontab:
        found = selected(crontab, chooser) if chooser else watched(crontab.tasks(), "reading tasks")
        enabled = [task for task in found if task.enabled]
        planned = crontab.planned_occurrences([task.id for task in enabled if task.jitter])
        frozen = services.freezes.Freezes(crontab).frozen_time()
    planned = planned if after >= window.now else {}
    starts = agenda.starts(enabled, planned, after, until, count, MOST_OF_ALL, frozen)
    here = zone(timezone)
    if as_json:
        shown = agenda.print_json(starts, enabled, here, window.now)
    else:
        shown = agenda.print_agenda(starts, enabled, here, window.now, frozen, has_end=until is not None)
    if until and shown >= count:
        console.note(f"there are more than {shown:,} starts until then; the rest is left out")
