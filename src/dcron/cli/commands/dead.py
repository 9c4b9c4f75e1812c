"""`dead`: list and dismiss dead letters."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import islice
from typing import Annotated

import typer

from dcron import policy, services
from dcron.cli.asking.options import (
    Db,
    GroupWithName,
    Json,
    SelectorOption,
    WritingVerb,
    argument,
    flag,
    option,
    run_number,
    runs_or_names,
    whole_number,
)
from dcron.cli.asking.which import MOST_RUNS, agree_to_runs, agreed, read_selector, tasks_to_read
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.documents import make
from dcron.cli.output.run_table import pages
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import UsageError
from dcron.model import Run
from dcron.presentation import humanize
from dcron.schedule.zones import zone
from dcron.values.lists import RunFilter
from dcron.values.safe_text import safe

COUNTED = 1000
"""Dead letters that are counted before the user is asked."""


class Dead(GroupWithName):
    """`dead`, `dead NAME` and `dead dismiss …`: a word that is no verb is the name of a task."""

    name_option = "--task"


command = typer.Typer(
    cls=Dead, rich_markup_mode=None, add_completion=False, subcommand_metavar="[NAME... | dismiss ...]"
)


@command.callback(invoke_without_command=True)
def list_dead_letters(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, option("--task", "NAME", "Only dead letters of these tasks.", hidden=True)
    ] = None,
    selector: SelectorOption = None,
    count: Annotated[
        int, option("-n", "--count", "N", "Most dead letters to list.", parser=whole_number(1))
    ] = 20,
    before: Annotated[
        int | None, option("--before", "RUN", "Only runs older than this one.", parser=run_number)
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List dead letters: failed and lost runs without further attempts.

    \b
    dcron dead -n 50
    dcron dead backup
    dcron dead -l team=shop
    dcron dead dismiss 1307

    The newest come first. `dcron retry RUN` runs one again, `dcron dead dismiss RUN` removes it from the
    list.
    """
    if ctx.invoked_subcommand is not None:
        return
    with opened_crontab(db) as crontab:
        task, chooser = tasks_to_read(crontab, names, selector)
        now = crontab.now()
        task_id = None if task is None else crontab.task_id(task)
        found = pages(crontab, RunFilter(task_id, dead=True, before_id=before, selector=chooser), count + 1)
        if as_json:
            console.emit_list(json_output.run_shape(each, now) for each in islice(found, count))
        else:
            _print(found, count, now, task, chooser, is_first=before is None)


@command.command("dismiss", cls=WritingVerb)
def dismiss(
    which: Annotated[
        list[str] | None,
        argument("RUN|NAME...", "Numbers of runs, as `dcron dead` shows them, or whole names of tasks."),
    ] = None,
    selector: SelectorOption = None,
    everything: Annotated[bool, flag("--all", "Dismiss all dead letters.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Remove runs from the list of dead letters.

    \b
    dcron dead dismiss 1307 1311
    dcron dead dismiss backup
    dcron dead dismiss -l team=shop
    dcron dead dismiss --all

    The name of a task stands for all its dead letters. The runs and their output are kept.
    """
    if bool(which) + everything + (selector is not None) != 1:
        raise UsageError("give numbers of runs, names of tasks, -l with labels, or --all")
    chooser = read_selector(selector)
    numbers, names = runs_or_names(which or [])
    with opened_crontab(db) as crontab:
        letters = services.runs.dead_letters.DeadLetters(crontab)
        dismissed: Sequence[Run] = ()
        if chooser:
            found = letters.page(MOST_RUNS, selector=chooser)
            agree_to_runs(crontab, "dismiss", chooser, found, "no dead letters")
            count, of_tasks = letters.dismiss_those(found), f" of tasks with {chooser}"
        elif numbers:
            dismissed, of_tasks = _dismiss_runs(letters, numbers), ""
            count = len(dismissed)
        else:
            tasks = dict(agreed(crontab.exact_task_id, "dismiss", name, asks=True) for name in names)
            of_tasks = f" of {', '.join(tasks.values())}" if tasks else ""
            count = _dismiss_all(letters, list(tasks) or [None], of_tasks)
        now = crontab.now()
    if as_json:
        console.emit(make("dismissed", dismissed=count))
    elif dismissed:
        for run in dismissed:
            console.data(safe(f"dismissed  run {run.id} of {run.task}, {humanize.result(run, now)}"))
    elif count:
        console.data(f"dismissed  {humanize.plural(count, 'dead letter')}{of_tasks}")
    else:
        console.note(f"there are no dead letters{of_tasks}")


def _print(
    found: Iterator[Run],
    count: int,
    now: datetime,
    task: str | None,
    chooser: "policy.selectors.Selector | None",
    *,
    is_first: bool,
) -> None:
    here = zone(own_zone())
    shown: list[int] = []
    if not print_table(_columns(here), _rows(islice(found, count), here, now, shown)):
        of_task = f" of {task}" if task else f" of {chooser.phrase}" if chooser else ""
        console.note(f"there are no dead letters{of_task}" if is_first else "there are no older dead letters")
    if next(found, None):
        chosen = f"{task} " if task else f"{chooser.typed} " if chooser else ""
        console.note(f"there are more: dcron dead {chosen}--before {shown[-1]}")


def _rows(found: Iterable[Run], here: tzinfo, now: datetime, shown: list[int]) -> Iterator[list[str]]:
    for run in found:
        shown[:] = [run.id]
        result = humanize.result(run, now)
        yield [
            str(run.id),
            run.task,
            AlarmCell(result),
            str(run.attempt),
            humanize.clock(run.scheduled_for, here, now),
            humanize.ago(run.finished_at, now) if run.finished_at else "",
            run.node or "",
            "" if run.reason in (None, result) else run.reason,
        ]


def _columns(here: tzinfo) -> list[TableColumn]:
    return [
        TableColumn("RUN", right=True),
        TableColumn("TASK", least=10),
        TableColumn("RESULT"),
        TableColumn("TRY", right=True, spare=True),
        TableColumn(f"FOR ({here})", least=15),
        TableColumn("ENDED", right=True),
        TableColumn("NODE", least=6, spare=True),
        TableColumn("REASON", least=8),
    ]


def _dismiss_runs(letters: "services.runs.dead_letters.DeadLetters", run_ids: Iterable[int]) -> Sequence[Run]:
    for run_id in run_ids:
        letters.require_listed(run_id)
    console.agree(f"dismiss {', '.join(f'run {run_id}' for run_id in run_ids)}", asks=False)
    return [letters.dismiss(run_id) for run_id in run_ids]


def _dismiss_all(
    letters: "services.runs.dead_letters.DeadLetters", task_ids: Sequence[int | None], of_tasks: str
) -> int:
    """Dismiss all dead letters of these tasks, and return how many; the id None means all tasks."""
    count = sum(len(letters.page(COUNTED, task_id=task_id)) for task_id in task_ids)
    if count:
        number = (
            f"{COUNTED:,} dead letters or more" if count >= COUNTED else humanize.plural(count, "dead letter")
        )
        work = "its work has not been done" if count == 1 else "their work has not been done"
        console.agree(f"dismiss {number}{of_tasks}; {work}", count=count)
    return sum(letters.dismiss_all(task_id) for task_id in task_ids)
