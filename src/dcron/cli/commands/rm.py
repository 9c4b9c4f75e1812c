"""`rm`: remove tasks."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Force, WholeNames

if TYPE_CHECKING:
    pass


def command(names: WholeNames, force: Force = False, db: Db = None) -> None:
    """Remove tasks.

    \b
    dcron rm backup
    dcron rm -f one other

    Records of past runs are kept. Active runs continue. Either all of the tasks are removed or none.
    """
    from dcron.cli.warnings import print_owned
    from dcron.presentation.humanize import plural

    with opened_crontab(db) as crontab:
        found = all_to_change(crontab, "remove", names, force=force, asks=True)
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
