"""`rm`: remove tasks."""

from dcron.cli import chosen_tasks, console
from dcron.cli.chosen_tasks import names_or_selector
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Force, OptionalWholeNames, SelectorOption


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    force: Force = False,
    db: Db = None,
) -> None:
    """Remove tasks.

    \b
    dcron rm backup
    dcron rm -f one other
    dcron rm -l team=shop

    Records of past runs are kept. Active runs continue. Of tasks that are named, either all are removed or
    none.
    """
    from dcron.cli.warnings import print_owned
    from dcron.presentation.humanize import plural
    from dcron.services.bulk import Bulk

    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        if choice := chosen_tasks.to_change(crontab, "remove", chooser, force=force, asks=True):
            result = Bulk(crontab).remove(choice.tasks)
            for task in result.done:
                console.data(f"removed  {task.name}")
            print_owned(result.done)
            chosen_tasks.report(crontab, choice, result)
            return
        found = all_to_change(crontab, "remove", names or (), force=force, asks=True)
        if len(found) == 1:
            (task,) = found
            what = f"{task.name} ({task.schedule}, {task.command})"
        else:
            what = f"{plural(len(found), 'task')}: {', '.join(task.name for task in found)}"
        console.require_consent(f"remove {what}", force=force)
        crontab.remove(*found)
        for task in found:
            console.data(f"removed  {task.name}")
        print_owned(found)
