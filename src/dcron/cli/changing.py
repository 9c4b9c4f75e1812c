"""`set`, `rm`, `pause` and `resume`: lines that stand in the crontab."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab
from dcron.cli.parameters import Db, Force, Json, Name, takes
from dcron.cli.task_options import BY_NAME, CLEARABLE, TaskOptions, cleared, require_one_wish
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
    target: Name,
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
            help=f"Back to the default: {', '.join(CLEARABLE)}, env.NAME, need.NAME, limit.NAME.",
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Change a task: only what is given.

    -e, --need and --limit add a value or replace the one of that name; the others stay. --require replaces
    all tags.

    \b
    dcron set backup --schedule '0 4 * * *' --timeout 2h
    dcron set backup -e LEVEL=9 --clear env.DEBUG --clear timeout
    dcron set backup --name backup-full
    """
    with opened_crontab(db) as crontab:
        task = crontab.get(target)
        changed = cleared(clear or [], task)
        given = options.values(task.timezone if options.tz is None else options.tz)
        require_one_wish(clear or [], given)
        changed |= _added(given, replace(task, **changed))
        if schedule is not None:
            changed["schedule"] = schedule
        if command is not None:
            changed |= {"command": command, "argv": None}
        if not changed and not clear:
            raise UsageError("nothing to change: give at least one option, such as --schedule '0 4 * * *'")
        _tell(crontab, crontab.edit(task, changed), before=task, as_json=as_json)


def rm(name: Name, force: Force = False, db: Db = None) -> None:
    """Remove a task. Its past runs stay on record; what runs now runs on."""
    with opened_crontab(db) as crontab:
        task = crontab.get(name)
        printing.require_consent(f"remove {task.name} ({task.schedule}, {task.command})", force=force)
        crontab.remove(task)
        printing.data(f"removed  {task.name}")


def pause(
    name: Name,
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
    """Let a task start nothing until it is resumed. What runs now runs on."""
    from dcron.schedule import parse_time, zone
    from dcron.telling import words

    with opened_crontab(db) as crontab:
        task = crontab.get(name)
        end = parse_time(until, zone(task.timezone), crontab.now()) if until else None
        paused = crontab.pause(task, reason, end)
        told = f" until {words.full(end.astimezone(zone(task.timezone)))}" if end else ""
        if as_json:
            _print_json(crontab, paused)
        else:
            printing.data(f"paused   {paused.name}{told}")


def resume(name: Name, as_json: Json = False, db: Db = None) -> None:
    """End a task's pause. What was due meanwhile is recorded as skipped."""
    with opened_crontab(db) as crontab:
        resumed = crontab.resume(crontab.get(name))
        if as_json:
            _print_json(crontab, resumed)
        else:
            _print_facts("resumed", resumed, crontab)


def _added(given: dict[str, Any], task: "Task") -> dict[str, Any]:
    """The fields that were given; values that have names, on top of those that the task has."""
    named = {field: {**getattr(task, field), **given[field]} for field in BY_NAME if field in given}
    return given | named


def _tell(crontab: "Crontab", task: "Task", *, before: "Task", as_json: bool) -> None:
    from dcron.cli import cautions

    if as_json:
        _print_json(crontab, task)
    elif task.version == before.version:
        printing.data(f"unchanged  {task.name}")
    else:
        _print_facts("changed", task, crontab)
    if any(getattr(task, field) != getattr(before, field) for field in _TELLING):
        now = crontab.now()
        cautions.print_warnings(task, now)
        cautions.print_crowd(crontab, crontab.view(task.name), now)
    if any(getattr(task, field) != getattr(before, field) for field in _ROUTES):
        cautions.print_unserved(crontab, crontab.view(task.name))


def _print_facts(done: str, task: "Task", crontab: "Crontab") -> None:
    from dcron.cli.tables import print_facts
    from dcron.telling import asked as policies
    from dcron.telling import forecast

    planned = crontab.view(task.name).next_run_at
    following = forecast.next_runs(task, crontab.now(), planned=planned) if task.enabled else "paused"
    facts = [("when", forecast.explanation(task)), ("next", following), ("with", policies.lines(task))]
    print_facts([(done, task.name), *facts])


def _print_json(crontab: "Crontab", task: "Task") -> None:
    from dcron.cli import shapes

    printing.emit(shapes.task_shape(crontab.view(task.name), crontab.now()))
