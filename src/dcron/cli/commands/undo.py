"""`undo`: write the former state as a new change."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console, task_differences
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import agreed
from dcron.cli.options import Db, Json, OptionalName, whole_number
from dcron.errors import UsageError
from dcron.services.change_details import difference, pause_lines, what

if TYPE_CHECKING:
    from datetime import datetime

    from dcron.services.undo import LaterChanges, Undone

SHOWN = 20
"""Later changes that a refusal lists."""


def command(
    name: OptionalName = None,
    change: Annotated[
        int | None,
        typer.Option("--change", metavar="ID", help="Undo this change.", parser=whole_number(1)),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="ID", help="Undo all changes of this batch, or of this change's."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would be done.")] = False,
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Do not ask, and undo despite later changes.")
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Undo the last change of a task, another change, or a batch of changes.

    \b
    dcron undo backup
    dcron undo --change 812 -m "dumps got slower"
    dcron undo --batch b7k3m9x2p4 --dry-run

    The former state becomes a new change; to undo that one is the redo. What is undone already is refused
    (exit code 1). Undoing `rm` brings a task back with its history. If later changes would be lost, nothing
    is done (exit code 5).
    """
    from dcron.services.undo import LaterChanges, Undo

    if [name, change, batch].count(None) != 2:
        raise UsageError("give the name of a task, or --change ID, or --batch ID")
    with opened_crontab(db) as crontab:
        undo = Undo(crontab)
        if name is not None:
            found = agreed(undo.last_of, "undo", name, force=force, asks=True)
        else:
            found = undo.change(change) if change is not None else undo.batch(batch or "")
        try:
            would = undo.check(found, force=force)
            if not as_json:
                _show(would, crontab.now())
            if not dry_run:
                console.require_consent(_summary(would), force=force)
                would = undo.undo(found, force=force)
        except LaterChanges as error:
            _print_later(error)
            raise
    if as_json:
        tasks = [{"kind": each.kind, "name": each.name} for each in would.tasks]
        others = [{"kind": each.kind, "name": each.subject} for each in would.others]
        batch = None if dry_run else undo.author.batch
        console.emit({"dry_run": dry_run, "batch": batch, "tasks": tasks, "others": others})
    elif dry_run:
        console.data("nothing was changed")
    else:
        console.data(f"undone; `dcron undo --batch {undo.author.batch}` is the redo")


def _show(would: "Undone", now: "datetime") -> None:
    from dcron.services.text_edits import Changes

    task_differences.show(Changes([each for each in would.tasks if each.difference()]), now)
    for each in would.tasks:
        for line in pause_lines(each.before, each.after):
            console.data(f"{each.name}  {line}")
    for other in would.others:
        console.data(f"undo     {other.subject}: {what(other)}")
        for line in difference(other, backwards=True):
            console.data(f"         {line}")


def _summary(would: "Undone") -> str:
    from dcron.presentation.humanize import plural

    return f"undo {plural(len(would.tasks) + len(would.others), 'change')}"


def _print_later(error: "LaterChanges") -> None:
    """Print the changes that would be lost."""
    for each in error.later[:SHOWN]:
        note = f" ({each.note})" if each.note else ""
        when = f"{each.at:%Y-%m-%dT%H:%M:%SZ}"
        console.note(f"later: change {each.id}, {when}, {each.author}: {what(each)}{note}")
        for line in difference(each):
            console.note(f"  {line}")
    if len(error.later) > SHOWN:
        console.note(f"and {len(error.later) - SHOWN:,} more")
