"""`retry`: run dead letters again."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Json, RunIds
from dcron.cli.warnings import mention_idleness
from dcron.safetext import safe

if TYPE_CHECKING:
    pass


def command(run_ids: RunIds, as_json: Json = False, db: Db = None) -> None:
    """Try runs that ended badly once more, now. All are looked up before anything is done.

    Each executes what its task says now, with the payload of then. A flow that the run is part of goes on
    when it succeeds. Runs that were skipped or cancelled can be tried too.

    \b
    dcron retry 1307 1311
    """
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        from dcron.services.dead_letters import DeadLetters

        found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
        retried = [DeadLetters(crontab).retry(run.id) for run in found]
        mention_idleness(crontab)
        if as_json:
            now = crontab.now()
            console.emit_one_or_list([json_output.run_shape(run, now) for run in retried])
            return
        for run in retried:
            console.data(
                f"run {run.id} of {safe(run.task)} is due, as attempt {run.attempt};"
                f" `dcron logs -f {run.id}` follows it"
            )
