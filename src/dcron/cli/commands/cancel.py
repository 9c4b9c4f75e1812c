"""`cancel`: end runs."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Force, Json, RunIds
from dcron.errors import Refused
from dcron.model import Run, RunState

if TYPE_CHECKING:
    pass


def command(run_ids: RunIds, force: Force = False, as_json: Json = False, db: Db = None) -> None:
    """Cancel runs.

    \b
    dcron cancel 1307
    dcron cancel -f 1307 1311

    A waiting run ends at once. A run that has started is stopped by its node. All runs are looked up before
    the first is cancelled.
    """
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
        if len(found) > 1 and (over := next((run for run in found if run.state.is_final), None)):
            raise Refused(
                f"run {over.id} of {over.task} has already ended ({over.state}); nothing was cancelled"
            )
        if alive := [run for run in found if run.state in (RunState.CLAIMED, RunState.RUNNING)]:
            console.require_consent(f"stop {', '.join(map(_where, alive))}", force=force)
        cancelled = [crontab.cancel(run.id) for run in found]
        if as_json:
            now = crontab.now()
            console.emit_one_or_list([json_output.run_shape(run, now) for run in cancelled])
            return
        for run in cancelled:
            stopping = "" if run.state.is_final else f": {run.node} has been asked to stop it"
            console.data(f"{'cancelling' if stopping else 'cancelled'}  run {run.id} of {run.task}{stopping}")


def _where(run: Run) -> str:
    does = "running" if run.state is RunState.RUNNING else "about to start"
    return f"run {run.id} of {run.task}, {does} on {run.node}"
