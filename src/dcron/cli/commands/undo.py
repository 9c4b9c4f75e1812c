"""`undo`: write the former state as a new change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from dcron import policy, presentation, services
from dcron.cli.asking.options import Db, Json, OptionalName, whole_number
from dcron.cli.asking.shared_options import keep_yes
from dcron.cli.asking.which import agreed
from dcron.cli.output import console, task_differences
from dcron.cli.output.documents import make
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.model import Task
from dcron.presentation import humanize
from dcron.values.lists import WaitingRuns

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    force: Annotated[
        bool,
        typer.Option("-f", "--force", help="Undo despite later changes; do not ask.", callback=keep_yes),
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Undo the last change of a task, another change, or a batch.

    \b
    dcron undo backup
    dcron undo --change 812 -m "dumps got slower"
    dcron undo --batch b7k3m9x2p4 --dry-run

    The former state becomes a new change; to undo that one is the redo. What is undone already is refused
    (exit code 1). Undoing `rm` brings a task back with its history. If later changes would be lost, nothing
    is done (exit code 5).
    """
    if [name, change, batch].count(None) != 2:
        raise UsageError("give the name of a task, or --change ID, or --batch ID")
    with opened_crontab(db) as crontab:
        undo = services.undo.Undo(crontab)
        if name is not None:
            found = agreed(undo.last_of, "undo", name, asks=True)
        else:
            found = undo.change(change) if change is not None else undo.batch(batch or "")
        if made := undo.backfilled(found):
            number = _undo_backfill(crontab, made, as_json=as_json, dry_run=dry_run)
            if as_json:
                console.emit(_shape(services.undo.Undone([], []), None, dry_run=dry_run, cancelled=number))
            return
        try:
            would = undo.check(found, force=force)
            if not as_json:
                _show(would, crontab.now())
            if not dry_run:
                console.agree(f"undo {_summary(found, would)}")
                would = undo.undo(found, force=force)
        except services.undo.LaterChanges as error:
            _print_later(error)
            raise
    if as_json:
        console.emit(_shape(would, None if dry_run else undo.author.batch, dry_run=dry_run))
    elif dry_run:
        console.data("nothing was changed")
    else:
        console.data(f"undone; `dcron undo --batch {undo.author.batch}` is the redo")


def _show(would: "services.undo.Undone", now: datetime) -> None:
    task_differences.show([each for each in would.tasks if each.redefines], now, would=True)
    for each in would.tasks:
        for line in presentation.differences.pause_lines(each.before, each.after):
            console.data(f"{each.name}  {line}")
    for other in would.others:
        console.data(f"would undo  {other.subject}: {presentation.differences.what(other)}")
        for line in presentation.differences.of_change(other, backwards=True):
            console.data(f"            {line}")


def _summary(found: "Sequence[policy.history.RecordedChange]", would: "services.undo.Undone") -> str:
    if len(would.tasks) == 1 and not would.others:
        (change,) = would.tasks
        return f"change {found[-1].id} ({task_differences.VERBS[change.kind]} {change.name})"
    return humanize.plural(len(would.tasks) + len(would.others), "change")


def _undo_backfill(
    crontab: "services.crontab.Crontab", made: tuple[Task, WaitingRuns], *, as_json: bool, dry_run: bool
) -> int:
    """Cancel the runs of a backfill that still wait, and return how many. Raises Refused."""
    from dcron.cli.commands.cancel import cancel_waiting

    if not dry_run:
        return len(cancel_waiting(crontab, [made], as_json=as_json))
    task, which = made
    number = crontab.count_waiting(which)
    if not as_json:
        console.data(f"would cancel {humanize.plural(number, 'waiting run')} of {task.name}")
        console.data("nothing was changed")
    return number


def _shape(
    would: "services.undo.Undone", batch: str | None, *, dry_run: bool, cancelled: int = 0
) -> dict[str, Any]:
    return make(
        "undone",
        dry_run=dry_run,
        batch=batch,
        undone_tasks=[make("undone-change", each) for each in would.tasks],
        undone_others=[make("undone-change", each, name=each.subject) for each in would.others],
        cancelled_count=cancelled,
    )


def _print_later(error: "services.undo.LaterChanges") -> None:
    """Print the changes that would be lost."""
    for each in error.later[:SHOWN]:
        note = f" ({each.note})" if each.note else ""
        when = f"{each.at:%Y-%m-%dT%H:%M:%SZ}"
        console.note(
            f"later: change {each.id}, {when}, {each.author}: {presentation.differences.what(each)}{note}"
        )
        for line in presentation.differences.of_change(each):
            console.note(f"  {line}")
    if len(error.later) > SHOWN:
        console.note(f"and {len(error.later) - SHOWN:,} more")
