"""`resume`: end the pauses of tasks."""

from dcron import services
from dcron.cli.asking import chosen_tasks
from dcron.cli.asking.changed_tasks import print_changed, print_done, print_json
from dcron.cli.asking.chosen_tasks import names_or_selector
from dcron.cli.asking.name_arguments import all_to_change
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption
from dcron.cli.running.context import opened_crontab
from dcron.model import Task

_ACTIVE = "not paused"


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """End the pauses of tasks.

    \b
    dcron resume backup
    dcron resume -l tier=bronze

    Runs that were due during the pause are recorded as skipped.
    """
    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        choice = chosen_tasks.to_change(
            crontab,
            "resume",
            chooser,
            only=_is_paused,
            otherwise=_ACTIVE,
        )
        if choice:
            result = services.changes.selected.Bulk(crontab).resume(choice.tasks)
            print_done("resumed", crontab, result.done, as_json=as_json)
            chosen_tasks.report(crontab, choice, result)
            return
        resumed = crontab.resume_all(
            all_to_change(crontab, "resume", names or (), only=_is_paused, otherwise=_ACTIVE)
        )
        if as_json:
            print_json(crontab, resumed, as_list=len(names or ()) > 1)
            return
        for task in resumed:
            print_changed("resumed", task, crontab)


def _is_paused(task: Task) -> bool:
    return not task.enabled
