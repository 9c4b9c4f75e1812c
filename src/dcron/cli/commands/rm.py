"""`rm`: remove tasks."""

from collections.abc import Sequence

from dcron import services
from dcron.cli.asking import which
from dcron.cli.asking.changed_tasks import task_shapes
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption
from dcron.cli.asking.warnings import print_owned, print_unheard
from dcron.cli.output import console
from dcron.cli.output.documents import Document
from dcron.cli.running.context import opened_crontab
from dcron.model import Task
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
    chooser = which.names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        chosen = which.to_change(crontab, "remove", names, chooser, asks=True)
        tasks = chosen.tasks
        unheard = crontab.unheard_of([task.id for task in tasks])
        if not chooser:
            console.agree(f"remove {_what(tasks)}{_goes_on(crontab, tasks, len(unheard))}", count=len(tasks))
        shapes = task_shapes(crontab, tasks) if as_json else None
        removed = chosen.change(crontab, (services.changes.changeset.Change(task, None) for task in tasks))
        _print(removed, shapes, as_list=chosen.is_list)
        print_owned(removed)
        print_unheard(crontab, unheard)
        chosen.report_left(crontab)


def _what(tasks: Sequence[Task]) -> str:
    if len(tasks) > 1:
        return which.named(tasks)
    (task,) = tasks
    return f"{task.name} ({task.schedule}, {task.command})"


def _goes_on(crontab: "services.crontab.Crontab", tasks: Sequence[Task], unheard: int) -> str:
    """Return which runs of the tasks continue, if any do."""
    active = crontab.count_active([task.id for task in tasks])
    not_heard = f", {humanize.plural(unheard, 'run')} not heard of" if unheard else ""
    of_them = f"{humanize.plural(active, 'active run')} of {'it' if len(tasks) == 1 else 'them'}"
    return f"; {of_them} goes on{not_heard}" if active else ""


def _print(removed: Sequence[Task], shapes: Sequence[Document] | None, *, as_list: bool) -> None:
    """Print the removed tasks: those of `shapes`, which they had before, or a line each."""
    names = [task.name for task in removed]
    if shapes is not None:
        console.emit_one_or_list([each for each in shapes if each["name"] in names], as_list=as_list)
        return
    for name in names:
        console.data(f"removed  {name}")
