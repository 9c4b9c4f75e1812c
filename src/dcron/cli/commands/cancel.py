"""`cancel`: end runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.chosen_tasks import MOST_RUNS, each_run, report_left, runs_or_selector, runs_to_change
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Force, Json, OptionalRunIds, SelectorOption
from dcron.errors import Refused
from dcron.model import Run, RunState

if TYPE_CHECKING:
    from dcron.policy.selectors import Selector
    from dcron.services.crontab import Crontab


def command(
    run_ids: OptionalRunIds = None,
    selector: SelectorOption = None,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Cancel runs.

    \b
    dcron cancel 1307
    dcron cancel -f 1307 1311
    dcron cancel -l team=shop

    A waiting run ends at once. A run that has started is stopped by its node. All runs are looked up before
    the first is cancelled. -l cancels the runs of tasks with these labels that are due or have started.
    """
    chooser = runs_or_selector(run_ids, selector)
    with opened_crontab(db) as crontab:
        if chooser:
            found = _under_way(crontab, chooser)
            runs_to_change(crontab, "cancel", chooser, found, "no run is due or has started", force=force)
            cancelled, left = each_run(found, lambda run: crontab.cancel(run.id))
            _print(crontab, cancelled, as_json=as_json, as_list=True)
            report_left(left)
            return
        found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids or [])]
        if len(found) > 1 and (over := next((run for run in found if run.state.is_final), None)):
            raise Refused(
                f"run {over.id} of {over.task} has already ended ({over.state}); nothing was cancelled"
            )
        if alive := [run for run in found if run.state in (RunState.CLAIMED, RunState.RUNNING)]:
            console.require_consent(f"stop {', '.join(map(_where, alive))}", force=force)
        cancelled = [crontab.cancel(run.id) for run in found]
        _print(crontab, cancelled, as_json=as_json)


def _under_way(crontab: "Crontab", selector: "Selector") -> list[Run]:
    """Return the runs of the selector's tasks that are due or have started, the newest first."""
    from dcron.store.runs import RunFilter

    states = [RunState.WAITING, RunState.CLAIMED, RunState.RUNNING]
    now = crontab.now()
    found = crontab.runs(RunFilter(states=states, selector=selector), MOST_RUNS)
    return [run for run in found if run.state is not RunState.WAITING or run.due_at <= now]


def _print(crontab: "Crontab", cancelled: Sequence[Run], *, as_json: bool, as_list: bool = False) -> None:
    from dcron.cli import json_output

    if as_json:
        now = crontab.now()
        shapes = [json_output.run_shape(run, now) for run in cancelled]
        (console.emit_list if as_list else console.emit_one_or_list)(shapes)
        return
    for run in cancelled:
        stopping = "" if run.state.is_final else f": {run.node} has been asked to stop it"
        console.data(f"{'cancelling' if stopping else 'cancelled'}  run {run.id} of {run.task}{stopping}")


def _where(run: Run) -> str:
    does = "running" if run.state is RunState.RUNNING else "about to start"
    return f"run {run.id} of {run.task}, {does} on {run.node}"
