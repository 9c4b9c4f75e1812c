"""`resume`: end the pauses of tasks."""

from dcron.cli.changed_tasks import print_changed, print_json
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Json, WholeNames


def command(names: WholeNames, as_json: Json = False, db: Db = None) -> None:
    """End the pauses of tasks.

    \b
    dcron resume backup

    Runs that were due during the pause are recorded as skipped.
    """
    with opened_crontab(db) as crontab:
        resumed = crontab.resume_all(all_to_change(crontab, "resume", names))
        if as_json:
            print_json(crontab, resumed)
            return
        for task in resumed:
            print_changed("resumed", task, crontab)
