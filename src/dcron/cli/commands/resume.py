"""`resume`: end the pauses of tasks."""

from dcron.cli import chosen_tasks
from dcron.cli.changed_tasks import print_changed, print_done, print_json
from dcron.cli.chosen_tasks import names_or_selector
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Force, Json, OptionalWholeNames, SelectorOption


def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """End the pauses of tasks.

    \b
    dcron resume backup
    dcron resume -l tier=bronze

    Runs that were due during the pause are recorded as skipped.
    """
    from dcron.services.bulk import Bulk

    chooser = names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        choice = chosen_tasks.to_change(
            crontab,
            "resume",
            chooser,
            force=force,
            only=lambda task: not task.enabled,
            otherwise="not paused",
        )
        if choice:
            result = Bulk(crontab).resume(choice.tasks)
            print_done("resumed", crontab, result.done, as_json=as_json)
            chosen_tasks.report(crontab, choice, result)
            return
        resumed = crontab.resume_all(all_to_change(crontab, "resume", names or (), force=force))
        if as_json:
            print_json(crontab, resumed)
            return
        for task in resumed:
            print_changed("resumed", task, crontab)
