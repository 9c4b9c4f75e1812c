"""`retry`: run dead letters again."""

from dcron.cli import console
from dcron.cli.chosen_tasks import MOST_RUNS, each_run, report_left, runs_or_selector, runs_to_change
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Force, Json, OptionalRunIds, SelectorOption
from dcron.cli.warnings import print_idle_agents
from dcron.errors import DcronError
from dcron.safetext import safe


def command(
    run_ids: OptionalRunIds = None,
    selector: SelectorOption = None,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Retry failed, lost, skipped or cancelled runs now.

    \b
    dcron retry 1307 1311
    dcron retry -l team=shop

    A retry executes the task's present command with the payload of the original run. If it succeeds, the
    flow of the original run continues. All runs are looked up before the first is retried. -l retries the
    dead letters of the tasks with these labels.
    """
    from dcron.cli import json_output

    chooser = runs_or_selector(run_ids, selector)
    with opened_crontab(db) as crontab:
        from dcron.services.dead_letters import DeadLetters

        letters = DeadLetters(crontab)
        left: dict[str, DcronError] = {}
        if chooser:
            found = letters.page(MOST_RUNS, selector=chooser)
            runs_to_change(crontab, "retry", chooser, found, "no dead letters", force=force)
            retried, left = each_run(found, lambda run: letters.retry(run.id))
        else:
            found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids or [])]
            retried = [letters.retry(run.id) for run in found]
        print_idle_agents(crontab)
        if as_json:
            now = crontab.now()
            shapes = [json_output.run_shape(run, now) for run in retried]
            (console.emit_list if chooser else console.emit_one_or_list)(shapes)
        else:
            for run in retried:
                console.data(
                    f"run {run.id} of {safe(run.task)} is due, as attempt {run.attempt};"
                    f" `dcron logs -f {run.id}` follows it"
                )
        report_left(left)
