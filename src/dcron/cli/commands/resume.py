"""`resume`: end the pauses of tasks."""

from dcron import services
from dcron.cli.asking import which
from dcron.cli.asking.changed_tasks import print_done
from dcron.cli.asking.options import Db, Json, OptionalWholeNames, SelectorOption
from dcron.cli.running.context import opened_crontab


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
    chooser = which.names_or_selector(names, selector)
    with opened_crontab(db) as crontab:
        chosen = which.to_change(
            crontab, "resume", names, chooser, only=lambda task: not task.enabled, otherwise="not paused"
        )
        resumed = chosen.change(crontab, map(services.changes.changeset.resumed, chosen.tasks))
        print_done("resumed", crontab, chosen, resumed, as_json=as_json)
        chosen.report_left(crontab)
