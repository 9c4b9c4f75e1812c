"""`set`, `rm`, `pause` and `resume`: lines that stand in the crontab."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Force, Json, WholeNames, takes
from dcron.cli.task_options import TaskOptions, added, clear_help, cleared, require_one_wish
from dcron.errors import UsageError
from dcron.model import TIMES_FIELDS

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.services.crontab import Crontab

_ROUTES = ("user", "queue", "require", "need")
"""What decides which agents can take its runs."""
_TELLING = ("name", *TIMES_FIELDS, "except_calendar", "only_calendar")
"""What advice depends on."""


@takes(TaskOptions)
def set_(
    targets: WholeNames,
    options: TaskOptions,
    schedule: Annotated[
        str | None, typer.Option("--schedule", metavar="SCHEDULE", help="When it runs.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="LINE", help="What it runs, as a shell line.")
    ] = None,
    clear: Annotated[
        list[str] | None,
        typer.Option(
            "--clear",
            metavar="OPTION",
            help=clear_help(),
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Change tasks: only what is given.

    -e, --need and --limit add a value or replace the one of that name; the others stay. --require replaces
    all tags.

    \b
    dcron set backup --schedule '0 4 * * *' --timeout 2h
    dcron set backup -e LEVEL=9 --clear env.DEBUG --clear timeout
    dcron set backup --name backup-full
    """
    with opened_crontab(db) as crontab:
        tasks = all_to_change(crontab, "set", targets)
        if options["name"] is not None and len(tasks) > 1:
            raise UsageError("--name: give one task, for a name belongs to one")
        given: dict[str, Any] = {}
        if schedule is not None:
            given["schedule"] = schedule
        if command is not None:
            given |= {"command": command, "argv": None}
        edits = [(task, _changed(task, given, options, clear or [])) for task in tasks]
        if not clear and not any(changed for _, changed in edits):
            raise UsageError("nothing to change: give at least one option, such as --schedule '0 4 * * *'")
        changed = crontab.edit_all(edits)
        if as_json:
            _print_json(crontab, changed)
        for before, after in zip(tasks, changed, strict=True):
            _tell(crontab, after, before=before, as_json=as_json)


def _changed(
    task: "Task", given: dict[str, Any], options: TaskOptions, clear: Sequence[str]
) -> dict[str, Any]:
    """The fields of this task that were given or cleared; times are in its zone, or in that it gets."""
    changed = cleared(clear, task)
    timezone = task.timezone if options["timezone"] is None else options["timezone"]
    given = given | options.values(timezone)
    require_one_wish(clear, given)
    return changed | added(given, replace(task, **changed))


def rm(names: WholeNames, force: Force = False, db: Db = None) -> None:
    """Remove tasks. Their past runs stay on record; what runs now runs on.

    It is done wholly or not at all.
    """
    from dcron.presentation.humanize import plural

    with opened_crontab(db) as crontab:
        found = all_to_change(crontab, "remove", names, force=force, asks=True)
        if len(found) == 1:
            (task,) = found
            what = f"{task.name} ({task.schedule}, {task.command})"
        else:
            what = f"{plural(len(found), 'task')}: {', '.join(task.name for task in found)}"
        console.require_consent(f"remove {what}", force=force)
        crontab.remove(*found)
        for task in found:
            console.data(f"removed  {task.name}")


def pause(
    names: WholeNames,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End the pause by itself then: 'tomorrow 09:00', +2h…"),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the others.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Let tasks start nothing until they are resumed. What runs now runs on."""
    from dcron.presentation import humanize
    from dcron.schedule import parse_time, zone

    with opened_crontab(db) as crontab:
        found = all_to_change(crontab, "pause", names)
        now = crontab.now()
        ends = [parse_time(until, zone(task.timezone), now) if until else None for task in found]
        paused = crontab.pause_all(list(zip(found, ends, strict=True)), reason)
        if as_json:
            _print_json(crontab, paused)
            return
        for task, end in zip(paused, ends, strict=True):
            told = f" until {humanize.full(end.astimezone(zone(task.timezone)))}" if end else ""
            console.data(f"paused   {task.name}{told}")


def resume(names: WholeNames, as_json: Json = False, db: Db = None) -> None:
    """End the pauses of tasks. What was due meanwhile is recorded as skipped."""
    with opened_crontab(db) as crontab:
        resumed = crontab.resume_all(all_to_change(crontab, "resume", names))
        if as_json:
            _print_json(crontab, resumed)
            return
        for task in resumed:
            _print_facts("resumed", task, crontab)


def _tell(crontab: "Crontab", task: "Task", *, before: "Task", as_json: bool) -> None:
    from dcron.cli import warnings

    if not as_json:
        if task.version == before.version:
            console.data(f"unchanged  {task.name}")
        else:
            _print_facts("changed", task, crontab)
    if any(getattr(task, field) != getattr(before, field) for field in _TELLING):
        now = crontab.now()
        warnings.print_warnings(task, now)
        warnings.print_crowd(crontab, crontab.view(task.name), now)
    if any(getattr(task, field) != getattr(before, field) for field in _ROUTES):
        warnings.print_unserved(crontab, crontab.view(task.name))


def _print_facts(done: str, task: "Task", crontab: "Crontab") -> None:
    from dcron.cli.tables import print_facts
    from dcron.presentation import next_runs
    from dcron.presentation import policies as policies

    planned = crontab.view(task.name).next_run_at
    following = next_runs.next_runs(task, crontab.now(), planned=planned) if task.enabled else "paused"
    facts = [("when", next_runs.explanation(task)), ("next", following), ("with", policies.lines(task))]
    print_facts([(done, task.name), *facts])


def _print_json(crontab: "Crontab", changed: "Sequence[Task]") -> None:
    from dcron.cli import json_output

    now = crontab.now()
    console.emit_one_or_list([json_output.task_shape(crontab.view(task.name), now) for task in changed])
