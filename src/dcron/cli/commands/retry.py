"""`retry`: run dead letters again."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Json, RunIds
from dcron.cli.warnings import print_idle_agents
from dcron.safetext import safe

if TYPE_CHECKING:
    pass


def command(run_ids: RunIds, as_json: Json = False, db: Db = None) -> None:
    """Retry failed, lost, skipped or cancelled runs now.

    \b
    dcron retry 1307 1311

    A retry executes the task's present command with the payload of the original run. If it succeeds, the
    flow of the original run continues. All runs are looked up before the first is retried.
    """
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        from dcron.services.dead_letters import DeadLetters

        found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
        retried = [DeadLetters(crontab).retry(run.id) for run in found]
        print_idle_agents(crontab)
        if as_json:
            now = crontab.now()
            console.emit_one_or_list([json_output.run_shape(run, now) for run in retried])
            return
        for run in retried:
            console.data(
                f"run {run.id} of {safe(run.task)} is due, as attempt {run.attempt};"
                f" `dcron logs -f {run.id}` follows it"
            )
