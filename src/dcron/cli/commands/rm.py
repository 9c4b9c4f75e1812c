"""`rm`: remove tasks."""

from dcron import services
from dcron.cli.asking import chosen_tasks
from dcron.cli.asking.changed_tasks import print_removed, task_shapes
from dcron.cli.asking.chosen_tasks import names_or_selector
from dcron.cli.asking.name_arguments import all_to_change, named
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption
from dcron.cli.asking.warnings import print_owned, print_unheard
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab
from dcron.presentation import humanize


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Remove tasks.

    \b
    dcron rm backup
    dcron rm -y one other
    dcron rm -l team=shop

    Records of past runs are kept. Active runs continue, also unheard ones. Of tasks that are named, either
    all are removed or none.
    """
    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        if choice := chosen_tasks.to_change(crontab, "remove", chooser, asks=True):
            shapes = task_shapes(crontab, choice.tasks) if as_json else None
            unheard = crontab.unheard_of([task.id for task in choice.tasks])
            result = services.changes.selected.Bulk(crontab).remove(choice.tasks)
            print_removed(result.done, shapes, as_list=True)
            print_owned(result.done)
            print_unheard(crontab, unheard)
            chosen_tasks.report(crontab, choice, result)
            return
        found = all_to_change(crontab, "remove", names or (), asks=True)
        what = named(found)
        if len(found) == 1:
            (task,) = found
            what = f"{task.name} ({task.schedule}, {task.command})"
        active = crontab.count_active([task.id for task in found])
        goes_on = (
            f"; {humanize.plural(active, 'active run')} of {'it' if len(found) == 1 else 'them'} goes on"
        )
        unheard = crontab.unheard_of([task.id for task in found])
        goes_on += f", {humanize.plural(len(unheard), 'run')} not heard of" if unheard else ""
        console.agree(f"remove {what}{goes_on if active else ''}", count=len(found))
        shapes = task_shapes(crontab, found) if as_json else None
        crontab.remove(*found)
        print_removed(found, shapes)
        print_owned(found)
        print_unheard(crontab, unheard)
