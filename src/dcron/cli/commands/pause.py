"""`pause`: stop tasks from starting runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import chosen_tasks, console
from dcron.cli.changed_tasks import print_json
from dcron.cli.chosen_tasks import names_or_selector
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Force, Json, OptionalWholeNames, SelectorOption

if TYPE_CHECKING:
    from dcron.model import Task


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End the pause at this time: 'tomorrow 09:00', +2h."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Reason of the pause.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Start no runs of these tasks until they are resumed.

    \b
    dcron pause backup --until 'tomorrow 09:00' --reason 'disk is full'
    dcron pause -l tier=bronze --until +2h

    Active runs continue.
    """
    from dcron.schedule import parse_time, zone
    from dcron.services.bulk import Bulk

    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        choice = chosen_tasks.to_change(
            crontab, "pause", chooser, force=force, only=lambda task: task.enabled, otherwise="paused already"
        )
        found = choice.tasks if choice else all_to_change(crontab, "pause", names or (), force=force)
        now = crontab.now()
        pauses = [(task, parse_time(until, zone(task.timezone), now) if until else None) for task in found]
        result = Bulk(crontab).pause(pauses, reason) if choice else None
        paused = result.done if result else crontab.pause_all(pauses, reason)
        if as_json:
            print_json(crontab, paused, as_list=choice is not None)
        else:
            for task in paused:
                console.data(f"paused   {task.name}{_until(task)}")
        if choice and result:
            chosen_tasks.report(crontab, choice, result)


def _until(task: "Task") -> str:
    from dcron.presentation import humanize
    from dcron.schedule import zone

    end = task.paused_until
    return f" until {humanize.full(end.astimezone(zone(task.timezone)))}" if end else ""
