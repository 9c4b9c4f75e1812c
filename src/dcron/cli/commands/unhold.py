"""`unhold`: let retention decide again about what is on hold."""

from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, argument, is_number, run_number
from dcron.cli.commands.hold import named
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.running.context import opened_crontab
from dcron.values.safe_text import safe


def command(
    which: Annotated[
        str, argument("RUN|NAME", "Number of a run, or whole name of a task, as `dcron hold` lists it.")
    ],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Let a run, or all runs of a task, be pruned again.

    \b
    dcron unhold 1307
    dcron unhold payroll

    A run whose time has passed goes within a day.
    """
    with opened_crontab(db) as crontab:
        retention = services.retention.Retention(crontab)
        if is_number(which):
            ended = [retention.unhold_run(run_number(which))]
        else:
            ended = retention.unhold_task(which)
    if as_json:
        console.emit_one_or_list([make("hold", each) for each in ended])
        return
    for each in ended:
        console.data(safe(f"no longer on hold  {named(each)}"))
