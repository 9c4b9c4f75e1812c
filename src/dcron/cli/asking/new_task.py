"""Make a task from command-line options and report it: for `add` and `at`."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from dcron import config, presentation, services
from dcron.cli.asking import warnings
from dcron.cli.asking.task_options import TaskOptions, command_text, with_tries
from dcron.cli.output import console, json_output
from dcron.cli.output.tables import print_facts
from dcron.fields import OPTIONS
from dcron.model import Definition
from dcron.schedule.zones import zone

_LONG_OPTIONS = "|".join(field.option for field in OPTIONS)
_OPTION_OF_ADD = re.compile(rf"(?:--(?:{_LONG_OPTIONS}|json|db)(?:=.*)?|-[nz])", re.DOTALL)


def chosen_zone(
    additions: "services.additions.Additions", options: TaskOptions
) -> "services.settings.ChosenZone":
    """Return the zone given by --tz, else that of new tasks. Raises ZoneError."""
    if options["timezone"] is None:
        return additions.new_task_zone(config.files.load_config().timezone)
    return services.settings.ChosenZone(zone(options["timezone"]).key, "as asked for")


def add_one_off(
    additions: "services.additions.Additions",
    at: datetime,
    command: Sequence[str],
    options: TaskOptions,
    chosen: "services.settings.ChosenZone",
    *,
    now: datetime,
    as_json: bool,
) -> None:
    """Add and report a task that runs once: at an instant in UTC, or at a local time of the zone.

    It runs even if this time passes while it is being added.
    """
    if at.microsecond:  # a schedule has whole seconds; never run early
        at = at.replace(microsecond=0) + timedelta(seconds=1)
    # A local time stays one: the report then says what daylight saving does to it.
    utc = "" if at.tzinfo is None else "Z"
    definition = new_definition(f"@at {at:%Y-%m-%dT%H:%M:%S}{utc}", command, options, chosen)
    agree_to_add(definition)
    added = additions.add(definition, once=True, numbered=options["name"] is None, since=now)
    report_added(added, options, chosen, as_json=as_json)


def new_definition(
    schedule: str, command: Sequence[str], options: TaskOptions, chosen: "services.settings.ChosenZone"
) -> Definition:
    """Return the task that the options describe. Raises UsageError."""
    from dcron.crontabfile.names import default_name

    text, argv = command_text(command)
    given = with_tries(options.values(chosen.name))
    if options["name"] is None:
        given["name"] = default_name(text)
    return Definition(
        **{**given, "schedule": schedule, "timezone": chosen.name, "command": text, "argv": argv}
    )


def agree_to_add(definition: Definition) -> None:
    """Ask in a protected context. Raises Refused."""
    what = f"add {definition.name} ({definition.schedule}, {definition.command})"
    console.agree(what, asks=False)


def report_added(
    added: "services.additions.Addition",
    options: TaskOptions,
    chosen: "services.settings.ChosenZone",
    *,
    as_json: bool,
) -> None:
    """Print the new task, and warnings about it."""
    row, now = added.row, added.now
    if as_json:
        console.emit(json_output.task_shape(row, now))
    else:
        print_facts(_facts(row, options, chosen, now))
    warnings.print_warnings(row.task, now)
    warnings.print_place_warnings(row.task)
    warnings.print_kept(row.task)
    warnings.print_shell_words(row.task.argv or ())
    warnings.print_crowd(row, added.same_minute, now)
    warnings.print_unserved(row, added.fleet)
    warnings.print_unsendable(row.task.notify, added.fleet)
    warnings.print_idle(added.fleet)


def _facts(
    view: "services.tasks.rows.TaskRow",
    options: TaskOptions,
    chosen: "services.settings.ChosenZone",
    now: datetime,
) -> Iterator[tuple[str, str | list[str] | None]]:
    task = view.task
    yield "added", task.name
    yield "when", presentation.next_runs.explanation(task)
    count = 1 if task.once else 3
    yield (
        "next",
        presentation.next_runs.next_runs(
            task, now, count, planned=view.next_run_at, settled_until=view.settled_until(now)
        ),
    )
    if options["timezone"] is None:
        hint = "" if chosen.is_shared else "; `dcron config set timezone ZONE` sets one for all users"
        yield "zone", f"{chosen.name}, {chosen.origin}{hint}"
    yield "command", presentation.next_runs.command_line(task)
    yield "with", presentation.policies.lines(task)
    if options["on_lost"] == "retry" and options["tries"] is None:
        yield "tries", f"{task.tries}: a lost attempt counts; --tries N sets another number"


def warn_of_late_options(behind_command: Sequence[str]) -> None:
    """Warn of an option of dcron after the command, such as `add '0 9 * * *' backup --timeout 5m`."""
    late = next((word for word in behind_command if _OPTION_OF_ADD.fullmatch(word)), None)
    if late is not None:
        console.complain(
            f"warning: {late} follows the command, so it is passed to the command;"
            " write options for dcron before the command"
        )
