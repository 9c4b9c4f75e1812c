"""`set`: change tasks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from dcron import services
from dcron.cli.asking import warnings, which
from dcron.cli.asking.changed_tasks import print_changed, print_done, task_shapes
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption, option, run_number, takes
from dcron.cli.asking.task_options import (
    ChangeOptions,
    TaskOptions,
    added,
    clearable,
    cleared,
    require_one_wish,
)
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.fields import FIELDS, Field
from dcron.model import COMMAND_FIELDS, TIMES_FIELDS, Task

_ROUTING = ("name", "queue", "require", "need", "labels", *COMMAND_FIELDS)
"""Fields that decide which agents can claim its runs, and accept them."""
_WARNED_ABOUT = ("name", *TIMES_FIELDS, "except_calendar", "only_calendar")
"""Fields that warnings depend on."""


@takes(ChangeOptions)
def command(
    targets: OptionalWholeNames = None,
    selector: SelectorOption = None,
    schedule: Annotated[str | None, option("--schedule", "SCHEDULE", "New schedule.", panel="When")] = None,
    command: Annotated[
        str | None, option("--command", "LINE", "New command, as a shell line.", panel="What")
    ] = None,
    from_run: Annotated[
        int | None,
        option(
            "--from-run",
            "RUN",
            "Take the command, and what belongs to it, from this run: what a trial ran.",
            parser=run_number,
            panel="What",
        ),
    ] = None,
    clear: Annotated[
        list[str] | None, option("--clear", "OPTION", "Back to its default: timeout, env.NAME.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
    *,
    options: TaskOptions,
) -> None:
    """Change options of tasks; `edit` opens them as text.

    \b
    dcron set backup --schedule '0 4 * * *' --timeout 2h
    dcron set backup -e LEVEL=9 --clear env.DEBUG --clear timeout
    dcron set -l team=shop --label tier=gold --queue shop

    -e, --label, --need and --limit add a value or replace the value of the same name. --require replaces all
    tags.
    """
    from dcron.schedule.parser import parse

    chooser = which.names_or_selector(targets, selector)
    options.require_valid()
    if schedule is not None:
        parse(schedule)
    with opened_crontab(db) as crontab:
        chosen = which.to_change(crontab, "set", targets, chooser, asks=console.consent.always_asks)
        tasks = chosen.tasks
        if options["name"] is not None and len(tasks) > 1:
            raise UsageError("--name: give one task; two tasks cannot have the same name")
        given: dict[str, Any] = {}
        if schedule is not None:
            given["schedule"] = schedule
        if command is not None:
            given |= {"command": command, "argv": None}
        tried = _tried(crontab, from_run, tasks) if from_run is not None else {}
        edits = [
            (
                task,
                _changed(
                    task, given, options, clearable(clear or [], task) if chooser else clear or [], tried
                ),
            )
            for task in tasks
        ]
        if not clear and from_run is None and not any(changed for _, changed in edits):
            raise UsageError("nothing to change: give at least one option, such as --schedule '0 4 * * *'")
        changes = [services.changes.changeset.edited(task, changed) for task, changed in edits]
        if chooser:
            changed = chosen.change(crontab, changes)
            print_done("changed", crontab, chosen, changed, as_json=as_json)
            warnings.print_owned(changed)
            chosen.report_left(crontab)
            return
        console.agree(_would(edits), asks=False)
        changed = chosen.change(crontab, changes)
        if as_json:
            console.emit_one_or_list(task_shapes(crontab, changed), as_list=chosen.is_list)
        for before, after in zip(tasks, changed, strict=True):
            _report(crontab, after, before=before, as_json=as_json)
        warnings.print_owned(after for before, after in zip(tasks, changed, strict=True) if before != after)


def _would(edits: Sequence[tuple[Task, dict[str, Any]]]) -> str:
    """Return what these edits change, as a question: `change backup: tries 1 -> 3`."""
    if len(edits) != 1:
        return f"change {which.named([task for task, _ in edits])}"
    ((task, changed),) = edits
    after = replace(task, **changed)
    values = [
        f"{field.title} {_shown(field, task)} -> {_shown(field, after)}"
        for name, field in FIELDS.items()
        if getattr(task, name) != getattr(after, name)
    ]
    return f"change {task.name}: {', '.join(values) or 'nothing'}"


def _shown(field: Field, task: Task) -> str:
    """Return the value of a field for people."""
    value = getattr(task, field.name)
    return field.kind.format(value, task.timezone) if value not in (None, (), {}) else "none"


def _tried(crontab: "services.crontab.Crontab", run_id: int, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the fields that decided what this run of the one task executed."""
    if len(tasks) > 1:
        raise UsageError("--from-run: give one task, the one that the run was of")
    return services.runs.trials.Trials(crontab).tried_fields(run_id, tasks[0])


def _changed(
    task: Task, given: dict[str, Any], options: TaskOptions, clear: Sequence[str], tried: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields that were tried, given or cleared. Times are in the task's zone, or its new one."""
    changed = tried | cleared(clear, replace(task, **tried))
    timezone = task.timezone if options["timezone"] is None else options["timezone"]
    given = given | options.values(timezone)
    require_one_wish(clear, given)
    return changed | added(given, replace(task, **changed))


def _report(crontab: "services.crontab.Crontab", task: Task, *, before: Task, as_json: bool) -> None:
    if not as_json:
        if task.version == before.version:
            console.data(f"unchanged  {task.name}")
        else:
            print_changed("changed", task, crontab)
    if any(getattr(task, field) != getattr(before, field) for field in _WARNED_ABOUT):
        now = crontab.now()
        warnings.print_warnings(task, now)
        row = crontab.view(task.name)
        warnings.print_crowd(row, crontab.due_with(row), now)
    if any(getattr(task, field) != getattr(before, field) for field in ("user", "command", "argv", "cwd")):
        warnings.print_place_warnings(task)
    if (task.on_disconnect, task.timeout) != (before.on_disconnect, before.timeout):
        warnings.print_kept(task)
    if any(getattr(task, field) != getattr(before, field) for field in _ROUTING):
        warnings.print_unserved(crontab.view(task.name), warnings.living_nodes(crontab))
    if task.notify != before.notify:
        warnings.print_unsendable(task.notify, warnings.living_nodes(crontab))
