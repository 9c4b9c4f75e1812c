"""`pause`: stop tasks from starting runs."""

from typing import Annotated

from dcron import services
from dcron.cli.asking import chosen_tasks
from dcron.cli.asking.changed_tasks import print_json
from dcron.cli.asking.chosen_tasks import names_or_selector
from dcron.cli.asking.name_arguments import all_to_change
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption, option
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab, reason
from dcron.model import Task
from dcron.presentation import humanize
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone

_PAUSED = "paused already"


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    until: Annotated[
        str | None, option("--until", "TIME", "End the pause at this time: 'tomorrow 09:00', +2h.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Start no more runs of tasks, until `resume` or --until.

    \b
    dcron pause backup --until 'tomorrow 09:00' -m 'disk is full'
    dcron pause -l tier=bronze --until +2h

    Active runs continue. `dcron list` and `dcron view` show the reason.
    """
    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        choice = chosen_tasks.to_change(crontab, "pause", chooser, only=_is_active, otherwise=_PAUSED)
        found = (
            choice.tasks
            if choice
            else all_to_change(crontab, "pause", names or (), only=_is_active, otherwise=_PAUSED)
        )
        now = crontab.now()
        pauses = [(task, parse_time(until, zone(task.timezone), now) if until else None) for task in found]
        result = services.changes.selected.Bulk(crontab).pause(pauses, reason()) if choice else None
        paused = result.done if result else crontab.pause_all(pauses, reason())
        if as_json:
            print_json(crontab, paused, as_list=choice is not None or len(names or ()) > 1)
        else:
            for task in paused:
                console.data(f"paused   {task.name}{_until(task)}")
        if choice and result:
            chosen_tasks.report(crontab, choice, result)


def _is_active(task: Task) -> bool:
    return task.enabled


def _until(task: Task) -> str:
    end = task.paused_until
    return f" until {humanize.full(end.astimezone(zone(task.timezone)))}" if end else ""
