"""`add`, `at` and `in`: new lines of the crontab."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone, opened_crontab
from dcron.cli.idleness import mention_idleness
from dcron.cli.options import Db, Json, Words, takes
from dcron.cli.task_options import TaskOptions, command_text, with_tries
from dcron.errors import ScheduleError, UsageError
from dcron.fields import OPTIONS

if TYPE_CHECKING:
    from dcron.model import Definition, Task
    from dcron.services.crontab import Crontab, TaskView
    from dcron.services.settings import ChosenZone

Schedule = Annotated[
    str,
    typer.Argument(metavar="SCHEDULE", help="When: '30 2 * * *', @daily, '@every 90s'…", show_default=False),
]
When = Annotated[
    str,
    typer.Argument(metavar="WHEN", help="'2027-01-01 09:00', 09:00, 'tomorrow 09:00'…", show_default=False),
]
Span = Annotated[str, typer.Argument(metavar="DURATION", help="90s, 5m, 1h30m, 2d…", show_default=False)]

_FIELD = re.compile(r"[\d*,/-]+")
_LONG_OPTIONS = "|".join(field.option for field in OPTIONS)
_OF_ADD = re.compile(rf"(?:--(?:{_LONG_OPTIONS}|json|db)(?:=.*)?|-[nz])", re.DOTALL)


@takes(TaskOptions)
def add(
    schedule: Schedule, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None
) -> None:
    """Add a task.

    Prints its name, its schedule in words, and the next three runs.

    \b
    dcron add '*/15 * * * *' 'df -h / | mail -s disk ops'
    dcron add -n backup -z Europe/Berlin '30 2 * * *' /usr/local/bin/backup --full
    dcron add --timeout 5m '@every 90s' ./poll
    dcron add --except holidays '0 9 * * mon-fri' ./report
    """
    with opened_crontab(db) as crontab:
        chosen = _zone(crontab, options)
        line = _definition(schedule, command, options, chosen)
        try:
            task = crontab.add(line, numbered=options["name"] is None)
        except ScheduleError as error:
            raise ScheduleError(f"{error}{_quotes_forgotten(schedule, command)}") from None
        _tell(crontab, task, options, chosen, as_json=as_json)
    _warn_of_late_options(command)


@takes(TaskOptions)
def at(when: When, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None) -> None:
    """Run a command once, at a time.

    The task leaves the crontab when its run has succeeded.

    \b
    dcron at 'tomorrow 03:00' /usr/local/bin/reindex --all
    dcron at -z America/New_York '2027-01-01 09:00' 'echo happy new year'
    """
    from dcron.schedule import parse_local_time, resolve, zone

    with opened_crontab(db) as crontab:
        chosen = _zone(crontab, options)
        here = zone(chosen.name)
        now = crontab.now()
        moment = parse_local_time(when, here, now)
        instant = resolve(moment, here)
        if instant <= now:
            raise UsageError(f"{when!r} has passed: it was {instant:%Y-%m-%dT%H:%M:%SZ}; give a time to come")
        _add_once(crontab, moment, command, options, chosen, as_json=as_json)


@takes(TaskOptions)
def in_(duration: Span, command: Words, options: TaskOptions, as_json: Json = False, db: Db = None) -> None:
    """Run a command once, after so long.

    \b
    dcron in 1h 'systemctl restart worker'
    """
    from dcron.schedule import parse_duration

    seconds = parse_duration(duration)
    if seconds <= 0:
        raise UsageError(f"{duration} is no time at all; give a longer one")
    with opened_crontab(db) as crontab:
        moment = crontab.now() + timedelta(seconds=seconds)
        _add_once(crontab, moment, command, options, _zone(crontab, options), as_json=as_json)


def _quotes_forgotten(schedule: str, command: Sequence[str]) -> str:
    """The shell takes `*/5 * * * * cmd` apart, and puts file names for the stars."""
    is_field = _FIELD.fullmatch(schedule) is not None
    return "; put the schedule in quotes" if is_field and len(command) > 4 else ""


def _zone(crontab: "Crontab", options: TaskOptions) -> "ChosenZone":
    """The zone that was asked for, else that of new tasks. Raises ZoneError."""
    from dcron.schedule import zone
    from dcron.services.settings import ChosenZone

    if options["timezone"] is None:
        return new_task_zone(crontab)
    return ChosenZone(zone(options["timezone"]).key, "as asked for")


def _add_once(
    crontab: "Crontab",
    moment: datetime,
    command: Sequence[str],
    options: TaskOptions,
    chosen: "ChosenZone",
    *,
    as_json: bool,
) -> None:
    if moment.microsecond:  # a schedule has whole seconds; never early
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    # A time on the zone's clock stays one: then it is told what daylight saving does to it.
    zulu = "" if moment.tzinfo is None else "Z"
    line = _definition(f"@at {moment:%Y-%m-%dT%H:%M:%S}{zulu}", command, options, chosen)
    task = crontab.add(line, once=True, numbered=options["name"] is None)
    _tell(crontab, task, options, chosen, as_json=as_json)
    _warn_of_late_options(command)


def _definition(
    schedule: str, command: Sequence[str], options: TaskOptions, chosen: "ChosenZone"
) -> "Definition":
    from dcron.crontabfile.names import default_name
    from dcron.model import Definition

    text, argv = command_text(command)
    given = with_tries(options.values(chosen.name))
    if options["name"] is None:
        given["name"] = default_name(text)
    return Definition(
        **{**given, "schedule": schedule, "timezone": chosen.name, "command": text, "argv": argv}
    )


def _tell(
    crontab: "Crontab", task: "Task", options: TaskOptions, chosen: "ChosenZone", *, as_json: bool
) -> None:
    from dcron.cli import json_output, warnings
    from dcron.cli.tables import print_facts

    now = crontab.now()
    view = crontab.view(task.name)
    if as_json:
        console.emit(json_output.task_shape(view, now))
    else:
        print_facts(_understood(view, options, chosen, now))
    warnings.print_warnings(task, now)
    warnings.print_homelessness(task)
    warnings.print_crowd(crontab, view, now)
    warnings.print_unserved(crontab, view)
    mention_idleness(crontab)


def _understood(
    view: "TaskView", options: TaskOptions, chosen: "ChosenZone", now: datetime
) -> Iterator[tuple[str, str | list[str] | None]]:
    from dcron.presentation import next_runs
    from dcron.presentation import policies as policies

    task = view.task
    yield "added", task.name
    yield "when", next_runs.explanation(task)
    count = 1 if task.once else 3
    yield "next", next_runs.next_runs(task, now, count, planned=view.next_run_at)
    if options["timezone"] is None:
        hint = "" if chosen.is_shared else "; `dcron config set timezone ZONE` sets one for all"
        yield "zone", f"{chosen.name}, {chosen.origin}{hint}"
    yield "command", next_runs.command_line(task)
    yield "with", policies.lines(task)
    if options["on_lost"] == "retry" and options["tries"] is None:
        yield "tries", f"{task.tries}, for a lost attempt counts as one; --tries N for another number"


def _warn_of_late_options(command: Sequence[str]) -> None:
    """`add '0 9 * * *' backup --timeout 5m` gives backup an option that was meant for dcron."""
    late = next((word for word in command[1:] if _OF_ADD.fullmatch(word)), None)
    if len(command) > 1 and late is not None:
        console.complain(
            f"warning: {late} stands after the command, so the command gets it;"
            " options for dcron stand before the command"
        )
