"""`retry`: run dead letters again."""

from dcron import services
from dcron.cli.asking.options import Db, Json, RunsOrNames, SelectorOption, runs_or_names
from dcron.cli.asking.warnings import print_idle_agents
from dcron.cli.asking.which import (
    MOST_RUNS,
    agree_to_runs,
    each_run,
    named,
    named_runs,
    named_tasks,
    read_selector,
    report_left,
    with_patterns,
)
from dcron.cli.output import console, json_output
from dcron.cli.running.context import opened_crontab
from dcron.errors import DcronError, Refused, UsageError
from dcron.presentation import humanize
from dcron.values.safe_text import safe


def command(
    which: RunsOrNames = None,
    selector: SelectorOption = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Retry failed, lost, skipped or cancelled runs now.

    \b
    dcron retry 1307 1311
    dcron retry backup
    dcron retry -l team=shop

    A retry executes the task's present command with the payload of the original run. If it succeeds, the
    flow of the original run continues. All runs are looked up before the first is retried. NAME retries the
    dead letters of the task, -l those of the tasks with these labels.
    """
    if bool(which) + (selector is not None) != 1:
        raise UsageError("give the numbers of runs, names of tasks, or -l with labels: -l team=shop")
    chooser = read_selector(selector)
    run_ids, names = runs_or_names(which or [])
    with opened_crontab(db) as crontab:
        letters = services.runs.dead_letters.DeadLetters(crontab)
        left: dict[str, DcronError] = {}
        if chooser:
            found = letters.page(MOST_RUNS, selector=chooser)
            agree_to_runs(crontab, "retry", chooser, found, "no dead letters")
            retried, left = each_run(found, letters.retry)
        elif names:
            names = with_patterns(crontab, names)
            tasks = named_tasks(crontab, "retry", names, asks=True)
            found = [run for task in tasks for run in letters.page(MOST_RUNS, task_id=task.id)]
            if not found:
                raise Refused(f"{named(tasks)}: no dead letters; `dcron run` runs a task now")
            whole = [task.name for task in tasks]
            console.agree(
                f"retry {humanize.plural(len(found), 'dead letter')} of {', '.join(whole)}",
                count=len(found),
                asks=len(found) > 1 or not set(names) <= set(whole),
            )
            retried, left = each_run(found, letters.retry)
        else:
            found = [crontab.find_run(run_id) for run_id in run_ids]
            console.agree(f"retry {named_runs(found)}", asks=False)
            retried = [letters.retry(run.id) for run in found]
        print_idle_agents(crontab)
        if as_json:
            now = crontab.now()
            shapes = [json_output.run_shape(run, now) for run in retried]
            console.emit_one_or_list(shapes, as_list=bool(chooser or names))
        else:
            for run in retried:
                console.data(
                    f"run {run.id} of {safe(run.task)} is due, as attempt {run.attempt};"
                    f" `dcron logs -f {run.id}` follows it"
                )
        report_left(left)
