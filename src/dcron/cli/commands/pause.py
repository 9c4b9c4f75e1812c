"""`pause`: stop tasks from starting runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.changed_tasks import print_json
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Json, WholeNames

if TYPE_CHECKING:
    pass


def command(
    names: WholeNames,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End the pause at this time: 'tomorrow 09:00', +2h."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Reason of the pause.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Start no runs of these tasks until they are resumed.

    \b
    dcron pause backup --until 'tomorrow 09:00' --reason 'disk is full'

    Active runs continue.
    """
    from dcron.presentation import humanize
    from dcron.schedule import parse_time, zone

    with opened_crontab(db) as crontab:
        found = all_to_change(crontab, "pause", names)
        now = crontab.now()
        ends = [parse_time(until, zone(task.timezone), now) if until else None for task in found]
        paused = crontab.pause_all(list(zip(found, ends, strict=True)), reason)
        if as_json:
            print_json(crontab, paused)
            return
        for task, end in zip(paused, ends, strict=True):
            until_when = f" until {humanize.full(end.astimezone(zone(task.timezone)))}" if end else ""
            console.data(f"paused   {task.name}{until_when}")
