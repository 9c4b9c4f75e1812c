"""`backfill`: run occurrences of the past."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import to_change
from dcron.cli.options import Db, Json, WholeName
from dcron.cli.tables import print_facts
from dcron.cli.times import past_time
from dcron.cli.warnings import print_idle_agents
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.services.triggers import Backfill


def command(
    name: WholeName,
    first: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="First time: 2027-01-01, '2027-01-01 09:00', 2d (ago)."),
    ],
    last: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Last time, included; a date alone is its midnight.")
    ],
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would be done.")] = False,
    force: Annotated[
        bool,
        typer.Option("-f", "--force", help="Also where runs, perhaps successful, have been pruned."),
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Run a task for past occurrences that never succeeded.

    \b
    dcron backfill report --from 2027-01-01 --to 2027-02-01 --dry-run
    dcron backfill report --from 2d --to now

    The runs start within the task's limits, after runs that are due now. Each has its occurrence in
    $DCRON_SCHEDULED_FOR. Times are in the task's zone.
    """
    from dcron.cli import json_output
    from dcron.schedule import zone

    with opened_crontab(db) as crontab:
        from dcron.services.triggers import Triggers

        task = to_change(crontab, "backfill", name)
        here, now = zone(task.timezone), crontab.now()
        begin, end = past_time(first, here, now), past_time(last, here, now)
        filled = Triggers(crontab).backfill(task, begin, end, dry_run=dry_run, force=force)
        if as_json:
            console.emit(json_output.backfill_shape(task.name, begin, end, filled, dry_run=dry_run))
        else:
            print_facts(_facts(task, filled, dry_run=dry_run))
        if filled.occurrences and not dry_run:
            if not task.enabled:
                console.note(f"{task.name} is paused: the runs wait until it is resumed")
            print_idle_agents(crontab)


def _facts(task: "Task", filled: "Backfill", *, dry_run: bool) -> Iterator[tuple[str, str | None]]:
    count = len(filled.occurrences)
    yield "would make" if dry_run else "made", f"{humanize.plural(count, 'run')} of {task.name}"
    if count:
        yield "first", _local(filled.occurrences[0], task)
        yield "last", _local(filled.occurrences[-1], task)
    if filled.already_done:
        yield "left alone", f"{filled.already_done:,} that have succeeded, wait, or are running"


def _local(at: datetime, task: "Task") -> str:
    from dcron.schedule import zone

    return humanize.full(at.astimezone(zone(task.timezone)))
