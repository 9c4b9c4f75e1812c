"""`pause`: stop tasks from starting runs."""

from typing import Annotated

from dcron import services
from dcron.cli.asking import which
from dcron.cli.asking.changed_tasks import task_shapes
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption, option
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab, reason
from dcron.model import Task
from dcron.presentation import humanize
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone


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
    chooser = which.names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        chosen = which.to_change(
            crontab, "pause", names, chooser, only=lambda task: task.enabled, otherwise="paused already"
        )
        now = crontab.now()
        ends = [parse_time(until, zone(task.timezone), now) if until else None for task in chosen.tasks]
        pauses = (
            services.changes.changeset.paused(task, reason(), end, crontab.actor)
            for task, end in zip(chosen.tasks, ends, strict=True)
        )
        paused = chosen.change(crontab, pauses)
        if as_json:
            console.emit_one_or_list(task_shapes(crontab, paused), as_list=chosen.is_list)
        else:
            for task in paused:
                console.data(f"paused   {task.name}{_until(task)}")
        chosen.report_left(crontab)


def _until(task: Task) -> str:
    end = task.paused_until
    return f" until {humanize.full(end.astimezone(zone(task.timezone)))}" if end else ""
